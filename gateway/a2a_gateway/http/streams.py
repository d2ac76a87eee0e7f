"""Streams: an error before the first event is an ordinary answer, one after it the last frame (spec: STRM-07, SSEV).

1. `StreamReply.open` waits for the first batch of events; what goes wrong until then is raised.
2. aiohttp calls `prepare`: the head leaves, with the first batch.
3. aiohttp calls `write_eof`, which lasts as long as the stream: batches are written as they come out of `items`, or as
   the upstream hands them to `take` meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, cast

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from google.protobuf.message import Message

from a2a_gateway.http.frames import Frames
from a2a_gateway.http.long_texts import LONG, LongTexts
from a2a_gateway.http.replies import Flow, HeaderPairs, Piece, listeners, set_headers, usual_headers
from a2a_gateway.http.stream_slots import FAREWELL_SECONDS, StreamSlot
from a2a_gateway.profiles import Profile
from a2a_gateway.requests import headers
from a2a_gateway.upstream import StreamItem, UpstreamStream
from a2a_server.protocol.codec import Codec

EventBatch = Sequence[StreamItem]

_FIELDS: Final[HeaderPairs] = (
    ("Cache-Control", "no-cache"),
    ("X-Accel-Buffering", "no"),  # or nginx would hold events back
)


class EventCache:
    """Batches as bytes.

    All readers of a task are given the very same batch, one after another, so that to remember one is enough. What is
    long is written in pieces, and never copied for each reader.
    """

    def __init__(self, codec: Codec, last: Codec, texts: LongTexts) -> None:
        self._codec = codec
        self._last = last
        """Writes the item that a stream ends with."""
        self.texts = texts
        self._batch: EventBatch = ()
        self._form: tuple[object, ...] = ()
        self._bytes: bytes | None = b""

    def of(self, batch: EventBatch, kind: type[Message], frames: Frames, flow: Flow) -> bytes | None:
        """The events of a batch, as they are sent. None when they are long."""
        if not batch:  # an empty chunk would be the last one
            return b""
        if not frames.shared:
            return self._made(batch, kind, frames, flow)
        form = (kind, frames, flow.chunked)
        if batch is not self._batch or form != self._form:
            made = self._made(batch, kind, frames, flow)
            if made is None:
                return None
            self._batch, self._form, self._bytes = batch, form, made
        return self._bytes

    def _made(self, batch: EventBatch, kind: type[Message], frames: Frames, flow: Flow) -> bytes | None:
        if sum([len(item.wire) for item in batch]) > LONG:
            return None
        event, encode = frames.event, self._codec.encode_wire
        if self._last is self._codec or not getattr(batch, "ends", False):
            return flow.framed(b"".join([event(item.number, encode(kind, item.wire)) for item in batch]))
        events = [event(item.number, codec.encode_wire(kind, item.wire)) for item, codec in self._spelled(batch)]
        return flow.framed(b"".join(events))

    def _spelled(self, batch: EventBatch) -> Iterator[tuple[StreamItem, Codec]]:
        """The items, each with the codec that writes it."""
        *items, last = batch
        yield from ((item, self._codec) for item in items)
        yield last, self._last if getattr(batch, "ends", False) else self._codec

    async def pieces(self, batch: EventBatch, kind: type[Message], frames: Frames, flow: Flow) -> list[Piece]:
        """The events of a long batch. Others get on with their work between any two of them."""
        pieces: list[Piece] = []
        for item, codec in self._spelled(batch):
            if len(item.wire) > LONG:
                before, behind = frames.around(item.number)
                pieces.append(flow.long(before, await self.texts.of(codec, kind, item.wire), behind))
            else:
                pieces.append(flow.framed(frames.event(item.number, codec.encode_wire(kind, item.wire))))
                await asyncio.sleep(0)
        return pieces


@dataclass(frozen=True, slots=True)
class StreamForm:
    """How the events of a stream are written."""

    frames: Frames
    kind: type[Message]
    cache: EventCache
    profile: Profile


class StreamReply(web.StreamResponse):
    """Writes one upstream stream into one answer."""

    begun = False
    rest: AsyncIterator[EventBatch] | None = None
    """What is still to come."""
    first: bytes | list[Piece] = b""
    """The first batch, until it is written."""

    def __init__(self, slot: StreamSlot, form: StreamForm) -> None:
        super().__init__(headers=usual_headers(form.frames.content_type))
        self.slot = slot
        self.form = form
        self.flow = Flow(slot.request)

    @property
    def keep_alive(self) -> bool | None:
        return self.flow.chunked and self.slot.request.keep_alive and super().keep_alive is not False

    @property
    def prepared(self) -> bool:
        return self.begun

    async def open(self, stream: UpstreamStream) -> None:
        """Wait for the first events. Errors until then are raised."""
        stream.on_cut(self.slot.cut)
        async with AsyncExitStack() as stack:
            items = await stack.enter_async_context(aclosing(cast("Any", stream.items)))
            first = await self.wait_for_first(items)
            stream.on_ready(self.take)
            request, form = self.slot.request, self.form
            told = headers.outgoing(stream.metadata, echo=form.profile.echo(request.headers))
            set_headers(self, [*_FIELDS, *told])
            if request.method != hdrs.METH_HEAD:  # which waits for the first event, too: it may be an error
                self.first = await self.written(first)
                stack.pop_all()
                self.rest = items

    async def wait_for_first(self, items: AsyncIterator[EventBatch]) -> EventBatch:
        try:
            return await anext(items, None) or ()  # a tuple as default trips CPython over its own StopIteration
        except asyncio.CancelledError:
            if (farewell := self.slot.farewelled()) is None:
                raise
            raise farewell from None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send the head with what is there; what is long follows later."""
        if not self.begun:
            self.begun = True
            if isinstance(request, web.Request):
                for app in listeners(request):
                    await app.on_response_prepare.send(request, self)
            if self.flow.chunked:
                self.headers[hdrs.TRANSFER_ENCODING] = "chunked"
            if not self.keep_alive:
                self.headers[hdrs.CONNECTION] = "close"
            with suppress(ConnectionError):  # which `write_eof` finds out, too
                self.flow.begin(self.headers, self.first if isinstance(self.first, bytes) else b"")
            self.first = [] if isinstance(self.first, bytes) else self.first
            self.headers.clear()  # a stream may be idle for long
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Write all events, until the stream ends or the client has gone."""
        del data
        items, self.rest = self.rest, None
        if items is not None:
            async with aclosing(cast("Any", items)):
                with suppress(ConnectionError):  # the client may go at any time
                    self.slot.flow, self.slot.last = self.flow, time.monotonic()
                    await self.follow(items)
        self.slot.leave()
        if self.flow.finish():
            self.force_close()

    async def follow(self, items: AsyncIterator[EventBatch]) -> None:
        """The answer has begun, so every end is told within it."""
        try:
            if not isinstance(self.first, bytes):
                await self.flow.pour(self.first)
            await self.relay(items)
        except asyncio.CancelledError:
            if (farewell := self.slot.farewelled()) is None:
                raise
            await self.say(farewell)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the client is told something
            await self.say(error)
        self.flow.end()

    async def relay(self, items: AsyncIterator[EventBatch]) -> None:
        """Write each batch at once: the write is half of an event's cost."""
        flow = self.flow
        await flow.room()
        async for batch in items:
            if flow.paused:  # `take` has filled what room there was
                await flow.room()
            written = await self.written(batch)
            del batch  # what is long is not kept beside its JSON, for a reader that may be slow
            if isinstance(written, bytes):
                flow.hand(written)
            else:
                await flow.pour(written)
            del written
            self.slot.last = time.monotonic()
            await flow.room()

    def take(self, batch: EventBatch) -> bool:
        """Write a batch right away and return True, unless the client is slow or the batch is long or broken."""
        if self.slot.flow is None or self.flow.paused:
            return False
        try:
            written = self.short(batch)
            if written is None:
                return False
            self.flow.hand(written)
        except Exception:  # noqa: BLE001 - comes again
            return False
        self.slot.last = time.monotonic()
        return True

    def short(self, batch: EventBatch) -> bytes | None:
        form = self.form
        return form.cache.of(batch, form.kind, form.frames, self.flow)

    async def written(self, batch: EventBatch) -> bytes | list[Piece]:
        form, short = self.form, self.short(batch)
        return await form.cache.pieces(batch, form.kind, form.frames, self.flow) if short is None else short

    async def say(self, error: Exception) -> None:
        if not self.flow.whole:  # inside an event nothing else can be said
            self.slot.abort()
            return
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                form = self.form
                await self.flow.write(form.frames.error(form.profile.explain(form.profile.retell(error))))
                self.slot.last = time.monotonic()
        except TimeoutError:  # nobody reads
            self.slot.abort()
