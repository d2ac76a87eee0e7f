"""Reads large requests in steps, so that none of them blocks the event loop for long (spec: LIMT-01, DOOR-04)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


class LargeRequests:
    """Reads one large request after another, so that many of them delay other calls no more than one does."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()

    async def read(self, steps: Generator[None, None, T]) -> T:
        """Run the steps. Other tasks run before each step and after the last one."""
        async with self._one:
            while True:
                await asyncio.sleep(0)
                try:
                    next(steps)
                except StopIteration as end:
                    found: T = end.value
                    break
        await asyncio.sleep(0)
        return found
