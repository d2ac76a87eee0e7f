"""The gRPC door: handlers for every RPC, walked off the service's descriptor (spec: GRPC-01, GRPC-03, GRPC-05).

An RPC needs no method here, so one that is added to the proto is served as soon as it has an operation. Requests
arrive and answers leave as bytes: gRPC's own decoding would answer a malformed request with the name of a Python
class, and a stream's items are serialised already, once for all readers.

The servicers of all versions share what is below `Servicer`: how a call's metadata is read, and how it is refused or
cut (GRPC-04).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from a2a_server.ports.authenticator import Credentials
from a2a_server.protocol.errors import LONGEST_VALUE, A2AError, ErrorCodes, status_of
from a2a_server.protocol.names import CHALLENGE, STATUS_DETAILS
from a2a_server.transport.open_streams import Cut, OpenStream
from a2a_server.transport.pipeline import Pipeline

Context = grpc.aio.ServicerContext[bytes, bytes]
Unary = Callable[[bytes, Context], Awaitable[bytes]]
Streaming = Callable[[bytes, Context], AsyncIterator[bytes]]
Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_FIRST_ITEM = 0.5
"""How many seconds the first item of a stream that is to be cut may take; less than a server takes to stop."""


@dataclass(frozen=True, slots=True)
class Servicer:
    """Makes gRPC handlers that lead into the pipeline."""

    pipeline: Pipeline
    codes: ErrorCodes = "1.0.1"
    peer_names: bool = False
    """Whether to read the names in the peer's certificate."""

    def handlers(self, service: ServiceDescriptor) -> Mapping[str, Handler]:
        return handlers_of(service, self._unary, self._streaming)

    def _unary(self, method: MethodDescriptor) -> Unary:
        rpc, request = method.name, GetMessageClass(method.input_type)

        async def handle(raw: bytes, context: Context) -> bytes:
            credentials = self._credentials(context)
            message = await self.pipeline.read(rpc, request, raw, credentials)
            reply = await self.pipeline.unary(rpc, message, credentials)
            if reply.metadata:
                await context.send_initial_metadata(reply.metadata)
            return reply.wire

        return handle

    def _streaming(self, method: MethodDescriptor) -> Streaming:
        rpc, request = method.name, GetMessageClass(method.input_type)

        async def handle(raw: bytes, context: Context) -> AsyncIterator[bytes]:
            credentials = self._credentials(context)
            message = await self.pipeline.read(rpc, request, raw, credentials)
            stream = await self.pipeline.stream(rpc, message, credentials)
            place, begun = stream.place, False
            place.cut = cutter(context, place, self.codes)
            async with aclosing(stream.items) as items:
                async for entries in items:
                    if stream.metadata and not begun:  # without any, they leave with the first item
                        place.sending()
                        await context.send_initial_metadata(stream.metadata)
                        begun = True
                    for entry in entries:
                        place.sending()
                        yield entry.wire  # stays here while the peer does not read
                    place.sent()

        return handle

    def _credentials(self, context: Context) -> Credentials:
        return Credentials(metadata_of(context), peer_names_of(context) if self.peer_names else ())


def handlers_of(
    service: ServiceDescriptor,
    unary: Callable[[MethodDescriptor], Unary],
    streaming: Callable[[MethodDescriptor], Streaming],
) -> Mapping[str, Handler]:
    """Serve all RPCs of a service, by their full names.

    Plain functions, not methods: grpc.aio inspects them at every call, and unwraps.
    """
    return {
        f"/{service.full_name}/{method.name}": grpc.unary_stream_rpc_method_handler(cast("Any", streaming(method)))
        if method.server_streaming
        else grpc.unary_unary_rpc_method_handler(cast("Any", unary(method)))
        for method in service.methods
    }


def metadata_of(context: Context) -> dict[str, tuple[str, ...]]:
    """All but what is binary."""
    metadata: dict[str, tuple[str, ...]] = {}
    for name, value in context.invocation_metadata() or ():
        if isinstance(value, str):
            metadata[name] = (*metadata[name], value) if name in metadata else (value,)
    return metadata


def peer_names_of(context: Context) -> tuple[str, ...]:
    """The names in the peer's certificate; only mutual TLS has any."""
    return tuple(name.decode(errors="replace") for name in context.peer_identities() or ())


async def refuse_call(context: Context, error: A2AError, codes: ErrorCodes) -> NoReturn:
    status = status_of(error, codes)
    trailers: list[tuple[str, str | bytes]] = [(STATUS_DETAILS, status.SerializeToString())]
    if challenge := error.metadata.get("challenge"):
        trailers.append((CHALLENGE, challenge[:LONGEST_VALUE]))
    await context.abort(_CODES[status.code], status.message, tuple(trailers))


def cutter(context: Context, place: OpenStream, codes: ErrorCodes) -> Cut:
    """Make what ends this very stream from outside.

    Cancelling alone never sends a status, and a status alone waits behind the stuck item. So the status is queued
    first, and in the next round of the loop the handler is canceled, which lets go of everything but gRPC's call.

    The first item takes gRPC's metadata along. A status that is queued meanwhile wants to do the same, and fails for
    good; its client would wait for ever.
    """
    handler = cast("asyncio.Task[None]", asyncio.current_task())

    async def cut(error: A2AError) -> None:
        await place.settled(_FIRST_ITEM)
        if place.over:
            return  # and its end is told already
        asyncio.get_running_loop().call_soon(handler.cancel)
        with suppress(Exception):  # the client may be gone, and abort raises by design
            await refuse_call(context, error, codes)

    return cut
