"""How many turns run at once, and in which order the others wait (spec: AGNT-04, LIMT-02)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from itertools import count

from a2a_server.operations.limits import Limits
from a2a_server.protocol.errors import A2AError, Reason

Begin = Callable[[], None]


class Place:
    """A turn's place in the queue; leaving it early is allowed."""

    __slots__ = ("arrival", "begin", "canceled", "left", "owner")

    def __init__(self, arrival: int, owner: str, begin: Begin) -> None:
        self.arrival = arrival
        self.owner = owner
        self.begin = begin
        self.left = False
        self.canceled = False


class Seat:
    """One turn's wait for a slot."""

    __slots__ = ("_granted", "_owner", "_place", "_slots")

    def __init__(self, slots: Slots, owner: str) -> None:
        self._slots = slots
        self._owner = owner
        self._place: Place | None = None
        self._granted: asyncio.Future[None] | None = None

    async def take(self) -> bool:
        """Wait in order of arrival; False when the seat was given up meanwhile, and no slot was taken."""
        self._place = self._slots.enter(self._owner, self._grant)
        if self._place is None:
            return True
        self._granted = asyncio.get_running_loop().create_future()
        await self._granted
        taken = not self._place.canceled
        self._place = None
        return taken

    def _grant(self) -> None:
        if self._granted is not None and not self._granted.done():
            self._granted.set_result(None)

    def give_up(self) -> None:
        """Leave the queue, if still in it: the turn will not need its slot."""
        if self._place is not None:
            self._slots.leave(self._place)
            self._grant()


class Slots:
    """Bounds running turns per server and per caller; the rest wait in order of arrival, and then are refused."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: dict[str, int] = {}
        self._total = 0
        self._queues: dict[str, OrderedDict[int, Place]] = {}
        """By owner, then by arrival; whoever leaves is gone at once, however long those before it stay."""
        self._waiting = 0
        self._arrivals = count()

    @property
    def running(self) -> int:
        return self._total

    @property
    def waiting(self) -> int:
        return self._waiting

    def check(self) -> None:
        """Refuse new work when the queue is full, before anything has happened."""
        if self._waiting >= self._limits.waiting_turns:
            text = f"The server is busy: {self._waiting} tasks are waiting already. Try again later."
            raise A2AError(Reason.OVERLOADED, text, retry_after=1)

    def enter(self, owner: str, begin: Begin) -> Place | None:
        """Call `begin` now and return None, or as soon as there is a slot."""
        if self.occupy(owner):
            begin()
            return None
        place = Place(next(self._arrivals), owner, begin)
        self._queues.setdefault(owner, OrderedDict())[place.arrival] = place
        self._waiting += 1
        return place

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

    def leave(self, place: Place) -> None:
        """Give up a place in the queue: the task was canceled while it waited."""
        if not place.left:
            place.canceled = True
            self._remove(place)

    def release(self, owner: str) -> None:
        """A turn is over; whoever waits longest and may run begins."""
        self._total -= 1
        if self._running[owner] == 1:
            del self._running[owner]
        else:
            self._running[owner] -= 1
        while self._waiting and (place := self._next()) is not None:
            self._total += 1
            self._running[place.owner] = self._running.get(place.owner, 0) + 1
            place.begin()

    def _next(self) -> Place | None:
        heads = [next(iter(queue.values())) for owner, queue in self._queues.items() if self._free(owner)]
        if not heads:
            return None
        place = min(heads, key=lambda head: head.arrival)
        self._remove(place)
        return place

    def _remove(self, place: Place) -> None:
        place.left = True
        self._waiting -= 1
        queue = self._queues[place.owner]
        del queue[place.arrival]
        if not queue:
            del self._queues[place.owner]

    def _free(self, owner: str) -> bool:
        limits = self._limits
        mine = self._running.get(owner, 0) if owner else 0  # the anonymous owner is everybody, not one caller
        return self._total < limits.running_turns and mine < limits.running_turns_per_caller
