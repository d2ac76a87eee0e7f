"""One client's connection, with the bounds that aiohttp does not have (spec: DOOR-04, ERRS-02).

`Connection` is an asyncio protocol that stands between the transport and aiohttp's own protocol:

1. `data_received` gets what the client sends. It counts the bytes of each request's head, and refuses a head that is
   too large. It passes everything else to aiohttp, which parses it.
2. aiohttp writes to the transport itself. When the client reads too slowly, the transport tells this protocol. It
   enters the unsent bytes in the `Backlog`, and tells aiohttp.
3. The application calls `begin` and `end` around each request, so that `check_timeouts` knows whether the client is
   silent or waits for an answer. The server calls `check_timeouts` now and then. It refuses heads that do not arrive,
   drops clients that read nothing, and reads on during a stream to notice when the client leaves.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol, cast

import structlog
from aiohttp import StreamReader, web

from a2a_gateway.errors import failure_of
from a2a_gateway.http.backlog import NO_TEXT, Backlog, SharedText
from a2a_gateway.requests.headers import (
    HEADER_OVERHEAD,
    MOST_HEADERS,
    headers_too_large,
    too_many_headers,
    url_too_long,
)
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import A2A_JSON
from a2a_server.protocol.options import GatewayOptions

SERVER = "a2ad"
HSTS = "Strict-Transport-Security"
STATUS_LINES = {int(status): f"HTTP/1.1 {status} {status.phrase}" for status in HTTPStatus}
LINGER = 1.0
"""How many seconds a connection reads and discards input after its last answer (RFC 9112, 9.6)."""

_LINE_END = b"\r\n"
_END = _LINE_END * 2
_CONTROL = bytes({*range(0x20), 0x7F} - {ord("\t")})
"""What no header may have (RFC 9110, 5.5)."""
_BLANK = ord(" ")
_SHORT = MOST_HEADERS * HEADER_OVERHEAD
"""A head of at most this many bytes cannot exceed any bound."""
_LINE_ROOM = 64
"""How many bytes the first line of a request may have besides its URL, for the method and the version."""

log = structlog.get_logger(__name__)


class DoorTls(Protocol):
    """The TLS context for new connections, and the check of client certificates (spec: GATE-10, SECR-06)."""

    @property
    def context(self) -> ssl.SSLContext: ...

    def fault(self, certificate: bytes) -> str:
        """Say why a client's certificate (DER) is no longer valid although it was signed; empty if it is valid."""
        ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """What all connections of a server share."""

    options: GatewayOptions
    backlog: Backlog
    tls: DoorTls | None = None
    connections: set[Connection] = field(default_factory=set)

    @property
    def most_head_bytes(self) -> int:
        """The largest head of a request, including its first line, that is read."""
        return self.options.max_url_bytes + self.options.max_header_total_bytes + _LINE_ROOM


@dataclass(slots=True, eq=False)
class Connection(asyncio.Protocol):
    """Enforces the bounds on one connection; `inner` is aiohttp's protocol."""

    inner: asyncio.Protocol
    bounds: Bounds
    ends: bool = False
    """Whether the connection closes after the current answer."""
    on_lost: Callable[[], None] | None = None
    """Called when the connection is lost."""
    transport: asyncio.Transport | None = None
    busy: bool = False
    """Whether a request is being handled."""
    streams: bool = False
    """Whether its answer is a stream that has begun."""
    upload: StreamReader | None = None
    """The body of the current request, if it may be read while the answer is written."""
    paused: bool = False
    """Whether writing must wait, because too much is unsent."""
    text: SharedText = NO_TEXT
    """The long text that is being sent in pieces, if there is one."""
    _in_head: bool = True
    """Whether the next bytes are known to belong to the head of a request."""
    _head: int = 0
    """How many bytes of an incomplete head have arrived."""
    _tail: bytes = b""
    """The last of these bytes, because the end of a head may arrive in two pieces."""
    _has_line: bool = False
    """Whether its first line has arrived."""
    _after_head: int = 0
    """How many bytes have arrived after the head."""
    _had_request: bool = False
    """Whether there was a request on this connection."""
    _received: bool = False
    """Whether anything has arrived since a request began or ended."""
    _discards_input: bool = False
    """Whether input is discarded."""
    _quiet_since: float = 0.0
    _stuck_since: float = 0.0
    _unsent: int = 0
    """How much was unsent when `check_timeouts` was last called."""

    # -- input

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.bounds.connections.add(self)
        self.inner.connection_made(transport)
        self.check_certificate()

    def check_certificate(self) -> None:
        """Drop a client whose certificate is revoked."""
        tls = self.bounds.tls
        if tls is not None and (fault := tls.fault(certificate_of(self.transport))):
            log.info("http.certificate_refused", peer=self._peer, why=fault)
            self._discards_input = self.ends = True
            if self.transport is not None:
                self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._discards_input:
            return
        self._received = True
        if not self._in_head:
            self._after_head += len(data)
        elif not self._head and data[0] > _BLANK and (end := data.find(_END)) > 0 and self._is_fine(data, end):
            self._in_head, self._after_head = False, len(data) - end - len(_END)  # a whole head, as most
        elif (fault := self._scan(data)) is not None:
            self.refuse(fault, LINGER)
            return
        self.inner.data_received(data)

    def _is_fine(self, data: bytes, end: int) -> bool:
        """Whether a head that ends there has not too much of anything."""
        if end <= _SHORT:
            return True
        return end <= self.bounds.most_head_bytes and data.count(b"\r\n", 0, end) <= MOST_HEADERS

    def _scan(self, data: bytes) -> A2AError | None:
        """Count the bytes of a head; return an error if it is too large."""
        if not self._head:
            data = data.lstrip(b"\r\n")  # empty lines are allowed before a request (RFC 9112, 2.2)
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
            self._after_head = len(text) - end - len(_END)
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
        self.bounds.backlog.remove(self)
        if self.on_lost is not None:
            self.on_lost()
        self.inner.connection_lost(exc)

    # -- requests

    def begin(self) -> None:
        """Note that the application handles a request."""
        self.busy = self._had_request = True
        self.upload = None
        self._received = self.streams = False
        self._quiet_since = 0.0

    def end(self, body: StreamReader) -> None:
        """Note that the request is answered. If its body is incomplete, the connection closes after the answer."""
        self.busy = self._received = self.streams = False
        if not body.is_eof():
            self.ends = True
        # If bytes follow the body, or the body is chunked, only aiohttp knows where the next head begins.
        self._in_head = self._in_head or (self._after_head == body.total_bytes and not self.ends)

    def drain(self) -> None:
        """Close the connection, after the current answer if there is one."""
        self.ends = True
        if not self.busy and self.transport is not None:
            self.transport.close()

    def refuse(self, fault: A2AError, linger: float = 0.0) -> None:
        """Answer input that is no valid request, and close after `linger` seconds, so that the client can read it."""
        self._discards_input = self._had_request = self.ends = True
        if self.transport is not None:
            log.debug("http.refused", reason=fault.reason.name)
            hsts = self.bounds.options.hsts if self.transport.get_extra_info("sslcontext") is not None else 0
            self.transport.write(_error_bytes(fault, hsts))
            asyncio.get_running_loop().call_later(linger, self.transport.close)

    # -- clients that read slowly

    @property
    def unsent(self) -> int:
        """How many bytes the transport holds."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def pause_writing(self) -> None:
        self.paused = True
        self.bounds.backlog.add(self)
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.bounds.backlog.remove(self)
        self.paused, self._stuck_since = False, 0.0
        self.inner.resume_writing()

    def cut_off(self) -> None:
        """Drop the client, because too much is unsent. This may be called while something is being written."""
        if (transport := self.transport) is not None:
            log.info("http.reader_slow", peer=self._peer, unsent=self.unsent)
            asyncio.get_running_loop().call_soon(transport.abort)

    # -- silence

    def check_timeouts(self, now: float) -> None:
        """Drop the connection when its client has sent nothing, or read nothing, for too long."""
        reads = self.upload is not None and not self.upload.is_eof()
        if self.streams and not reads and self.transport is not None and not self.transport.is_reading():
            # More has arrived during a stream than aiohttp keeps. From now on it is discarded, and the connection
            # closes after the stream: a server that stopped reading would not notice that the client has left.
            self._discards_input = self.ends = True
            self.transport.resume_reading()
        if self.paused:
            self._check_reader(now)
        if self.busy or (
            self._had_request and (self.ends or not self._received)
        ):  # aiohttp ends what is idle for too long
            self._quiet_since = 0.0
        elif not self._quiet_since:
            self._quiet_since = now
        elif now - self._quiet_since >= self.bounds.options.body_timeout:
            self._refuse_silence()

    def _check_reader(self, now: float) -> None:
        transport, unsent = self.transport, self.unsent
        if not self._stuck_since or unsent < self._unsent:
            self._stuck_since = now
        elif transport is not None and now - self._stuck_since >= self.bounds.options.write_timeout:
            log.info("http.reader_stuck", peer=self._peer, unsent=unsent)
            transport.abort()
        else:
            self.bounds.backlog.add(self)
        self._unsent = unsent

    def _refuse_silence(self) -> None:
        """Answer that the head is incomplete. If nothing was sent, just close: browsers open spare connections."""
        if self._received:
            text = f"The headers did not arrive within {self.bounds.options.body_timeout:g} seconds."
            self.refuse(A2AError(Reason.REQUEST_TIMEOUT, text))
        elif self.transport is not None:
            self.transport.close()

    @property
    def _peer(self) -> str:
        name = self.transport.get_extra_info("peername") if self.transport is not None else None
        return str(name[0] if isinstance(name, tuple) else name or "")


def certificate_of(transport: asyncio.BaseTransport | None) -> bytes:
    """Return the client's certificate (DER), whose key it has proven to have; empty without mutual TLS."""
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    return (tls.getpeercert(binary_form=True) or b"") if tls is not None else b""


def connection_of(request: web.BaseRequest) -> Connection | None:
    """Return the connection of a request; None if another server than `HttpDoor` serves the application."""
    transport = request.transport
    protocol = transport.get_protocol() if transport is not None else None
    return protocol if isinstance(protocol, Connection) else None


def head_bytes(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the bytes of an answer's head. A header with control characters is an error."""
    lines = [STATUS_LINES[status], *[f"{name}: {value}" for name, value in headers], "", ""]
    head = "\r\n".join(lines).encode("utf-8", "replace")
    if len(head) - len(head.translate(None, _CONTROL)) != len(_LINE_END) * (len(lines) - 1):
        raise ValueError("a header of an answer has control characters")
    return head


def _error_bytes(fault: A2AError, hsts: int) -> bytes:
    failure = failure_of(fault)
    body = failure.rest()
    headers = [
        ("Server", SERVER),
        ("Content-Type", A2A_JSON),
        ("Cache-Control", "no-store"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
    ]
    if hsts:
        headers.append((HSTS, f"max-age={hsts}"))
    return head_bytes(failure.http, headers) + body
