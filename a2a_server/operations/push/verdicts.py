"""What follows from an attempt that failed: another one, later and later, or none (spec: DELV-03, PAID-03)."""

from __future__ import annotations

import random

from a2a_server.operations.push.delivery import Patience
from a2a_server.ports.push import Delivery, FailedAttempt, Outcome

_MOST_DOUBLINGS = 62
_UNREACHABLE = frozenset({"timeout", "connection", "certificate", "TLS", "unknown host", "no HTTP", "too slow"})


def reached(outcome: Outcome) -> bool | None:
    """Whether the host has shown that it is there; None where nobody asked it."""
    if outcome.delivered or outcome.why.startswith("status "):
        return True
    return False if outcome.why in _UNREACHABLE else None


def failure_of(delivery: Delivery, outcome: Outcome, now_ms: int, patience: Patience) -> FailedAttempt:
    """Park the config when enough has been tried, or nothing would help; else say when to try again."""
    failing_ms = now_ms if delivery.failing_ms is None else delivery.failing_ms
    tries, age = delivery.attempts + 1, (now_ms - failing_ms) / 1000
    if outcome.final or tries >= patience.give_up_after or age >= patience.give_up_age:
        return FailedAttempt(now_ms, None, outcome.why)
    return FailedAttempt(now_ms, now_ms + int(1000 * _wait(delivery.attempts, outcome, patience)), outcome.why)


def _wait(failures: int, outcome: Outcome, patience: Patience) -> float:
    """Anything up to an exponentially growing bound, so that those who fail together do not come back together.

    A receiver that asks for more gets it; one that asks for less has asked for nothing that jitter would not give.
    """
    bound = min(patience.retry_most, patience.retry_first * 2.0 ** min(failures, _MOST_DOUBLINGS))
    wait = random.uniform(0, bound)  # noqa: S311 - no secret
    if outcome.retry_after is not None:
        wait = max(wait, min(outcome.retry_after, patience.retry_most))
    return wait
