"""Counts the open streams, keeps idle ones alive, and lets an upstream end them (spec: DOOR-04, KEEP-01, DURA-08)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import structlog
from aiohttp import web

from a2a_gateway.http.body_writer import BodyWriter
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import GatewayOptions

LAST_EVENT_SECONDS = 1.0

log = structlog.get_logger(__name__)


class StreamSlot:
    """One open stream. The slot is freed when the stream ends, or at the latest with its request."""

    __slots__ = ("_on_free", "_task", "comment", "final_error", "last", "request", "writer")

    def __init__(self, request: web.BaseRequest, comment: bytes, leave: Callable[[StreamSlot], None]) -> None:
        self.request = request
        self.comment = comment
        self.writer: BodyWriter | None = None
        """Set when the stream has begun. Comments may be written from then on."""
        self.last = 0.0
        """When something was last written."""
        self.final_error: A2AError | None = None
        self._on_free = leave
        self._task = asyncio.current_task()
        if self._task is not None:
            self._task.add_done_callback(self.free)

    def free(self, _: object = None) -> None:
        """Free the slot. The stream cannot be cut any more."""
        if self._task is not None:
            self._task.remove_done_callback(self.free)
            self._task = None
            self._on_free(self)

    async def cut(self, error: A2AError) -> None:
        """End the stream, with an error as its last event if the client still reads."""
        if self.final_error is None and self._task is not None:
            self.final_error = error
            self._task.cancel()

    def take_final_error(self) -> A2AError | None:
        """Return the error with which the stream was cut, if it was. The current task may then write it."""
        if self.final_error is not None and self._task is not None:
            self._task.uncancel()
        return self.final_error

    def abort(self) -> None:
        """Drop the connection."""
        if (transport := self.request.transport) is not None:
            transport.abort()

    def idle_since(self, line: float) -> bool:
        """Whether a comment is due. A client that reads slowly needs none: it still has unread events."""
        writer = self.writer
        return writer is not None and self.last < line and writer.between_events and not writer.paused

    def write_comment(self) -> None:
        if self.comment and self.writer is not None:
            with suppress(ConnectionError):
                self.writer.send(self.writer.as_chunk(self.comment))
            self.last = time.monotonic()


class StreamSlots:
    """All open streams. One task keeps all of them alive."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._open: dict[StreamSlot, str] = {}
        """Each open stream with its client's address."""
        self._clients: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return len(self._open)

    def admit(self, request: web.BaseRequest, client: str, comment: bytes) -> StreamSlot:
        """Give a stream its slot, or refuse it."""
        options = self._options
        if self._clients.get(client, 0) >= options.streams_per_client:
            raise _too_many(f"Your address has {options.streams_per_client} streams open, the most one may have.")
        if len(self._open) >= options.streams:
            raise _too_many(f"The gateway has {options.streams} streams open, the most it may have.")
        slot = StreamSlot(request, comment, self._on_free)
        self._open[slot] = client
        self._clients[client] += 1
        return slot

    def _on_free(self, slot: StreamSlot) -> None:
        client = self._open.pop(slot)
        self._clients[client] -= 1
        if not self._clients[client]:
            del self._clients[client]

    async def watch(self, _: web.Application) -> AsyncIterator[None]:
        """Keep streams alive for as long as the application runs."""
        watch = asyncio.create_task(self._keep_alive(), name="gateway streams")
        yield
        watch.cancel()
        await asyncio.wait([watch])

    async def _keep_alive(self) -> None:
        """Write a comment before a stream has been silent for `keep_alive` seconds (CONF-85)."""
        longest = self._options.keep_alive
        while True:
            await asyncio.sleep(longest / 8)
            line = time.monotonic() - longest * 3 / 4
            for slot in tuple(self._open):
                try:
                    if slot.idle_since(line):
                        slot.write_comment()
                except Exception:  # an error in one stream must not affect the others
                    log.exception("http.not_kept_alive")


def _too_many(text: str) -> A2AError:
    return A2AError(Reason.OVERLOADED, text, retry_after=1)
