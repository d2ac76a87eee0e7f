"""The gRPC door: handlers for every RPC, walked off the service's descriptor (spec: GRPC-01, GRPC-03, GRPC-05).

An RPC needs no method here, so one that is added to the proto is served as soon as it has an operation. Requests
arrive and answers leave as bytes: gRPC's own decoding would answer a malformed request with the name of a Python
class, and a stream's items are serialised already, once for all readers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from a2a_server.ports.authenticator import Credentials
from a2a_server.protocol.errors import A2AError, ErrorCodes
from a2a_server.transport.grpc import peer
from a2a_server.transport.grpc.peer import Context, Handler, Streaming, Unary
from a2a_server.transport.pipeline import Pipeline, decode


@dataclass(frozen=True, slots=True)
class Servicer:
    """Makes gRPC handlers that lead into the pipeline."""

    pipeline: Pipeline
    codes: ErrorCodes = "1.0.1"
    peer_names: bool = False
    """Whether to read the names in the peer's certificate."""

    def handlers(self, service: ServiceDescriptor) -> Mapping[str, Handler]:
        """Serve all RPCs of a service, by their full names."""
        return peer.handlers(service, self._unary, self._streaming)

    def _unary(self, method: MethodDescriptor) -> Unary:
        rpc, request = method.name, GetMessageClass(method.input_type)

        async def handle(raw: bytes, context: Context) -> bytes:
            try:
                reply = await self.pipeline.unary(rpc, decode(request, raw), self._credentials(context))
            except A2AError as error:
                await peer.refuse(context, error, self.codes)
            if reply.metadata:
                await context.send_initial_metadata(reply.metadata)
            return reply.wire

        return handle

    def _streaming(self, method: MethodDescriptor) -> Streaming:
        rpc, request = method.name, GetMessageClass(method.input_type)

        async def handle(raw: bytes, context: Context) -> AsyncIterator[bytes]:
            try:
                stream = await self.pipeline.stream(rpc, decode(request, raw), self._credentials(context))
                place, begun = stream.place, False
                place.cut = peer.cutter(context, place, self.codes)
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
            except A2AError as error:
                await peer.refuse(context, error, self.codes)

        return handle

    def _credentials(self, context: Context) -> Credentials:
        return Credentials(peer.metadata_of(context), peer.names_of(context) if self.peer_names else ())
