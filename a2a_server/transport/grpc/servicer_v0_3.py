"""The gRPC door of 0.3, walked off its descriptor: translate, the same pipeline, translate back (spec: LGRP, LPSH-04).

Where an RPC of 0.3 promises more than the one behind it, that is said here and nowhere else: a list without a page
size is the whole list, and who subscribes to a finished task is shown it once (LGRP-03).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, cast

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_proto import a2a_pb2 as pb
from a2a_server.operations.call import Entries, FinalEntries
from a2a_server.operations.rpc.subscribe import TaskOverError
from a2a_server.ports.authenticator import Credentials
from a2a_server.protocol.errors import RATE_HEADERS, A2AError, ErrorCodes
from a2a_server.protocol.names import EXTENSIONS, LEGACY, OLD_EXTENSIONS, SCHEMES
from a2a_server.protocol.options import LEGACY_DEFAULT, LegacyOptions
from a2a_server.protocol.v0_3.error_words import for_grpc_client, with_sdk_name
from a2a_server.protocol.v0_3.grpc_calls import CALLS, OldRpc, Translate, refuse_tenant
from a2a_server.protocol.v0_3.messages import Downgrade
from a2a_server.transport.grpc.servicer import (
    Context,
    Handler,
    Streaming,
    Unary,
    credentials_of,
    cutter,
    handlers_of,
    metadata_of,
)
from a2a_server.transport.pipeline import Pipeline, ReplyMetadata, UnaryReply, in_metadata

CODES: Final[ErrorCodes] = "1.0.0"
"""0.3 has no column of its own; these are the first numbers that were ever published for its errors (CONF-01)."""
_LARGEST_PAGE: Final = 100


class Asked(NamedTuple):
    """A request, translated, and what came with it."""

    request: Message
    credentials: Credentials
    spellings: Sequence[str]
    """By which names the client listed extensions."""

    def answer(self, metadata: ReplyMetadata) -> ReplyMetadata:
        """What was activated, under the names by which it was asked for."""
        told = [([name] if name in RATE_HEADERS else self.spellings, value) for name, value in metadata]
        return tuple((spelling, value) for spellings, value in told for spelling in spellings)


class Retellings:
    """Batches of entries as 0.3 tells them.

    All readers of a task are given the very same batch, one after another, so that to remember one is enough.
    """

    def __init__(self, options: LegacyOptions) -> None:
        self._downgrade = Downgrade(options.raw_files)
        self._entries: Entries = ()
        self._wires: Sequence[bytes] = ()

    def of(self, entries: Entries) -> Sequence[bytes]:
        if entries is not self._entries:
            last = len(entries) if isinstance(entries, FinalEntries) else 0
            wires = [self._wire(entry.wire, last=number == last) for number, entry in enumerate(entries, 1)]
            self._entries, self._wires = entries, wires
        return self._wires

    def _wire(self, wire: bytes, *, last: bool) -> bytes:
        response = pb.StreamResponse.FromString(wire)  # which may tell its number, unlike the event
        return self._downgrade.item(response, last=last).SerializeToString()


class LegacyServicer:
    """Makes gRPC handlers that lead into the pipeline, and speak 0.3 outside."""

    def __init__(self, pipeline: Pipeline, options: LegacyOptions = LEGACY_DEFAULT, *, mutual: bool = False) -> None:
        self._pipeline = pipeline
        self._options = options
        self._mutual = mutual
        self._retellings = Retellings(options)

    def handlers(self, service: ServiceDescriptor) -> Mapping[str, Handler]:
        return handlers_of(service, self._unary, self._streaming)

    def _unary(self, method: MethodDescriptor) -> Unary:
        call = CALLS[method.name]
        downgrade = cast("Translate", call.answer)
        ask = self._whole_list if method.name == "ListTaskPushNotificationConfig" else self._ask

        async def handle(raw: bytes, context: Context) -> bytes:
            try:
                asked = await self._asked(method, raw, context)
                reply = await ask(call, asked)
                answer = downgrade(reply.message, self._options)
            except A2AError as error:
                raise with_sdk_name(for_grpc_client(error, call.rpc), call.rpc) from None
            if metadata := asked.answer(reply.metadata):
                await context.send_initial_metadata(metadata)
            if reply.headers:
                context.set_trailing_metadata(in_metadata(reply.headers))
            return answer.SerializeToString()

        return handle

    async def _ask(self, call: OldRpc, asked: Asked) -> UnaryReply:
        return await self._pipeline.unary(call.rpc, asked.request, asked.credentials, spoken=LEGACY)

    async def _whole_list(self, call: OldRpc, asked: Asked) -> UnaryReply:
        """Follow the pages, unless the client wants them."""
        wanted = cast("pb.ListTaskPushNotificationConfigsRequest", asked.request)
        if wanted.page_size:
            return await self._ask(call, asked)
        wanted.page_size = _LARGEST_PAGE
        whole, more = pb.ListTaskPushNotificationConfigsResponse(), True
        while more:
            reply = await self._ask(call, asked)
            page = cast("pb.ListTaskPushNotificationConfigsResponse", reply.message)
            whole.configs.extend(page.configs)
            wanted.page_token = page.next_page_token
            more = bool(page.next_page_token)
        return UnaryReply(whole, b"", type(whole), reply.metadata, reply.headers)

    def _streaming(self, method: MethodDescriptor) -> Streaming:
        call = CALLS[method.name]

        async def handle(raw: bytes, context: Context) -> AsyncIterator[bytes]:
            try:
                asked = await self._asked(method, raw, context)
                async with aclosing(self._items(call, asked, context)) as items:
                    async for item in items:
                        yield item
            except A2AError as error:
                raise with_sdk_name(for_grpc_client(error, call.rpc), call.rpc) from None

        return handle

    async def _items(self, call: OldRpc, asked: Asked, context: Context) -> AsyncGenerator[bytes, None]:
        stream = await self._pipeline.stream(call.rpc, asked.request, asked.credentials, spoken=LEGACY)
        place, metadata = stream.place, asked.answer(stream.metadata)
        place.cut = cutter(context, place, CODES)
        try:
            async with aclosing(stream.items) as batches:
                async for entries in batches:
                    if metadata:  # without any, they leave with the first item
                        place.sending()
                        await context.send_initial_metadata(metadata)
                        metadata = ()
                    for wire in self._retellings.of(entries):
                        place.sending()
                        yield wire  # stays here while the peer does not read
                    place.sent()
        except TaskOverError as over:
            wanted = pb.GetTaskRequest(id=over.task_id)
            reply = await self._pipeline.unary("GetTask", wanted, asked.credentials, spoken=LEGACY)
            if metadata:
                await context.send_initial_metadata(metadata)
            seen = pb.StreamResponse(task=cast("pb.Task", reply.message))
            yield Downgrade(self._options.raw_files).item(seen, last=True).SerializeToString()

    async def _asked(self, method: MethodDescriptor, raw: bytes, context: Context) -> Asked:
        metadata, call = metadata_of(context), CALLS[method.name]
        credentials = credentials_of(metadata, context, mutual=self._mutual)
        legacy = await self._pipeline.read(call.rpc, GetMessageClass(method.input_type), raw, credentials)
        refuse_tenant(legacy)
        spellings = [name for name in (OLD_EXTENSIONS, EXTENSIONS) if name in metadata]
        if listed := [uris for name in spellings for uris in metadata[name]]:
            metadata[EXTENSIONS] = tuple(listed)
        metadata[SCHEMES] = tuple(call.schemes(legacy))
        return Asked(call.request(legacy, self._options), credentials, spellings)
