"""The open streams of the HTTP door: bounded, kept alive, ended from outside (spec: DOOR-04, KEEP-01, DURA-08)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import structlog
from aiohttp import web

from a2a_gateway.http.replies import Flow
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import GatewayOptions

FAREWELL_SECONDS = 1.0

log = structlog.get_logger(__name__)


class Place:
    """One stream and the request it answers."""

    __slots__ = ("_handler", "comment", "farewell", "last", "request", "response")

    def __init__(self, request: web.BaseRequest, comment: bytes) -> None:
        self.request = request
        self.comment = comment
        self.response: Flow | None = None
        """Set once the stream has begun; only then a comment may be written into it."""
        self.last = 0.0
        self.farewell: A2AError | None = None
        self._handler: asyncio.Task[object] | None = None

    def enter(self) -> None:
        self._handler = asyncio.current_task()

    def leave(self) -> None:
        """The stream is over, and its handler goes on with other requests: nobody cuts those."""
        self._handler = None

    async def write(self, data: bytes) -> None:
        """Hand bytes to the client; waits while it does not read."""
        response = self.response
        if response is not None:
            await response.write(data)
            self.last = time.monotonic()

    async def cut(self, error: A2AError) -> None:
        """End the stream from outside, with an error as its last words as far as the client still listens."""
        if self.farewell is None and self._handler is not None:
            self.farewell = error
            self._handler.cancel()

    def farewelled(self) -> A2AError | None:
        """Why the handler was canceled, if it was from outside; it may go on for as long as its last words take."""
        if self.farewell is not None and self._handler is not None:
            self._handler.uncancel()
        return self.farewell

    def abort(self) -> None:
        """Drop the connection: who does not read would not read a farewell either."""
        if (transport := self.request.transport) is not None:
            transport.abort()

    def idle_since(self, line: float) -> bool:
        """Whether a comment is due; a client that does not read has enough to read."""
        response = self.response
        return response is not None and self.last < line and response.whole and not response.paused

    def breathe(self) -> None:
        """Show that the stream lives."""
        if self.comment and self.response is not None:
            with suppress(ConnectionError):
                self.response.hand(self.response.framed(self.comment))
            self.last = time.monotonic()


class Readers:
    """A registry with one task for all streams, so that a stream itself needs no timer."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._open: set[Place] = set()
        self._clients: Counter[str] = Counter()
        self._watch: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        return len(self._open)

    @contextmanager
    def admit(self, place: Place, client: str) -> Iterator[None]:
        """Hold a place for as long as the stream lasts, or refuse it."""
        options = self._options
        if self._clients[client] >= options.streams_per_client:
            self._forget(client)
            raise _too_many(f"Your address has {options.streams_per_client} streams open, the most one may have.")
        if len(self._open) >= options.streams:
            raise _too_many(f"The gateway has {options.streams} streams open, the most it may have.")
        self._open.add(place)
        self._clients[client] += 1
        place.enter()
        try:
            yield
        finally:
            place.leave()
            self._open.discard(place)
            self._clients[client] -= 1
            self._forget(client)

    def _forget(self, client: str) -> None:
        if not self._clients[client]:
            del self._clients[client]

    def start(self) -> None:
        self._watch = asyncio.create_task(self._look(), name="gateway readers")

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._options.keep_alive / 4)
            line = time.monotonic() - self._options.keep_alive
            for place in tuple(self._open):
                try:
                    if place.idle_since(line):
                        place.breathe()
                except Exception:  # what is wrong with one stream must not end the others'
                    log.exception("http.not_kept_alive")


def _too_many(text: str) -> A2AError:
    return A2AError(Reason.OVERLOADED, text, retry_after=1)
