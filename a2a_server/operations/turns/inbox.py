"""The messages of one task that wait, for a turn of their own or for the running one to take them (spec: SEND-13)."""

from __future__ import annotations

import asyncio
from collections import deque

from a2a_server.operations.turns.job import Job


class Inbox(deque[Job]):
    """First in, first out; any number of listeners may wait for the next arrival."""

    _arrived: asyncio.Event | None = None

    def put(self, job: Job) -> None:
        self.append(job)
        self.wake()

    def take(self) -> Job:
        return self.popleft()

    def wake(self) -> None:
        """Let all listeners look again."""
        if self._arrived is not None:
            self._arrived.set()

    async def arrival(self) -> None:
        """Wait until there is a reason to look again."""
        if self._arrived is None:  # few turns ever listen
            self._arrived = asyncio.Event()
        self._arrived.clear()
        await self._arrived.wait()
