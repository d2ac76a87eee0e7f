"""The registry of live turns: finds a task's live turn, and limits how many turns run at once (spec: AGNT-04, DURA-08).

1. `LiveTurns` finds the live task of a task id. All live turns are in this process.
2. A turn runs when it has one of the `Slots`. Until then it waits as a `QueuedTurn`. Owners get free slots in turn; the
   turns of one owner begin in order of arrival.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from a2a_server.domain.scope import Shares
from a2a_server.operations.limits import Limits
from a2a_server.operations.log.readers import EventLog
from a2a_server.ports.authenticator import Caller
from a2a_server.protocol.errors import A2AError, Reason

if TYPE_CHECKING:
    from a2a_server.operations.turns.live_task import LiveTask

STOP_SECONDS = 2.0
"""How many seconds agents may take to clean up after they were stopped."""

_FINISH_SECONDS = 0.5
"""How many seconds tasks may take to end after their writer was closed."""


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
        """Return the live task, if there is one. Its turns may end at any time."""
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
        """Let running turns finish for a while, then stop them; restartable ones run in the next process (DURA-08)."""
        self.draining = True
        await self._all_ended(self._limits.drain_grace)
        for live in self:
            live.shut_down()
        await self._all_ended(STOP_SECONDS)
        for live in self:
            live.writer.close(shutting_down())  # the store is away, or the agent does not stop
        await self._all_ended(_FINISH_SECONDS)
        self._log.close(shutting_down())

    async def _all_ended(self, within: float) -> None:
        await asyncio.gather(*(live.ended(within) for live in self))


def shutting_down() -> A2AError:
    """Return the error for clients while the server stops."""
    return A2AError(Reason.UNAVAILABLE, "The server is shutting down. Try again in a moment.", retry_after=1)


def owner_of(caller: Caller) -> str:
    """Return the owner whose slots a turn uses. All anonymous callers are one owner, which has no limit of its own."""
    return f"{caller.tenant}\n{caller.owner}" if caller.authenticated else ""


@dataclass(slots=True, eq=False)
class QueuedTurn:
    """A turn that waits for a slot."""

    arrival: int
    owner: str
    wake: Callable[[], None]
    """Called when the wait is over."""
    left: bool = False
    canceled: bool = False
    """Whether it has left the queue without a slot."""


class Slots:
    """Limits the running turns, in total and per caller. Others wait in a queue, which owners share (`Shares`)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: dict[str, int] = {}
        self._total = 0
        self._queues: OrderedDict[str, OrderedDict[int, QueuedTurn]] = OrderedDict()
        """The waiting turns of each owner, by arrival. The owner that is next comes first."""
        self._waiting = Shares(limits.waiting_turns)
        self._arrivals = count()

    @property
    def running(self) -> int:
        return self._total

    @property
    def waiting(self) -> int:
        return self._waiting.taken

    def check(self, caller: Caller) -> None:
        """Refuse new work if the queue is full and the caller has its share of it. This comes before any effect."""
        if self._waiting.taken and not self._waiting.room(owner_of(caller)):
            text = f"The server is busy: {self._waiting.taken} tasks are waiting already. Try again later."
            raise A2AError(Reason.OVERLOADED, text, retry_after=1)

    def occupy(self, owner: str) -> bool:
        """Take a slot at once; False if none is free, or if other turns of this owner wait for one."""
        limits, running = self._limits, self._running
        mine = running.get(owner, 0)
        if self._total >= limits.running_turns or owner in self._queues:
            return False
        if owner and mine >= limits.running_turns_per_caller:
            return False
        self._total += 1
        running[owner] = mine + 1
        return True

    def wait(self, owner: str, wake: Callable[[], None]) -> QueuedTurn:
        """Enter the queue; `wake` is called when the turn gets a slot."""
        queued = QueuedTurn(next(self._arrivals), owner, wake)
        self._queues.setdefault(owner, OrderedDict())[queued.arrival] = queued
        self._waiting.take(owner)
        return queued

    def leave(self, queued: QueuedTurn) -> None:
        """Leave the queue, because the task was canceled while it waited."""
        if not queued.left:
            queued.canceled = True
            self._remove(queued)
            queued.wake()

    def release(self, owner: str) -> None:
        """Free the slot of a turn that has ended, and start the next turn."""
        self._total -= 1
        if self._running[owner] == 1:
            del self._running[owner]
        else:
            self._running[owner] -= 1
        while self._waiting.taken and (queued := self._next()) is not None:
            self._total += 1
            self._running[queued.owner] = self._running.get(queued.owner, 0) + 1
            queued.wake()

    def _next(self) -> QueuedTurn | None:
        """Return the oldest turn of the owner that has waited longest since its last turn."""
        owner = next(filter(self._free, self._queues), None)
        if owner is None:
            return None
        self._queues.move_to_end(owner)
        queued = next(iter(self._queues[owner].values()))
        self._remove(queued)
        return queued

    def _remove(self, queued: QueuedTurn) -> None:
        queued.left = True
        self._waiting.leave(queued.owner)
        queue = self._queues[queued.owner]
        del queue[queued.arrival]
        if not queue:
            del self._queues[queued.owner]

    def _free(self, owner: str) -> bool:
        limits = self._limits
        mine = self._running.get(owner, 0) if owner else 0  # anonymous callers are many
        return self._total < limits.running_turns and mine < limits.running_turns_per_caller
