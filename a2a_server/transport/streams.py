"""The open streams of this process: bounded per caller, cut when their reader stops reading (spec: STRM, LIMT-01)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from a2a_server.protocol.errors import A2AError, Reason

Cut = Callable[[A2AError], Awaitable[None]]
"""Ends a stream whatever it is doing, and tells the client as far as the client still listens."""


@dataclass(slots=True, eq=False)
class OpenStream:
    """One stream. Its door says when it hands an item to the peer, and when the peer has taken it."""

    owner: str
    """Whose allowance it takes; empty for anonymous callers, who are everybody and have no allowance each."""
    cut: Cut | None = None
    stuck_since: float = 0.0
    """When the item that is being sent was handed over; 0 while none is."""
    under_way: bool = False
    """Whether the peer has taken any items."""
    over: bool = False
    _news: asyncio.Event | None = None

    def sending(self) -> None:
        self.stuck_since = time.monotonic()

    def sent(self) -> None:
        self.stuck_since = 0.0
        self.under_way = True
        if self._news is not None:
            self._news.set()

    def end(self) -> None:
        self.over = True
        if self._news is not None:
            self._news.set()

    async def settled(self, seconds: float) -> None:
        """Wait while the very first items are on their way, if they do not take too long."""
        if self.stuck_since and not (self.under_way or self.over):
            self._news = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()


class OpenStreams:
    """A registry with one task for all streams, so that a stream itself needs no timer."""

    def __init__(self, *, per_caller: int = 1000, total: int = 10_000, write_timeout: float = 60.0) -> None:
        self._total = total
        self._per_caller = per_caller
        self._write_timeout = write_timeout
        self._open: set[OpenStream] = set()
        self._owners: Counter[str] = Counter()
        self._farewells: set[asyncio.Future[None]] = set()
        self._reaper: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def count(self) -> int:
        return len(self._open)

    def admit(self, stream: OpenStream) -> None:
        """Give the stream a place until it is released, or refuse it."""
        if stream.owner and self._owners[stream.owner] >= self._per_caller:
            message = f"This caller has {self._per_caller} streams open, which is the most one may have."
            raise A2AError(Reason.OVERLOADED, message, retry_after=1)
        if len(self._open) >= self._total:
            message = f"The server has {self._total} streams open, which is the most it may have."
            raise A2AError(Reason.OVERLOADED, message, retry_after=1)
        self._open.add(stream)
        self._idle.clear()
        self._owners[stream.owner] += 1

    def release(self, stream: OpenStream) -> None:
        """Take the place of a stream that is over."""
        stream.end()
        self._open.discard(stream)
        if not self._open:
            self._idle.set()
        self._owners[stream.owner] -= 1
        if not self._owners[stream.owner]:
            del self._owners[stream.owner]  # owners come and go

    def start(self) -> None:
        self._reaper = asyncio.create_task(self._reap(), name="slow readers")

    async def close(self) -> None:
        """Stop watching; farewells that the peer never took die with the server's calls."""
        for task in (self._reaper, *self._farewells):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])

    async def settle(self, seconds: float) -> None:
        """Give streams that are about to end by themselves the time to do so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    def end_all(self) -> None:
        """Tell every reader that is left to come back elsewhere (DURA-08)."""
        for stream in list(self._open):
            self._say_farewell(stream, A2AError(Reason.UNAVAILABLE, "The server is stopping.", retry_after=1))

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(self._write_timeout / 4)
            line = time.monotonic() - self._write_timeout
            for stream in [stream for stream in self._open if 0 < stream.stuck_since < line]:
                message = f"The reader took nothing for {self._write_timeout:g} seconds; the stream was cut."
                self._say_farewell(stream, A2AError(Reason.SLOW_READER, message, retry_after=1))

    def _say_farewell(self, stream: OpenStream, error: A2AError) -> None:
        if stream.cut is None:
            return
        cut, stream.cut = stream.cut, None
        farewell = asyncio.ensure_future(cut(error))
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)
