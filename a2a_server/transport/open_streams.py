"""The streams of calls: bounded per caller, cut when nobody reads, and ended in time; and how calls fail.

1. A `CallStream` carries batches from the operation to the door (spec: RPLY-02).
2. Its `OpenStream` is its place among the `OpenStreams` of this process, which cut readers that stop reading (STRM,
   LIMT-01).
3. `limited` and `in_time` end what takes longer than the client waits (DOOR-10).
4. `fail` decides what a client is told about an error (ERRS-07).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, Self, TypeVar, cast

import structlog
from google.protobuf.message import Message

from a2a_server.operations.call import Entries, EventStream, Sink
from a2a_server.ports.store import StoreDamaged, StoreGone, StoreUnavailable
from a2a_server.protocol.errors import A2AError, Reason, Violation, deadline_exceeded, refuse
from a2a_server.transport.numbering import numbered

T = TypeVar("T")
Requests = AsyncIterator[Message]
Cut = Callable[[A2AError], Awaitable[None]]
"""Ends a stream whatever it is doing, and tells the client as far as the client still listens."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class OpenStream:
    """One stream. Its door says when it hands an item to the peer, and when the peer has taken it."""

    owner: str
    """Whose allowance it takes; empty for anonymous callers, who are everybody and have no allowance each."""
    cut: Cut | None = None
    stuck_since: float = 0.0
    """When the item that is being sent was handed over; 0 while none is."""
    under_way: bool = False
    """Whether the peer has taken any items."""
    over: bool = False
    _news: asyncio.Event | None = None

    def sending(self) -> None:
        self.stuck_since = time.monotonic()

    def sent(self) -> None:
        self.stuck_since = 0.0
        self.under_way = True
        if self._news is not None:
            self._news.set()

    def end(self) -> None:
        self.over = True
        if self._news is not None:
            self._news.set()

    async def settled(self, seconds: float) -> None:
        """Wait while the very first items are on their way, if they do not take too long."""
        if self.stuck_since and not (self.under_way or self.over):
            self._news = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()


class OpenStreams:
    """A registry with one task for all streams, so that a stream itself needs no timer."""

    def __init__(self, *, per_caller: int = 1000, total: int = 10_000, write_timeout: float = 60.0) -> None:
        self._total = total
        self._per_caller = per_caller
        self.write_timeout = write_timeout
        self._open: set[OpenStream] = set()
        self._owners: Counter[str] = Counter()
        self._farewells: set[asyncio.Future[None]] = set()
        self._reaper: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def count(self) -> int:
        return len(self._open)

    def admit(self, stream: OpenStream) -> None:
        """Give the stream a place until it is released, or refuse it."""
        if stream.owner and self._owners[stream.owner] >= self._per_caller:
            message = f"This caller has {self._per_caller} streams open, which is the most one may have."
            raise A2AError(Reason.OVERLOADED, message, retry_after=1)
        if len(self._open) >= self._total:
            message = f"The server has {self._total} streams open, which is the most it may have."
            raise A2AError(Reason.OVERLOADED, message, retry_after=1)
        self._open.add(stream)
        self._idle.clear()
        self._owners[stream.owner] += 1

    def release(self, stream: OpenStream) -> None:
        stream.end()
        self._open.discard(stream)
        if not self._open:
            self._idle.set()
        self._owners[stream.owner] -= 1
        if not self._owners[stream.owner]:
            del self._owners[stream.owner]  # owners come and go

    def start(self) -> None:
        self._reaper = asyncio.create_task(self._reap(), name="slow readers")

    async def close(self) -> None:
        """Stop watching; farewells that the peer never took die with the server's calls."""
        for task in (self._reaper, *self._farewells):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])

    async def settle(self, seconds: float) -> None:
        """Give streams that are about to end by themselves the time to do so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    def end_all(self) -> None:
        """Tell every reader that is left to come back elsewhere (DURA-08)."""
        for stream in list(self._open):
            self._say_farewell(stream, A2AError(Reason.UNAVAILABLE, "The server is stopping.", retry_after=1))

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(self.write_timeout / 4)
            line = time.monotonic() - self.write_timeout
            for stream in [stream for stream in self._open if 0 < stream.stuck_since < line]:
                message = f"The reader took nothing for {self.write_timeout:g} seconds; the stream was cut."
                self._say_farewell(stream, A2AError(Reason.SLOW_READER, message, retry_after=1))

    def _say_farewell(self, stream: OpenStream, error: A2AError) -> None:
        if stream.cut is None:
            return
        cut, stream.cut = stream.cut, None
        farewell = asyncio.ensure_future(cut(error))
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)


@dataclass(slots=True, eq=False)
class CallStream:
    """The batches of one streaming call. Whoever iterates over it closes it.

    The stream has its place from the first batch that is asked for until it is closed. A batch counts as being sent
    until the next one is asked for.
    """

    refuse: Callable[[Exception], NoReturn]
    """Ends the call with an error that is meant for the client."""
    batches: EventStream
    streams: OpenStreams
    place: OpenStream
    numbers: bool
    """Whether the events' numbers are written into them."""
    _admitted: bool = False

    def deliver_to(self, sink: Sink) -> None:
        """Offer batches to a sink while the next one is being waited for; not those that have to be numbered first."""
        if not self.numbers:
            self.batches.deliver_to(sink)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entries:
        try:
            if self._admitted:
                self.place.sent()
            else:
                self.streams.admit(self.place)
                self._admitted = True
            entries = await anext(self.batches)
            self.place.sending()
            return numbered(entries) if self.numbers else entries
        except StopAsyncIteration:
            await self.aclose()
            raise
        except Exception as error:  # noqa: BLE001 - nothing unexpected may reach a client
            await self.aclose()
            self.refuse(error)

    async def aclose(self) -> None:
        await self.batches.aclose()
        if self._admitted:
            self._admitted = False
            self.streams.release(self.place)


async def all_of(first: Message, rest: Requests, tenant: str) -> Requests:
    """All messages of a call whose client streams. The steps have settled the tenant by the first one."""
    yield first
    async for message in rest:
        if getattr(message, "tenant", "") not in {"", tenant}:
            refuse([Violation("tenant", "must be the same in all messages of a call")])
        yield message


def fail(rpc: str, error: Exception, told: Sequence[tuple[str, str]] = ()) -> NoReturn:
    """Pass on an error that is meant for the client. Any other is logged, and the client is told its number only.

    `told` is the metadata that goes with whatever answer.
    """
    if isinstance(error, A2AError):
        error.told = told
        raise error
    if isinstance(error, StoreGone):  # the store has logged it, once
        text = f"The store cannot serve now: {error}."
        raise A2AError(Reason.UNAVAILABLE, text, retry_after=1, told=told) from error
    if isinstance(error, StoreUnavailable):
        log.error("store.unavailable", rpc=rpc, exc_info=error)
        raise A2AError(Reason.UNAVAILABLE, "The store cannot serve now.", retry_after=1, told=told) from error
    incident = secrets.token_hex(8)
    if isinstance(error, StoreDamaged):
        log.error("store.damaged", rpc=rpc, incident=incident, why=str(error))
    else:
        log.error("call.failed", rpc=rpc, incident=incident, exc_info=error)
    raise A2AError(Reason.INTERNAL, "Internal error.", metadata={"incident": incident}, told=told) from error


class Waiting(Protocol):
    """What the gateway knows about a call beside its request: among it, how long its client waits (DOOR-10)."""

    @property
    def metadata(self) -> Mapping[str, Sequence[str]]: ...

    @property
    def timeout(self) -> float | None: ...

    @property
    def rest(self) -> Requests | None: ...

    @property
    def peer(self) -> str: ...

    @property
    def certificate(self) -> bytes: ...

    @property
    def via(self) -> str: ...

    @property
    def door(self) -> str: ...


async def limited(items: AsyncIterator[Entries], deadline: float, context: Waiting) -> AsyncIterator[Entries]:
    # A timeout around the whole loop would strike while the reader, and not we, is at work.
    async with aclosing(cast("Any", items)):
        while True:
            entries = await in_time(anext(items, None), deadline, context)
            if entries is None:
                return
            yield entries


def deadline_of(context: Waiting) -> float | None:
    return None if context.timeout is None else asyncio.get_running_loop().time() + context.timeout


async def in_time(work: Awaitable[T], deadline: float | None, context: Waiting) -> T:
    """Wait until the deadline; the work raises no `TimeoutError` of its own: the pipeline lets only `A2AError` out."""
    try:
        async with asyncio.timeout_at(deadline):
            return await work
    except TimeoutError:
        raise deadline_exceeded(context.timeout or 0) from None
