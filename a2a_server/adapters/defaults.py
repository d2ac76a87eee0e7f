"""What a server uses when nothing else is configured: one process with the system's clock and no authentication."""

from __future__ import annotations

import time
from collections.abc import Sequence

from a2a_server.ports.authenticator import Caller, CardSecurity, Credentials
from a2a_server.ports.records import Entry
from a2a_server.ports.wakeups import Listener

_PASSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps."""


class SystemClock:
    """Wall time, as the operating system keeps it."""

    def __init__(self) -> None:
        self._boot_ns = time.time_ns() - time.clock_gettime_ns(_PASSED)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return (self._boot_ns + time.clock_gettime_ns(_PASSED)) // 1_000_000


class Anonymous:
    """Every caller is the one anonymous owner: for one user on one machine, or behind something that has checked."""

    required = False
    card = CardSecurity()
    _caller = Caller()

    async def authenticate(self, credentials: Credentials) -> Caller:
        return self._caller


class LocalWakeups:
    """Wake-ups within one process: listeners are called right away, and given the entries that were committed."""

    address = ""

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[Listener, ...]] = {}

    def tell(self, task_id: str, number: int, entries: Sequence[Entry]) -> None:
        for listener in self._listeners.get(task_id, ()):
            listener.woken(number, entries)

    def listen(self, task_id: str, listener: Listener) -> None:
        self._listeners[task_id] = (*self._listeners.get(task_id, ()), listener)

    def ask_others(self, task_id: str, listener: Listener) -> None:
        """There are none."""

    def forget(self, task_id: str, listener: Listener) -> None:
        left = tuple(other for other in self._listeners.get(task_id, ()) if other is not listener)
        if left:
            self._listeners[task_id] = left
        else:
            self._listeners.pop(task_id, None)
