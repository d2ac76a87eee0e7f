"""Chooses what the client of one stream sees of a task's log (spec: STRM, RPLY-02 to RPLY-04).

1. An operation returns a `TaskStream` to the door. The operation has not begun yet.
2. The door asks for the first batch. Now the operation begins. Errors that refuse the call are raised here.
3. Then the stream reads the task's log, leaves out entries that are not for clients, and ends with the event that
   closes streams.
4. A door that can write at once gives the stream a sink. While the door waits for the next batch, the sink gets entries
   as soon as they are ready, without waking a task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Self
from weakref import WeakValueDictionary

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import closes_stream
from a2a_server.domain.reducer import trim
from a2a_server.operations.call import Entries, FinalEntries, Sink
from a2a_server.operations.log.readers import Reader
from a2a_server.ports.records import MESSAGE, STATUS, Entry
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.names import CURSOR, REPLAY_URI

Begin = Callable[["TaskStream"], Awaitable[Entries]]
"""Begins the operation: gives the stream a reader, and returns the first batch."""

_LONG: Final = 256 * 1024


def declaration() -> pb.AgentExtension:
    """Return the card's entry for the replay extension, which gives clients the numbers of events (RPLY-05)."""
    text = f"Stream events carry their number in their metadata; {CURSOR} on SubscribeToTask replays what follows it."
    return pb.AgentExtension(uri=REPLAY_URI, description=text)


class TaskStreams:
    """Makes the batches that several streams share."""

    def __init__(self, *, history_cap: int, keep_open_on_input: bool = False) -> None:
        self._history_cap = history_cap
        self._keep_open_on_input = keep_open_on_input
        self._firsts: WeakValueDictionary[tuple[int, bytes], _SharedFirstBatch] = WeakValueDictionary()
        self._last: Entries = ()
        self._ending = FinalEntries()

    def first(self, task: pb.Task, number: int, history: int | None) -> Entries:
        """Return the task as the first batch (STRM-01, HIST-06).

        Streams that begin with the same long task share one batch, because there may be many slow readers.
        """
        shown = pb.StreamResponse(task=task)  # a copy: the task may be an entry's, which others read as well
        trim(shown.task, history, cap=self._history_cap)
        entry = Entry.of(number, shown)
        if len(entry.wire) <= _LONG:
            return (entry,)
        key = entry.number, entry.wire
        if (first := self._firsts.get(key)) is None:
            first = self._firsts[key] = _SharedFirstBatch((entry,))
        return first

    def ending(self, entries: Entries) -> FinalEntries:
        """Return the entries as the end of a stream. All streams that end with the same batch get the same object."""
        if entries is not self._last:
            self._last, self._ending = entries, FinalEntries(entries)
        return self._ending

    def close_with(self, entry: Entry) -> bool:
        """Whether streams end after this event (STRM-04, CONF-06)."""
        return closes_stream(entry.event, keep_open_on_input=self._keep_open_on_input)


class _SharedFirstBatch(list[Entry]):
    """A first batch that is shared while any stream uses it."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True, eq=False)
class TaskStream:
    """Iterate over it for batches, and always close it. The operation begins when the first batch is requested."""

    _streams: TaskStreams
    _begin: Begin | None
    _reader: Reader | None = None
    _is_answer: Callable[[Entry], bool] | None = None
    _replays_to: int = 0
    _ends_at: int | None = None
    _sink: Sink | None = None

    # -- for the operation

    def follow(self, reader: Reader, *, is_answer: Callable[[Entry], bool] | None = None) -> None:
        """Show what the reader reads, and close the reader at the end.

        With `is_answer`, an event closes the stream only if it answers the message that was sent.
        """
        self._reader, self._is_answer = reader, is_answer
        if self._sink is not None:
            reader.deliver_to(self._deliver)

    async def replay(self, cursor: int, head: int, *, over: bool) -> Entries:
        """Show everything after the cursor, up to the event that closes streams, or the end of a finished task.

        `head` is the number of the latest event. The first batch is empty if the cursor is valid and nothing follows it
        yet.
        """
        assert self._reader is not None  # noqa: S101 - `follow` comes first
        if cursor > head:
            refuse([Violation(CURSOR, f"must be at most {head}, the number of the task's latest event")])
        self._replays_to = head
        self._ends_at = head if over else None
        self._reader.catch_up(cursor, head)
        return await self._read() if cursor < head else ()

    def end(self) -> None:
        """End the stream with what was read."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # -- for the door

    def deliver_to(self, sink: Sink) -> None:
        """Offer batches to a sink while the caller waits for the next one. Refused batches come by iteration."""
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
        """Return the visible part of the next entries, which may be empty."""
        assert self._reader is not None  # noqa: S101 - the callers have checked it
        before = self._reader.position
        entries = await self._reader.next()
        if before < self._replays_to:
            self._check_unbroken(entries, before)
        shown, closed = self._visible(entries)
        if not closed:
            return shown
        self.end()
        return self._streams.ending(shown)

    def _check_unbroken(self, entries: Entries, position: int) -> None:
        """Raise an error if retention has removed entries after the cursor, instead of skipping them (RPLY-04)."""
        oldest = entries[0].number - 1 if entries else self._replays_to
        if oldest > position:
            refuse([Violation(CURSOR, f"must be at least {oldest}: older events of the task are no longer kept")])

    def _deliver(self, entries: Entries) -> bool:
        shown, closed = self._visible(entries)
        return not closed and (not shown or self._sink is None or self._sink(shown))

    def _visible(self, entries: Entries) -> tuple[Entries, bool]:
        """Return the visible entries, and whether the stream ends with them (STRM-03).

        If all are visible, the same object is returned, so that a door can reuse the bytes it has written for it.
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
        """Whether the stream ends after an entry. A question that was answered later does not end a replay."""
        if entry.number < self._replays_to or not self._streams.close_with(entry):
            return False
        return self._is_answer is None or self._is_answer(entry)
