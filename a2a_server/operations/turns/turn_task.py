"""The asyncio task of a live turn. It has a file of its own because mypyc cannot compile subclasses of C's classes."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class TurnTask(asyncio.Task[None]):
    """Remembers a cancel even if that was taken back."""

    signaled = False

    def cancel(self, msg: object = None) -> bool:
        self.signaled = True
        return super().cancel(msg)

    async def forget_signals(self) -> None:
        """Absorb a cancel that the agent has left to whatever this task does next, which is the commit.

        Until Python 3.13 even one that was taken back by `uncancel` may still be on its way.
        """
        while self.cancelling():
            self.uncancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        self.signaled = False
