"""A library that serves the scratch proto, in this process or behind a channel, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Literal

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_gateway.upstream import Answer, CallContext, Upstream, UpstreamAnswer
from tests.support.door_upstream import Event, Playing
from tests.support.doors import OpenGateway, http_door
from tests.support.house import A2AError, ChannelOptions, ChannelUpstream, GatewayOptions, Reason
from tests.unit.gateway.scratch.library import library

Where = Literal["here", "far"]
WHERE: Sequence[Where] = ("here", "far")

BOOK = {"name": "shelves/1/books/2", "title": "Emma", "genre": "GENRE_NOVEL", "tags": ["old", "dear"], "sold": "7"}
PAGES: list[dict[str, Any]] = [{"text": "Once"}, {"next": {"text": "again"}}]

_ANSWERS: dict[str, dict[str, Any]] = {
    "Books": {"books": [BOOK, {"name": ""}]},
    "Book": BOOK,
    "PutBookResponse": {"book": BOOK},
    "File": {"path": "a/b.txt"},
    "Empty": {},
}


class Librarian:
    """An upstream whose answers depend on nothing but their type."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Every RPC with its request, as ProtoJSON."""

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        if method.containing_service is not library():
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "Libraries have no card.")
        self._note(method, request)
        return Answer(ParseDict(_ANSWERS[method.output_type.name], GetMessageClass(method.output_type)()))

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> Playing:
        self._note(method, request)
        kind = GetMessageClass(method.output_type)
        events = [Event(0, ParseDict(page, kind()).SerializeToString()) for page in PAGES]

        async def script(playing: Playing) -> AsyncIterator[Sequence[Event]]:
            for event in events:
                yield (event,)

        return Playing(script)

    async def identify(self, context: CallContext) -> str:
        """Everybody may call."""
        return ""

    async def ready(self) -> bool:
        return True

    def _note(self, method: MethodDescriptor, request: Message) -> None:
        self.asked.append((method.name, MessageToDict(request)))


@asynccontextmanager
async def lending(
    where: Where, options: GatewayOptions | None = None, **chosen: Any
) -> AsyncIterator[tuple[Librarian, OpenGateway]]:
    """A gateway in front of the library for the duration of the block."""
    librarian = Librarian()
    async with (
        _channel_to(librarian) if where == "far" else nullcontext(librarian) as upstream,
        http_door(upstream, options or GatewayOptions(), services=(library(),), **chosen) as door,
    ):
        yield librarian, door


@asynccontextmanager
async def _channel_to(librarian: Librarian) -> AsyncIterator[Upstream]:
    server = grpc.aio.server()
    handlers = {method.name: _handler(librarian, method) for method in library().methods}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(library().full_name, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    upstream = ChannelUpstream(ChannelOptions(addresses=(f"127.0.0.1:{port}",)))
    try:
        yield upstream
    finally:
        await upstream.close()
        await server.stop(None)


def _handler(librarian: Librarian, method: MethodDescriptor) -> Any:
    kind = GetMessageClass(method.input_type)

    async def unary(raw: bytes, context: Any) -> bytes:
        return (await librarian.unary(method, kind.FromString(raw), CallContext({}))).message.SerializeToString()

    async def stream(raw: bytes, context: Any) -> AsyncIterator[bytes]:
        async for batch in (await librarian.stream(method, kind.FromString(raw), CallContext({}))).items:
            for event in batch:
                yield event.wire

    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(stream)
    return grpc.unary_unary_rpc_method_handler(unary)
