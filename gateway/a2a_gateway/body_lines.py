"""Reads a body of JSON lines as a stream of messages, for methods whose client streams (spec: DOOR-14).

Each line is one message; empty lines are ignored. A line is read when the receiver asks for it. While nobody asks,
aiohttp stops reading from the client, so nothing piles up. Path and query apply to every message. Each line has the
bounds of a body: in bytes, in values and in time. All lines together are bounded in bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from aiohttp import hdrs, web

from a2a_gateway.calls import Calls, Query, ask_for_body, check_encoding, read_large_json
from a2a_gateway.http.connection import connection_of
from a2a_gateway.requests.binding import bind
from a2a_gateway.requests.media_types import LINE_TYPES, must_be_json
from a2a_gateway.routing.table import Match
from a2a_gateway.upstream import MessageStream
from a2a_server.protocol.errors import A2AError, Reason, Violation
from a2a_server.protocol.names import A2A_JSON, JSON
from a2a_server.protocol.options import SMALL

_TYPES: Final = (*LINE_TYPES, A2A_JSON, JSON)
"""Plain JSON types are accepted too, because a single message is JSON, and so is each line."""
_END: Final = b"\n"
_BLANK: Final = b" \t\r"


async def read_messages(request: web.BaseRequest, match: Match, query: Query, calls: Calls) -> MessageStream:
    """Check who calls, then return the messages. There is at least one, or an error is raised."""
    must_be_json(request.headers.get(hdrs.CONTENT_TYPE), _TYPES)
    check_encoding(request)
    if (request.content_length or 0) > calls.options.max_lines_bytes:
        raise _too_many(calls)
    caller = await calls.upstream.identify(calls.context(request, ()))
    if (connection := connection_of(request)) is not None:
        connection.upload = request.content
    await ask_for_body(request)
    address = calls.proxies.client(request)
    lines = BodyLines(request, calls, (address, f"caller {caller}") if caller else (address,))
    return _messages(lines, match, query, calls)


async def _messages(lines: BodyLines, match: Match, query: Query, calls: Calls) -> MessageStream:
    options, codec, number, found = calls.options, calls.profile.codec, 0, False
    while (line := await lines.next()) is not None:
        number += 1
        if not line.strip(_BLANK):
            continue
        try:
            is_small = len(line) <= min(SMALL, options.max_json_values)
            body = line if is_small else await read_large_json(line, calls)
            message = bind(match, query, body, codec, max_depth=options.max_depth)
        except A2AError as error:
            raise _in_line(number, error) from None
        found = True
        yield message
        await asyncio.sleep(0)  # many lines may have arrived at once; let other tasks run
    if not found:
        raise A2AError(Reason.INVALID_PARAMS, "The body has no message: it must be JSON lines, one for each message.")


def _in_line(number: int, error: A2AError) -> A2AError:
    """Return the same error with the number of the line."""
    violations = [Violation(it.field, f"line {number}: {it.description}") for it in error.violations]
    told = {**error.metadata, "line": str(number)}
    return A2AError(error.reason, f"Line {number}: {error.message}", metadata=told, violations=violations)


class BodyLines:
    """Splits the body into lines. It holds one line, and the bytes that arrived together with its end."""

    def __init__(self, request: web.BaseRequest, calls: Calls, senders: Sequence[str]) -> None:
        self._content = request.content
        self._calls = calls
        self._senders = senders
        self._buffer = bytearray()
        self._total = 0

    async def next(self) -> bytes | None:
        """Return the next line, without its line end; None after the last one."""
        patience = self._calls.options.body_timeout
        try:
            async with asyncio.timeout(patience):
                end = await self._wait_for_line()
        except TimeoutError:
            text = f"No line arrived within {patience:g} seconds; an empty one keeps the call open."
            raise A2AError(Reason.REQUEST_TIMEOUT, text) from None
        except web.RequestPayloadError:
            raise A2AError(Reason.INVALID_REQUEST, "The body is not well-formed HTTP/1.1.") from None
        except ConnectionError:
            raise A2AError(Reason.INVALID_REQUEST, "The client left before its body was complete.") from None
        if end is None:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    async def _wait_for_line(self) -> int | None:
        """Wait until a whole line has arrived, and return its length; None after the last one."""
        held, bodies, counted, start = self._buffer, self._calls.bodies, 0, 0
        most = self._calls.options.max_body_bytes
        try:
            while (end := held.find(_END, start)) < 0:
                start = len(held)
                if start > most:
                    break
                if not (chunk := await self._content.readany()):
                    return start or None
                counted += len(chunk)
                bodies.add(self._senders, len(chunk))
                self._take(chunk)
        finally:
            bodies.drop(self._senders, counted)
        if end > most or end < 0:
            raise A2AError(Reason.BODY_TOO_LARGE, f"A line may have at most {most} bytes.")
        return end

    def _take(self, chunk: bytes) -> None:
        self._buffer += chunk
        self._total += len(chunk)
        if self._total > self._calls.options.max_lines_bytes:
            raise _too_many(self._calls)


def _too_many(calls: Calls) -> A2AError:
    return A2AError(Reason.BODY_TOO_LARGE, f"All lines may have at most {calls.options.max_lines_bytes} bytes.")
