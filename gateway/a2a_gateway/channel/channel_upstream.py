"""Calls over channels: deadlines, retries, readiness (spec: DOOR-01, DOOR-07)."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import code_pb2 as code
from grpc_health.v1 import health_pb2

from a2a_gateway.channel.call_failures import NO_ANSWER, client_error, malformed, pairs, pauses
from a2a_gateway.channel.channel_stream import ChannelStream, StreamRequest
from a2a_gateway.channel.endings import is_end
from a2a_gateway.channel.endpoints import Endpoint, Endpoints
from a2a_gateway.channel.event_numbers import EventNumbers
from a2a_gateway.upstream import Answer, CallContext, MetadataPairs, UpstreamAnswer, is_read
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason, StatusError
from a2a_server.protocol.names import CURRENT, SPOKEN, VERSION
from a2a_server.protocol.options import ChannelOptions

HEALTH_SECONDS = 2.0
"""How many seconds the upstream has to answer a health check."""

HEALTH_REUSED_SECONDS = 0.5
"""For how many seconds the answer to a health check is reused."""

CLOSE_SECONDS = 1.0
"""How many seconds readers have to receive the end of their streams."""

_GET_TASK = pb.DESCRIPTOR.services_by_name["A2AService"].methods_by_name["GetTask"]
_REFUSED = {code.UNAUTHENTICATED, code.UNAVAILABLE}
_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = health_pb2.HealthCheckResponse.SERVING


class ChannelUpstream:
    """Calls any A2A server that speaks gRPC."""

    def __init__(self, options: ChannelOptions, *, keep_open_on_input: bool = False) -> None:
        """`keep_open_on_input`: whether the upstream keeps streams open when a task asks for input."""
        self._options = options
        self._end_check = partial(is_end, keep_open_on_input=keep_open_on_input)
        self._endpoints = Endpoints(options)
        self._streams: set[ChannelStream] = set()
        self._ready = False
        self._asked = float("-inf")

    async def identify(self, context: CallContext) -> str:
        """Check the credentials with a GetTask for a task that does not exist. The answer does not name the caller."""
        metadata = {name: values for name, values in context.metadata.items() if name != SPOKEN}
        known = CallContext({**metadata, VERSION: (CURRENT,)}, context.timeout, context.peer, context.binary)
        try:
            await self.unary(_GET_TASK, pb.GetTaskRequest(id="0"), known)
        except StatusError as error:
            if error.status.code in _REFUSED:
                raise
        return ""

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        """Make a call. A read is repeated while the upstream does not answer; a send never is."""
        options, reads = self._options, is_read(method)
        seconds = context.timeout
        if seconds is None:
            seconds = options.read_timeout if reads else options.call_timeout
        if context.rest is not None:
            return await self._single_answer(method, self._stream(method, request, context, seconds))
        deadline = time.monotonic() + seconds
        wire, metadata = request.SerializeToString(), metadata_of(context)
        for pause in pauses(options.attempts if reads else 1):
            try:
                return await self._call(method, wire, metadata, deadline)
            except grpc.aio.AioRpcError as error:
                may_help = error.code() is grpc.StatusCode.UNAVAILABLE and time.monotonic() + pause < deadline
                if not pause or not may_help:
                    raise client_error(error, seconds) from None
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _single_answer(self, method: MethodDescriptor, stream: ChannelStream) -> UpstreamAnswer:
        """Return the answer to a client that streams. On the wire it is a stream of one message."""
        async with aclosing(stream):
            wires = [item.wire async for batch in stream for item in batch]
            if len(wires) != 1:
                raise malformed(method.output_type.full_name)
            return _answer(method, wires[0], stream.metadata)

    async def _call(
        self, method: MethodDescriptor, request: bytes, metadata: MetadataPairs, deadline: float
    ) -> UpstreamAnswer:
        patience = min(self._options.connect_timeout, deadline - time.monotonic())
        endpoint, connection = await self._endpoints.connection("reads" if is_read(method) else "sends", patience)
        connection.calls += 1
        try:
            call = connection.unary(method)(request, timeout=deadline - time.monotonic(), metadata=metadata)
            answer = await call
            metadata, trailers = pairs(await call.initial_metadata()), pairs(await call.trailing_metadata())
        except grpc.aio.AioRpcError as error:
            endpoint.reachability.failed(error)
            raise
        finally:
            connection.calls -= 1
        endpoint.reachability.answered()
        return _answer(method, answer, metadata, trailers)

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> ChannelStream:
        return self._stream(method, request, context, context.timeout)

    def _stream(
        self, method: MethodDescriptor, request: Message, context: CallContext, timeout: float | None
    ) -> ChannelStream:
        metadata = metadata_of(context)
        numbers = EventNumbers(method, metadata)
        deadline = None if timeout is None else time.monotonic() + timeout
        wanted = StreamRequest(
            method, request.SerializeToString(), numbers.with_extension(metadata), timeout, deadline, context.rest
        )
        check = None if context.spoken == CURRENT else self._end_check  # older versions mark what ends a stream
        return ChannelStream(self._endpoints, self._options, wanted, numbers, self._streams, check)

    async def ready(self) -> bool:
        """Whether any address serves. Without the service grpc.health.v1, any answer of an address will do."""
        if time.monotonic() - self._asked >= HEALTH_REUSED_SECONDS:
            self._ready = any(await asyncio.gather(*map(_serves, self._endpoints)))
            self._asked = time.monotonic()
        return self._ready

    async def close(self) -> None:
        """End open streams with an error that asks clients to return, then close the channels."""
        error = A2AError(Reason.UNAVAILABLE, "The gateway is stopping.", retry_after=1)
        streams = list(self._streams)
        await asyncio.gather(*(stream.cut(error) for stream in streams if stream.cut is not None))
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*(stream.ended.wait() for stream in streams))
        await self._endpoints.close()


def _answer(method: MethodDescriptor, wire: bytes, metadata: MetadataPairs, trailers: MetadataPairs = ()) -> Answer:
    try:
        return Answer(GetMessageClass(method.output_type).FromString(wire), metadata, trailers, wire)
    except DecodeError:
        raise malformed(method.output_type.full_name) from None


async def _serves(endpoint: Endpoint) -> bool:
    endpoint.state()  # replaces a channel that has not connected for long
    try:
        answer = await cast("Any", endpoint.channel.unary_unary(_CHECK))(b"", timeout=HEALTH_SECONDS)
    except grpc.aio.AioRpcError as error:
        endpoint.reachability.failed(error)
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            endpoint.reachability.lost(f"no sign of life within {HEALTH_SECONDS:g} seconds")
        return error.code() not in NO_ANSWER
    endpoint.reachability.answered()
    try:
        return health_pb2.HealthCheckResponse.FromString(answer).status == _SERVING
    except DecodeError:
        return False


def metadata_of(context: CallContext) -> MetadataPairs:
    """Return the metadata as pairs, for gRPC."""
    flat: list[tuple[str, str | bytes]] = []
    for mapping in (context.metadata, context.binary):
        flat += [(name, value) for name, values in mapping.items() for value in values]
    return flat
