"""The registry of live turns, which knows who has a task (spec: DURA-08).

Everything that wants something of a running turn asks here. With several replicas this is the place that will know
which of them has a task; today every live turn is one of this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from a2a_server.operations.limits import Limits
from a2a_server.operations.log.readers import EventLog
from a2a_server.protocol.errors import A2AError, Reason

if TYPE_CHECKING:
    from a2a_server.operations.turns.live_task import LiveTask

LAST_WORDS = 3.0
"""How long agents that were stopped may take to clean up, in seconds."""

_LAST_STEPS = 0.5
"""How long tasks may take that have nothing to wait for any more."""


class TurnTask(asyncio.Task[None]):
    """The asyncio task of a live turn. It remembers a cancel even if that was taken back."""

    signaled = False

    def cancel(self, msg: object = None) -> bool:
        self.signaled = True
        return super().cancel(msg)


class LiveTurns:
    """The tasks with live turns, by their ids."""

    def __init__(self, limits: Limits, log: EventLog) -> None:
        self._limits = limits
        self._log = log
        self._tasks: dict[str, LiveTask] = {}
        self.draining = False
        """Whether no new turns may begin, because the server stops."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[LiveTask]:
        return iter(tuple(self._tasks.values()))

    def find(self, task_id: str) -> LiveTask | None:
        """The live task, if there is one; its turns may have ended by the time you do something."""
        live = self._tasks.get(task_id)
        return None if live is None or live.over else live

    def start(self, live: LiveTask, *, confirm: bool = False) -> None:
        """Register the task and start its turns; with `confirm` the first commit comes first."""
        self._tasks[live.task_id] = live
        live.launch(self._ended, confirm=confirm)

    def _ended(self, live: LiveTask) -> None:
        if self._tasks.get(live.task_id) is live:
            del self._tasks[live.task_id]

    async def drain(self) -> None:
        """Let running turns finish for a while, then hand them over or record that they were stopped (DURA-08)."""
        self.draining = True
        await self._all_ended(self._limits.drain_grace)
        for live in self:
            live.shut_down()
        await self._all_ended(LAST_WORDS)
        for live in self:
            live.writer.close(shutting_down())  # the store is away, or the agent does not stop
        await self._all_ended(_LAST_STEPS)
        self._log.close(shutting_down())

    async def _all_ended(self, within: float) -> None:
        await asyncio.gather(*(live.ended(within) for live in self))


def shutting_down() -> A2AError:
    """What clients hear while the server stops."""
    return A2AError(Reason.UNAVAILABLE, "The server is shutting down. Try again in a moment.", retry_after=1)
