"""Cancellations that an agent leaves to whatever its asyncio task does next (spec: CANX-01)."""

from __future__ import annotations

import asyncio
from contextlib import suppress


def is_signaled(task: asyncio.Task[None]) -> bool:
    """Whether one is left, the agent's own or ours."""
    return task.cancelling() > 0 or bool(getattr(task, "_must_cancel", False))


async def forget_signals(task: asyncio.Task[None]) -> None:
    """Until Python 3.13 `uncancel` leaves a signal that is on its way, and the next to wait is the commit."""
    while task.cancelling():
        task.uncancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
