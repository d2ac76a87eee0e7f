"""As much HTTP/1.1 as a load generator needs, so that it costs a small part of what it measures.

A connection is kept alive and carries one call after the other. Of answers it reads the status, the length and whether
they hold what they must; of streams it counts the events where they lie, without taking the transfer coding apart.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.exchange import Broken, Exchange, Line
from tests.bench.processes import Server

DONE = b"TASK_STATE_COMPLETED"
"""What the answers of all finished tasks hold."""

_READ = 1 << 18
_HEAD_END = b"\r\n\r\n"
_OK = b"HTTP/1.1 200 "
_LENGTH, _CHUNKED = b"\r\ncontent-length:", b"\r\ntransfer-encoding: chunked"
_EVENT = b"\ndata:"  # JSON has no line breaks, so nothing else looks so
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_KEPT = 4096  # of a stream: its last event is in there


@dataclass(frozen=True, slots=True)
class HttpPlan:
    """Calls through an HTTP door: complete requests, and what every answer must hold."""

    name: str
    payloads: Sequence[bytes]
    expected: bytes
    connections: int = 32
    messages: int = 1

    @property
    def depth(self) -> int:
        return 1

    def connect(self, server: Server) -> Line:
        return Connection(server.http, self.expected)


class Connection:
    """One connection with one call open, or none. Blocks only in `receive`."""

    def __init__(self, port: int, expected: bytes, *, buffer: int = 0) -> None:
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(30)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.open: list[Exchange] = []
        self._expected = expected
        self._out = b""
        self._in = b""
        self._end = 0
        """Where the answer ends in `_in`; 0 until its head is read, -1 if only its last chunk will tell."""

    def close(self) -> None:
        self.socket.close()

    def start(self, payload: bytes) -> None:
        """Begin a call with a whole request; it leaves with the next `flush`."""
        if self.open:
            raise ValueError("a call is open already")
        self._out = payload
        self.open.append(Exchange(time.perf_counter()))

    def flush(self) -> None:
        if self._out:
            out, self._out = self._out, b""
            self.socket.sendall(out)

    def receive(self) -> list[Exchange]:
        """Wait for bytes; the call, if it has ended with them."""
        received = self.socket.recv(_READ)
        if not received:
            raise Broken(f"the server closed the connection after {self._in[-200:]!r}")
        call = self.open[0]
        self._in += received
        if not self._end:
            self._read_head()
        over = self._rest_of_stream(call, len(received)) if self._end < 0 else self._rest_of_body(call)
        if not over:
            return []
        if self._expected not in self._in:
            raise Broken(f"an answer without {self._expected!r}: {self._in[:2000]!r}")
        call.ended = time.perf_counter()
        self._in, self._end = b"", 0
        return [self.open.pop()]

    def _read_head(self) -> None:
        end = self._in.find(_HEAD_END)
        if end < 0:
            return
        if not self._in.startswith(_OK):
            raise Broken(f"a call failed: {self._in[:2000]!r}")
        head = self._in[:end].lower()
        at = head.find(_LENGTH)
        if at >= 0:
            self._end = end + len(_HEAD_END) + int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
        elif _CHUNKED in head:
            self._end = -1
        else:
            raise Broken(f"an answer without a length: {head!r}")

    def _rest_of_body(self, call: Exchange) -> bool:
        size = len(self._in)
        if not self._end or size < self._end:
            return False
        if size > self._end:
            raise Broken(f"more than an answer: {self._in[self._end :]!r}")
        call.messages = 1
        call.first = time.perf_counter()
        return True

    def _rest_of_stream(self, call: Exchange, fresh: int) -> bool:
        count = self._in.count(_EVENT, max(0, len(self._in) - fresh - len(_EVENT) + 1))
        if count:
            call.messages += count
            call.first = call.first or time.perf_counter()
        if len(self._in) > _KEPT:
            self._in = self._in[-_KEPT:]
        return self._in.endswith(_LAST_CHUNK)
