"""Events and errors inside a stream: SSE and JSON lines, of REST and of JSON-RPC (spec: SSEV, JRPC-07, DOOR-11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import orjson

from a2a_gateway.errors import Failure
from a2a_server.protocol.names import NDJSON, SSE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frames:
    """One form of stream."""

    content_type: str
    before: bytes
    """What stands before the JSON of an event."""
    behind: bytes
    error: Callable[[Failure], bytes]
    """Writes an error as the last frame."""
    shared: bool = False
    """Whether an event looks the same for all readers."""
    comment: bytes = b""
    """What an idle stream may carry without meaning anything; empty when the form has no such thing."""

    def event(self, number: int, json: bytes) -> bytes:
        before, behind = self.around(number)
        return b"%b%b%b" % (before, json, behind)

    def around(self, number: int) -> tuple[bytes, bytes]:
        """What stands before and behind an event's JSON: its number, where the form has a place for it."""
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
"""As grpc-gateway's streams: a line with `result` for each event, at most one last line with `error`."""


def jsonrpc_frames(request_id: bytes) -> Frames:
    """`data` is a JSON-RPC response with the request's id: the bytes of an envelope around shared bytes (JRPC-07)."""
    response = b'{"jsonrpc":"2.0","id":%b,' % request_id

    def error(failure: Failure) -> bytes:
        return b'event: error\ndata: %b"error":%b}\n\n' % (response, orjson.dumps(failure.jsonrpc_error()))

    before = b'data: %b"result":' % response
    return Frames(content_type=SSE, before=before, behind=b"}\n\n", error=error, comment=_COMMENT)


def jsonrpc_lines(request_id: bytes) -> Frames:
    """Lines that are JSON-RPC responses with the request's id (JRPC-07)."""
    response = b'{"jsonrpc":"2.0","id":%b,' % request_id

    def error(failure: Failure) -> bytes:
        return b'%b"error":%b}\n' % (response, orjson.dumps(failure.jsonrpc_error()))

    return Frames(content_type=NDJSON, before=b'%b"result":' % response, behind=b"}\n", error=error)
