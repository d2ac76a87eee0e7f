"""The gRPC door: handlers for every RPC, walked off the service's descriptor (spec: GRPC-01, GRPC-03, GRPC-05).

An RPC needs no method here, so one that is added to the proto is served as soon as it has an operation. Requests
arrive and answers leave as bytes: gRPC's own decoding would answer a malformed request with the name of a Python
class, and a stream's items are serialised already, once for all readers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_server.errors import A2AError, ErrorCodes
from a2a_server.transport.pipeline import Envelope, Pipeline, decode
from a2a_server.transport.status import abort_of

Context = grpc.aio.ServicerContext[bytes, bytes]
Unary = Callable[[bytes, Context], Awaitable[bytes]]
Streaming = Callable[[bytes, Context], AsyncIterator[bytes]]


@dataclass(frozen=True, slots=True)
class Servicer:
    """Makes gRPC handlers that lead into the pipeline."""

    pipeline: Pipeline
    codes: ErrorCodes = "1.0.1"
    peer_names: bool = False
    """Whether to read the names in the peer's certificate; only mutual TLS has any."""

    def handlers(self, service: ServiceDescriptor) -> grpc.GenericRpcHandler:
        """Serve all RPCs of a service."""
        handlers = {method.name: self._handler(method) for method in service.methods}
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def _handler(self, method: MethodDescriptor) -> grpc.RpcMethodHandler[bytes, bytes]:
        request = GetMessageClass(method.input_type)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(cast("Any", self._streaming(method.name, request)))
        return grpc.unary_unary_rpc_method_handler(cast("Any", self._unary(method.name, request)))

    # Plain functions, not methods: grpc.aio inspects the handler at every call, and unwraps methods first.

    def _unary(self, rpc: str, request: type[Message]) -> Unary:
        async def handle(raw: bytes, context: Context) -> bytes:
            try:
                reply = await self.pipeline.unary(rpc, decode(request, raw), self._envelope(context))
            except A2AError as error:
                await self._refuse(context, error)
            if reply.metadata:
                await context.send_initial_metadata(reply.metadata)
            return reply.wire

        return handle

    def _streaming(self, rpc: str, request: type[Message]) -> Streaming:
        async def handle(raw: bytes, context: Context) -> AsyncIterator[bytes]:
            try:
                stream = await self.pipeline.stream(rpc, decode(request, raw), self._envelope(context))
                place, begun = stream.place, False
                place.cut = self._cutter(context)
                async with aclosing(cast("Any", stream.items)) as items:
                    async for entries in items:
                        if stream.metadata and not begun:  # without any, they leave with the first item
                            place.sending()
                            await context.send_initial_metadata(stream.metadata)
                            begun = True
                        for entry in entries:
                            place.sending()
                            yield entry.wire  # stays here while the peer does not read
                        place.sent()
            except A2AError as error:
                await self._refuse(context, error)

        return handle

    def _envelope(self, context: Context) -> Envelope:
        metadata: dict[str, tuple[str, ...]] = {}
        for name, value in context.invocation_metadata() or ():
            if isinstance(value, str):
                metadata[name] = (*metadata[name], value) if name in metadata else (value,)
        return Envelope(metadata, self._peer_names(context) if self.peer_names else ())

    def _peer_names(self, context: Context) -> tuple[str, ...]:
        return tuple(name.decode(errors="replace") for name in context.peer_identities() or ())

    async def _refuse(self, context: Context, error: A2AError) -> NoReturn:
        abort = abort_of(error, self.codes)
        await context.abort(abort.code, abort.message, abort.trailers)

    def _cutter(self, context: Context) -> Callable[[A2AError], Awaitable[None]]:
        """Make what ends this very stream from outside.

        Cancelling alone never sends a status, and a status alone waits behind the stuck item. So the status is queued
        first, and in the next round of the loop the handler is canceled, which lets go of everything but gRPC's call.
        """
        handler = cast("asyncio.Task[None]", asyncio.current_task())

        async def cut(error: A2AError) -> None:
            asyncio.get_running_loop().call_soon(handler.cancel)
            with suppress(Exception):  # the client may be gone, and abort raises by design
                await self._refuse(context, error)

        return cut
