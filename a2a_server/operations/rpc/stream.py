"""SendStreamingMessage, and the relay that every stream of task events goes through (spec: STRM, EXEC-02)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import closes_stream
from a2a_server.domain.reducer import trim
from a2a_server.operations.call import Call, Ending, Entries, Take
from a2a_server.operations.gates import Gates
from a2a_server.operations.log.log import Reader
from a2a_server.operations.rpc.send import history_length
from a2a_server.operations.services import Workshop
from a2a_server.operations.turns.idempotency import OnceOnly
from a2a_server.operations.turns.ticket import Ticket
from a2a_server.ports.entry import ARTIFACT, STATUS, Entry


class Endings:
    """All readers of a task end with the very same batch, and whoever writes it once for all has to see that."""

    __slots__ = ("_ending", "_of")

    def __init__(self) -> None:
        self._of: Entries = ()
        self._ending = Ending()

    def of(self, entries: Entries) -> Ending:
        if entries is not self._of:
            self._of, self._ending = entries, Ending(entries)
        return self._ending


class First(list[Entry]):
    """What a stream begins with."""

    __slots__ = ("__weakref__",)


class Firsts:
    """Streams of a task that begin with the same share it where it is long: readers may be slow, and many."""

    __slots__ = ("_shared",)

    def __init__(self) -> None:
        self._shared: WeakValueDictionary[tuple[int, bytes], First] = WeakValueDictionary()

    def of(self, entry: Entry) -> Entries:
        if len(entry.wire) <= _LONG:
            return (entry,)
        key = entry.number, entry.wire
        if (first := self._shared.get(key)) is None:
            first = self._shared[key] = First((entry,))
        return first


_LONG: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Relay:
    """Turns what a reader reads into what a stream shows."""

    shop: Workshop
    keep_open_on_input: bool = False
    endings: Endings = field(default_factory=Endings)
    firsts: Firsts = field(default_factory=Firsts)

    def first(self, task: pb.Task, number: int, history: int | None) -> Entries:
        """The task as the first item; later items take the reader from there (STRM-01, HIST-06)."""
        shown = pb.StreamResponse(task=task)  # a copy: the task may be an entry's, which others read as well
        trim(shown.task, history, cap=self.shop.limits.history_cap)
        return self.firsts.of(Entry.of(number, shown))

    async def follow(self, reader: Reader, take: Take | None, ticket: Ticket | None = None) -> AsyncIterator[Entries]:
        """Status and artifact events up to the one that closes the stream (STRM-03, STRM-04, CONF-06)."""
        if take is not None:
            reader.offer = partial(self._offer, ticket, take)
        closed = False
        while not closed:
            shown, closed = self._cut(await reader.next(), ticket)
            if closed:
                yield self.endings.of(shown)
            elif shown:
                yield shown
            del shown  # it may take long until there are more

    def _offer(self, ticket: Ticket | None, take: Take, entries: Entries) -> bool:
        shown, closed = self._cut(entries, ticket)
        return not closed and (not shown or take(shown))

    def _cut(self, entries: Entries, ticket: Ticket | None) -> tuple[Entries, bool]:
        """What of these entries the stream shows, and whether it ends with them."""
        shown = []
        for entry in entries:
            if entry.kind == ARTIFACT:
                shown.append(entry)
            elif entry.kind == STATUS:
                shown.append(entry)
                if self._closes(entry, ticket):
                    return entries if len(shown) == len(entries) else shown, True
        return entries if len(shown) == len(entries) else shown, False  # what all readers share stays recognisable

    def _closes(self, entry: Entry, ticket: Ticket | None) -> bool:
        if not closes_stream(entry.event, keep_open_on_input=self.keep_open_on_input):
            return False
        return ticket is None or ticket.answered_by(entry)


@dataclass(frozen=True, slots=True)
class SendStreamingMessage:
    """Starts a turn, then relays what the log has already made durable."""

    relay: Relay
    gates: Gates
    once: OnceOnly

    async def __call__(self, call: Call, request: pb.SendMessageRequest, /) -> AsyncIterator[Entries]:
        self.gates.streaming()
        plan = self.gates.send(call, request)
        with await self.once.start(call, request, plan) as ticket:
            if (reply := await ticket.reply()) is not None:
                yield (Entry.of(0, pb.StreamResponse(message=reply)),)
                return
            yield await self._first(ticket, request)
            if ticket.answered:
                return
            async for entries in self.relay.follow(ticket.reader, call.take, ticket):
                yield entries

    async def _first(self, ticket: Ticket, request: pb.SendMessageRequest) -> Entries:
        history = history_length(request.configuration)
        if ticket.snapshot is not None:
            return self.relay.first(ticket.snapshot, ticket.reader.position, history)
        created = await ticket.reader.created()
        return self.relay.first(created.event.task, created.number, history)
