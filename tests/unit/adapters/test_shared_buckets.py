"""Buckets that servers share: how much they let through together, also without the store (spec: GATE-05)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from a2a_server.ports.access import Bucket, Taken
from a2a_server.ports.store import StoreUnavailable
from tests.support.house import SharedBuckets, TokenBuckets
from tests.unit.adapters.test_token_buckets import Time

FORTY = Bucket(rate=40 / 3600, burst=40)


class Kept:
    """Buckets as a store keeps them. It takes its time, before it looks and after."""

    def __init__(self, time: Callable[[], float], turns: Callable[[], int] = lambda: 1) -> None:
        self.time = time
        self.turns = turns
        self.full_at: dict[bytes, float] = {}
        self.away = False
        self.open = asyncio.Event()
        self.open.set()
        self.asked: list[int] = []

    async def spend(self, spent: Mapping[bytes, float]) -> Mapping[bytes, float]:
        self.asked.append(len(spent))
        await self.open.wait()
        if self.away:
            raise StoreUnavailable("the store cannot be reached")
        await self._pause()
        now = self.time()
        for name, seconds in spent.items():
            self.full_at[name] = max(self.full_at.get(name, now), now) + seconds
        found = {name: self.full_at[name] - now for name in spent}
        await self._pause()
        return found

    async def _pause(self) -> None:
        for _ in range(self.turns()):
            await asyncio.sleep(0)

    async def forget_full(self) -> None:
        self.full_at = {name: at for name, at in self.full_at.items() if at > self.time()}


@asynccontextmanager
async def servers(
    count: int, store: Kept, most: int = 1_000, now: Callable[[], float] | None = None
) -> AsyncIterator[list[SharedBuckets]]:
    async with AsyncExitStack() as stack:
        made = [SharedBuckets(store, now or store.time, whose="callers", most=most) for _ in range(count)]
        for one in made:
            stack.push_async_callback(one.close)
        yield made


@dataclass(frozen=True)
class Answer:
    allowed: bool
    remaining: int


def answer_of(taken: Taken, bucket: Bucket = FORTY) -> Answer:
    allowed, until_full = taken
    return Answer(allowed, max(int(bucket.burst - until_full * bucket.rate + 1e-6), 0))


async def take(server: SharedBuckets, key: str = "ann", bucket: Bucket = FORTY, cost: float = 1) -> Answer:
    taken = server.take(key, bucket, cost)
    return answer_of(taken if isinstance(taken, tuple) else await taken, bucket)


async def until(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not seen():  # noqa: ASYNC110 - what is looked at has no event
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.01)


async def reported(store: Kept, calls: int = 1) -> None:
    await until(lambda: len(store.asked) >= calls)


@pytest.mark.req("GATE-05")
@pytest.mark.parametrize("count", [1, 2, 3, 8])
@given(seed=st.integers(0, 1 << 32), burst=st.sampled_from([1, 3, 8, 40, 100]), cost=st.sampled_from([1, 0.5, 1.0]))
def test_servers_exceed_a_limit_by_their_allowances_at_most(count: int, seed: int, burst: int, cost: float) -> None:
    """All that callers can do is to come to any server at any time; nothing comes back meanwhile."""

    async def play() -> float:
        dice, bucket = random.Random(seed), Bucket(1e-6, burst)
        store = Kept(Time(), lambda: dice.randrange(6))

        async def call(server: SharedBuckets) -> float:
            for _ in range(dice.randrange(30)):
                await asyncio.sleep(0)
            return cost if (await take(server, bucket=bucket, cost=cost)).allowed else 0.0

        async with servers(count, store) as made:
            calls = int(3 * burst / cost) + 8
            let_through = sum(await asyncio.gather(*(call(dice.choice(made)) for _ in range(calls))))
            for server in made:  # whoever has not heard yet, hears now
                while (await take(server, bucket=bucket, cost=cost)).allowed:
                    let_through += cost
            return let_through

    let_through = asyncio.run(play())
    assert burst <= let_through <= burst + (count - 1) * max(burst / 8, cost) + 1e-6


@pytest.mark.req("GATE-05")
async def test_a_caller_who_goes_from_server_to_server_has_one_bucket() -> None:
    store = Kept(Time())
    async with servers(3, store) as made:
        let_through = 0
        for _, server in zip(range(120), cycle(made), strict=False):
            let_through += (await take(server)).allowed
            for _ in range(20):
                await asyncio.sleep(0)
        assert 40 <= let_through <= 40 + 2 * 5


async def test_a_call_waits_for_no_answer_while_the_allowance_lasts() -> None:
    store = Kept(Time())
    store.open.clear()
    async with servers(1, store) as (server,):
        for left in range(39, 34, -1):
            taken = server.take("ann", FORTY, 1)
            assert isinstance(taken, tuple)
            assert answer_of(taken) == Answer(allowed=True, remaining=left)
            await asyncio.sleep(0)
        waiting = server.take("ann", FORTY, 1)
        assert isinstance(waiting, Awaitable)
        store.open.set()
        assert answer_of(await waiting).remaining == 34


async def test_a_few_calls_are_reported_together_a_little_later() -> None:
    store = Kept(Time())
    async with servers(1, store) as (server,):
        for name in "abc":
            await take(server, name)
        assert store.asked == []
        await reported(store)
        assert store.asked == [3]


@pytest.mark.req("GATE-05")
async def test_what_others_have_spent_shows_in_what_is_left() -> None:
    store = Kept(Time())
    async with servers(2, store) as (here, there):
        for _ in range(30):
            await take(here)
        await reported(store)
        assert (await take(there)).remaining == 39  # it has not heard yet
        await reported(store, len(store.asked) + 1)
        assert (await take(there)).remaining == 8


async def test_tokens_that_have_come_back_are_not_owed() -> None:
    time = Time()
    store = Kept(time)
    store.away = True
    async with servers(2, store) as (here, there):
        for _ in range(3):  # three hours alone
            for _ in range(40):
                assert (await take(here)).allowed
            time.now += 3600
        await take(here)
        store.away = False
        await until(lambda: bool(store.full_at))
        await take(there)
        await reported(store, len(store.asked) + 1)
        assert (await take(there)).remaining == 37


@pytest.mark.req("GATE-05")
async def test_without_the_store_each_server_goes_on_by_itself_and_says_so_once() -> None:
    store = Kept(Time())
    with structlog.testing.capture_logs() as logs:
        async with servers(2, store) as made:
            store.away = True
            for server in made:
                assert [(await take(server)).allowed for _ in range(41)] == [True] * 40 + [False]
            store.away = False
            await until(lambda: [line["event"] for line in logs].count("rates.shared") == 2)
            assert not (await take(made[0])).allowed
    said = [line["event"] for line in logs]
    assert sorted(said) == ["rates.alone"] * 2 + ["rates.shared"] * 2


async def test_a_store_that_does_not_answer_holds_up_the_first_calls_for_a_moment_and_later_ones_not_at_all() -> None:
    store = Kept(Time())
    store.open.clear()
    async with servers(1, store, now=asyncio.get_running_loop().time) as (server,):
        async with asyncio.timeout(30):
            assert all(taken.allowed for taken in await asyncio.gather(*(take(server) for _ in range(40))))
        assert isinstance(server.take("ann", FORTY, 1), tuple)
        store.open.set()


async def test_what_is_not_reported_at_the_end_is_reported_then() -> None:
    store = Kept(Time())
    async with servers(1, store) as (server,):
        await take(server)
    async with servers(1, store) as (server,):
        await take(server)
        await reported(store, 2)
        assert (await take(server)).remaining == 37


async def test_more_buckets_than_are_shared_count_for_each_server_alone() -> None:
    """So strangers with many addresses cannot fill the database; and those whose buckets are full again make room."""
    time = Time()
    store = Kept(time)
    async with servers(1, store, most=3) as (server,):
        for number in range(10):
            assert (await take(server, f"192.0.2.{number}")).remaining == 39
            assert (await take(server, f"192.0.2.{number}")).remaining == 38
        await reported(store)
        assert len(store.full_at) == 3
        time.now += 3600
        await take(server, "192.0.2.9")
        await until(lambda: len(store.full_at) == 1)  # the others' were removed
        assert list(store.full_at.values()) == [pytest.approx(time.now + 90)]


async def test_another_rate_is_another_bucket() -> None:
    store = Kept(Time())
    async with servers(1, store) as (old,):
        for _ in range(40):
            await take(old)
    async with servers(1, store) as (new,):
        await take(new, bucket=Bucket(10.0, 40))
        await reported(store, len(store.asked) + 1)
        assert (await take(new, bucket=Bucket(10.0, 40))).remaining == 38


def test_a_correction_keeps_what_it_does_not_contradict() -> None:
    time = Time()
    buckets = TokenBuckets(time)
    buckets.take("a", Bucket(1.0, 10), 4)
    for earliest, latest, kept in ((3, 5, 4), (5, 6, 5), (1, 2, 2)):
        buckets.correct("a", earliest, latest)
        assert buckets.until_full("a") == kept
    time.now += 9
    assert buckets.until_full("a") == 0
