"""The clock: wall time in whole milliseconds, the precision that every binding can carry (spec: JSON-08, STAT-04)."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Where status timestamps, leases and windows take their time from."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...
