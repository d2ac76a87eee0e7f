"""Writes the body of an answer in pieces, for streams (spec: STRM, SSEV)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from aiohttp import HttpVersion11, hdrs, web
from multidict import CIMultiDict

from a2a_gateway.http.backlog import NO_TEXT, SharedText
from a2a_gateway.http.connection import connection_of, head_bytes
from a2a_gateway.http.replies import http_date

_SLICE: Final = 256 * 1024
"""How many bytes of a long text are given to the transport at once, because TLS makes a copy of them."""


@dataclass(slots=True)
class LongPiece:
    """An event that is too long to copy for each reader: its JSON, and the bytes before and after the JSON."""

    before: bytes
    text: SharedText
    behind: bytes


Piece = bytes | LongPiece


class BodyWriter:
    """Writes a body in HTTP chunks. For HTTP/1.0 it writes plain bytes, and closing the connection ends the body.

    It makes the chunks itself, so that the bytes of an event can be shared by all its readers.
    """

    __slots__ = ("_connection", "_protocol", "_request", "between_events", "chunked")

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._protocol = request.protocol
        self._connection = connection_of(request)
        self.chunked = request.version >= HttpVersion11
        self.between_events = True
        """Whether the last event is written completely, so that the next one may follow."""

    def begin(self, headers: CIMultiDict[str], body: bytes) -> None:
        """Send the head of the answer and the first bytes of its body."""
        headers[hdrs.DATE] = http_date(int(time.time()))
        head = head_bytes(200, headers.items())
        self._request.writer.output_size += len(head)  # tells aiohttp that the answer has begun
        self.send(head + body)
        if self._connection is not None:
            self._connection.streams = True

    def as_chunk(self, data: bytes) -> bytes:
        """Return data as one HTTP chunk, or unchanged for HTTP/1.0."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data

    def long_event(self, before: bytes, text: SharedText, behind: bytes) -> LongPiece:
        """Return a long event as one HTTP chunk."""
        if not self.chunked:
            return LongPiece(before, text, behind)
        size = len(before) + len(text.json) + len(behind)
        return LongPiece(b"%x\r\n%b" % (size, before), text, b"%b\r\n" % behind)

    @property
    def paused(self) -> bool:
        """Whether writing must wait, because too much is unsent."""
        return self._protocol.writing_paused

    def send(self, as_chunk: bytes | memoryview) -> None:
        """Give bytes to the transport, without waiting."""
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        transport.write(as_chunk)

    async def wait_for_room(self) -> None:
        if self._protocol.writing_paused:
            await self._request.writer.drain()

    async def write_pieces(self, pieces: list[Piece]) -> None:
        """Write pieces, no faster than the client reads, and remove them from the list."""
        while pieces:
            piece = pieces.pop(0)
            if isinstance(piece, bytes):
                self.send(piece)
            else:
                await self._write_long(piece)
            await self.wait_for_room()

    async def _write_long(self, event: LongPiece) -> None:
        self.between_events = False
        self.send(event.before)
        json = memoryview(event.text.json)  # slices of it are no copies
        try:
            self._set_text(event.text)
            for start in range(0, len(json), _SLICE):
                self.send(json[start : start + _SLICE])
                await self.wait_for_room()
        finally:
            # If the client has left, the error keeps this frame for a while.
            self._set_text(NO_TEXT)
            event.text = NO_TEXT
            del json
        self.send(event.behind)
        self.between_events = True

    def _set_text(self, text: SharedText) -> None:
        """Tell the connection which text is being sent, so that the backlog counts it."""
        if self._connection is not None:
            self._connection.text = text

    async def write(self, data: bytes) -> None:
        self.send(self.as_chunk(data))
        await self.wait_for_room()

    def end(self) -> None:
        if self.chunked:
            self.send(b"0\r\n\r\n")

    def finish(self) -> bool:
        """Note that the stream has ended; return whether the connection closes now."""
        if self._connection is None:
            return False
        self._connection.end(self._request.content)
        return self._connection.ends
