"""Writes the events and errors of a stream as SSE or JSON lines, for REST and JSON-RPC (SSEV, JRPC-07, DOOR-11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import orjson

from a2a_gateway.errors import Failure
from a2a_server.protocol.names import NDJSON, SSE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frames:
    """One format of streams."""

    content_type: str
    before: bytes
    """The bytes before the JSON of an event."""
    behind: bytes
    error: Callable[[Failure], bytes]
    """Writes an error as the last frame."""
    shared: bool = False
    """Whether all readers get the same bytes."""
    comment: bytes = b""
    """Keeps an idle stream alive and has no meaning; empty if the format has no comments."""

    def event(self, number: int, json: bytes) -> bytes:
        before, behind = self.wrapping(number)
        return b"%b%b%b" % (before, json, behind)

    def wrapping(self, number: int) -> tuple[bytes, bytes]:
        """Return the bytes before and after an event's JSON. In SSE they include its number."""
        told = number and self.content_type == SSE
        return b"id: %d\n%b" % (number, self.before) if told else self.before, self.behind


_COMMENT: Final = b": keep-alive\n\n"

REST: Final = Frames(
    content_type=SSE,
    before=b"data: ",
    behind=b"\n\n",
    error=lambda failure: b"event: error\ndata: %b\n\n" % failure.rest(),
    shared=True,
    comment=_COMMENT,
)
"""`data` is a bare StreamResponse (SSEV-02)."""

LINES: Final = Frames(
    content_type=NDJSON,
    before=b'{"result":',
    behind=b"}\n",
    error=lambda failure: failure.ndjson() + b"\n",
    shared=True,
)
"""Like grpc-gateway: a line with `result` for each event, and at most one line with `error` at the end."""


def jsonrpc_frames(request_id: bytes) -> Frames:
    """Return SSE whose `data` is a JSON-RPC response with the request's id (JRPC-07)."""
    response = b'{"jsonrpc":"2.0","id":%b,' % request_id

    def error(failure: Failure) -> bytes:
        return b'event: error\ndata: %b"error":%b}\n\n' % (response, orjson.dumps(failure.jsonrpc_error()))

    before = b'data: %b"result":' % response
    return Frames(content_type=SSE, before=before, behind=b"}\n\n", error=error, comment=_COMMENT)


def jsonrpc_lines(request_id: bytes) -> Frames:
    """Return JSON lines, each a JSON-RPC response with the request's id (JRPC-07)."""
    response = b'{"jsonrpc":"2.0","id":%b,' % request_id

    def error(failure: Failure) -> bytes:
        return b'%b"error":%b}\n' % (response, orjson.dumps(failure.jsonrpc_error()))

    return Frames(content_type=NDJSON, before=b'%b"result":' % response, behind=b"}\n", error=error)
