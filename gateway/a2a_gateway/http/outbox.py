"""Answers that are ready at about the same time leave together (design 5).

Each write wakes whoever reads the other end, if they sleep, and that costs the writer more than an answer's JSON does.
Written one after another, with nothing in between, most find their reader awake.
"""

from __future__ import annotations

import asyncio

import structlog

log = structlog.get_logger(__name__)

_MOST = 8
"""Answers that wait for each other: a reader that sleeps is to have something to do meanwhile."""


class Outbox:
    """One per server. What is put in leaves before the event loop waits for anything."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.round = 0
        """How often it was emptied."""
        self._call_soon = loop.call_soon
        self._waiting: list[tuple[asyncio.WriteTransport, bytes]] = []

    def put(self, transport: asyncio.WriteTransport, text: bytes) -> int:
        """The answer leaves when `round` is greater than the number that is returned."""
        waiting = self._waiting
        if not waiting:
            self._call_soon(self.empty)
        waiting.append((transport, text))
        if len(waiting) < _MOST:
            return self.round
        self.empty()
        return -1

    def empty(self) -> None:
        """Write everything to those who are still there."""
        self.round += 1
        waiting, self._waiting = self._waiting, []
        for transport, text in waiting:
            if transport.is_closing():
                continue
            try:
                transport.write(text)
            except Exception:  # what is wrong with one connection must not keep others from their answers
                log.exception("http.unwritten")
