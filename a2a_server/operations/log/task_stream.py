"""Replay: what a task's log holds after a cursor, then what follows (spec: RPLY-02 to RPLY-04)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import closes_stream
from a2a_server.domain.lifecycle import is_terminal
from a2a_server.operations.call import Ending, Entries, Take
from a2a_server.operations.log.readers import Reader, portion
from a2a_server.operations.rpc.stream import Relay
from a2a_server.ports.records import MESSAGE
from a2a_server.ports.store import StoredTask
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.names import CURSOR, REPLAY_URI

_MOST_DIGITS = 18
_BATCH = 256


def declaration() -> pb.AgentExtension:
    """How the card names it."""
    text = f"Stream events carry their number in their metadata; {CURSOR} on SubscribeToTask replays what follows it."
    return pb.AgentExtension(uri=REPLAY_URI, description=text)


def cursor_of(values: Sequence[str]) -> int | None:
    """Read `1*18DIGIT`. None without one; an empty value is an event source's way to say that it has seen nothing."""
    given = {value for value in values if value}
    if not given:
        return None
    text = given.pop()
    if given or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        refuse([Violation(CURSOR, "must be the number of an event that a stream has shown, such as 17, or 0")])
    return int(text)


class Standing(NamedTuple):
    """How far a task has come; all that a stream has to know of it, which may last longer than the task is of use."""

    task_id: str
    number: int
    over: bool


def standing_of(record: StoredTask) -> Standing:
    return Standing(record.task.id, record.number, is_terminal(record.task.status.state))


@dataclass(frozen=True, slots=True)
class Replay:
    """Reads from the store, however far back, until it has caught up with the log; only then it counts as a reader."""

    relay: Relay

    async def __call__(
        self, reader: Reader, standing: Standing, cursor: int, take: Take | None
    ) -> AsyncIterator[Entries]:
        """Every event after the cursor, up to the one that closes streams, or to the end of a finished task.

        The first batch may be empty: it says that the cursor is good, and that there is nothing to show yet.
        """
        task_id, head, over = standing
        if cursor > head:
            refuse([Violation(CURSOR, f"must be at most {head}, the number of the task's latest event")])
        first, full = True, True
        reader.position = cursor
        while full:
            found = await self.relay.services.store.entries(task_id, reader.position, _BATCH)
            _check_unbroken(found, reader.position, head)
            entries = portion(found)
            full = len(found) == _BATCH or len(entries) < len(found)
            del found
            reader.position = entries[-1].number if entries else reader.position
            shown, closed = self._cut(entries, head)
            if closed:
                yield Ending(shown)
                return
            if shown or first:
                yield shown
            first = False
        if not over:
            async for entries in self.relay.follow(reader, take):
                yield entries

    def _cut(self, entries: Entries, head: int) -> tuple[Entries, bool]:
        """What streams show of these entries, and whether they end with them.

        A question that was answered since does not end the replay: what came after it is wanted, too.
        """
        shown = []
        for entry in entries:
            if entry.kind == MESSAGE:  # it joined the history (STRM-03)
                continue
            shown.append(entry)
            open_on_input = self.relay.keep_open_on_input
            if entry.number >= head and closes_stream(entry.event, keep_open_on_input=open_on_input):
                return shown, True
        return shown, False


def _check_unbroken(entries: Entries, position: int, head: int) -> None:
    """What retention has removed cannot be replayed, and must not be missing in silence (RPLY-04)."""
    oldest = entries[0].number - 1 if entries else head
    if oldest > position:
        refuse([Violation(CURSOR, f"must be at least {oldest}: older events of the task are no longer kept")])
