"""A call while it lasts: its stream, its deadline, its failure (spec: RPLY-02, RPLY-05, DOOR-10, ERRS-07)."""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, NoReturn, Protocol, cast

import structlog
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import unwrap, wrap
from a2a_server.operations.call import Call, Ending, Entries, StreamOperation
from a2a_server.ports.entry import Entry
from a2a_server.ports.store import StoreUnavailable
from a2a_server.protocol.errors import A2AError, Reason, deadline_exceeded
from a2a_server.protocol.names import REPLAY_URI
from a2a_server.transport.streams import OpenStream, OpenStreams

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


async def items(  # noqa: PLR0913, PLR0917 - all that a stream is made of
    rpc: str, operation: StreamOperation, streams: OpenStreams, call: Call, request: Message, place: OpenStream
) -> AsyncIterator[Entries]:
    """Batches, while there is a place for the stream. They stay here while the door writes them."""
    if place.take is not None and not call.numbers:  # which have to be put in first
        call = call._replace(take=place.take)
    try:
        with streams.admit(place):
            async with aclosing(cast("Any", operation(call, request))) as batches:
                async for entries in batches:
                    place.sending()
                    yield numbered(entries) if call.numbers else entries
                    place.sent()
                    del entries  # it may take long until there are more
    except Exception as error:  # noqa: BLE001 - nothing unexpected may reach a client
        fail(rpc, error)


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
            async with until(deadline, context):
                entries = await anext(items, None)
            if entries is None:
                return
            yield entries


def deadline_of(context: Waiting) -> float | None:
    return None if context.timeout is None else asyncio.get_running_loop().time() + context.timeout


@asynccontextmanager
async def until(deadline: float | None, context: Waiting) -> AsyncIterator[None]:
    """Nothing inside raises `TimeoutError` of its own: the pipeline lets only `A2AError` out."""
    try:
        async with asyncio.timeout_at(deadline):
            yield
    except TimeoutError:
        raise deadline_exceeded(context.timeout or 0) from None
