"""Decides when attempts are made: how many at once, and when again after a failure (spec: PAID-02, DELV-03).

Four rules keep a slow or dead host from delaying deliveries to others. A destination is one owner's deliveries to one
host.

1. Owners share the slots, in total and for each host (`Shares`).
2. An attempt that takes long gives its slot back and goes on without one.
3. Destinations whose hosts have not answered lately share half of the slots.
4. If a host could not be reached several times in a row, its destination is paused, longer each time. After the pause
   it gets one attempt at a time until the host answers again.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from a2a_server.domain.scope import Shares
from a2a_server.operations.push.push_options import Patience
from a2a_server.ports.push import Delivery, FailedAttempt, Outcome

_SLOW_AFTER = 1.0
"""Seconds after which an attempt gives its slot back."""
_SLOW = 4
"""How many attempts may go on without a slot, as a multiple of the slots."""
_MOST_REJECTIONS = 3
"""After how many rejections a webhook is skipped (CONF-81)."""
_MISSES = 3
"""After how many attempts in a row that do not reach the host its destination is paused."""
_LONGEST_BREAK = 60.0
_KNOWN = 1024
"""How many lanes are remembered without attempts, answering or not."""
_MOST_DOUBLINGS = 62
_UNREACHABLE = frozenset({"timeout", "connection", "certificate", "TLS", "unknown host", "no HTTP", "too slow"})


@dataclass(slots=True, eq=False)
class Destination:
    """One owner's deliveries to one host, while there are attempts or the host could not be reached."""

    owner: str
    host: str
    running: int = 0
    slow: int = 0
    misses: int = 0
    missed_at: float = float("-inf")
    paused_until: float = float("-inf")

    def limit(self, most: int) -> int:
        if self.misses < _MISSES:
            return most
        rests = asyncio.get_running_loop().time() < self.paused_until
        return 0 if rests or self.slow or self.running else 1  # one attempt shows whether it is back


class AttemptSlots:
    """All slots for attempts. As `ClaimLimits` they say how many deliveries may be claimed."""

    def __init__(self, patience: Patience, on_free: Callable[[], None]) -> None:
        """`on_free` is called when the slot of an attempt is free again."""
        self._patience = patience
        self._on_free = on_free
        self._destinations: OrderedDict[tuple[str, str], Destination] = OrderedDict()
        self._answering: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Lanes whose hosts have answered; the latest last."""
        self._running = Shares(patience.concurrency)
        self._not_answering = Shares(max(1, patience.concurrency // 2))
        """The running attempts for hosts that have not answered lately."""
        self._slow = Shares(_SLOW * patience.concurrency)
        self._hosts: dict[str, Shares] = {}
        self._claimed: deque[AttemptSlot] = deque()

    def room(self, owner: str, host: str = "") -> int:
        room = self._running.room(owner)
        if not (room and host):
            return room
        here = self._hosts.get(host)
        room = min(room, here.room(owner) if here else self._patience.per_host)
        if (owner, host) not in self._answering:
            room = min(room, self._not_answering.room(owner))
        destination = self._destinations.get((owner, host))
        return destination.limit(room) if destination else room

    def take(self, owner: str, host: str) -> None:
        self._claimed.append(self._occupy(owner, host))

    def end_claim(self) -> None:
        """Free what was claimed and not entered."""
        while self._claimed:
            self._free(self._claimed.popleft())

    def enter(self, owner: str, host: str) -> AttemptSlot:
        """Take the slot of an attempt, which may be claimed."""
        loop, claimed = asyncio.get_running_loop(), self._claimed
        while claimed and claimed[0].destination != self._destinations.get((owner, host)):
            self._free(claimed.popleft())
        slot = claimed.popleft() if claimed else self._occupy(owner, host)
        slot.begun = loop.time()
        slot.timer = loop.call_later(_SLOW_AFTER, self._give_back, slot)
        return slot

    def _occupy(self, owner: str, host: str) -> AttemptSlot:
        key = owner, host
        slot = AttemptSlot(
            self._destinations.setdefault(key, Destination(owner, host)), not_answering=key not in self._answering
        )
        self._destinations.move_to_end(key)
        slot.destination.running += 1
        self._hosts.setdefault(host, Shares(self._patience.per_host)).take(owner)
        self._running.take(owner)
        if slot.not_answering:
            self._not_answering.take(owner)
        return slot

    def _give_back(self, slot: AttemptSlot) -> None:
        """Free the slot of an attempt that takes long, unless there are too many of those."""
        if slot.destination.slow >= self._patience.per_host or not self._slow.room(slot.destination.owner):
            return
        self._free(slot)
        slot.slow = True
        slot.destination.slow += 1
        self._slow.take(slot.destination.owner)
        self._on_free()

    def leave(self, slot: AttemptSlot, *, reached: bool | None) -> None:
        """End an attempt. Say whether its host was reached, if the attempt has shown that."""
        slot.timer.cancel()
        if slot.slow:
            slot.destination.slow -= 1
            self._slow.leave(slot.destination.owner)
        else:
            self._free(slot)
        if reached:
            self._record_answer(slot.destination)
        elif reached is not None:
            self._record_miss(slot)
        self._tidy(slot.destination)
        self._on_free()

    def _free(self, slot: AttemptSlot) -> None:
        owner, host = slot.destination.owner, slot.destination.host
        slot.destination.running -= 1
        self._hosts[host].leave(owner)
        if not self._hosts[host].taken:
            del self._hosts[host]
        self._running.leave(owner)
        if slot.not_answering:
            self._not_answering.leave(owner)

    def _record_answer(self, destination: Destination) -> None:
        destination.misses = 0
        self._answering[destination.owner, destination.host] = None
        self._answering.move_to_end((destination.owner, destination.host))
        if len(self._answering) > _KNOWN:
            self._answering.popitem(last=False)

    def _record_miss(self, slot: AttemptSlot) -> None:
        """Attempts that ran at the same time count as one miss."""
        destination, now = slot.destination, asyncio.get_running_loop().time()
        self._answering.pop((destination.owner, destination.host), None)
        if slot.begun < destination.missed_at:
            return
        destination.misses += 1
        destination.missed_at = now
        if destination.misses >= _MISSES:
            longest = self._patience.retry_first * 2.0 ** min(destination.misses - _MISSES, 30)
            destination.paused_until = now + min(longest, _LONGEST_BREAK) * random.uniform(0.5, 1)  # noqa: S311 - no secret

    def _tidy(self, destination: Destination) -> None:
        key = destination.owner, destination.host
        is_idle = not (destination.running or destination.slow or destination.misses)
        if is_idle and self._destinations.get(key) is destination:
            del self._destinations[key]
        while len(self._destinations) > _KNOWN:
            oldest = next(iter(self._destinations.values()))
            if oldest.running or oldest.slow:
                break
            self._destinations.popitem(last=False)


@dataclass(slots=True, eq=False)
class AttemptSlot:
    destination: Destination
    not_answering: bool
    slow: bool = False
    """Whether the attempt goes on without its slot."""
    begun: float = field(init=False)
    timer: asyncio.TimerHandle = field(init=False)


def reached(outcome: Outcome) -> bool | None:
    """Whether the host has answered; None when nobody asked it."""
    if outcome.delivered or outcome.why.startswith("status "):
        return True
    return False if outcome.why in _UNREACHABLE else None


def failure_of(delivery: Delivery, outcome: Outcome, now_ms: int, patience: Patience) -> FailedAttempt:
    """When to try again. Parks the config after enough attempts, or when no further one would help.

    A rejection never parks: the receiver is there, and may take the next webhook.
    """
    again_ms = now_ms + int(1000 * _wait(delivery.attempts, outcome, patience))
    if outcome.rejected:
        skips = delivery.rejections + 1 >= _MOST_REJECTIONS
        return FailedAttempt(now_ms, None if skips else again_ms, outcome.why, rejected=True)
    failing_ms = now_ms if delivery.failing_ms is None else delivery.failing_ms
    tries, age = delivery.attempts + 1, (now_ms - failing_ms) / 1000
    if outcome.final or tries >= patience.give_up_after or age >= patience.give_up_age:
        return FailedAttempt(now_ms, None, outcome.why)
    return FailedAttempt(now_ms, again_ms, outcome.why)


def _wait(failures: int, outcome: Outcome, patience: Patience) -> float:
    """A random wait below a bound that grows exponentially, so that deliveries do not all come back together.

    A receiver that asks for a longer wait gets it. A shorter one is ignored.
    """
    bound = min(patience.retry_most, patience.retry_first * 2.0 ** min(failures, _MOST_DOUBLINGS))
    wait = random.uniform(0, bound)  # noqa: S311 - no secret
    if outcome.retry_after is not None:
        wait = max(wait, min(outcome.retry_after, patience.retry_most))
    return wait
