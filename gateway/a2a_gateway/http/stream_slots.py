"""The open streams of the gateway: counted, kept alive, ended from outside (spec: DOOR-04, KEEP-01, DURA-08)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import structlog
from aiohttp import web

from a2a_gateway.http.replies import Flow
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import GatewayOptions

FAREWELL_SECONDS = 1.0

log = structlog.get_logger(__name__)


class StreamSlot:
    """One open stream. The slot is freed when the stream ends, or at the latest with its request."""

    __slots__ = ("_leave", "_task", "comment", "farewell", "flow", "last", "request")

    def __init__(self, request: web.BaseRequest, comment: bytes, leave: Callable[[StreamSlot], None]) -> None:
        self.request = request
        self.comment = comment
        self.flow: Flow | None = None
        """Set once the stream has begun; only then a comment may be written into it."""
        self.last = 0.0
        """When something was last written."""
        self.farewell: A2AError | None = None
        self._leave = leave
        self._task = asyncio.current_task()
        if self._task is not None:
            self._task.add_done_callback(self.leave)

    def leave(self, _: object = None) -> None:
        """Free the slot; from now on nobody can cut the stream."""
        if self._task is not None:
            self._task.remove_done_callback(self.leave)
            self._task = None
            self._leave(self)

    async def cut(self, error: A2AError) -> None:
        """End the stream from outside, with an error as its last event if the client still reads."""
        if self.farewell is None and self._task is not None:
            self.farewell = error
            self._task.cancel()

    def farewelled(self) -> A2AError | None:
        """The error with which the stream was cut, if it was; the task may go on to write it."""
        if self.farewell is not None and self._task is not None:
            self._task.uncancel()
        return self.farewell

    def abort(self) -> None:
        """Drop the connection: a client that does not read would not read the last event either."""
        if (transport := self.request.transport) is not None:
            transport.abort()

    def idle_since(self, line: float) -> bool:
        """Whether a comment is due; a client that does not read has enough to read."""
        flow = self.flow
        return flow is not None and self.last < line and flow.whole and not flow.paused

    def write_comment(self) -> None:
        if self.comment and self.flow is not None:
            with suppress(ConnectionError):
                self.flow.hand(self.flow.framed(self.comment))
            self.last = time.monotonic()


class StreamSlots:
    """All open streams, with one task for all that keeps them alive."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._open: dict[StreamSlot, str] = {}
        """With the client's address."""
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
        slot = StreamSlot(request, comment, self._leave)
        self._open[slot] = client
        self._clients[client] += 1
        return slot

    def _leave(self, slot: StreamSlot) -> None:
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
        """The setting is a bound on silence: a proxy may cut what is silent for a little longer (CONF-85)."""
        longest = self._options.keep_alive
        while True:
            await asyncio.sleep(longest / 8)
            line = time.monotonic() - longest * 3 / 4
            for slot in tuple(self._open):
                try:
                    if slot.idle_since(line):
                        slot.write_comment()
                except Exception:  # what is wrong with one stream must not end the others'
                    log.exception("http.not_kept_alive")


def _too_many(text: str) -> A2AError:
    return A2AError(Reason.OVERLOADED, text, retry_after=1)
