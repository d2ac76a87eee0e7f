"""The clock: wall time in whole milliseconds, the precision that every binding can carry (spec: JSON-08, STAT-04)."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Where status timestamps and windows take their time from. One that is never set is steady."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    def steady_ms(self) -> int:
        """As `now_ms` at the start; from then on as time passes, however the clock is set. For windows and waits."""
        return self.now_ms()
