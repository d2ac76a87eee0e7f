"""Places of hosts: none takes another's (spec: PAID-02)."""

from __future__ import annotations

import asyncio

import pytest

from a2a_server.operations.push import schedule
from a2a_server.operations.push.push_options import Patience
from a2a_server.operations.push.schedule import AttemptSlot, AttemptSlots

PATIENCE = Patience(concurrency=8, per_host=3, retry_first=0.02)


def now() -> float:
    return asyncio.get_running_loop().time()


def enter(hosts: AttemptSlots, name: str, count: int = 1) -> list[AttemptSlot]:
    return [hosts.enter(name, lambda: None) for _ in range(count)]


async def test_a_host_has_so_many_places_and_no_more() -> None:
    hosts = AttemptSlots(PATIENCE)
    places = enter(hosts, "a", 2)
    assert hosts.limits(now()).of("a") == 1
    assert hosts.limits(now()).of("b") == 2  # of four for hosts that nobody knows, two are taken
    assert hosts.free == 6
    for place in places:
        place.leave(reached=True)
    assert hosts.free == 8
    assert hosts.limits(now()) == (3, {})


@pytest.mark.req("PAID-02")
async def test_unknown_hosts_share_half_of_the_places() -> None:
    hosts = AttemptSlots(PATIENCE)
    enter(hosts, "good")[0].leave(reached=True)
    for name in ("a", "b", "c", "d"):
        enter(hosts, name)
    rooms = hosts.limits(now())
    assert (rooms.of("e"), rooms.of("a"), rooms.of("good")) == (0, 0, 3)


@pytest.mark.req("PAID-02", "DELV-04")
async def test_what_lasts_steps_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_SLOW_AFTER", 0.01)
    hosts, freed = AttemptSlots(PATIENCE), asyncio.Event()
    slow = [hosts.enter("slow", freed.set) for _ in range(3)]
    assert hosts.limits(now()).of("slow") == 0
    await freed.wait()
    await asyncio.sleep(0.01)
    assert hosts.free == 8
    assert hosts.limits(now()).of("slow") == 3
    more = [hosts.enter("slow", freed.set) for _ in range(3)]
    await asyncio.sleep(0.03)
    assert hosts.free == 5  # as many as a host may have do so, and no more
    for place in (*slow, *more):
        place.leave(reached=True)
    assert (hosts.free, hosts.limits(now())) == (8, (3, {}))


@pytest.mark.req("PAID-02")
async def test_all_that_have_stepped_aside_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_SLOW_AFTER", 0.0)
    hosts = AttemptSlots(PATIENCE)
    for number in range(40):
        enter(hosts, f"h{number}")
        await asyncio.sleep(0.002)
    assert hosts.free == 0  # 32 are aside, 8 are not


@pytest.mark.req("PAID-02")
async def test_a_host_that_cannot_be_reached_rests_and_then_has_one_attempt() -> None:
    hosts = AttemptSlots(PATIENCE)
    for _ in range(3):
        enter(hosts, "dead")[0].leave(reached=False)
        await asyncio.sleep(0.002)
    assert hosts.limits(now()).of("dead") == 0
    await asyncio.sleep(0.03)
    assert hosts.limits(now()).of("dead") == 1
    (probe,) = enter(hosts, "dead")
    assert hosts.limits(now()).of("dead") == 0
    probe.leave(reached=True)
    assert hosts.limits(now()).of("dead") == 3


async def test_attempts_that_fail_together_count_once() -> None:
    hosts = AttemptSlots(Patience(concurrency=64, per_host=20, retry_first=60.0))
    for place in enter(hosts, "dead", 20):
        place.leave(reached=False)
    assert hosts.limits(now()).of("dead") > 0


async def test_what_says_nothing_about_the_host_changes_nothing() -> None:
    hosts = AttemptSlots(PATIENCE)
    for _ in range(5):
        enter(hosts, "a")[0].leave(reached=None)
    assert hosts.limits(now()) == (3, {})


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_KNOWN", 5)
    hosts = AttemptSlots(PATIENCE)
    for number in range(20):
        enter(hosts, f"good{number}")[0].leave(reached=True)
        enter(hosts, f"dead{number}")[0].leave(reached=False)
    assert len(hosts.limits(now()).known) <= 5
    enter(hosts, "a", 4)
    assert len(hosts.limits(now()).known) <= 11
