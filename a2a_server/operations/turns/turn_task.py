"""The asyncio task of a live turn. It has a file of its own because mypyc cannot compile subclasses of C's classes."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class TurnTask(asyncio.Task[None]):
    """A task that remembers a cancel even after `uncancel`."""

    signaled = False

    def cancel(self, msg: object = None) -> bool:
        self.signaled = True
        return super().cancel(msg)

    async def forget_signals(self) -> None:
        """Absorb a pending cancel that the agent has caused, so that it does not interrupt the commit.

        Before Python 3.13 a cancel may still arrive after `uncancel`.
        """
        while self.cancelling():
            self.uncancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        self.signaled = False
