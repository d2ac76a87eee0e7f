"""What a server uses when nothing else is configured: the system's clock, and no authentication."""

from __future__ import annotations

import time

from a2a_server.ports.authenticator import Caller, CardSecurity, Credentials


class SystemClock:
    """Wall time, as the operating system keeps it."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Anonymous:
    """Every caller is the one anonymous owner: for one user on one machine, or behind something that has checked."""

    required = False
    card = CardSecurity()
    _caller = Caller()

    async def authenticate(self, credentials: Credentials) -> Caller:
        return self._caller
