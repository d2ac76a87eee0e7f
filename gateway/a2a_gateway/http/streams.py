"""Writes streams. An error before the first event is an ordinary answer, a later one the last frame (STRM-07, SSEV).

1. `StreamReply.open` waits for the first batch of events. Errors until then are raised.
2. aiohttp calls `prepare`, which sends the head and the first batch.
3. aiohttp calls `write_eof`, which lasts as long as the stream. It writes each batch that `items` yields. The upstream
   may also pass a batch directly to `take`.
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

from a2a_gateway.http.body_writer import BodyWriter, Piece
from a2a_gateway.http.frames import Frames
from a2a_gateway.http.long_texts import LONG, LongTexts
from a2a_gateway.http.replies import HeaderPairs, listeners, set_headers, usual_head
from a2a_gateway.http.stream_slots import LAST_EVENT_SECONDS, StreamSlot
from a2a_gateway.profiles import Profile
from a2a_gateway.requests import headers
from a2a_gateway.upstream import StreamItem, UpstreamStream
from a2a_server.protocol.codec import Codec

EventBatch = Sequence[StreamItem]

_FIELDS: Final[HeaderPairs] = (
    ("Cache-Control", "no-cache"),
    ("X-Accel-Buffering", "no"),  # keeps nginx from buffering events
)


class EventCache:
    """Encodes batches, and remembers the bytes of the last one.

    One batch is enough, because all readers of a task get the same batch right after each other. Long events are
    written in pieces, and not copied for each reader.
    """

    def __init__(self, codec: Codec, last: Codec, texts: LongTexts) -> None:
        self._codec = codec
        self._last = last
        """Writes the last item of a stream."""
        self.texts = texts
        self._batch: EventBatch = ()
        self._form: tuple[object, ...] = ()
        self._bytes: bytes | None = b""

    def of(self, batch: EventBatch, kind: type[Message], frames: Frames, writer: BodyWriter) -> bytes | None:
        """Return the bytes of a batch; None if it is long."""
        if not batch:  # an empty chunk would be the last one
            return b""
        if not frames.shared:
            return self._encode(batch, kind, frames, writer)
        form = (kind, frames, writer.chunked)
        if batch is not self._batch or form != self._form:
            encoded = self._encode(batch, kind, frames, writer)
            if encoded is None:
                return None
            self._batch, self._form, self._bytes = batch, form, encoded
        return self._bytes

    def _encode(self, batch: EventBatch, kind: type[Message], frames: Frames, writer: BodyWriter) -> bytes | None:
        if sum([len(item.wire) for item in batch]) > LONG:
            return None
        event, encode = frames.event, self._codec.encode_wire
        if self._last is self._codec or not getattr(batch, "ends", False):
            return writer.as_chunk(b"".join([event(item.number, encode(kind, item.wire)) for item in batch]))
        events = [event(item.number, codec.encode_wire(kind, item.wire)) for item, codec in self._with_codecs(batch)]
        return writer.as_chunk(b"".join(events))

    def _with_codecs(self, batch: EventBatch) -> Iterator[tuple[StreamItem, Codec]]:
        """Yield the items, each with the codec that writes it."""
        *items, last = batch
        yield from ((item, self._codec) for item in items)
        yield last, self._last if getattr(batch, "ends", False) else self._codec

    async def pieces(self, batch: EventBatch, kind: type[Message], frames: Frames, writer: BodyWriter) -> list[Piece]:
        """Return the events of a long batch in pieces. The event loop runs other tasks between two events."""
        pieces: list[Piece] = []
        for item, codec in self._with_codecs(batch):
            if len(item.wire) > LONG:
                before, behind = frames.wrapping(item.number)
                pieces.append(writer.long_event(before, await self.texts.of(codec, kind, item.wire), behind))
            else:
                pieces.append(writer.as_chunk(frames.event(item.number, codec.encode_wire(kind, item.wire))))
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
    """The batches after the first one."""
    first: bytes | list[Piece] = b""
    """The first batch, until it is written."""

    def __init__(self, slot: StreamSlot, form: StreamForm) -> None:
        super().__init__(headers=usual_head(200, form.frames.content_type, ())[0])
        self.slot = slot
        self.form = form
        self.writer = BodyWriter(slot.request)

    @property
    def keep_alive(self) -> bool | None:
        return self.writer.chunked and self.slot.request.keep_alive and super().keep_alive is not False

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
            if request.method != hdrs.METH_HEAD:  # HEAD waits for the first event too, because it may be an error
                self.first = await self.encoded(first)
                stack.pop_all()
                self.rest = items

    async def wait_for_first(self, items: AsyncIterator[EventBatch]) -> EventBatch:
        try:
            return await anext(items, None) or ()  # a tuple as default trips CPython over its own StopIteration
        except asyncio.CancelledError:
            if (final_error := self.slot.take_final_error()) is None:
                raise
            raise final_error from None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send the head, with the first batch unless that is long."""
        if not self.begun:
            self.begun = True
            if isinstance(request, web.Request):
                for app in listeners(request):
                    await app.on_response_prepare.send(request, self)
            if self.writer.chunked:
                self.headers[hdrs.TRANSFER_ENCODING] = "chunked"
            if not self.keep_alive:
                self.headers[hdrs.CONNECTION] = "close"
            with suppress(ConnectionError):  # `write_eof` will notice it too
                self.writer.begin(self.headers, self.first if isinstance(self.first, bytes) else b"")
            self.first = [] if isinstance(self.first, bytes) else self.first
            self.headers.clear()  # saves memory: a stream may be open for a long time
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Write all events, until the stream ends or the client leaves."""
        del data
        items, self.rest = self.rest, None
        if items is not None:
            async with aclosing(cast("Any", items)):
                with suppress(ConnectionError):  # the client may leave at any time
                    self.slot.writer, self.slot.last = self.writer, time.monotonic()
                    await self.follow(items)
        self.slot.free()
        if self.writer.finish():
            self.force_close()

    async def follow(self, items: AsyncIterator[EventBatch]) -> None:
        """Write the stream and its end. The answer has begun, so an error is written into the stream."""
        try:
            if not isinstance(self.first, bytes):
                await self.writer.write_pieces(self.first)
            await self.write_batches(items)
        except asyncio.CancelledError:
            if (final_error := self.slot.take_final_error()) is None:
                raise
            await self.write_error(final_error)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the client gets an error frame, whatever the error was
            await self.write_error(error)
        self.writer.end()

    async def write_batches(self, items: AsyncIterator[EventBatch]) -> None:
        """Write each batch in one write, because the write is half of an event's cost."""
        writer = self.writer
        await writer.wait_for_room()
        async for batch in items:
            if writer.paused:  # `take` has written until the client's buffer was full
                await writer.wait_for_room()
            encoded = await self.encoded(batch)
            del batch  # frees a long batch while its JSON is written, which a slow reader can delay
            if isinstance(encoded, bytes):
                writer.send(encoded)
            else:
                await writer.write_pieces(encoded)
            del encoded
            self.slot.last = time.monotonic()
            await writer.wait_for_room()

    def take(self, batch: EventBatch) -> bool:
        """Write a batch at once and return True; False if the client is slow, or the batch is long or invalid."""
        if self.slot.writer is None or self.writer.paused:
            return False
        try:
            encoded = self.encode_short(batch)
            if encoded is None:
                return False
            self.writer.send(encoded)
        except Exception:  # noqa: BLE001 - the batch comes again from `items`, and the error with it
            return False
        self.slot.last = time.monotonic()
        return True

    def encode_short(self, batch: EventBatch) -> bytes | None:
        form = self.form
        return form.cache.of(batch, form.kind, form.frames, self.writer)

    async def encoded(self, batch: EventBatch) -> bytes | list[Piece]:
        form, encode_short = self.form, self.encode_short(batch)
        return (
            await form.cache.pieces(batch, form.kind, form.frames, self.writer)
            if encode_short is None
            else encode_short
        )

    async def write_error(self, error: Exception) -> None:
        if not self.writer.between_events:  # nothing can be written in the middle of an event
            self.slot.abort()
            return
        try:
            async with asyncio.timeout(LAST_EVENT_SECONDS):
                form = self.form
                await self.writer.write(form.frames.error(form.profile.explain(form.profile.translate_error(error))))
                self.slot.last = time.monotonic()
        except TimeoutError:  # the client does not read
            self.slot.abort()
