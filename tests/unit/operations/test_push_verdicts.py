"""When a failed attempt is followed by another one (spec: DELV-03, PAID-03)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_server.operations.push.push_options import Patience
from a2a_server.operations.push.schedule import failure_of, reached
from a2a_server.ports.push import Delivery, Outcome
from tests.conformance.authors import ANN, config

NOW = 1_000_000
FAILED = Outcome(delivered=False, why="status 500")
PATIENCE = Patience(retry_first=2.0, retry_most=100.0, give_up_after=1_000, give_up_age=1e9)


def delivery(attempts: int = 0, failing_ms: int | None = None) -> Delivery:
    return Delivery(ANN, "t", 1, config("t"), attempts, 0, failing_ms=failing_ms)


def wait(attempts: int, outcome: Outcome = FAILED) -> float:
    retry_ms = failure_of(delivery(attempts, NOW), outcome, NOW, PATIENCE).retry_ms
    assert retry_ms is not None
    return (retry_ms - NOW) / 1000


@pytest.mark.req("DELV-03", "PAID-03")
@pytest.mark.parametrize(
    ("attempts", "bound"), [(0, 2.0), (1, 4.0), (3, 16.0), (5, 64.0), (6, 100.0), (60, 100.0), (999 - 1, 100.0)]
)
def test_waits_grow_exponentially_up_to_a_bound_and_use_all_of_it(attempts: int, bound: float) -> None:
    waits = [wait(attempts) for _ in range(400)]
    assert 0 <= min(waits) < 0.1 * bound
    assert 0.9 * bound < max(waits) <= bound


@pytest.mark.req("PAID-03")
@given(st.floats(0, 1_000), st.integers(0, 20))
def test_a_receivers_wish_is_honoured_within_bounds(wish: float, attempts: int) -> None:
    found = wait(attempts, FAILED._replace(retry_after=wish))
    assert min(wish, 100.0) - 0.001 <= found <= 100.0


@pytest.mark.req("PAID-03")
@pytest.mark.parametrize(
    ("attempts", "failing_for", "final", "parked"),
    [(3, 0, False, False), (4, 0, False, True), (0, 99, False, False), (1, 100, False, True), (0, 0, True, True)],
)
def test_what_is_hopeless_is_parked(attempts: int, failing_for: int, final: bool, parked: bool) -> None:  # noqa: FBT001
    patience = Patience(give_up_after=5, give_up_age=100.0)
    owed = delivery(attempts, NOW - 1000 * failing_for)
    failure = failure_of(owed, FAILED._replace(final=final), NOW, patience)
    assert (failure.retry_ms is None) == parked
    assert (failure.now_ms, failure.why, failure.tried) == (NOW, "status 500", True)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(delivered=True), True),
        (Outcome(delivered=False, why="status 410", final=True), True),
        (Outcome(delivered=False, why="timeout"), False),
        (Outcome(delivered=False, why="certificate"), False),
        (Outcome(delivered=False, why="refused address", final=True), None),
        (Outcome(delivered=False, why="internal error"), None),
    ],
)
def test_who_was_reached(outcome: Outcome, expected: bool | None) -> None:  # noqa: FBT001
    assert reached(outcome) is expected
