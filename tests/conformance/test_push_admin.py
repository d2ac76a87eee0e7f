"""What operators see of push configs and do about them, while a server uses the store (spec: PAID-03, OPER-04)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from a2a_server.ports.push import ConfigFilter, ConfigStatus, PushAdmin
from a2a_server.ports.store import Store
from tests.conformance.authors import ANN, UNLIMITED, Author, config
from tests.conformance.store_push import NOW, UNTIL, claim_one, claimed, indebted, put_off, rejection
from tests.support.house import PostgresOptions, PostgresPushAdmin, PostgresStore, SqlitePushAdmin, SqliteStore


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    return request.getfixturevalue("postgres") if request.param == "postgres" else tmp_path / "a2a.db"


@pytest.fixture
async def store(place: Path | str) -> AsyncIterator[Store]:
    store = PostgresStore(PostgresOptions(dsn=place)) if isinstance(place, str) else SqliteStore(place)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def admin(place: Path | str) -> PushAdmin:
    return PostgresPushAdmin(PostgresOptions(dsn=place)) if isinstance(place, str) else SqlitePushAdmin(place)


def account(admin: PushAdmin, author: Author, config_id: str = "c") -> ConfigStatus:
    (found,) = admin.status(ConfigFilter(author.task_id, config_id), 10)
    return found


@pytest.mark.req("PAID-03")
async def test_a_parked_config_is_not_claimed(store: Store, admin: PushAdmin) -> None:
    author = await indebted(store, "c", "d")
    parked, other = sorted(
        await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED), key=lambda delivery: delivery.hook.config.id
    )
    assert await store.finish_attempt(parked, put_off(None, why="gone"))
    assert not await store.finish_attempt(parked, None)
    await store.finish_attempt(other, None)
    await author.chunk("more", notify=True)
    assert await claimed(store, 9_000, 9_999) == [(author.task_id, "d", 3)]
    found = account(admin, author)
    assert (found.parked_ms, found.why, found.pending, found.due_ms) == (NOW, "gone", 4, None)


@pytest.mark.req("PAID-03")
async def test_what_is_parked_is_retried_when_asked_for(store: Store, admin: PushAdmin) -> None:
    author = await indebted(store, "c", "d")
    for delivery in await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED):
        await store.finish_attempt(delivery, put_off(None))
    assert await store.next_due() is None
    assert admin.retry(ConfigFilter(author.task_id, "c")) == 1
    delivery = await claim_one(store)
    assert (delivery.hook.config.id, delivery.number, delivery.attempts, delivery.failing_ms) == ("c", 2, 0, None)
    await store.finish_attempt(delivery, None)
    assert (await claim_one(store)).number == 3
    assert admin.retry(ConfigFilter(parked=True)) == 1
    assert await claimed(store) == [(author.task_id, "d", 2)]


async def test_a_retry_leaves_an_attempt_alone_that_is_under_way(store: Store, admin: PushAdmin) -> None:
    await indebted(store, "c")
    delivery = await claim_one(store)
    assert admin.retry(ConfigFilter()) == 1
    assert await claimed(store) == []
    assert await store.finish_attempt(delivery, None)


@pytest.mark.req("CONF-81")
async def test_skipped_webhooks_are_counted_and_stay_skipped(store: Store, admin: PushAdmin) -> None:
    author = await indebted(store, "c")
    await store.finish_attempt(await claim_one(store), rejection(NOW))
    await store.finish_attempt(await claim_one(store), rejection(None))
    found = account(admin, author)
    assert (found.delivered, found.skipped, found.failed, found.pending) == (0, 1, 2, 2)
    assert (found.next_number, found.attempts, found.parked_ms, found.why) == (3, 0, None, "status 400")
    await store.finish_attempt(await claim_one(store), rejection(NOW))
    assert admin.retry(ConfigFilter()) == 1
    delivery = await claim_one(store)
    assert (delivery.number, delivery.attempts, delivery.rejections) == (3, 0, 0)
    await store.finish_attempt(delivery, None)
    found = account(admin, author)
    assert (found.delivered, found.skipped, found.failed, found.why) == (1, 1, 3, "")
    await store.finish_attempt(await claim_one(store), rejection(NOW))
    assert admin.drop(ConfigFilter()) == 1
    await author.chunk("more", notify=True)
    assert (await claim_one(store)).rejections == 0


async def test_dropping_strikes_out_debts_and_keeps_configs(store: Store, admin: PushAdmin) -> None:
    author = await indebted(store, "c", "d")
    under_way, parked = sorted(
        await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED), key=lambda delivery: delivery.hook.config.id
    )
    await store.finish_attempt(parked, put_off(None))
    assert admin.drop(ConfigFilter(author.task_id)) == 6
    assert not await store.finish_attempt(under_way, None)
    assert await store.next_due() is None
    await author.chunk("more", notify=True)
    assert sorted(await claimed(store)) == [(author.task_id, "c", 5), (author.task_id, "d", 5)]


async def test_only_what_is_meant_is_touched(store: Store, admin: PushAdmin) -> None:
    one, two = await indebted(store, "c", "d"), await indebted(store, "c")
    for delivery in await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED):
        if (delivery.task_id, delivery.hook.config.id) != (one.task_id, "d"):
            await store.finish_attempt(delivery, put_off(None))
    assert admin.retry(ConfigFilter("never")) == admin.drop(ConfigFilter("never")) == 0
    assert admin.drop(ConfigFilter(one.task_id, "never")) == 0
    assert admin.drop(ConfigFilter(one.task_id, parked=True)) == 3
    assert account(admin, one, "d").pending == 3
    assert account(admin, two).parked_ms == NOW
    assert admin.drop(ConfigFilter(parked=True)) == 3
    assert admin.drop(ConfigFilter()) == 3


async def test_the_status_shows_what_is_pending(store: Store, admin: PushAdmin) -> None:
    quiet = await Author(store).create(configs=[config("t")])
    author = await indebted(store, "a", "b", "c")
    deliveries = {
        delivery.hook.config.id: delivery for delivery in await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED)
    }
    await store.finish_attempt(deliveries["a"], put_off(None, why="gone"))
    await store.finish_attempt(deliveries["b"], None)
    found = admin.status(ConfigFilter(), 10)
    assert [one.config_id for one in found] == ["b", "c", "a"]  # due, claimed until later, parked
    assert admin.status(ConfigFilter(), 1) == found[:1]
    assert admin.status(ConfigFilter(parked=True), 10) == found[2:]
    assert admin.status(ConfigFilter(author.task_id), 10) == sorted(found, key=lambda one: one.config_id)
    assert admin.status(ConfigFilter(author.task_id, parked=True), 10) == found[2:]
    assert admin.status(ConfigFilter(author.task_id, "c"), 10) == found[1:2]
    assert found[0]._asdict() == {
        "scope": ANN,
        "task_id": author.task_id,
        "config_id": "b",
        "url": "https://hook.example/",
        "version": "1.0",
        "pending": 2,
        "next_number": 3,
        "delivered": 1,
        "skipped": 0,
        "failed": 0,
        "attempts": 0,
        "due_ms": NOW,
        "claimed": False,
        "failing_ms": None,
        "parked_ms": None,
        "why": "",
    }
    assert (found[1].claimed, found[1].due_ms) == (True, UNTIL)
    (nothing_owed,) = admin.status(ConfigFilter(quiet.task_id), 10)
    assert (nothing_owed.pending, nothing_owed.next_number, nothing_owed.due_ms) == (0, None, None)
