"""What a benchmark has found out, as rows of a table: samples of two sides, their ratio, and what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from tests.bench.load import Load

SDK, GO = "Against a2a-sdk", "Against grpc-gateway in Go"
WORKERS = "With two workers"
NETWORK, BARE = "Through a gateway of its own", "Against writing prebuilt bytes"
STORE = "On PostgreSQL, against a loop that only appends"
NOTIFIED = "With wake-ups for other servers"
OLDER, TRUST, GROWTH, ALONE = "For clients of 0.3", "With callers, limits and logs", "Under growth", "Alone"

_DEARER = {BARE, OLDER, TRUST, GROWTH}


@dataclass(frozen=True, slots=True)
class Target:
    """What the ratio should be; in `ALONE` what the value should be."""

    bound: Literal["≥", "≤"]
    value: float

    def met(self, value: float) -> bool:
        return value >= self.value if self.bound == "≥" else value <= self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One metric. `ours` and `other` hold a sample per round.

    The ratio says how many times better we are than another server, or how many times dearer something is than
    something simpler or smaller.
    """

    section: str
    bench: str
    metric: str
    ours: Sequence[float]
    other: Sequence[float] = ()
    higher_is_better: bool = False
    target: Target | None = None

    def ratios(self) -> Sequence[float]:
        """One per round, because what disturbs a round disturbs both sides of it."""
        pairs = list(zip(self.ours, self.other, strict=True)) if self.other else []
        if self.section in _DEARER or self.higher_is_better:
            return [ours / other for ours, other in pairs]
        return [other / ours for ours, other in pairs]

    def verdict(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.target.met(median(self.ratios() or self.ours))


def against(bench: str, ours: Sequence[Load], sdk: Sequence[Load], target: float | None = None) -> Iterator[Row]:
    """Calls per second as clients see them, and what they cost the server."""
    yield rate(bench, "calls/s", lambda load: load.rate, ours, sdk, target)
    yield cost(bench, "call", lambda load: load.calls, ours, sdk)


def rate(  # noqa: PLR0913, PLR0917 - the members of the row
    bench: str,
    metric: str,
    of: Callable[[Load], float],
    ours: Sequence[Load],
    sdk: Sequence[Load],
    target: float | None = None,
) -> Row:
    return Row(
        section=SDK,
        bench=bench,
        metric=metric,
        ours=[of(load) for load in ours],
        other=[of(load) for load in sdk],
        higher_is_better=True,
        target=None if target is None else Target("≥", target),
    )


def cost(bench: str, unit: str, count: Callable[[Load], int], ours: Sequence[Load], sdk: Sequence[Load]) -> Row:
    """Server CPU, which does not depend on how fast clients are."""
    return Row(
        section=SDK,
        bench=bench,
        metric=f"server CPU µs/{unit}",
        ours=[1e6 * load.server_cpu / count(load) for load in ours],
        other=[1e6 * load.server_cpu / count(load) for load in sdk],
    )
