"""The clock of this machine."""

from __future__ import annotations

import time


class SystemClock:
    """Wall time, as the operating system keeps it."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
