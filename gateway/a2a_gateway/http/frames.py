"""Events and errors inside a stream: SSE and JSON lines, of REST and of JSON-RPC (spec: SSEV, JRPC-07, DOOR-11)."""

from __future__ import annotations

from typing import Protocol

import orjson

from a2a_gateway.errors import Failure
from a2a_server.protocol.names import NDJSON, SSE


class Frames(Protocol):
    """One form of stream."""

    @property
    def content_type(self) -> str: ...

    @property
    def shared(self) -> bool:
        """Whether an event looks the same for all readers."""
        ...

    @property
    def comment(self) -> bytes:
        """What an idle stream may carry without meaning anything; empty when the form has no such thing."""
        ...

    def event(self, number: int, json: bytes) -> bytes: ...

    def around(self, number: int) -> tuple[bytes, bytes]:
        """What stands before and behind the JSON of an event that is too long to be put together."""
        ...

    def error(self, failure: Failure) -> bytes: ...


class RestFrames:
    """`data` is a bare StreamResponse (SSEV-02)."""

    content_type = SSE
    shared = True
    comment = b": keep-alive\n\n"

    def event(self, number: int, json: bytes) -> bytes:
        return b"id: %d\ndata: %b\n\n" % (number, json) if number else b"data: %b\n\n" % json

    def around(self, number: int) -> tuple[bytes, bytes]:
        return b"id: %d\ndata: " % number if number else b"data: ", b"\n\n"

    def error(self, failure: Failure) -> bytes:
        return b"event: error\ndata: %b\n\n" % failure.rest()


class JsonRpcFrames:
    """`data` is a JSON-RPC response with the request's id: envelope bytes around shared bytes (JRPC-07)."""

    content_type = SSE
    shared = False
    comment = RestFrames.comment

    def __init__(self, request_id: bytes) -> None:
        self._id = request_id
        self._head = b'data: {"jsonrpc":"2.0","id":%b,"result":' % request_id

    def event(self, number: int, json: bytes) -> bytes:
        return b"id: %d\n%b%b}\n\n" % (number, self._head, json) if number else b"%b%b}\n\n" % (self._head, json)

    def around(self, number: int) -> tuple[bytes, bytes]:
        return b"id: %d\n%b" % (number, self._head) if number else self._head, b"}\n\n"

    def error(self, failure: Failure) -> bytes:
        error = orjson.dumps(failure.jsonrpc_error())
        return b'event: error\ndata: {"jsonrpc":"2.0","id":%b,"error":%b}\n\n' % (self._id, error)


class NdjsonFrames:
    """grpc-gateway's streams: a line with `result` for each event, at most one last line with `error`."""

    content_type = NDJSON
    shared = True
    comment = b""

    def event(self, number: int, json: bytes) -> bytes:
        del number  # a line has no place for it
        return b'{"result":%b}\n' % json

    def around(self, number: int) -> tuple[bytes, bytes]:
        del number
        return b'{"result":', b"}\n"

    def error(self, failure: Failure) -> bytes:
        return failure.ndjson() + b"\n"


class JsonRpcLines:
    """Lines that are JSON-RPC responses with the request's id (JRPC-07)."""

    content_type = NDJSON
    shared = False
    comment = b""

    def __init__(self, request_id: bytes) -> None:
        self._head = b'{"jsonrpc":"2.0","id":%b,' % request_id

    def event(self, number: int, json: bytes) -> bytes:
        del number  # as above
        return b'%b"result":%b}\n' % (self._head, json)

    def around(self, number: int) -> tuple[bytes, bytes]:
        del number
        return b'%b"result":' % self._head, b"}\n"

    def error(self, failure: Failure) -> bytes:
        return b'%b"error":%b}\n' % (self._head, orjson.dumps(failure.jsonrpc_error()))


REST = RestFrames()
LINES = NdjsonFrames()
