"""How many attempts run at each host, and when a failed one is repeated (spec: DELV-03, PAID-02, PAID-03)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_server.domain.scope import Shares
from a2a_server.operations.push import schedule
from a2a_server.operations.push.push_options import Patience
from a2a_server.operations.push.schedule import AttemptSlot, AttemptSlots, failure_of, reached
from a2a_server.ports.push import Delivery, Outcome
from tests.conformance.authors import ANN, config

PATIENCE = Patience(concurrency=8, per_host=3, retry_first=0.02)


def unheard() -> None:
    """Nobody waits for a slot."""


def enter(slots: AttemptSlots, host: str, count: int = 1, owner: str = "ann") -> list[AttemptSlot]:
    return [slots.enter(owner, host) for _ in range(count)]


async def test_a_host_has_so_many_places_and_no_more() -> None:
    slots = AttemptSlots(PATIENCE, unheard)
    places = enter(slots, "a", 2)
    assert slots.room("ann", "a") == 1
    assert slots.room("ann", "b") == 2  # of four for hosts that nobody knows, two are taken
    assert slots.room("ann") == 6
    for place in places:
        slots.leave(place, reached=True)
    assert slots.room("ann") == 8
    assert slots.room("ann", "other") == 3


@pytest.mark.req("PAID-02")
async def test_unknown_hosts_share_half_of_the_places() -> None:
    slots = AttemptSlots(PATIENCE, unheard)
    slots.leave(enter(slots, "good")[0], reached=True)
    for name in ("a", "b", "c", "d"):
        enter(slots, name)
    assert [slots.room("ann", host) for host in ("e", "a", "good")] == [0, 0, 3]


@pytest.mark.req("PAID-02", "DELV-04")
async def test_what_lasts_steps_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_SLOW_AFTER", 0.01)
    freed = asyncio.Event()
    slots = AttemptSlots(PATIENCE, freed.set)
    slow = [slots.enter("ann", "slow") for _ in range(3)]
    assert slots.room("ann", "slow") == 0
    await freed.wait()
    await asyncio.sleep(0.01)
    assert slots.room("ann") == 8
    assert slots.room("ann", "slow") == 3
    more = [slots.enter("ann", "slow") for _ in range(3)]
    await asyncio.sleep(0.03)
    assert slots.room("ann") == 5  # as many as a host may have do so, and no more
    for place in (*slow, *more):
        slots.leave(place, reached=True)
    assert (slots.room("ann"), slots.room("ann", "slow")) == (8, 3)


@pytest.mark.req("PAID-02")
async def test_all_that_have_stepped_aside_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_SLOW_AFTER", 0.0)
    slots = AttemptSlots(PATIENCE, unheard)
    for number in range(40):
        enter(slots, f"h{number}")
        await asyncio.sleep(0.002)
    assert slots.room("ann") == 0  # 32 are aside, 8 are not


@pytest.mark.req("PAID-02")
async def test_a_host_that_cannot_be_reached_rests_and_then_has_one_attempt() -> None:
    slots = AttemptSlots(PATIENCE, unheard)
    for _ in range(3):
        slots.leave(enter(slots, "dead")[0], reached=False)
        await asyncio.sleep(0.002)
    assert slots.room("ann", "dead") == 0
    await asyncio.sleep(0.03)
    assert slots.room("ann", "dead") == 1
    (probe,) = enter(slots, "dead")
    assert slots.room("ann", "dead") == 0
    slots.leave(probe, reached=True)
    assert slots.room("ann", "dead") == 3


async def test_attempts_that_fail_together_count_once() -> None:
    slots = AttemptSlots(Patience(concurrency=64, per_host=20, retry_first=60.0), unheard)
    for place in enter(slots, "dead", 20):
        slots.leave(place, reached=False)
    assert slots.room("ann", "dead") > 0


async def test_what_says_nothing_about_the_host_changes_nothing() -> None:
    slots = AttemptSlots(PATIENCE, unheard)
    for _ in range(5):
        slots.leave(enter(slots, "a")[0], reached=None)
    assert slots.room("ann", "other") == 3


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_KNOWN", 5)
    slots = AttemptSlots(Patience(concurrency=8, per_host=8, retry_first=60.0), unheard)
    slots.leave(enter(slots, "first")[0], reached=True)
    await miss(slots, "resting")
    assert (slots.room("ann", "first"), slots.room("ann", "resting")) == (8, 0)
    for number in range(20):
        slots.leave(enter(slots, f"good{number}")[0], reached=True)
        slots.leave(enter(slots, f"dead{number}")[0], reached=False)
    assert (slots.room("ann", "first"), slots.room("ann", "resting")) == (4, 4)  # as if never heard of


async def miss(slots: AttemptSlots, host: str, owner: str = "ann") -> None:
    """Let as many attempts fail as make a lane rest."""
    for _ in range(3):
        slots.leave(enter(slots, host, owner=owner)[0], reached=False)
        await asyncio.sleep(0.002)


# -- owners


@pytest.mark.req("PAID-02", "LIMT-02")
async def test_an_owner_alone_may_have_all_and_keeps_nobody_out() -> None:
    slots = AttemptSlots(Patience(concurrency=12, per_host=12), unheard)
    slots.leave(enter(slots, "good")[0], reached=True)
    mine = enter(slots, "good", 12)
    assert (slots.room("ann"), slots.room("ann", "good")) == (0, 0)
    assert (slots.room("bob"), slots.room("cid")) == (6, 6)
    theirs = enter(slots, "other", 6, owner="bob")
    assert [slots.room(owner) for owner in ("ann", "bob", "cid")] == [0, 0, 4]
    for slot in mine[:7]:
        slots.leave(slot, reached=True)
    assert [slots.room(owner) for owner in ("ann", "bob", "cid")] == [1, 1, 4]  # one is free
    for slot in (*mine[7:], *theirs):
        slots.leave(slot, reached=True)
    assert [slots.room(owner) for owner in ("ann", "bob", "cid")] == [12, 12, 12]


@pytest.mark.req("PAID-02", "LIMT-02")
async def test_owners_share_one_host() -> None:
    slots = AttemptSlots(Patience(concurrency=64, per_host=8), unheard)
    mine = enter(slots, "shared", 8)
    assert (slots.room("ann", "shared"), slots.room("bob", "shared")) == (0, 4)
    theirs = enter(slots, "shared", 4, owner="bob")
    assert (slots.room("bob", "shared"), slots.room("cid", "shared")) == (0, 2)
    for slot in (*mine, *theirs):
        slots.leave(slot, reached=True)
    assert slots.room("cid", "shared") == 8


@pytest.mark.req("PAID-02", "LIMT-02")
async def test_unknown_hosts_of_one_owner_leave_room_for_those_of_another() -> None:
    slots = AttemptSlots(PATIENCE, unheard)
    for number in range(4):
        enter(slots, f"dead{number}")
    assert (slots.room("ann", "new"), slots.room("bob", "new")) == (0, 2)


@pytest.mark.req("PAID-02", "LIMT-02")
async def test_what_one_owner_hears_of_a_host_is_nothing_to_another() -> None:
    slots = AttemptSlots(PATIENCE, unheard)
    for name in ("ann", "bob"):
        slots.leave(enter(slots, "shared", owner=name)[0], reached=True)
    await miss(slots, "shared")
    assert slots.room("ann", "shared") == 0
    assert slots.room("bob", "shared") == 3


@pytest.mark.req("PAID-02", "LIMT-02")
async def test_owners_share_the_places_of_slow_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_SLOW_AFTER", 0.0)
    slots = AttemptSlots(Patience(concurrency=2, per_host=1), unheard)
    for number in range(10):  # eight of them go on without a slot
        enter(slots, f"h{number}")
        await asyncio.sleep(0.002)
    assert slots.room("ann") == 0
    for number in range(4):
        enter(slots, f"h{number}", owner="bob")
        await asyncio.sleep(0.002)
        assert slots.room("bob") == 1


async def test_a_claim_has_its_places_until_it_ends() -> None:
    slots = AttemptSlots(PATIENCE, unheard)
    slots.take("ann", "a")
    slots.take("ann", "a")
    slots.take("bob", "a")
    assert (slots.room("ann"), slots.room("ann", "a"), slots.room("bob", "a")) == (5, 0, 0)
    slots.end_claim()
    assert (slots.room("ann"), slots.room("ann", "a"), slots.room("bob", "a")) == (8, 3, 3)
    for host in "aba":
        slots.take("ann", host)
    entered = enter(slots, "a", 2)  # what was claimed for the other is not tried
    assert (slots.room("ann"), slots.room("ann", "a"), slots.room("ann", "b")) == (6, 1, 2)
    slots.end_claim()
    for slot in entered:
        slots.leave(slot, reached=None)
    assert (slots.room("ann"), slots.room("ann", "a"), slots.room("ann", "b")) == (8, 3, 3)


@pytest.mark.req("LIMT-02")
@given(st.lists(st.tuples(st.sampled_from("ABCD"), st.booleans()), max_size=80), st.integers(1, 12))
def test_shares_keep_nobody_out_and_are_bounded(steps: list[tuple[str, bool]], places: int) -> None:
    shares, taken = Shares(places), dict.fromkeys("ABCD", 0)
    for owner, enters in steps:
        if enters and shares.room(owner):
            shares.take(owner)
            taken[owner] += 1
        elif not enters and taken[owner]:
            shares.leave(owner)
            taken[owner] -= 1
        assert shares.taken == sum(taken.values()) <= max(places, 1) * 25 // 12 + 4
        for name, own in taken.items():
            others = sum(map(bool, taken.values())) + (not own)
            assert shares.room(name) >= max(0, places // others - own, (not own))
            assert shares.room(name) >= places - shares.taken


NOW = 1_000_000
FAILED = Outcome(delivered=False, why="status 500")
HOURS = Patience(retry_first=2.0, retry_most=100.0, give_up_after=1_000, give_up_age=1e9)


def delivery(attempts: int = 0, failing_ms: int | None = None) -> Delivery:
    return Delivery(ANN, "t", 1, config("t"), attempts, 0, failing_ms=failing_ms)


def wait(attempts: int, outcome: Outcome = FAILED) -> float:
    retry_ms = failure_of(delivery(attempts, NOW), outcome, NOW, HOURS).retry_ms
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


@pytest.mark.req("CONF-81")
@pytest.mark.parametrize(("rejections", "skips"), [(0, False), (1, False), (2, True), (3, True)])
def test_the_third_rejection_skips(rejections: int, skips: bool) -> None:  # noqa: FBT001
    owed, rejected = replace(delivery(998), rejections=rejections), FAILED._replace(rejected=True)
    failure = failure_of(owed, rejected, NOW, Patience(give_up_after=5))
    assert (failure.skips, failure.retry_ms is None, failure.rejected) == (skips, skips, True)
    assert (failure.now_ms, failure.why, failure.tried) == (NOW, "status 500", True)


@pytest.mark.req("CONF-81", "DELV-03")
def test_rejected_webhooks_wait_like_others() -> None:
    rejected = FAILED._replace(rejected=True)
    assert 64.0 < max(wait(6, rejected) for _ in range(400)) <= 100.0
    assert wait(1, rejected._replace(retry_after=50.0)) >= 49.999
    assert not failure_of(delivery(4), FAILED, NOW, Patience(give_up_after=5)).skips  # it parks


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
