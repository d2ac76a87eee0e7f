"""A call while it lasts: its stream, its deadline, its failure (spec: RPLY-02, RPLY-05, DOOR-10, ERRS-07)."""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NoReturn, Protocol, Self, TypeVar, cast

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import unwrap, wrap
from a2a_server.operations.call import Ending, Entries, EventStream, Sink
from a2a_server.ports.records import Entry
from a2a_server.ports.store import StoreUnavailable
from a2a_server.protocol.errors import A2AError, Reason, deadline_exceeded
from a2a_server.protocol.names import REPLAY_URI
from a2a_server.transport.streams import OpenStream, OpenStreams

T = TypeVar("T")

log = structlog.get_logger(__name__)


def fail(rpc: str, error: Exception) -> NoReturn:
    """Pass on an error that is meant for the client. Any other is logged, and the client is told its number only."""
    if isinstance(error, A2AError):
        if error.reason in (Reason.UNAUTHENTICATED, Reason.PERMISSION_DENIED):
            log.warning("call.denied", rpc=rpc, reason=error.reason.name)
        raise error
    if isinstance(error, StoreUnavailable):
        log.error("store.unavailable", rpc=rpc, exc_info=error)
        raise A2AError(Reason.UNAVAILABLE, "The store cannot serve now.", retry_after=1) from error
    incident = secrets.token_hex(8)
    log.error("call.failed", rpc=rpc, incident=incident, exc_info=error)
    raise A2AError(Reason.INTERNAL, "Internal error.", metadata={"incident": incident}) from error


class CallStream:
    """The batches of one streaming call. Whoever iterates over it closes it.

    The stream has its place from the first batch that is asked for until it is closed. A batch counts as being sent
    until the next one is asked for.
    """

    __slots__ = ("_admitted", "_batches", "_numbers", "_rpc", "_streams", "place")

    def __init__(
        self, rpc: str, batches: EventStream, streams: OpenStreams, place: OpenStream, *, numbers: bool
    ) -> None:
        self._rpc = rpc
        self._batches = batches
        self._streams = streams
        self.place = place
        self._numbers = numbers
        self._admitted = False

    def deliver_to(self, sink: Sink) -> None:
        """Offer batches to a sink while the next one is being waited for; not those that have to be numbered first."""
        if not self._numbers:
            self._batches.deliver_to(sink)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entries:
        try:
            if self._admitted:
                self.place.sent()
            else:
                self._streams.admit(self.place)
                self._admitted = True
            entries = await anext(self._batches)
            self.place.sending()
            return numbered(entries) if self._numbers else entries
        except StopAsyncIteration:
            await self.aclose()
            raise
        except Exception as error:  # noqa: BLE001 - nothing unexpected may reach a client
            await self.aclose()
            fail(self._rpc, error)

    async def aclose(self) -> None:
        """Stop following, and give the place back."""
        await self._batches.aclose()
        if self._admitted:
            self._admitted = False
            self._streams.release(self.place)


_DOUBLE = struct.Struct("<d")


def numbered(entries: Entries) -> Entries:
    """Copies of these entries whose bytes tell their number; the shared ones stay as they are."""
    copies = [_numbered(entry) if entry.number else entry for entry in entries]  # a direct message is in no log
    return Ending(copies) if isinstance(entries, Ending) else copies


def _numbered(entry: Entry) -> Entry:
    kind = entry.event.WhichOneof("payload") or ""
    if getattr(entry.event, kind).HasField("metadata"):
        return _rewritten(entry, kind)
    field, content = unwrap(entry.wire)
    return Entry(entry.number, wrap(field, content + _MARKS[field] + _DOUBLE.pack(entry.number)))


def _rewritten(entry: Entry, kind: str) -> Entry:
    event = pb.StreamResponse()
    event.CopyFrom(entry.event)
    getattr(event, kind).metadata[REPLAY_URI] = entry.number
    return Entry.of(entry.number, event)


def _mark(kind: str) -> bytes:
    """The bytes of metadata that hold nothing but a number, up to the number."""
    event = pb.StreamResponse()
    getattr(event, kind).metadata[REPLAY_URI] = 1
    return unwrap(event.SerializeToString())[1][: -_DOUBLE.size]


# Most events have no metadata of their own; metadata added behind them is a twentieth of the work of a rewrite.
_MARKS = {field.number: _mark(field.name) for field in pb.StreamResponse.DESCRIPTOR.fields}


class Waiting(Protocol):
    """What the gateway knows about a call beside its request: among it, how long its client waits (DOOR-10)."""

    @property
    def metadata(self) -> Mapping[str, Sequence[str]]: ...

    @property
    def timeout(self) -> float | None: ...


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
