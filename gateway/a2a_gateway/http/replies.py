"""Answers with a complete body, and the one resource of the application, which answers every request.

Head and body of an answer are sent in one write.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from email.utils import formatdate
from functools import lru_cache
from typing import Any, Final, Protocol

from aiohttp import HttpVersion11, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict, getversion
from yarl import URL

from a2a_gateway.http.connection import HSTS, SERVER, STATUS_LINES, connection_of, head_bytes

HeaderPairs = Sequence[tuple[str, str]]
NextHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
"""The next handler of an aiohttp middleware."""

_BODILESS: Final = frozenset({204, 304})
_WITH_BODY: Final = frozenset(STATUS_LINES.keys() - _BODILESS)
_UNAUTHORIZED: Final = 401


class Reply(web.Response):
    """An answer with a complete body.

    It writes the usual case itself, in one write. aiohttp writes the other cases: other versions of HTTP, HEAD,
    connections that close, and cookies or compression that a middleware adds.
    """

    direct: AbstractStreamWriter | None = None
    """Writes the answer in the usual case; None if aiohttp writes it."""
    written = False
    asks_more = False
    """Whether a feature was requested that only aiohttp implements: cookies, compression, closing the connection."""

    def __init__(self, body: bytes, content_type: str, fields: HeaderPairs = (), *, status: int = 200) -> None:
        shared = fields if isinstance(fields, tuple) else ()
        headers, self.head_text = usual_head(status, content_type, shared)
        super().__init__(body=body, status=status, headers=headers)
        self.as_made = status, _version_of(self.headers)
        if fields and not shared:
            self.headers.update(fields)

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
        """Whether this answer needs no feature that only aiohttp implements."""
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
            await writer.write_eof(self.head_for(len(body)) + body)

    def head_for(self, size: int) -> bytes:
        """The answer's head. Mostly nobody has changed what it was made of."""
        headers, date = self.headers, http_date(int(time.time()))
        if (self.status, _version_of(headers)) == self.as_made:
            return f"{self.head_text}Date: {date}\r\nContent-Length: {size}\r\n\r\n".encode()
        headers[hdrs.DATE] = date
        headers[hdrs.CONTENT_LENGTH] = str(size)
        return head_bytes(self.status, headers.items())


def listeners(request: web.BaseRequest) -> Sequence[web.Application]:
    """Return the applications that have signal handlers for `on_response_prepare`."""
    apps = request.match_info.apps if isinstance(request, web.Request) else ()
    return [app for app in apps if app.on_response_prepare]


@lru_cache(maxsize=64)
def usual_head(status: int, content_type: str, more: HeaderPairs) -> tuple[CIMultiDict[str], str]:
    """Return the headers that many answers have, and their text. `more` is a tuple, such as what is left of a rate.

    The headers are shared: copy them before changing them.
    """
    kind = {} if status in _BODILESS else {"Content-Type": content_type}
    headers = CIMultiDict({"Server": SERVER, **kind, "Cache-Control": "no-store"})
    headers.update(more)
    return headers, head_bytes(status, headers.items()).decode().removesuffix("\r\n")


def _version_of(headers: CIMultiDict[str]) -> int:
    """Another one after each change."""
    return getversion(headers)  # type: ignore[arg-type]  # whatever the values are


def set_headers(response: web.StreamResponse, fields: HeaderPairs) -> None:
    """Add headers to an answer; remove control characters, which an upstream might have sent."""
    headers = response.headers
    for name, value in fields:
        if not (value.isprintable() and name.isprintable()):
            name, value = ("".join(filter(str.isprintable, text)) for text in (name, value))  # noqa: PLW2901
        if name == hdrs.CACHE_CONTROL:
            headers[name] = value
        else:
            headers.add(name, value)


@lru_cache(maxsize=2)
def http_date(second: int) -> str:
    return formatdate(second, usegmt=True)


class RequestDispatcher(Protocol):
    """Answers requests. It raises errors, and writes the answers for them."""

    prefix: str  # under which another application has mounted this one

    async def __call__(self, request: web.Request) -> web.StreamResponse: ...

    def error_reply(self, request: web.Request, error: Exception) -> web.StreamResponse: ...

    def hsts(self, request: web.Request) -> str: ...

    def complete_challenge(self, request: web.Request, answer: web.StreamResponse) -> None: ...


class CatchAllResource(web.AbstractResource):
    """Matches every path, including the `*` of OPTIONS."""

    def __init__(self, dispatcher: RequestDispatcher) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self.route = web.ResourceRoute("*", self.handle, self, expect_handler=_read_later)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, and tell its connection when the request begins and ends. A stream reports its own end."""
        if (connection := connection_of(request)) is not None:
            connection.begin()
        try:
            answer = await self.dispatcher(request)
        except ConnectionError:  # the client has left
            raise
        except Exception as error:  # noqa: BLE001 - every error has a shape
            answer = self.dispatcher.error_reply(request, error)
        if hsts := self.dispatcher.hsts(request):
            answer.headers[HSTS] = hsts
        if answer.status == _UNAUTHORIZED:
            self.dispatcher.complete_challenge(request, answer)
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
    """Do nothing for `Expect: 100-continue`: whoever reads the body answers it, and a refusal never reads the body."""
