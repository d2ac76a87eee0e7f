"""What the client of one stream is shown of a task's log (spec: STRM, RPLY-02 to RPLY-04).

1. An operation returns a `TaskStream`. Nothing has happened yet: the stream goes up to the door that serves the call.
2. The door asks for the first batch. Only now the operation begins: whatever refuses the call is raised here.
3. From then on the stream reads the task's log, leaves out what is not for clients, and ends with the event that
   closes streams.
4. A door that can write at once gives the stream a sink. While the next batch is being waited for, the sink is offered
   what is ready, and nobody has to be woken for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Self
from weakref import WeakValueDictionary

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import closes_stream
from a2a_server.domain.reducer import trim
from a2a_server.operations.call import Ending, Entries, Sink
from a2a_server.operations.log.readers import Reader
from a2a_server.ports.records import MESSAGE, STATUS, Entry
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.names import CURSOR, REPLAY_URI

Begin = Callable[["TaskStream"], Awaitable[Entries]]
"""Begins the operation: has the stream follow a reader, and returns the first batch."""

_LONG: Final = 256 * 1024


def declaration() -> pb.AgentExtension:
    """How the card names the extension by which clients see the numbers of events, and use them (RPLY-05)."""
    text = f"Stream events carry their number in their metadata; {CURSOR} on SubscribeToTask replays what follows it."
    return pb.AgentExtension(uri=REPLAY_URI, description=text)


class TaskStreams:
    """What streams show alike, and what those of the same task share."""

    def __init__(self, *, history_cap: int, keep_open_on_input: bool = False) -> None:
        self._history_cap = history_cap
        self._keep_open_on_input = keep_open_on_input
        self._firsts: WeakValueDictionary[tuple[int, bytes], _First] = WeakValueDictionary()
        self._last: Entries = ()
        self._ending = Ending()

    def first(self, task: pb.Task, number: int, history: int | None) -> Entries:
        """The task as the first batch; later ones take the reader from there (STRM-01, HIST-06).

        Streams that begin with the same share it where it is long: readers may be slow, and many.
        """
        shown = pb.StreamResponse(task=task)  # a copy: the task may be an entry's, which others read as well
        trim(shown.task, history, cap=self._history_cap)
        entry = Entry.of(number, shown)
        if len(entry.wire) <= _LONG:
            return (entry,)
        key = entry.number, entry.wire
        if (first := self._firsts.get(key)) is None:
            first = self._firsts[key] = _First((entry,))
        return first

    def ending(self, entries: Entries) -> Ending:
        """The same entries as the end of a stream: one object for all streams that end with the same batch."""
        if entries is not self._last:
            self._last, self._ending = entries, Ending(entries)
        return self._ending

    def close_with(self, entry: Entry) -> bool:
        """Whether streams end after this event (STRM-04, CONF-06)."""
        return closes_stream(entry.event, keep_open_on_input=self._keep_open_on_input)


class _First(list[Entry]):
    """A first batch that may be shared for as long as anybody holds it."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True, eq=False)
class TaskStream:
    """Iterate over it for batches, and close it whatever happens. It begins when its first batch is asked for."""

    _streams: TaskStreams
    _begin: Begin | None
    _reader: Reader | None = None
    _is_answer: Callable[[Entry], bool] | None = None
    _replays_to: int = 0
    _ends_at: int | None = None
    _sink: Sink | None = None

    # -- for the operation

    def follow(self, reader: Reader, *, is_answer: Callable[[Entry], bool] | None = None) -> None:
        """Show what the reader reads, and close it in the end.

        With `is_answer` an event that would close the stream does so only if it answers the message that was sent.
        """
        self._reader, self._is_answer = reader, is_answer
        if self._sink is not None:
            reader.deliver_to(self._deliver)

    async def replay(self, cursor: int, head: int, *, over: bool) -> Entries:
        """Show everything after the cursor, up to the event that closes streams, or the end of a finished task.

        `head` is the number of the latest event. The first batch may be empty: it says that the cursor is good, and
        that there is nothing to show yet.
        """
        assert self._reader is not None  # noqa: S101 - a cursor is a place in a log that is followed
        if cursor > head:
            refuse([Violation(CURSOR, f"must be at most {head}, the number of the task's latest event")])
        self._replays_to = head
        self._ends_at = head if over else None
        self._reader.catch_up(cursor, head)
        return await self._read() if cursor < head else ()

    def end(self) -> None:
        """Show nothing more than what was read."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # -- for the door

    def deliver_to(self, sink: Sink) -> None:
        """Offer batches to a sink while the next one is being waited for. What it refuses comes by iterating."""
        self._sink = sink
        if self._reader is not None:
            self._reader.deliver_to(self._deliver)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entries:
        if self._begin is not None:
            begin, self._begin = self._begin, None
            return await begin(self)
        while self._reader is not None and self._reader.position != self._ends_at:
            if shown := await self._read():
                return shown
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._begin = None
        self.end()

    async def _read(self) -> Entries:
        """What is shown of the next entries, which may be nothing."""
        assert self._reader is not None  # noqa: S101 - whoever reads has looked
        before = self._reader.position
        entries = await self._reader.next()
        if before < self._replays_to:
            self._check_unbroken(entries, before)
        shown, closed = self._cut(entries)
        if not closed:
            return shown
        self.end()
        return self._streams.ending(shown)

    def _check_unbroken(self, entries: Entries, position: int) -> None:
        """What retention has removed cannot be replayed, and must not be missing in silence (RPLY-04)."""
        oldest = entries[0].number - 1 if entries else self._replays_to
        if oldest > position:
            refuse([Violation(CURSOR, f"must be at least {oldest}: older events of the task are no longer kept")])

    def _deliver(self, entries: Entries) -> bool:
        shown, closed = self._cut(entries)
        return not closed and (not shown or self._sink is None or self._sink(shown))

    def _cut(self, entries: Entries) -> tuple[Entries, bool]:
        """What of these entries is shown, and whether the stream ends with them (STRM-03).

        Where all are shown it is the very same object, so that whoever writes it for many streams recognises it.
        """
        shown: list[Entry] = []
        for entry in entries:
            if entry.kind == MESSAGE:
                continue
            shown.append(entry)
            if entry.kind == STATUS and self._closes(entry):
                return entries if len(shown) == len(entries) else shown, True
        return entries if len(shown) == len(entries) else shown, False

    def _closes(self, entry: Entry) -> bool:
        """A question that was answered since does not end a replay: what came after it is wanted, too."""
        if entry.number < self._replays_to or not self._streams.close_with(entry):
            return False
        return self._is_answer is None or self._is_answer(entry)
