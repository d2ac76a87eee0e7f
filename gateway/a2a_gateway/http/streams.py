"""Streams: an error before the first event is an ordinary answer, one after it the last frame (spec: STRM-07, SSEV)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, cast
from weakref import WeakValueDictionary

from google.protobuf.message import Message

from a2a_gateway.http.backlog import Text
from a2a_gateway.http.frames import Frames
from a2a_gateway.http.readers import FAREWELL_SECONDS, Place
from a2a_gateway.http.replies import Fields, Flow, Piece
from a2a_gateway.profiles import Profile
from a2a_gateway.requests import headers
from a2a_gateway.upstream import StreamItem, UpstreamStream
from a2a_server.protocol.codec import Codec

Batch = Sequence[StreamItem]


class Writings:
    """Batches as bytes.

    All readers of a task are given the very same batch, one after another, so that to remember one is enough. What is
    long is remembered for as long as it is being sent to anybody, and never put together with anything.
    """

    def __init__(self, codec: Codec, last: Codec) -> None:
        self._codec = codec
        self._last = last
        """Writes the item that a stream ends with."""
        self._batch: Batch = ()
        self._form: tuple[object, ...] = ()
        self._bytes = b""
        self._texts: WeakValueDictionary[tuple[Codec, type[Message], bytes], Text] = WeakValueDictionary()

    def of(self, batch: Batch, kind: type[Message], frames: Frames, flow: Flow) -> bytes | list[Piece]:
        """The events of a batch, as they are sent; in pieces when that is long."""
        if not batch:  # an empty chunk would be the last one
            return b""
        if not frames.shared:
            return self._made(batch, kind, frames, flow)
        form = (kind, frames, flow.chunked)
        if batch is not self._batch or form != self._form:
            made = self._made(batch, kind, frames, flow)
            if not isinstance(made, bytes):
                return made
            self._batch, self._form, self._bytes = batch, form, made
        return self._bytes

    def _made(self, batch: Batch, kind: type[Message], frames: Frames, flow: Flow) -> bytes | list[Piece]:
        if sum([len(item.wire) for item in batch]) > _LONG:
            return [self._piece(item, codec, kind, frames, flow) for item, codec in self._spelled(batch)]
        event, encode = frames.event, self._codec.encode_wire
        if self._last is self._codec or not getattr(batch, "ends", False):
            return flow.framed(b"".join([event(item.number, encode(kind, item.wire)) for item in batch]))
        events = [event(item.number, codec.encode_wire(kind, item.wire)) for item, codec in self._spelled(batch)]
        return flow.framed(b"".join(events))

    def _spelled(self, batch: Batch) -> Iterator[tuple[StreamItem, Codec]]:
        """The items, and who writes them."""
        *items, last = batch
        yield from ((item, self._codec) for item in items)
        yield last, self._last if getattr(batch, "ends", False) else self._codec

    def _piece(self, item: StreamItem, codec: Codec, kind: type[Message], frames: Frames, flow: Flow) -> Piece:
        if len(item.wire) <= _LONG:
            return flow.framed(frames.event(item.number, codec.encode_wire(kind, item.wire)))
        before, behind = frames.around(item.number)
        return flow.long(before, self._text(codec, kind, item.wire), behind)

    def _text(self, codec: Codec, kind: type[Message], wire: bytes) -> Text:
        key = codec, kind, wire
        if (text := self._texts.get(key)) is None:
            text = self._texts[key] = Text(codec.encode_wire(kind, wire), len(wire))
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Writes one upstream stream into one response."""

    place: Place
    frames: Frames
    kind: type[Message]
    writings: Writings
    profile: Profile
    extra: Fields
    echo: Sequence[str]
    """The headers that tell which extensions are active."""

    async def run(self, stream: UpstreamStream) -> Flow:
        """Write all events; what goes wrong before the first one is raised."""
        stream.on_cut(self.place.cut)
        stream.on_ready(self._take)
        flow = Flow(self.place.request)
        async with aclosing(cast("Any", stream.items)) as items:
            head, rest = self._opening(flow, stream, await self._first(items))  # refused as a whole, if at all
            with suppress(ConnectionError):  # the client may go at any time
                if self._begin(flow, head):
                    del head  # a stream may be idle for long
                    await self._follow(flow, items, rest)
        return flow

    async def _first(self, items: AsyncIterator[Batch]) -> Batch:
        try:
            return await anext(items, None) or ()  # a tuple as default trips CPython over its own StopIteration
        except asyncio.CancelledError:
            if (farewell := self.place.farewelled()) is None:
                raise
            raise farewell from None

    def _opening(self, flow: Flow, stream: UpstreamStream, first: Batch) -> tuple[bytes, list[Piece] | None]:
        """The head with what can be sent along, and what is too long for that."""
        told = headers.outgoing(stream.metadata, echo=self.echo)
        head = flow.head(self.frames.content_type, [*_FIELDS, *told, *self.extra])
        if self.place.request.method == "HEAD":  # which has waited for the first event, too: it may be an error
            return head, None
        written = self._written(flow, first)
        return (head + written, None) if isinstance(written, bytes) else (head, written)

    def _begin(self, flow: Flow, opening: bytes) -> bool:
        """Send the head with what is there; whether anything is to follow."""
        place = self.place
        place.request.writer.output_size += len(opening)  # from here on aiohttp must not answer in our stead
        flow.hand(opening)
        if place.request.method == "HEAD":
            return False
        place.response, place.last = flow, time.monotonic()
        return True

    async def _follow(self, flow: Flow, items: AsyncIterator[Batch], rest: list[Piece] | None) -> None:
        """The response has begun, so every end is told within it."""
        try:
            if rest is not None:
                await flow.pour(rest)
            await self._relay(flow, items)
        except asyncio.CancelledError:
            if (farewell := self.place.farewelled()) is None:
                raise
            await self._say(flow, farewell)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the client is told something
            await self._say(flow, error)
        flow.end()

    async def _relay(self, flow: Flow, items: AsyncIterator[Batch]) -> None:
        """All that is ready in one write: half of an event's cost is the write."""
        await flow.room()
        async for batch in items:
            written = self._written(flow, batch)
            del batch  # what is long is not kept beside its JSON, for a reader that may be slow
            if isinstance(written, bytes):
                flow.hand(written)
            else:
                await flow.pour(written)
            del written
            self.place.last = time.monotonic()
            await flow.room()

    def _take(self, batch: Batch) -> bool:
        """Write a batch right away, unless the client has to be waited for; what fails is left to fail in its place."""
        flow = self.place.response
        if flow is None or flow.paused:
            return False
        try:
            written = self._written(flow, batch)
            if not isinstance(written, bytes):
                return False
            flow.hand(written)
        except Exception:  # noqa: BLE001 - comes again
            return False
        self.place.last = time.monotonic()
        return True

    def _written(self, flow: Flow, batch: Batch) -> bytes | list[Piece]:
        return self.writings.of(batch, self.kind, self.frames, flow)

    async def _say(self, flow: Flow, error: Exception) -> None:
        if not flow.whole:  # inside an event nothing else can be said
            self.place.abort()
            return
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self.place.write(self.frames.error(self.profile.explain(self.profile.retell(error))))
        except TimeoutError:  # nobody reads
            self.place.abort()


_LONG: Final = 256 * 1024
"""What an event, or all that is ready, may take up and still be put together for each reader."""
_FIELDS: Fields = (
    ("Cache-Control", "no-cache"),
    ("X-Accel-Buffering", "no"),  # or nginx would hold events back
)
