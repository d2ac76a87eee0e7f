"""Streams: an error before the first event is an ordinary answer, one after it the last frame (spec: STRM-07, SSEV)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf.message import Message

from gateway import headers
from gateway.codec import Codec
from gateway.frames import Frames
from gateway.profiles import Profile
from gateway.readers import FAREWELL_SECONDS, Place
from gateway.replies import Fields, Flow
from gateway.upstream import Item, Stream

Batch = Sequence[Item]


class Writings:
    """Batches as bytes.

    All readers of a task are given the very same batch, one after another, so that to remember one is enough.
    """

    def __init__(self, codec: Codec, last: Codec) -> None:
        self._codec = codec
        self._last = last
        """Writes the item that a stream ends with."""
        self._batch: Batch = ()
        self._form: tuple[object, ...] = ()
        self._bytes = b""

    def of(self, batch: Batch, kind: type[Message], frames: Frames, flow: Flow) -> bytes:
        """The events of a batch, as they are sent."""
        if not batch:  # an empty chunk would be the last one
            return b""
        if not frames.shared:
            return self._made(batch, kind, frames, flow)
        form = (kind, frames, flow.chunked)
        if batch is not self._batch or form != self._form:
            self._bytes = self._made(batch, kind, frames, flow)
            self._batch, self._form = batch, form
        return self._bytes

    def _made(self, batch: Batch, kind: type[Message], frames: Frames, flow: Flow) -> bytes:
        event, encode = frames.event, self._codec.encode_wire
        if self._last is self._codec or not getattr(batch, "ends", False):
            return flow.framed(b"".join([event(item.number, encode(kind, item.wire)) for item in batch]))
        *items, last = batch
        events = [event(item.number, encode(kind, item.wire)) for item in items]
        return flow.framed(b"".join([*events, event(last.number, self._last.encode_wire(kind, last.wire))]))


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

    async def run(self, stream: Stream) -> Flow:
        """Write all events; what goes wrong before the first one is raised."""
        stream.on_cut(self.place.cut)
        stream.on_ready(self._take)
        flow = Flow(self.place.request)
        async with aclosing(cast("Any", stream.items)) as items:
            opening = self._opening(flow, stream, await self._first(items))  # refused as a whole, if at all
            with suppress(ConnectionError):  # the client may go at any time
                if self._begin(flow, opening):
                    del opening  # a stream may be idle for long
                    await self._follow(flow, items)
        return flow

    async def _first(self, items: AsyncIterator[Batch]) -> Batch:
        try:
            return await anext(items, None) or ()  # a tuple as default trips CPython over its own StopIteration
        except asyncio.CancelledError:
            if (farewell := self.place.farewelled()) is None:
                raise
            raise farewell from None

    def _opening(self, flow: Flow, stream: Stream, first: Batch) -> bytes:
        told = headers.outgoing(stream.metadata, echo=self.echo)
        head = flow.head(self.frames.content_type, [*_FIELDS, *told, *self.extra])
        # HEAD has waited for the first event, too, because it may be an error.
        return head if self.place.request.method == "HEAD" else head + self._bytes(flow, first)

    def _begin(self, flow: Flow, opening: bytes) -> bool:
        """Send the head with what is there; whether anything is to follow."""
        place = self.place
        place.request.writer.output_size += len(opening)  # from here on aiohttp must not answer in our stead
        flow.hand(opening)
        if place.request.method == "HEAD":
            return False
        place.response, place.last = flow, time.monotonic()
        return True

    async def _follow(self, flow: Flow, items: AsyncIterator[Batch]) -> None:
        """The response has begun, so every end is told within it."""
        try:
            await self._relay(flow, items)
        except asyncio.CancelledError:
            if (farewell := self.place.farewelled()) is None:
                raise
            await self._say(farewell)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the client is told something
            await self._say(error)
        flow.end()

    async def _relay(self, flow: Flow, items: AsyncIterator[Batch]) -> None:
        """All that is ready in one write: half of an event's cost is the write."""
        await flow.room()
        async for batch in items:
            flow.hand(self._bytes(flow, batch))
            self.place.last = time.monotonic()
            await flow.room()

    def _take(self, batch: Batch) -> bool:
        """Write a batch right away, unless the client has to be waited for; what fails is left to fail in its place."""
        flow = self.place.response
        if flow is None or flow.paused:
            return False
        try:
            flow.hand(self._bytes(flow, batch))
        except Exception:  # noqa: BLE001 - comes again
            return False
        self.place.last = time.monotonic()
        return True

    def _bytes(self, flow: Flow, batch: Batch) -> bytes:
        return self.writings.of(batch, self.kind, self.frames, flow)

    async def _say(self, error: Exception) -> None:
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self.place.write(self.frames.error(self.profile.explain(self.profile.retell(error))))
        except TimeoutError:  # nobody reads
            self.place.abort()


_FIELDS: Fields = (
    ("Cache-Control", "no-cache"),
    ("X-Accel-Buffering", "no"),  # or nginx would hold events back
)
