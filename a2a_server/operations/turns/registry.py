"""The registry of live turns: who has a task, how many turns run at once, and who waits (spec: AGNT-04, DURA-08).

1. Everything that wants something of a running turn asks `LiveTurns`. With several replicas this is the place that will
   know which of them has a task; today every live turn is one of this process.
2. A turn runs when it has one of the `Slots`. Until then it waits for a `Seat`. Owners take turns with the slots that
   get free; the turns of one owner begin in order of arrival.
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

LAST_WORDS = 2.0
"""How long agents that were stopped may take to clean up, in seconds."""

_LAST_STEPS = 0.5
"""How long tasks may take that have nothing to wait for any more."""


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


def owner_of(caller: Caller) -> str:
    """Whose part of the slots a turn takes, whatever tenant the call names. The anonymous owner is everybody."""
    return f"{caller.tenant}\n{caller.owner}" if caller.authenticated else ""


@dataclass(slots=True, eq=False)
class Seat:
    """A turn's place in the queue. It may be left early."""

    arrival: int
    owner: str
    wake: Callable[[], None]
    """Called when the wait is over."""
    left: bool = False
    canceled: bool = False
    """Whether it was given up, and no slot was taken."""


class Slots:
    """Bounds running turns per server and per caller; the rest wait, as many as there is room for (`Shares`)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: dict[str, int] = {}
        self._total = 0
        self._queues: OrderedDict[str, OrderedDict[int, Seat]] = OrderedDict()
        """By owner, whose turn is next first; then by arrival. Whoever leaves is gone at once."""
        self._waiting = Shares(limits.waiting_turns)
        self._arrivals = count()

    @property
    def running(self) -> int:
        return self._total

    @property
    def waiting(self) -> int:
        return self._waiting.taken

    def check(self, caller: Caller) -> None:
        """Refuse new work when the queue is full and the caller has its part of it, before anything has happened."""
        if self._waiting.taken and not self._waiting.room(owner_of(caller)):
            text = f"The server is busy: {self._waiting.taken} tasks are waiting already. Try again later."
            raise A2AError(Reason.OVERLOADED, text, retry_after=1)

    def occupy(self, owner: str) -> bool:
        """Take a slot here and now; False when there is none, or when others of this owner wait for one."""
        limits, running = self._limits, self._running
        mine = running.get(owner, 0)
        if self._total >= limits.running_turns or owner in self._queues:
            return False
        if owner and mine >= limits.running_turns_per_caller:
            return False
        self._total += 1
        running[owner] = mine + 1
        return True

    def wait(self, owner: str, wake: Callable[[], None]) -> Seat:
        """Wait for a slot where there is none to occupy."""
        seat = Seat(next(self._arrivals), owner, wake)
        self._queues.setdefault(owner, OrderedDict())[seat.arrival] = seat
        self._waiting.take(owner)
        return seat

    def leave(self, seat: Seat) -> None:
        """Give up a place in the queue: the task was canceled while it waited."""
        if not seat.left:
            seat.canceled = True
            self._remove(seat)
            seat.wake()

    def release(self, owner: str) -> None:
        """A turn is over; the next that may run begins."""
        self._total -= 1
        if self._running[owner] == 1:
            del self._running[owner]
        else:
            self._running[owner] -= 1
        while self._waiting.taken and (seat := self._next()) is not None:
            self._total += 1
            self._running[seat.owner] = self._running.get(seat.owner, 0) + 1
            seat.wake()

    def _next(self) -> Seat | None:
        """The oldest turn of the owner who has waited longest since the last one."""
        owner = next(filter(self._free, self._queues), None)
        if owner is None:
            return None
        self._queues.move_to_end(owner)
        seat = next(iter(self._queues[owner].values()))
        self._remove(seat)
        return seat

    def _remove(self, seat: Seat) -> None:
        seat.left = True
        self._waiting.leave(seat.owner)
        queue = self._queues[seat.owner]
        del queue[seat.arrival]
        if not queue:
            del self._queues[seat.owner]

    def _free(self, owner: str) -> bool:
        limits = self._limits
        mine = self._running.get(owner, 0) if owner else 0  # the anonymous owner is everybody, not one caller
        return self._total < limits.running_turns and mine < limits.running_turns_per_caller
