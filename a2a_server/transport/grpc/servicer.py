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
from urllib.parse import unquote

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_server.ports.authenticator import Credentials
from a2a_server.protocol.errors import LONGEST_CHALLENGE, A2AError, ErrorCodes, status_of
from a2a_server.protocol.names import CHALLENGE, STATUS_DETAILS
from a2a_server.transport.open_streams import Cut, OpenStream
from a2a_server.transport.pipeline import Pipeline, in_metadata

Context = grpc.aio.ServicerContext[bytes, bytes]
Unary = Callable[[Any, Context], Awaitable[bytes]]
Streaming = Callable[[Any, Context], AsyncIterator[bytes]]
"""A request is bytes, or an iterator of them if the client streams."""
Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_MAKE: Mapping[tuple[bool, bool], Any] = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}
"""By whether the client streams, and whether the server does."""
_FIRST_ITEM = 0.5
"""How many seconds the first item of a stream that is to be cut may take; less than a server takes to stop."""


@dataclass(frozen=True, slots=True)
class Servicer:
    """Makes gRPC handlers that lead into the pipeline."""

    pipeline: Pipeline
    codes: ErrorCodes = "1.0.1"
    mutual: bool = False
    """Whether peers have certificates."""

    def handlers(self, service: ServiceDescriptor) -> Mapping[str, Handler]:
        return handlers_of(service, self._unary, self._streaming)

    def _unary(self, method: MethodDescriptor) -> Unary:
        rpc, request, many = method.name, GetMessageClass(method.input_type), method.client_streaming

        async def handle(raw: Any, context: Context) -> bytes:  # noqa: ANN401 - see `Unary`
            credentials = self._credentials(context)
            rest = self._messages(method, raw, credentials) if many else None
            message = await (self.pipeline.read(rpc, request, raw, credentials) if rest is None else anext(rest))
            reply = await self.pipeline.unary(rpc, message, credentials, rest=rest)
            if reply.metadata:
                await context.send_initial_metadata(reply.metadata)
            if reply.headers:
                context.set_trailing_metadata(in_metadata(reply.headers))
            return reply.wire

        return handle

    def _streaming(self, method: MethodDescriptor) -> Streaming:
        rpc, request, many = method.name, GetMessageClass(method.input_type), method.client_streaming

        async def handle(raw: Any, context: Context) -> AsyncIterator[bytes]:  # noqa: ANN401 - see `Unary`
            credentials = self._credentials(context)
            rest = self._messages(method, raw, credentials) if many else None
            message = await (self.pipeline.read(rpc, request, raw, credentials) if rest is None else anext(rest))
            stream = await self.pipeline.stream(rpc, message, credentials, rest=rest)
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

    async def caller(self, context: Context) -> str:
        """Name an authenticated caller, as far as the metadata tell; refuse one without valid credentials."""
        return await self.pipeline.identify("", self._credentials(context))

    async def _messages(
        self, method: MethodDescriptor, raws: AsyncIterator[bytes], credentials: Credentials
    ) -> AsyncIterator[Message]:
        """Read the messages of a client that streams, each when it is asked for."""
        rpc, request = method.name, GetMessageClass(method.input_type)
        async for raw in raws:
            yield await self.pipeline.read(rpc, request, raw, credentials)

    def _credentials(self, context: Context) -> Credentials:
        return credentials_of(metadata_of(context), context, mutual=self.mutual)


def handlers_of(
    service: ServiceDescriptor,
    unary: Callable[[MethodDescriptor], Unary],
    streaming: Callable[[MethodDescriptor], Streaming],
) -> Mapping[str, Handler]:
    """Serve all RPCs of a service, by their full names.

    Plain functions, not methods: grpc.aio inspects them at every call, and unwraps.
    """
    return {
        f"/{service.full_name}/{method.name}": _MAKE[method.client_streaming, method.server_streaming](
            (streaming if method.server_streaming else unary)(method)
        )
        for method in service.methods
    }


def metadata_of(context: Context) -> dict[str, tuple[str, ...]]:
    """All but what is binary."""
    metadata: dict[str, tuple[str, ...]] = {}
    for name, value in context.invocation_metadata() or ():
        if isinstance(value, str):
            metadata[name] = (*metadata[name], value) if name in metadata else (value,)
    return metadata


def credentials_of(metadata: Mapping[str, tuple[str, ...]], context: Context, *, mutual: bool) -> Credentials:
    """All that proves who calls; with mutual TLS also the peer's certificate."""
    certificate = next(iter(context.auth_context().get("x509_pem_cert", ())), b"") if mutual else b""
    address = address_of(context.peer())
    return Credentials(metadata, certificate, address, address)


def address_of(peer: str) -> str:
    """Return the address in gRPC's spelling of a peer: `ipv4:127.0.0.1:1234` or `ipv6:%5B::1%5D:1234`."""
    return unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]")


async def refuse_call(context: Context, error: A2AError, codes: ErrorCodes) -> NoReturn:
    status = status_of(error, codes)
    trailers: list[tuple[str, str | bytes]] = [(STATUS_DETAILS, status.SerializeToString())]
    if challenge := error.metadata.get("challenge"):
        trailers.append((CHALLENGE, challenge[:LONGEST_CHALLENGE]))
    trailers += in_metadata(error.told)
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
