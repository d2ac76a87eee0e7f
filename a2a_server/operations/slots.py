"""How many turns run at once, and in which order the others wait (spec: AGNT-04, LIMT-02)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import count

from a2a_server.errors import A2AError, Reason
from a2a_server.operations.limits import Limits

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
        if owner not in self._queues and self._free(owner):
            self._occupy(owner)
            begin()
            return None
        place = Place(next(self._arrivals), owner, begin)
        self._queues.setdefault(owner, OrderedDict())[place.arrival] = place
        self._waiting += 1
        return place

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
        while (place := self._next()) is not None:
            self._occupy(place.owner)
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

    def _occupy(self, owner: str) -> None:
        self._total += 1
        self._running[owner] = self._running.get(owner, 0) + 1
