"""As much HTTP/2 as a gRPC load generator needs, so that it costs a small part of what it measures.

A connection sends one kind of request over and over: its headers enter the peer's HPACK table once and are indices from
then on. Of answers it reads no more than their frames, the number of messages in them and their gRPC status.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from tests.bench.exchange import Broken, Exchange

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD = struct.Struct(">BHBBI")
_READ = 1 << 18

_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_TABLE_SIZE, _STREAM_WINDOW = 1, 4
_LARGEST_WINDOW, _FIRST_WINDOW = 2**31 - 1, 65_535
_REFILL = 1 << 30

_STATIC_ENTRIES = 61
_INDEXED, _LITERAL_INDEXED = 0x80, 0x40
_LONGEST = 0x7E  # longer strings would need a second byte of length
_OK = b"\x0bgrpc-status\x010"


class Kind(IntEnum):
    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8


def frame(kind: Kind, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def framed(message: bytes) -> bytes:
    """A gRPC message, uncompressed."""
    return b"\0" + len(message).to_bytes(4, "big") + message


@dataclass(frozen=True, slots=True)
class Headers:
    """The same headers twice: as a peer must hear them first, and as it understands them afterwards."""

    first: bytes
    later: bytes

    @classmethod
    def of(cls, fields: Sequence[tuple[str, str]]) -> Headers:
        # Each literal enters the table at its front, so the last one has the lowest index.
        first = b"".join(bytes([_LITERAL_INDEXED]) + _text(name) + _text(value) for name, value in fields)
        later = bytes(_INDEXED | _STATIC_ENTRIES + len(fields) - place for place in range(len(fields)))
        return cls(first, later)


def grpc_headers(method: str, **more: str) -> Headers:
    """What grpc clients send."""
    return Headers.of(
        (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "a2a-bench"),
            ("a2a-version", "1.0"),
            *more.items(),
        )
    )


def _text(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > _LONGEST:
        raise ValueError(f"{text!r} is longer than {_LONGEST} bytes")
    return bytes([len(raw)]) + raw


@dataclass(slots=True)
class Call(Exchange):
    """One call, and what has come of its next message."""

    _rest: bytearray = field(default_factory=bytearray)

    def take(self, payload: bytes) -> None:
        if not self.first:
            self.first = time.perf_counter()
        rest = self._rest
        rest += payload
        while len(rest) >= 5 and len(rest) >= (size := 5 + int.from_bytes(rest[1:5], "big")):
            del rest[:size]
            self.messages += 1


class Connection:
    """One connection with any number of calls open. Blocks only where it says so."""

    def __init__(self, port: int, headers: Headers) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.open: dict[int, Call] = {}
        self._headers = headers.first
        self._headers_later = headers.later
        self._next = 1
        self._in = b""
        self._out: list[bytes] = []
        self._credit = 0
        self._settled = False
        self._handlers: dict[int, Callable[[int, int, bytes], Exchange | None]] = {
            Kind.DATA: self._data,
            Kind.HEADERS: self._trailers,
            Kind.RST_STREAM: self._broken,
            Kind.SETTINGS: self._settings,
            Kind.PING: self._ping,
            Kind.GOAWAY: self._broken,
        }
        self._greet()

    def _greet(self) -> None:
        """Ask for trailers in plain text and for no flow control; wait until the server has said its part."""
        settings = struct.pack(">HIHI", _TABLE_SIZE, 0, _STREAM_WINDOW, _LARGEST_WINDOW)
        self._out += [_PREFACE, frame(Kind.SETTINGS, 0, 0, settings)]
        self._refill(_LARGEST_WINDOW - _FIRST_WINDOW)
        self.flush()
        while not self._settled:
            self.receive()

    def close(self) -> None:
        self.socket.close()

    def start(self, payload: bytes) -> None:
        """Begin a call with a framed message; it leaves with the next `flush`."""
        stream = self._next
        self._next += 2
        self._out += [
            frame(Kind.HEADERS, _END_HEADERS, stream, self._headers),
            frame(Kind.DATA, _END_STREAM, stream, payload),
        ]
        self._headers = self._headers_later
        self.open[stream] = Call(time.perf_counter())

    def flush(self) -> None:
        if self._out:
            out, self._out = b"".join(self._out), []
            self.socket.sendall(out)

    def receive(self) -> list[Exchange]:
        """Wait for bytes; the calls that have ended with them."""
        received = self.socket.recv(_READ)
        if not received:
            raise Broken("the server closed the connection")
        buffer, at, ended = self._in + received, 0, []
        while len(buffer) >= at + _HEAD.size:
            high, low, kind, flags, stream = _HEAD.unpack_from(buffer, at)
            end = at + _HEAD.size + (high << 16 | low)
            if len(buffer) < end:
                break
            handler = self._handlers.get(kind)
            if handler is not None and (exchange := handler(flags, stream, buffer[at + _HEAD.size : end])) is not None:
                ended.append(exchange)
            at = end
        self._in = buffer[at:]
        return ended

    # -- frames

    def _data(self, flags: int, stream: int, payload: bytes) -> None:
        self.open[stream].take(payload)
        self._credit -= len(payload)
        if self._credit < _REFILL // 2:
            self._refill(_REFILL - self._credit)

    def _refill(self, amount: int) -> None:
        self._credit += amount
        self._out.append(frame(Kind.WINDOW_UPDATE, 0, 0, amount.to_bytes(4, "big")))

    def _trailers(self, flags: int, stream: int, payload: bytes) -> Exchange | None:
        if not flags & _END_STREAM:
            return None
        if _OK not in payload:
            raise Broken(f"a call failed: {payload!r}")
        exchange = self.open.pop(stream)
        exchange.ended = time.perf_counter()
        return exchange

    def _settings(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & _ACK:
            self._settled = True
        else:
            self._out.append(frame(Kind.SETTINGS, _ACK, 0, b""))
            self.flush()

    def _ping(self, flags: int, stream: int, payload: bytes) -> None:
        if not flags & _ACK:
            self._out.append(frame(Kind.PING, _ACK, 0, payload))
            self.flush()

    def _broken(self, flags: int, stream: int, payload: bytes) -> None:
        raise Broken(f"the server ended stream {stream}: {payload!r}")
