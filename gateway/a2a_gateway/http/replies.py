"""Answers, whole and flowing: head and body in one write, which costs half of what aiohttp's own response does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol, cast

from aiohttp import web

from a2a_gateway.http.backlog import NOTHING, Text

SERVER = "a2ad"

Fields = Sequence[tuple[str, str]]

_HTTP_1_1 = (1, 1)
_OK = 200  # to find a member of an enum costs more than all else that is asked about an answer
_FRESH = b"Cache-Control: no-store\r\n"
"""What an answer says is for its caller, and soon out of date."""
_SLICE = 256 * 1024
"""How much of a long text a transport holds at once: over TLS that is a copy."""
_BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Head(Protocol):
    """The head of a request, as the parser has it."""

    @property
    def method(self) -> str: ...

    @property
    def version(self) -> tuple[int, int]: ...

    @property
    def should_close(self) -> bool: ...


class Connection(Protocol):
    """To whoever asked."""

    def say(self, text: bytes) -> None: ...


class Reply:
    """An answer that is known as a whole."""

    __slots__ = ("body", "closes", "content_type", "fields", "keep_alive", "status")

    def __init__(self, body: bytes, content_type: str, fields: Fields = (), *, status: int = 200) -> None:
        self.body = body
        self.content_type = content_type
        self.fields = fields
        self.status = status
        self.closes = False
        """Whether the connection ends with this answer."""
        self.keep_alive: bool | None = None

    def send(self, connection: Connection, head: Head) -> None:
        """Send all of it, in answer to a request with this head."""
        self.keep_alive = not (head.should_close or self.closes)
        connection.say(self.text(version=head.version, head=head.method == "HEAD"))

    def text(self, *, version: tuple[int, int] = _HTTP_1_1, head: bool = False) -> bytes:
        """All of it as it is sent; `head` leaves the body out."""
        if self.keep_alive and not self.fields and self.status == _OK and not head and version == _HTTP_1_1:
            size = b"Content-Length: %d\r\n\r\n" % len(self.body)
            return b"".join((_head(200, self.content_type), _date(int(time.time())), _FRESH, size, self.body))
        lines = [_head(self.status, self.content_type), _date(int(time.time()))]
        lines += [f"{name}: {value}\r\n".encode("latin-1", "replace") for name, value in map(_safe, self.fields)]
        if not any(name == "Cache-Control" for name, _ in self.fields):
            lines.append(_FRESH)
        if not self.keep_alive:
            lines.append(b"Connection: close\r\n")
        elif version < _HTTP_1_1:
            lines.append(b"Connection: keep-alive\r\n")
        if self.status in _BODILESS:
            return b"".join([*lines, b"\r\n"])
        lines.append(b"Content-Length: %d\r\n\r\n" % len(self.body))
        return b"".join(lines if head else [*lines, self.body])


class Long:
    """An event with a text that is not put together with what stands around it."""

    __slots__ = ("before", "behind", "text")

    def __init__(self, before: bytes, text: Text, behind: bytes) -> None:
        self.before = before
        self.text = text
        self.behind = behind


Piece = bytes | Long


class Flow:
    """An answer that is written bit by bit; chunked, or up to the connection's end for HTTP/1.0."""

    __slots__ = ("_protocol", "_request", "chunked", "keep_alive", "whole")

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._protocol = request.protocol
        self.chunked = request.version >= _HTTP_1_1
        self.keep_alive: bool | None = request.keep_alive and self.chunked
        self.whole = True
        """Whether no event is half written, so that something else may be said."""

    def head(self, content_type: str, fields: Fields) -> bytes:
        lines = [_head(200, content_type), _date(int(time.time()))]
        lines += [f"{name}: {value}\r\n".encode("latin-1", "replace") for name, value in map(_safe, fields)]
        if self.chunked:
            lines.append(b"Transfer-Encoding: chunked\r\n")
        if not self.keep_alive:
            lines.append(b"Connection: close\r\n")
        return b"".join([*lines, b"\r\n"])

    def framed(self, data: bytes) -> bytes:
        """Data as it has to be sent."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data

    def long(self, before: bytes, text: Text, behind: bytes) -> Long:
        """An event as it has to be sent."""
        if not self.chunked:
            return Long(before, text, behind)
        size = len(before) + len(text.json) + len(behind)
        return Long(b"%x\r\n%b" % (size, before), text, b"%b\r\n" % behind)

    @property
    def paused(self) -> bool:
        """Whether so much is unsent that the client has to be waited for."""
        return self._protocol.writing_paused

    def hand(self, framed: bytes | memoryview) -> None:
        """Hand bytes over as they are, without waiting for anybody."""
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        transport.write(framed)

    async def room(self) -> None:
        """Wait while the client does not read."""
        if self._protocol.writing_paused:
            await self._request.writer.drain()

    async def pour(self, pieces: list[Piece]) -> None:
        """Hand over much, no faster than the client takes it. What is done with leaves the list."""
        while pieces:
            piece = pieces.pop(0)
            if isinstance(piece, bytes):
                self.hand(piece)
            else:
                await self._pour(piece)
            await self.room()

    async def _pour(self, event: Long) -> None:
        self.whole = False
        self.hand(event.before)
        connection = cast("Any", self._protocol)
        connection.text = event.text
        json = memoryview(event.text.json)  # slices of it are no copies
        try:
            for start in range(0, len(json), _SLICE):
                self.hand(json[start : start + _SLICE])
                await self.room()
        finally:
            # If the client has left, the error keeps this frame for a while.
            connection.text = event.text = NOTHING
            del json
        self.hand(event.behind)
        self.whole = True

    async def write(self, data: bytes) -> None:
        self.hand(self.framed(data))
        await self.room()

    def end(self) -> None:
        if self.chunked:
            self.hand(b"0\r\n\r\n")

    @property
    def closes(self) -> bool:
        """Whether the connection ends with this answer."""
        return not self.keep_alive

    @closes.setter
    def closes(self, closes: bool) -> None:
        self.keep_alive = self.keep_alive and not closes

    def send(self, connection: Connection, head: Head) -> None:
        """All is written already, or nobody is there to read the rest."""


Answering = Reply | Flow
"""What a request is answered with: at once, or bit by bit."""


@lru_cache(maxsize=256)
def _head(status: int, content_type: str) -> bytes:
    line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nServer: {SERVER}\r\n"
    kind = "" if status in _BODILESS else f"Content-Type: {content_type}\r\n"
    return (line + kind).encode()


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return f"Date: {formatdate(second, usegmt=True)}\r\n".encode()


def _safe(field: tuple[str, str]) -> tuple[str, str]:
    """Whatever an upstream says, a header stays one header."""
    name, value = field
    if value.isprintable() and name.isprintable():
        return field
    return "".join(filter(str.isprintable, name)), "".join(filter(str.isprintable, value))
