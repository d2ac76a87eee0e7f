"""One client's connection, with the bounds that aiohttp does not have (spec: DOOR-04, ERRS-02).

`Connection` is an asyncio protocol that stands between the transport and aiohttp's own protocol:

1. What the client sends passes through `data_received`. While the head of a request is awaited its bytes are counted,
   and a head that grows too large is refused here. Everything else goes on to aiohttp, which parses it.
2. aiohttp writes to the transport itself. The transport tells this protocol when the client reads too slowly; what
   then waits is entered in the `Backlog`, and aiohttp is told as well.
3. The application says when it begins and ends with a request (`begin`, `end`), so that `look`, which the server calls
   now and then, can tell silence from work: it refuses heads that do not arrive, drops clients that take nothing, and
   goes on reading behind a stream, so that a client that leaves is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import cast

import structlog
from aiohttp import StreamReader, web

from a2a_gateway.errors import failure_of
from a2a_gateway.http.backlog import NO_TEXT, Backlog, SharedText
from a2a_gateway.requests.headers import BESIDE, MOST_HEADERS, headers_too_large, too_many_headers, url_too_long
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import A2A_JSON
from a2a_server.protocol.options import GatewayOptions

SERVER = "a2ad"
STATUS_LINES = {int(status): f"HTTP/1.1 {status} {status.phrase}" for status in HTTPStatus}
LINGER = 1.0
"""Seconds for which what a client sends is read and thrown away after its answer (RFC 9112, 9.6)."""

_END = b"\r\n\r\n"
_BLANK = ord(" ")
_SHORT = MOST_HEADERS * BESIDE
"""A head of so few bytes cannot have too much of anything."""
_LINE_ROOM = 64
"""What the first line of a request may have beside its URL: the method and the version."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What all connections of a server share."""

    options: GatewayOptions
    backlog: Backlog
    connections: set[Connection] = field(default_factory=set)

    @property
    def most_head_bytes(self) -> int:
        """The largest head of a request, with its first line, that is looked at."""
        return self.options.max_url_bytes + self.options.max_header_total_bytes + _LINE_ROOM


@dataclass(slots=True, eq=False)
class Connection(asyncio.Protocol):
    """Watches over one connection; `inner` is aiohttp's protocol."""

    inner: asyncio.Protocol
    bounds: Bounds
    ends: bool = False
    """Whether the connection ends with the answer that is under way."""
    left: Callable[[], None] | None = None
    """Gives the client's place among the connections back."""
    transport: asyncio.Transport | None = None
    busy: bool = False
    """Whether a request is being handled."""
    streams: bool = False
    """Whether the answer to it is a stream that has begun."""
    paused: bool = False
    """Whether so much is unsent that the client has to be waited for."""
    text: SharedText = NO_TEXT
    """The long text that is being sent bit by bit, if there is one."""
    _in_head: bool = True
    """Whether what comes next is known to belong to the head of a request."""
    _head: int = 0
    """How many bytes of an unfinished head have come."""
    _tail: bytes = b""
    """The last of them: the end of a head may come in two pieces."""
    _has_line: bool = False
    """Whether its first line has come."""
    _behind: int = 0
    """How many bytes have come behind the head."""
    _greeted: bool = False
    """Whether there has been a request."""
    _heard: bool = False
    """Whether anything has come since a request began or ended."""
    _ignores: bool = False
    """Whether what comes is thrown away."""
    _quiet_since: float = 0.0
    _stuck_since: float = 0.0
    _unsent: int = 0
    """How much was unsent when `look` was last called."""

    # -- what comes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.bounds.connections.add(self)
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._ignores:
            return
        self._heard = True
        if not self._in_head:
            self._behind += len(data)
        elif not self._head and 0 < (end := data.find(_END)) <= _SHORT and data[0] > _BLANK:  # one short head, as most
            self._in_head, self._behind = False, len(data) - end - len(_END)
        elif (fault := self._scan(data)) is not None:
            self.refuse(fault, LINGER)
            return
        self.inner.data_received(data)

    def _scan(self, data: bytes) -> A2AError | None:
        """Count what belongs to a head, and say what is wrong with one that is too large."""
        if not self._head:
            data = data.lstrip(b"\r\n")  # which may stand before a request (RFC 9112, 2.2)
        text = self._tail + data
        end = text.find(_END)
        size = self._head - len(self._tail) + (len(text) if end < 0 else end)
        if size > self.bounds.most_head_bytes:
            return self._too_large(text)
        if size > _SHORT and text.count(b"\r\n", 0, end) > MOST_HEADERS:
            return too_many_headers()
        if end < 0:
            self._head, self._tail = size, text[1 - len(_END) :]
            self._has_line = self._has_line or b"\r\n" in text
        else:
            self._in_head, self._head, self._tail, self._has_line = False, 0, b"", False
            self._behind = len(text) - end - len(_END)
        return None

    def _too_large(self, text: bytes) -> A2AError:
        options, end = self.bounds.options, text.find(b"\r\n")
        line = self._head - len(self._tail) + end
        is_url = not self._has_line and (end < 0 or line > options.max_url_bytes + _LINE_ROOM)
        return url_too_long(options) if is_url else headers_too_large(options)

    def eof_received(self) -> None:
        self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.bounds.connections.discard(self)
        self.bounds.backlog.go_on(self)
        if self.left is not None:
            self.left()
        self.inner.connection_lost(exc)

    # -- requests

    def begin(self) -> None:
        """The application has a request in hand."""
        self.busy = self._greeted = True
        self._heard = self.streams = False
        self._quiet_since = 0.0

    def end(self, body: StreamReader) -> None:
        """The request is answered. What is left of its body is not waited for: the connection ends with the answer."""
        self.busy = self._heard = self.streams = False
        if not body.is_eof():
            self.ends = True
        # With anything behind the body, or chunks in it, nobody but aiohttp knows where the next head begins.
        self._in_head = self._in_head or (self._behind == body.total_bytes and not self.ends)

    def drain(self) -> None:
        """End the connection, with its answer if one is under way."""
        self.ends = True
        if not self.busy and self.transport is not None:
            self.transport.close()

    def refuse(self, fault: A2AError, linger: float = 0.0) -> None:
        """Answer what never became a request, and close; who is still sending needs a while to see the answer."""
        self._ignores = self._greeted = self.ends = True
        if self.transport is not None:
            log.debug("http.refused", reason=fault.reason.name)
            self.transport.write(_refusal(fault))
            asyncio.get_running_loop().call_later(linger, self.transport.close)

    # -- clients that read slowly

    @property
    def unsent(self) -> int:
        """How many bytes the transport holds."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def pause_writing(self) -> None:
        self.paused = True
        self.bounds.backlog.wait(self)
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.bounds.backlog.go_on(self)
        self.paused, self._stuck_since = False, 0.0
        self.inner.resume_writing()

    def cut_off(self) -> None:
        """Drop the client for which too much waits; this may be called while it is being sent something."""
        if (transport := self.transport) is not None:
            log.info("http.reader_slow", peer=self._peer, unsent=self.unsent)
            asyncio.get_running_loop().call_soon(transport.abort)

    # -- silence

    def look(self, now: float) -> None:
        """Drop the connection when its client has been silent, or has taken nothing, for too long."""
        if self.streams and self.transport is not None and not self.transport.is_reading():
            # More has come behind a stream than aiohttp keeps. It is thrown away from now on, and the connection ends
            # with the stream: a server that stopped reading would not notice that the client has left.
            self._ignores = self.ends = True
            self.transport.resume_reading()
        if self.paused:
            self._look_at_reader(now)
        if self.busy or (self._greeted and (self.ends or not self._heard)):  # aiohttp ends what is idle for too long
            self._quiet_since = 0.0
        elif not self._quiet_since:
            self._quiet_since = now
        elif now - self._quiet_since >= self.bounds.options.body_timeout:
            self._refuse_silence()

    def _look_at_reader(self, now: float) -> None:
        transport, unsent = self.transport, self.unsent
        if not self._stuck_since or unsent < self._unsent:
            self._stuck_since = now
        elif transport is not None and now - self._stuck_since >= self.bounds.options.write_timeout:
            log.info("http.reader_stuck", peer=self._peer, unsent=unsent)
            transport.abort()
        else:
            self.bounds.backlog.wait(self)
        self._unsent = unsent

    def _refuse_silence(self) -> None:
        """Say what was missing, unless nothing was said at all: browsers open connections that they may never use."""
        if self._heard:
            text = f"The headers did not arrive within {self.bounds.options.body_timeout:g} seconds."
            self.refuse(A2AError(Reason.REQUEST_TIMEOUT, text))
        elif self.transport is not None:
            self.transport.close()

    @property
    def _peer(self) -> str:
        name = self.transport.get_extra_info("peername") if self.transport is not None else None
        return str(name[0] if isinstance(name, tuple) else name or "")


def connection_of(request: web.BaseRequest) -> Connection | None:
    """The connection that a request came by; None under a server that is not ours."""
    transport = request.transport
    protocol = transport.get_protocol() if transport is not None else None
    return protocol if isinstance(protocol, Connection) else None


def head_bytes(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of an answer as it is sent."""
    lines = [STATUS_LINES[status], *[f"{name}: {value}" for name, value in headers], "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace")


def _refusal(fault: A2AError) -> bytes:
    failure = failure_of(fault)
    body = failure.rest()
    headers = [
        ("Server", SERVER),
        ("Content-Type", A2A_JSON),
        ("Cache-Control", "no-store"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
    ]
    return head_bytes(failure.http, headers) + body
