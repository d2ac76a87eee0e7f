"""Answers, and the resource of the application that gives them.

`Everything` takes every request and has it answered. `Reply` is an answer that is known as a whole; `Flow` writes one
bit by bit. Head and body are sent in one write.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from typing import Any, Final, Protocol

from aiohttp import HttpVersion11, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

from a2a_gateway.http.backlog import NO_TEXT, SharedText
from a2a_gateway.http.connection import SERVER, STATUS_LINES, connection_of, head_bytes

HeaderPairs = Sequence[tuple[str, str]]
NextHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
"""What a middleware passes a request on to."""

_BODILESS: Final = frozenset({204, 304})
_WITH_BODY: Final = frozenset(STATUS_LINES.keys() - _BODILESS)
_SLICE: Final = 256 * 1024
"""How much of a long text a transport holds at once: over TLS that is a copy."""


class Reply(web.Response):
    """An answer that is known as a whole.

    The usual case is written in one go. aiohttp does the rest: other versions of HTTP, HEAD, connections that end, and
    cookies or compression that a middleware adds.
    """

    direct: AbstractStreamWriter | None = None
    """Writes the answer, if it is a usual one."""
    written = False
    asks_more = False
    """Whether somebody has asked for what only aiohttp does: cookies, compression, the end of the connection."""

    def __init__(self, body: bytes, content_type: str, fields: HeaderPairs = (), *, status: int = 200) -> None:
        super().__init__(body=body, status=status, headers=usual_headers(content_type, bodiless=status in _BODILESS))
        if fields:
            set_headers(self, fields)

    @property
    def keep_alive(self) -> bool | None:
        return True if self.direct is not None else super().keep_alive

    @property
    def prepared(self) -> bool:
        return self.direct is not None or super().prepared

    def set_cookie(self, name: str, value: str, **rest: Any) -> None:  # noqa: ANN401 - aiohttp's own
        self.asks_more = True
        super().set_cookie(name, value, **rest)

    def enable_compression(self, *choice: Any, **rest: Any) -> None:  # noqa: ANN401 - as above
        self.asks_more = True
        super().enable_compression(*choice, **rest)

    def force_close(self) -> None:
        self.asks_more = True
        super().force_close()

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if self.direct is None and not self.is_usual(request):
            return await super().prepare(request)
        self.direct = request.writer
        return self.direct

    def is_usual(self, request: web.BaseRequest) -> bool:
        """Whether this answer needs nothing that only aiohttp does."""
        return (
            not self.asks_more
            and request.version == HttpVersion11
            and request.keep_alive
            and request.method != hdrs.METH_HEAD
            and self.status in _WITH_BODY
            and type(self.body) is bytes
            and not listeners(request)
        )

    async def write_eof(self, data: bytes = b"") -> None:
        writer, body = self.direct, self.body
        if writer is None or not isinstance(body, bytes):
            await super().write_eof(data)
        elif not self.written:
            self.written = True
            headers = self.headers
            headers[hdrs.DATE] = http_date(int(time.time()))
            headers[hdrs.CONTENT_LENGTH] = str(len(body))
            await writer.write_headers(STATUS_LINES[self.status], headers)
            await writer.write_eof(body)


def listeners(request: web.BaseRequest) -> Sequence[web.Application]:
    """The applications that have signal handlers for `on_response_prepare`."""
    apps = request.match_info.apps if isinstance(request, web.Request) else ()
    return [app for app in apps if app.on_response_prepare]


@lru_cache(maxsize=64)
def usual_headers(content_type: str, *, bodiless: bool = False) -> CIMultiDict[str]:
    """The headers that every answer of a media type has; to be copied."""
    kind = {} if bodiless else {"Content-Type": content_type}
    return CIMultiDict({"Server": SERVER, **kind, "Cache-Control": "no-store"})


def set_headers(response: web.StreamResponse, fields: HeaderPairs) -> None:
    """Add headers to an answer, without the control characters that an upstream might put into them."""
    for name, value in fields:
        if not (value.isprintable() and name.isprintable()):
            name, value = ("".join(filter(str.isprintable, text)) for text in (name, value))  # noqa: PLW2901
        if name == hdrs.CACHE_CONTROL:
            response.headers[name] = value
        else:
            response.headers.add(name, value)


@lru_cache(maxsize=2)
def http_date(second: int) -> str:
    return formatdate(second, usegmt=True)


@dataclass(slots=True)
class LongPiece:
    """An event too long to be copied for each reader: what stands before its JSON, the JSON, and what stands behind."""

    before: bytes
    text: SharedText
    behind: bytes


Piece = bytes | LongPiece


class Flow:
    """Writes a body bit by bit: in chunks, or up to the connection's end for HTTP/1.0.

    It makes the chunks itself, so that all readers of an event can be sent the same bytes.
    """

    __slots__ = ("_connection", "_protocol", "_request", "chunked", "whole")

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._protocol = request.protocol
        self._connection = connection_of(request)
        self.chunked = request.version >= HttpVersion11
        self.whole = True
        """Whether no event is half written, so that another one may be written."""

    def begin(self, headers: CIMultiDict[str], body: bytes) -> None:
        """Send the head of the answer with what there is of its body."""
        headers[hdrs.DATE] = http_date(int(time.time()))
        head = head_bytes(200, headers.items())
        self._request.writer.output_size += len(head)  # from here on aiohttp must not answer in our stead
        self.hand(head + body)
        if self._connection is not None:
            self._connection.streams = True

    def framed(self, data: bytes) -> bytes:
        """Data as it has to be sent."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data

    def long(self, before: bytes, text: SharedText, behind: bytes) -> LongPiece:
        """An event as it has to be sent."""
        if not self.chunked:
            return LongPiece(before, text, behind)
        size = len(before) + len(text.json) + len(behind)
        return LongPiece(b"%x\r\n%b" % (size, before), text, b"%b\r\n" % behind)

    @property
    def paused(self) -> bool:
        """Whether so much is unsent that the client has to be waited for."""
        return self._protocol.writing_paused

    def hand(self, framed: bytes | memoryview) -> None:
        """Give bytes to the transport as they are, without waiting."""
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        transport.write(framed)

    async def room(self) -> None:
        if self._protocol.writing_paused:
            await self._request.writer.drain()

    async def pour(self, pieces: list[Piece]) -> None:
        """Write many pieces, no faster than the client reads. Pieces that are written leave the list."""
        while pieces:
            piece = pieces.pop(0)
            if isinstance(piece, bytes):
                self.hand(piece)
            else:
                await self._pour(piece)
            await self.room()

    async def _pour(self, event: LongPiece) -> None:
        self.whole = False
        self.hand(event.before)
        json = memoryview(event.text.json)  # slices of it are no copies
        try:
            self._hold(event.text)
            for start in range(0, len(json), _SLICE):
                self.hand(json[start : start + _SLICE])
                await self.room()
        finally:
            # If the client has left, the error keeps this frame for a while.
            self._hold(NO_TEXT)
            event.text = NO_TEXT
            del json
        self.hand(event.behind)
        self.whole = True

    def _hold(self, text: SharedText) -> None:
        """Tell the connection which text is being sent, so that it is counted in the backlog."""
        if self._connection is not None:
            self._connection.text = text

    async def write(self, data: bytes) -> None:
        self.hand(self.framed(data))
        await self.room()

    def end(self) -> None:
        if self.chunked:
            self.hand(b"0\r\n\r\n")

    def finish(self) -> bool:
        """The stream is over; returns whether the connection ends with it."""
        if self._connection is None:
            return False
        self._connection.end(self._request.content)
        return self._connection.ends


class Answerer(Protocol):
    """Knows what is served where. It raises errors, and can answer them."""

    prefix: str  # under which another application has mounted this one

    async def __call__(self, request: web.Request) -> web.StreamResponse: ...

    def refused(self, request: web.Request, error: Exception) -> web.StreamResponse: ...


class Everything(web.AbstractResource):
    """Takes every path, also the `*` of OPTIONS."""

    def __init__(self, dispatcher: Answerer) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self.route = web.ResourceRoute("*", self.handle, self, expect_handler=_read_later)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, and tell its connection when it begins and ends; a stream tells its end itself."""
        if (connection := connection_of(request)) is not None:
            connection.begin()
        try:
            answer = await self.dispatcher(request)
        except ConnectionError:  # the client's: nobody is there to be told
            raise
        except Exception as error:  # noqa: BLE001 - every error has a shape
            answer = self.dispatcher.refused(request, error)
        if connection is not None:
            if isinstance(answer, Reply):
                connection.end(request.content)
            if connection.ends:
                answer.force_close()
        return answer

    @property
    def canonical(self) -> str:
        return self.dispatcher.prefix or "/"

    def add_prefix(self, prefix: str) -> None:
        self.dispatcher.prefix = prefix + self.dispatcher.prefix

    async def resolve(self, request: web.Request) -> tuple[web.UrlMappingMatchInfo, set[str]]:
        return web.UrlMappingMatchInfo({}, self.route), {"*"}

    def raw_match(self, path: str) -> bool:
        return path == self.canonical

    def get_info(self) -> Any:  # noqa: ANN401 - aiohttp's own type is private
        return {"path": self.canonical}

    def url_for(self, **_: str) -> URL:
        return URL(self.canonical)

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[web.AbstractRoute]:
        return iter((self.route,))


async def _read_later(request: web.Request) -> None:
    """Leave `Expect: 100-continue` to whoever reads the body: it may not be wanted."""
