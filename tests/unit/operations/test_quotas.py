"""When the store is asked how much an owner has, and what counts meanwhile (spec: LIMT-02)."""

from __future__ import annotations

import asyncio

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.operations.quotas import StorageQuotas
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.retention import Holdings
from a2a_server.ports.store import StoredTask, StoreUnavailable
from tests.support.house import A2AError, Call, Limits, MemoryStore, Reason, Scope
from tests.support.stage import HandClock

TASK = StoredTask(pb.Task(id="t"), 1, 1)


class Counting(MemoryStore):
    """Says what the test wants, and remembers who was asked for."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__()
        self.stored = Holdings(0, 0)
        self.asked: list[tuple[str, str]] = []
        self.slow: asyncio.Event | None = None
        self.away = False
        self._clock = clock

    async def holdings(self, owner: str, tenant: str = "") -> Holdings:
        self.asked.append((owner, tenant))
        if self.slow is not None:
            await self.slow.wait()
            self._clock.advance(0.2)
        if self.away:
            raise StoreUnavailable("away")
        return self.stored


class House:
    def __init__(self, **limits: int) -> None:
        self.clock = HandClock()
        self.store = Counting(self.clock)
        self.quotas = StorageQuotas(self.store, self.clock, Limits(**limits), 0.0)  # type: ignore[arg-type]

    async def admits(self, owner: str = "ann", *, certain: bool = True) -> bool:
        call = Call(Caller(owner, authenticated=True), Scope("", owner))
        try:
            await self.quotas.check_new(call, certain=certain)
        except A2AError as error:
            return (error.reason, error.retry_after) != (Reason.QUOTA_EXCEEDED, None)
        return True


@pytest.mark.req("LIMT-02")
async def test_the_store_is_asked_once_a_second_for_each_owner() -> None:
    house = House(bytes_per_owner=5_000)
    for _ in range(5):
        assert await house.admits("ann")
        assert await house.admits("bob")
    assert house.store.asked == [("ann", ""), ("bob", "")]
    house.clock.advance(0.999)
    await house.admits("ann")
    assert len(house.store.asked) == 2
    house.clock.advance(0.001)
    await house.admits("ann")
    assert house.store.asked[2:] == [("ann", "")]


@pytest.mark.req("LIMT-02")
@pytest.mark.parametrize(
    ("left", "limits", "seconds"),
    [
        (Holdings(0, 0), {"tasks_per_owner": 20_000, "bytes_per_owner": 0}, 2),
        (Holdings(15_000, 0), {"tasks_per_owner": 20_000, "bytes_per_owner": 0}, 1),
        (Holdings(0, 2**30), {"tasks_per_owner": 0, "bytes_per_owner": 2**30 + 500 * 2**20}, 5.12),
        (Holdings(0, 0), {"tasks_per_owner": 0, "bytes_per_owner": 2**60}, 300),
        (Holdings(30, 30), {"tasks_per_owner": 20, "bytes_per_owner": 20}, 1),
    ],
)
async def test_it_is_asked_the_more_rarely_the_more_room_there_is(
    left: Holdings, limits: dict[str, int], seconds: float
) -> None:
    house = House(**limits)
    house.store.stored = left
    await house.admits()
    house.clock.advance(seconds - 0.001)
    await house.admits()
    assert len(house.store.asked) == 1
    house.clock.advance(0.001)
    await house.admits()
    assert len(house.store.asked) == 2


@pytest.mark.req("LIMT-02")
async def test_what_was_accepted_since_counts() -> None:
    house = House(tasks_per_owner=5)
    house.store.stored = Holdings(2, 0)
    assert [await house.admits() for _ in range(5)] == [True, True, True, False, False]
    assert await house.admits("bob")
    house.clock.advance(1)
    house.store.stored = Holdings(4, 0)
    assert [await house.admits() for _ in range(3)] == [True, False, False]


@pytest.mark.req("LIMT-02")
async def test_a_turn_that_may_do_without_a_task_does_not_count() -> None:
    house = House(tasks_per_owner=1)
    assert [await house.admits(certain=False) for _ in range(3)] == [True] * 3
    assert [await house.admits() for _ in range(2)] == [True, False]


@pytest.mark.req("LIMT-02")
async def test_while_the_store_is_asked_nobody_else_asks_and_long_answers_count_longer() -> None:
    house = House(tasks_per_owner=3)
    house.store.slow = asyncio.Event()
    house.store.stored = Holdings(3, 0)
    sends = [asyncio.ensure_future(house.admits()) for _ in range(5)]
    await asyncio.sleep(0)
    assert not any(send.done() for send in sends)  # nothing is known yet
    house.store.slow.set()
    assert await asyncio.gather(*sends) == [False] * 5
    assert len(house.store.asked) == 1
    house.clock.advance(3.7)  # and the 0.2 that asking took: not yet 20 times as long
    assert not await house.admits()
    assert len(house.store.asked) == 1
    house.clock.advance(0.1)
    assert not await house.admits()
    assert len(house.store.asked) == 2


@pytest.mark.req("LIMT-02")
async def test_nobody_is_asked_without_a_bound() -> None:
    house = House(tasks_per_owner=0, bytes_per_owner=0)
    call = Call(Caller("ann"), Scope("", "ann"))
    assert await house.admits()
    await house.quotas.check_more(call, TASK)
    assert await house.quotas.fault(call) is None
    assert house.store.asked == []


@pytest.mark.req("LIMT-02", "DURA-07")
async def test_a_store_that_is_away_is_asked_again_a_second_later() -> None:
    house = House(tasks_per_owner=1)
    house.store.away, house.store.stored = True, Holdings(1, 0)
    with pytest.raises(StoreUnavailable):
        await house.admits()
    house.store.away = False
    house.clock.advance(1)
    assert not await house.admits()


@pytest.mark.req("LIMT-02")
async def test_so_many_owners_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_server.operations.quotas._MOST_OWNERS", 2)
    house = House()
    for owner in ("ann", "bob", "cid", "bob", "ann"):
        await house.admits(owner)
    assert [owner for owner, _ in house.store.asked] == ["ann", "bob", "cid", "ann"]
