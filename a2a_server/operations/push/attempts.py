"""Attempts that are under way, and what has become of those before (spec: PUSH-09, PAID-03)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from a2a_server.operations.push.hosts import Place
from a2a_server.ports.push import Delivery


@dataclass(slots=True)
class Counters:
    """What has become of attempts since the start; for telemetry to read."""

    delivered: int = 0
    failed: int = 0
    parked: int = 0
    under_way: int = 0


class Attempt:
    """One delivery on its way."""

    __slots__ = ("before", "delivery", "place", "reached", "task")

    def __init__(self, delivery: Delivery, place: Place, before: Attempt | None) -> None:
        self.delivery = delivery
        self.place = place
        self.before = before
        """One for the same config, which was replaced meanwhile: its claim is void, its receiver perhaps another."""
        self.reached: bool | None = None
        """Whether the host was; None until that is known."""
        self.task: asyncio.Task[None] | None = None

    async def cancel(self) -> None:
        """Returns when nothing of it is under way any more."""
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])
