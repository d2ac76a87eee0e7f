"""Buckets in a database: what several servers have spent adds up, by the database's clock (spec: GATE-05)."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import asyncpg
import pytest

from a2a_server.ports.access import BucketStore
from tests.support.house import MemoryStore, PostgresOptions, PostgresStore, SqliteStore
from tests.support.postgres import Cluster, has_pgbouncer, pgbouncer

ONE, TWO = bytes(16), bytes([255] * 16)
POOLED = pytest.param("pooled", marks=pytest.mark.skipif(not has_pgbouncer(), reason="needs pgbouncer"))


@pytest.fixture(params=["direct", POOLED])
async def stores(
    request: pytest.FixtureRequest, postgres: str, postgres_cluster: Cluster
) -> AsyncIterator[list[PostgresStore]]:
    """Three servers' stores on one database, also where each transaction may have another connection."""
    async with AsyncExitStack() as stack:
        options = PostgresOptions(dsn=postgres)
        if request.param == "pooled":
            port, parts = stack.enter_context(pgbouncer(postgres_cluster)), urlsplit(postgres)
            url = parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}").geturl()
            options = PostgresOptions(dsn=url, prepared_statements=False)
        made = [PostgresStore(options) for _ in range(3)]
        for store in made:
            await store.open()
            stack.push_async_callback(store.close)
        yield made


async def rows(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    number: int = await connection.fetchval("SELECT count(*) FROM a2ad.rates")
    await connection.close()
    return number


def test_only_a_store_of_several_servers_keeps_buckets() -> None:
    kinds = (PostgresStore, BucketStore), (SqliteStore, object), (MemoryStore, object)
    assert [issubclass(kind, BucketStore) for kind, _ in kinds] == [True, False, False]


@pytest.mark.req("GATE-05")
async def test_what_servers_spend_adds_up(stores: list[PostgresStore]) -> None:
    first, second, third = stores
    assert (await first.spend({ONE: 600.0}))[ONE] == pytest.approx(600, abs=0.001)
    assert (await second.spend({ONE: 300.0, TWO: 60.0}))[ONE] == pytest.approx(900, abs=60)
    found = await third.spend({ONE: 0.0, TWO: -20.0})
    assert found[ONE] == pytest.approx(900, abs=60)
    assert found[TWO] == pytest.approx(40, abs=30)


@pytest.mark.req("GATE-05")
async def test_a_bucket_fills_by_the_clock_of_the_database_and_not_beyond(stores: list[PostgresStore]) -> None:
    await stores[0].spend({ONE: 0.05})
    await asyncio.sleep(0.1)
    assert (await stores[1].spend({ONE: 600.0}))[ONE] == pytest.approx(600, abs=0.001)


@pytest.mark.req("GATE-05")
async def test_servers_that_spend_from_the_same_buckets_at_once_lose_nothing(
    stores: list[PostgresStore],
) -> None:
    """Each statement locks many rows. If they were in another order each time, servers would wait for each other."""
    names, dice = [os.urandom(16) for _ in range(50)], random.Random(7)

    async def spend(store: PostgresStore) -> None:
        for _ in range(20):
            await store.spend(dict.fromkeys(dice.sample(names, len(names)), 100.0))

    await asyncio.gather(*map(spend, stores))
    for seconds in (await stores[0].spend(dict.fromkeys(names, 0.0))).values():
        assert seconds == pytest.approx(3 * 20 * 100, abs=90)


async def test_full_buckets_are_removed_and_others_stay(stores: list[PostgresStore], postgres: str) -> None:
    many = {os.urandom(16): 0.001 for _ in range(3_000)}
    await stores[0].spend(many)
    await stores[1].spend({ONE: 900.0, TWO: 900.0})
    await asyncio.sleep(0.01)
    await asyncio.gather(*(store.forget_full() for store in stores))
    await stores[0].forget_full()  # what another one was just removing was passed over
    assert await rows(postgres) == 2


async def test_a_bucket_that_never_fills_breaks_no_other(stores: list[PostgresStore]) -> None:
    for _ in range(40):
        found = await stores[0].spend({ONE: 1e300, TWO: 1.0})
    assert found[ONE] > 1e9
    assert found[TWO] <= 40
