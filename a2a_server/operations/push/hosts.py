"""Who may have how many attempts at once, so that a slow or dead host takes none of another's places (spec: PAID-02).

There are three defences. An attempt that lasts steps aside: it goes on, but leaves its place to others. Hosts that have
not answered lately share a part of the places. And one that cannot be reached several times in a row rests, longer and
longer, and then has one attempt until it answers again.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable

from a2a_server.operations.push.delivery import Patience
from a2a_server.ports.push import HostLimits

_ASIDE_AFTER = 1.0
"""Seconds after which an attempt steps aside."""
_ASIDE = 4
"""How many may have stepped aside, as a multiple of the places."""
_STRIKES = 3
"""Attempts in a row that did not reach a host, before it rests."""
_LONGEST_REST = 60.0
_KNOWN = 1024
"""Hosts remembered beyond their attempts, of either kind."""


class Host:
    """One host, while it has attempts or is not well."""

    __slots__ = ("aside", "rests_until", "running", "strikes", "struck_at")

    def __init__(self) -> None:
        self.running = 0
        self.aside = 0
        self.strikes = 0
        self.struck_at = float("-inf")
        self.rests_until = float("-inf")

    def room(self, now: float, most: int) -> int:
        if self.strikes >= _STRIKES:  # one attempt shows whether it is back
            most = 0 if now < self.rests_until or self.aside else 1
        return max(0, most - self.running)


class Hosts:
    """All places. Times are the event loop's."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._hosts: OrderedDict[str, Host] = OrderedDict()
        self._good: OrderedDict[str, None] = OrderedDict()
        """Hosts that have answered; the latest last."""
        self._running = 0
        self._doubtful = 0
        """Of the running ones, those at hosts that have not answered lately."""
        self._aside = 0

    @property
    def free(self) -> int:
        return max(0, self._patience.concurrency - self._running)

    def rooms(self, now: float) -> HostLimits:
        """How many deliveries of each host may be claimed now."""
        per_host = self._patience.per_host
        spare = max(0, self._most_doubtful - self._doubtful)
        known = dict.fromkeys(self._good, per_host) if spare < per_host else {}
        for name, host in self._hosts.items():
            room = host.room(now, per_host)
            known[name] = room if name in self._good else min(room, spare)
        return HostLimits(min(per_host, spare), known)

    @property
    def _most_doubtful(self) -> int:
        return max(1, self._patience.concurrency // 2)

    def enter(self, name: str, on_free: Callable[[], None]) -> Place:
        """Take a place for an attempt; `on_free` is called when it is free again."""
        host = self._hosts.setdefault(name, Host())
        self._hosts.move_to_end(name)
        host.running += 1
        self._running += 1
        doubtful = name not in self._good
        self._doubtful += doubtful
        return Place(self, name, host, on_free, doubtful=doubtful)

    def step_aside(self, place: Place) -> bool:
        host = place.host
        if self._aside >= _ASIDE * self._patience.concurrency or host.aside >= self._patience.per_host:
            return False
        self._leave_place(place)
        host.aside += 1
        self._aside += 1
        return True

    def leave(self, place: Place, *, reached: bool | None) -> None:
        if place.aside:
            place.host.aside -= 1
            self._aside -= 1
        else:
            self._leave_place(place)
        if reached:
            self._praise(place)
        elif reached is not None:
            self._strike(place)
        self._tidy(place)

    def _leave_place(self, place: Place) -> None:
        place.host.running -= 1
        self._running -= 1
        self._doubtful -= place.doubtful

    def _praise(self, place: Place) -> None:
        place.host.strikes = 0
        self._good[place.name] = None
        self._good.move_to_end(place.name)
        if len(self._good) > _KNOWN:
            self._good.popitem(last=False)

    def _strike(self, place: Place) -> None:
        """Attempts that were under way together count once: they tell the same."""
        host, now = place.host, asyncio.get_running_loop().time()
        self._good.pop(place.name, None)
        if place.begun < host.struck_at:
            return
        host.strikes += 1
        host.struck_at = now
        if host.strikes >= _STRIKES:
            longest = self._patience.retry_first * 2.0 ** min(host.strikes - _STRIKES, 30)
            host.rests_until = now + min(longest, _LONGEST_REST) * random.uniform(0.5, 1)  # noqa: S311 - no secret

    def _tidy(self, place: Place) -> None:
        host = place.host
        if not (host.running or host.aside or host.strikes) and self._hosts.get(place.name) is host:
            del self._hosts[place.name]
        while len(self._hosts) > _KNOWN and not (oldest := next(iter(self._hosts.values()))).running + oldest.aside:
            self._hosts.popitem(last=False)


class Place:
    """One attempt's place."""

    __slots__ = ("_hosts", "_on_free", "_timer", "aside", "begun", "doubtful", "host", "name")

    def __init__(self, hosts: Hosts, name: str, host: Host, on_free: Callable[[], None], *, doubtful: bool) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.host = host
        self.begun = loop.time()
        self.doubtful = doubtful
        self.aside = False
        self._hosts = hosts
        self._on_free = on_free
        self._timer = loop.call_later(_ASIDE_AFTER, self._step_aside)

    def _step_aside(self) -> None:
        self.aside = self._hosts.step_aside(self)
        if self.aside:
            self._on_free()

    def leave(self, *, reached: bool | None) -> None:
        """Say whether the host was reached, if the attempt has shown that."""
        self._timer.cancel()
        self._hosts.leave(self, reached=reached)
        self._on_free()
