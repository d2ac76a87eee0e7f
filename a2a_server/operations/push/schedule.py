"""When attempts are made: how many at once for each host, and how soon after a failure (spec: PAID-02, DELV-03).

Three rules keep a slow or dead host from holding up the others.

1. An attempt that takes long gives its slot back and goes on without one.
2. Hosts that have not answered lately share half of the slots.
3. A host that could not be reached several times in a row is left alone for a while, longer each time. Then it gets one
   attempt at a time until it answers again.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable

from a2a_server.operations.push.push_options import Patience
from a2a_server.ports.push import Delivery, FailedAttempt, HostLimits, Outcome

_SLOW_AFTER = 1.0
"""Seconds after which an attempt gives its slot back."""
_SLOW = 4
"""How many attempts may go on without a slot, as a multiple of the slots."""
_MISSES = 3
"""How many attempts in a row must miss a host before it is left alone."""
_LONGEST_REST = 60.0
_KNOWN = 1024
"""How many hosts are remembered without attempts, answering or not."""
_MOST_DOUBLINGS = 62
_UNREACHABLE = frozenset({"timeout", "connection", "certificate", "TLS", "unknown host", "no HTTP", "too slow"})


class HostState:
    """One host, while it has attempts or could not be reached."""

    __slots__ = ("missed_at", "misses", "rests_until", "running", "slow")

    def __init__(self) -> None:
        self.running = 0
        self.slow = 0
        self.misses = 0
        self.missed_at = float("-inf")
        self.rests_until = float("-inf")

    def limit(self, now: float, most: int) -> int:
        if self.misses >= _MISSES:  # one attempt shows whether it is back
            most = 0 if now < self.rests_until or self.slow else 1
        return max(0, most - self.running)


class AttemptSlots:
    """All slots for attempts. Times are the event loop's."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._hosts: OrderedDict[str, HostState] = OrderedDict()
        self._proven: OrderedDict[str, None] = OrderedDict()
        """Hosts that have answered; the latest last."""
        self._running = 0
        self._unproven = 0
        """How many of the running attempts are for hosts that have not answered lately."""
        self._slow = 0

    @property
    def free(self) -> int:
        return max(0, self._patience.concurrency - self._running)

    def limits(self, now: float) -> HostLimits:
        """How many deliveries of each host may be claimed now."""
        per_host = self._patience.per_host
        spare = max(0, self._most_unproven - self._unproven)
        known = dict.fromkeys(self._proven, per_host) if spare < per_host else {}
        for name, host in self._hosts.items():
            limit = host.limit(now, per_host)
            known[name] = limit if name in self._proven else min(limit, spare)
        return HostLimits(min(per_host, spare), known)

    @property
    def _most_unproven(self) -> int:
        return max(1, self._patience.concurrency // 2)

    def enter(self, name: str, on_free: Callable[[], None]) -> AttemptSlot:
        """Take a slot for an attempt. `on_free` is called when the slot is free again."""
        host = self._hosts.setdefault(name, HostState())
        self._hosts.move_to_end(name)
        host.running += 1
        self._running += 1
        unproven = name not in self._proven
        self._unproven += unproven
        return AttemptSlot(self, name, host, on_free, unproven=unproven)

    def give_back(self, slot: AttemptSlot) -> bool:
        """Free the slot of an attempt that takes long, unless there are too many of those."""
        host = slot.host
        if self._slow >= _SLOW * self._patience.concurrency or host.slow >= self._patience.per_host:
            return False
        self._free(slot)
        host.slow += 1
        self._slow += 1
        return True

    def leave(self, slot: AttemptSlot, *, reached: bool | None) -> None:
        if slot.slow:
            slot.host.slow -= 1
            self._slow -= 1
        else:
            self._free(slot)
        if reached:
            self._record_answer(slot)
        elif reached is not None:
            self._record_miss(slot)
        self._tidy(slot)

    def _free(self, slot: AttemptSlot) -> None:
        slot.host.running -= 1
        self._running -= 1
        self._unproven -= slot.unproven

    def _record_answer(self, slot: AttemptSlot) -> None:
        slot.host.misses = 0
        self._proven[slot.name] = None
        self._proven.move_to_end(slot.name)
        if len(self._proven) > _KNOWN:
            self._proven.popitem(last=False)

    def _record_miss(self, slot: AttemptSlot) -> None:
        """Attempts that ran at the same time count as one miss."""
        host, now = slot.host, asyncio.get_running_loop().time()
        self._proven.pop(slot.name, None)
        if slot.begun < host.missed_at:
            return
        host.misses += 1
        host.missed_at = now
        if host.misses >= _MISSES:
            longest = self._patience.retry_first * 2.0 ** min(host.misses - _MISSES, 30)
            host.rests_until = now + min(longest, _LONGEST_REST) * random.uniform(0.5, 1)  # noqa: S311 - no secret

    def _tidy(self, slot: AttemptSlot) -> None:
        host = slot.host
        if not (host.running or host.slow or host.misses) and self._hosts.get(slot.name) is host:
            del self._hosts[slot.name]
        while len(self._hosts) > _KNOWN and not (oldest := next(iter(self._hosts.values()))).running + oldest.slow:
            self._hosts.popitem(last=False)


class AttemptSlot:
    """The slot of one attempt."""

    __slots__ = ("_on_free", "_slots", "_timer", "begun", "host", "name", "slow", "unproven")

    def __init__(
        self, slots: AttemptSlots, name: str, host: HostState, on_free: Callable[[], None], *, unproven: bool
    ) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.host = host
        self.begun = loop.time()
        self.unproven = unproven
        self.slow = False
        self._slots = slots
        self._on_free = on_free
        self._timer = loop.call_later(_SLOW_AFTER, self._give_back)

    def _give_back(self) -> None:
        self.slow = self._slots.give_back(self)
        if self.slow:
            self._on_free()

    def leave(self, *, reached: bool | None) -> None:
        """Say whether the host was reached, if the attempt has shown that."""
        self._timer.cancel()
        self._slots.leave(self, reached=reached)
        self._on_free()


def reached(outcome: Outcome) -> bool | None:
    """Whether the host has answered; None when nobody asked it."""
    if outcome.delivered or outcome.why.startswith("status "):
        return True
    return False if outcome.why in _UNREACHABLE else None


def failure_of(delivery: Delivery, outcome: Outcome, now_ms: int, patience: Patience) -> FailedAttempt:
    """When to try again. Parks the config after enough attempts, or when no further one would help."""
    failing_ms = now_ms if delivery.failing_ms is None else delivery.failing_ms
    tries, age = delivery.attempts + 1, (now_ms - failing_ms) / 1000
    if outcome.final or tries >= patience.give_up_after or age >= patience.give_up_age:
        return FailedAttempt(now_ms, None, outcome.why)
    return FailedAttempt(now_ms, now_ms + int(1000 * _wait(delivery.attempts, outcome, patience)), outcome.why)


def _wait(failures: int, outcome: Outcome, patience: Patience) -> float:
    """A random wait below a bound that grows exponentially, so that deliveries do not all come back together.

    A receiver that asks for a longer wait gets it. A shorter one is ignored.
    """
    bound = min(patience.retry_most, patience.retry_first * 2.0 ** min(failures, _MOST_DOUBLINGS))
    wait = random.uniform(0, bound)  # noqa: S311 - no secret
    if outcome.retry_after is not None:
        wait = max(wait, min(outcome.retry_after, patience.retry_most))
    return wait
