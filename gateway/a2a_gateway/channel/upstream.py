"""Calls over channels: deadlines, retries, readiness (spec: DOOR-01, DOOR-07)."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import Any, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2

from a2a_gateway.channel.attempt import Attempt, Wanted
from a2a_gateway.channel.endings import Endings
from a2a_gateway.channel.links import Link, Links
from a2a_gateway.channel.pauses import is_read, pauses
from a2a_gateway.channel.refusals import ABSENT, garbled, pairs, refusal_of
from a2a_gateway.channel.replay import Numbers
from a2a_gateway.channel.streams import ChannelStream
from a2a_gateway.upstream import Answer, CallContext, MetadataPairs, UpstreamAnswer
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import CURRENT
from a2a_server.protocol.options import ChannelOptions

PATIENCE = 2.0
"""How many seconds the upstream has for a sign of life."""

FRESH = 0.5
"""How many seconds its answer counts, however many ask."""

FAREWELL = 1.0
"""How many seconds readers have for the last words of their streams."""

_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = health_pb2.HealthCheckResponse.SERVING


class ChannelUpstream:
    """Knows nothing but the protos: any A2A server that speaks gRPC will do."""

    def __init__(self, options: ChannelOptions, *, keep_open_on_input: bool = False) -> None:
        """`keep_open_on_input`: whether the upstream keeps streams open when a task asks for input."""
        self._options = options
        self._endings = Endings(keep_open_on_input=keep_open_on_input)
        self._links = Links(options)
        self._streams: set[ChannelStream] = set()
        self._ready = False
        self._asked = float("-inf")

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        """Call; what changes nothing is tried again while the upstream is away. Sends never are."""
        options, reads = self._options, is_read(method)
        seconds = context.timeout
        if seconds is None:
            seconds = options.read_timeout if reads else options.call_timeout
        deadline = time.monotonic() + seconds
        call = partial(self._call, method, request.SerializeToString(), metadata_of(context), deadline)
        for pause in pauses(options.attempts if reads else 1):
            try:
                return await call()
            except grpc.aio.AioRpcError as error:
                may_help = error.code() is grpc.StatusCode.UNAVAILABLE and time.monotonic() + pause < deadline
                if not pause or not may_help:
                    raise refusal_of(error, seconds) from None
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _call(
        self, method: MethodDescriptor, request: bytes, metadata: MetadataPairs, deadline: float
    ) -> UpstreamAnswer:
        patience = min(self._options.connect_timeout, deadline - time.monotonic())
        link, line = await self._links.line("reads" if is_read(method) else "sends", patience)
        line.calls += 1
        try:
            call = line.unary(method)(request, timeout=deadline - time.monotonic(), metadata=metadata)
            answer = await call
            metadata, trailers = pairs(await call.initial_metadata()), pairs(await call.trailing_metadata())
        except grpc.aio.AioRpcError as error:
            link.presence.failed(error)
            raise
        finally:
            line.calls -= 1
        link.presence.answered()
        kind = GetMessageClass(method.output_type)
        try:
            return Answer(kind.FromString(answer), metadata, trailers)
        except DecodeError:
            raise garbled(method.output_type.full_name) from None

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> ChannelStream:
        metadata, timeout = metadata_of(context), context.timeout
        numbers = Numbers(method, metadata)
        deadline = None if timeout is None else time.monotonic() + timeout
        return ChannelStream(
            partial(Attempt, self._links, self._options.connect_timeout),
            Wanted(method, request.SerializeToString(), numbers.ask(metadata), timeout, deadline),
            numbers,
            self._streams,
            attempts=self._options.attempts,
            # Only older versions say in an event that the stream ends with it.
            endings=None if context.spoken == CURRENT else self._endings,
        )

    async def ready(self) -> bool:
        """Whether any address serves: by grpc.health.v1, or by answering at all where there is no such service."""
        if time.monotonic() - self._asked >= FRESH:
            self._ready = any(await asyncio.gather(*map(_serves, self._links)))
            self._asked = time.monotonic()
        return self._ready

    async def close(self) -> None:
        """Tell the readers of open streams to come back, then let go of the channels."""
        error = A2AError(Reason.UNAVAILABLE, "The gateway is stopping.", retry_after=1)
        streams = list(self._streams)
        await asyncio.gather(*(stream.cut(error) for stream in streams if stream.cut is not None))
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await asyncio.gather(*(stream.ended.wait() for stream in streams))
        await self._links.close()


async def _serves(link: Link) -> bool:
    link.state()  # a channel that has not connected for long is made anew
    try:
        answer = await cast("Any", link.channel.unary_unary(_CHECK))(b"", timeout=PATIENCE)
    except grpc.aio.AioRpcError as error:
        link.presence.failed(error)
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            link.presence.lost(f"no sign of life within {PATIENCE:g} seconds")
        return error.code() not in ABSENT
    link.presence.answered()
    try:
        return health_pb2.HealthCheckResponse.FromString(answer).status == _SERVING
    except DecodeError:
        return False


def metadata_of(context: CallContext) -> MetadataPairs:
    """Spell metadata as gRPC wants it: pairs."""
    flat: list[tuple[str, str | bytes]] = []
    for mapping in (context.metadata, context.binary):
        flat += [(name, value) for name, values in mapping.items() for value in values]
    return flat
