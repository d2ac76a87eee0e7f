"""A sealed PostgreSQL database: nothing in it can be read, keys change, changed rows are noticed (spec: SECR-03)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
import pytest
import structlog

from a2a_server.ports.push import ConfigFilter
from a2a_server.ports.records import Receipt
from a2a_server.ports.retention import Chosen, Deadlines, Removed
from a2a_server.ports.sealing import PLAIN
from a2a_server.ports.store import StoreDamaged, StoreRefused
from tests.conformance.authors import ANN, COMPLETED, THERE, UNLIMITED, Author
from tests.conformance.test_sealed_store import NAMES, SECRET, A, B, Keys, live, sealing, seen
from tests.support.house import (
    PostgresKeptAdmin,
    PostgresOptions,
    PostgresPushAdmin,
    PostgresSealingAdmin,
    PostgresStore,
)
from tests.support.postgres import all_rows, execute

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def opened(dsn: str, keys: Keys) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(PostgresOptions(dsn=dsn), sealing(keys))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def keys_in_use(dsn: str) -> list[str]:
    return [key for (key,) in execute(dsn, "SELECT id FROM a2ad.content_keys ORDER BY turn DESC")]


@pytest.mark.req("SECR-03", "SECR-07")
async def test_nothing_that_was_said_is_in_any_row(postgres: str) -> None:
    async with opened(postgres, (A,)) as store:
        before = []
        for number in range(5):
            await live(store, number)
            before.append(await seen(store, number))
        await store.reserve(ANN, Receipt("only", b"f", "none", 9_000), 0)
        await store.answer(ANN, "only", SECRET.encode())
    assert SECRET in str(before)
    rows = all_rows(postgres)
    assert SECRET.encode() not in rows
    assert b"f" * 32 not in rows  # nor the hash of what was sent
    assert b"task-3" in rows
    async with opened(postgres, (B, A)) as store:
        assert keys_in_use(postgres) == [NAMES[B,], NAMES[A,]]
        assert [await seen(store, number) for number in range(5)] == before
        receipt = await store.recall(ANN, "only", 0)
        assert receipt is not None
        assert receipt.reply == SECRET.encode()
        turns = {one.task_id: one.turns[0].request for one in await store.claim(THERE, 10)}
        assert turns["task-0"] == f"{SECRET} 0 ".encode()
        delivery, *_ = await store.claim_deliveries(0, 1, 10, UNLIMITED)
        assert delivery.hook.config.url.endswith(SECRET)


@pytest.mark.req("SECR-03")
async def test_a_missing_key_stops_the_start(postgres: str) -> None:
    async with opened(postgres, (A,)) as store:
        await live(store, 1)
        told = await seen(store, 1)
    with pytest.raises(StoreRefused) as caught:
        await PostgresStore(PostgresOptions(dsn=postgres), sealing((B,))).open()
    assert str(caught.value) == (
        f"the store has content that is sealed with the key '{NAMES[A,]}', which store_keys lacks. "
        "Add it behind the first; `a2ad db rekey` makes it needless"
    )
    with pytest.raises(StoreRefused, match="and store_keys is empty"):
        await PostgresStore(PostgresOptions(dsn=postgres)).open()
    assert keys_in_use(postgres) == [NAMES[A,]]
    async with opened(postgres, (A,)) as store:  # nobody has kept the database
        assert await seen(store, 1) == told


@pytest.mark.req("SECR-03")
async def test_plain_content_stays_readable_when_a_key_is_set(postgres: str) -> None:
    async with opened(postgres, ()) as store:
        await live(store, 1)
        told = await seen(store, 1)
    async with opened(postgres, (A,)) as store:
        assert await seen(store, 1) == told
        await live(store, 2)
        told += await seen(store, 2)
    assert keys_in_use(postgres) == [NAMES[A,], PLAIN]
    async with opened(postgres, (A,)) as store:
        assert await seen(store, 1) + await seen(store, 2) == told


SWAPS = {
    "the head of another task": "tasks SET head = (SELECT head FROM a2ad.tasks WHERE task = 'task-2')",
    "artifacts": "artifacts SET wire = (SELECT wire FROM a2ad.artifacts WHERE task = 'task-2')",
    "agent state": "agent_states SET wire = (SELECT wire FROM a2ad.agent_states WHERE task = 'task-2')",
    "another event": "events SET wire = (SELECT wire FROM a2ad.events WHERE task = 'task-2' AND events.number = 6)",
    "config": "configs SET wire = (SELECT wire FROM a2ad.configs WHERE task = 'task-2')",
    "receipt": "receipts SET reply = (SELECT reply FROM a2ad.receipts WHERE task = 'task-2')",
    "a plain head": r"tasks SET head = '\x0a0474686569'",
}


@pytest.mark.req("SECR-03")
@pytest.mark.parametrize("swap", SWAPS.values(), ids=SWAPS)
async def test_rows_that_were_changed_show_nothing(postgres: str, swap: str) -> None:
    async with opened(postgres, (A,)) as store:
        for number in (1, 2):
            await live(store, number)
        execute(postgres, f"UPDATE a2ad.{swap} WHERE task = 'task-1'")
        with pytest.raises(StoreDamaged, match="in the store is damaged"):
            await seen(store, 1)
        assert await seen(store, 2)


@pytest.mark.req("SECR-03")
async def test_another_contexts_values_show_nothing(postgres: str) -> None:
    async with opened(postgres, (A,)) as store:
        for number in (1, 2):
            await live(store, number)
        execute(
            postgres,
            "UPDATE a2ad.context_states SET value = (SELECT value FROM a2ad.context_states WHERE context_id = 'c-2')",
        )
        with pytest.raises(StoreDamaged, match=r"^the context acme ann c-1 a in the store is damaged"):
            await seen(store, 1)
        assert await seen(store, 2)


@pytest.mark.req("SECR-03")
async def test_turns_that_were_swapped_are_not_taken_over(postgres: str) -> None:
    async with opened(postgres, (A,)) as store:
        await live(store, 1)
        await live(store, 2)
        execute(postgres, "UPDATE a2ad.turns SET request = (SELECT request FROM a2ad.turns WHERE task = 'task-2')")
        with pytest.raises(StoreDamaged, match=r"^the turn task-1 1 in the store is damaged, or in the wrong place$"):
            await store.claim(THERE, 10)
        execute(postgres, "DELETE FROM a2ad.turns WHERE task = 'task-1'")
        execute(postgres, "UPDATE a2ad.fences SET busy = false WHERE task = 'task-1'")
        assert [one.epoch for one in await store.claim(THERE, 10)] == [2]  # nothing was claimed before


@pytest.mark.req("SECR-03", "PAID-01")
async def test_a_damaged_config_holds_up_no_other(postgres: str) -> None:
    async with opened(postgres, (A,)) as store:
        await live(store, 1)
        await live(store, 2)
        execute(postgres, "UPDATE a2ad.configs SET wire = (SELECT wire FROM a2ad.configs WHERE task = 'task-2')")
        assert [one.task_id for one in await store.claim_deliveries(5, 6, 10, UNLIMITED)] == ["task-2"]
    parked = execute(postgres, "SELECT task, why, due_ms FROM a2ad.configs WHERE parked_ms = 5")
    assert parked == [("task-1", "damaged in the store", None)]


@pytest.mark.req("SECR-03")
async def test_operators_see_urls_with_the_key_only(postgres: str) -> None:
    async with opened(postgres, (A,)) as store:
        await live(store, 1)
    options = PostgresOptions(dsn=postgres)
    (account,) = PostgresPushAdmin(options, sealing((B, A))).status(ConfigFilter(), 10)
    assert account.url == f"https://hook.example/{SECRET}"
    for admin in (PostgresPushAdmin(options).status, PostgresPushAdmin(options, sealing((B,))).status):
        with pytest.raises(StoreRefused, match=f"sealed with the key '{NAMES[A,]}'"):
            admin(ConfigFilter(), 1)
    with pytest.raises(StoreRefused, match="and store_keys is empty"):
        PostgresPushAdmin(options).drop(ConfigFilter())
    assert PostgresPushAdmin(options, sealing((A,))).drop(ConfigFilter()) > 0


@pytest.mark.req("SECR-03", "KEPT-01")
async def test_logs_are_removed_and_the_last_artifacts_kept_sealed(postgres: str) -> None:
    """The artifacts of a task that ended in a crash are in its log alone, and are written as a whole."""
    async with opened(postgres, (A,)) as store:
        for number in (1, 2, 3):
            author = await Author(store, f"task-{number}").create()
            await author.chunk(SECRET)
            await author.become(COMPLETED)
        execute(postgres, r"UPDATE a2ad.events SET wire = wire || '\x00' WHERE task = 'task-2'")
        with structlog.testing.capture_logs() as logs:
            while await store.sweep(Deadlines(events=5_000)) is not None:
                pass
        assert [line["why"] for line in logs] == ["the event task-2 2 in the store is damaged, or in the wrong place"]
        assert execute(postgres, "SELECT DISTINCT task FROM a2ad.events") == [("task-2",)]
        for task_id in ("task-1", "task-3"):
            assert await Author(store, task_id).texts() == {"a": SECRET}
    assert SECRET.encode() not in all_rows(postgres)


@pytest.mark.req("SECR-03", "KEPT-02")
async def test_pruning_needs_the_key_and_deleting_does_not(postgres: str) -> None:
    async with opened(postgres, (A,)) as store:
        author = await Author(store, "task-1").create()
        await author.chunk(SECRET)
        await author.become(COMPLETED)
        options, old = PostgresOptions(dsn=postgres), Deadlines(events=5_000)
        for keys in ((), (B,)):
            with pytest.raises(StoreRefused, match=f"sealed with the key '{NAMES[A,]}'"):
                PostgresKeptAdmin(options, sealing(keys)).remove(old, lambda *_: True, lambda _: None)
        assert (await author.load()).number == 3
        gone = PostgresKeptAdmin(options, sealing((A,))).remove(old, lambda *_: True, lambda _: None)
        assert gone == Removed(events=3)
        assert await author.texts() == {"a": SECRET}
        assert SECRET.encode() not in all_rows(postgres)
        gone = PostgresKeptAdmin(options).remove(Chosen(task="task-1"), lambda *_: True, lambda _: None)
        assert gone == Removed(tasks=1)


def admin(dsn: str, keys: Keys, wanted: Keys | None = None) -> PostgresSealingAdmin:
    """What rekeys with the first of the keys, or with no key."""
    opens = sealing(keys)
    return PostgresSealingAdmin(PostgresOptions(dsn=dsn), opens, opens if wanted is None else sealing(wanted))


STEPS = [((), (A,)), ((A,), (B, A)), ((A,), (A,))]


@pytest.mark.req("SECR-03", "SECR-07")
@pytest.mark.parametrize(("before", "after"), STEPS)
async def test_everything_gets_a_new_key_and_says_the_same(postgres: str, before: Keys, after: Keys) -> None:
    async with opened(postgres, before) as store:
        for number in range(12):
            await live(store, number)
        told = [await seen(store, number) for number in range(12)]
        held = await store.holdings("ann")
    left = admin(postgres, after).keys().left
    assert (left == 0) == (before == after)
    counts: list[int] = []
    assert admin(postgres, after).rekey(counts.append) == (left, False)
    assert counts == sorted(counts)
    assert counts[-1:] == [left][: len(counts)]
    assert SECRET.encode() not in all_rows(postgres)
    assert keys_in_use(postgres) == [NAMES[after[:1]]]
    assert admin(postgres, after[:1]).keys() == (NAMES[after[:1]], [NAMES[after[:1]]], 0)
    async with opened(postgres, after[:1]) as store:
        assert [await seen(store, number) for number in range(12)] == told
        added = 24 * (43 if before == () else 0)  # to configs and values; what tasks hold is counted as before
        assert await store.holdings("ann") == held._replace(bytes=held.bytes + added)
    if before and before != after:
        with pytest.raises(StoreRefused, match=f"sealed with the key '{NAMES[after[:1]]}', which store_keys lacks"):
            await PostgresStore(PostgresOptions(dsn=postgres), sealing(before)).open()
    removal = PostgresKeptAdmin(PostgresOptions(dsn=postgres), sealing(after))
    assert removal.remove(Chosen(owner="ann"), lambda *_: True, lambda _: None).tasks == 12
    assert execute(postgres, "SELECT count(*) FROM a2ad.totals") == [(0,)]


@pytest.mark.req("SECR-03")
async def test_a_sealed_database_can_be_made_plain_again(postgres: str) -> None:
    async with opened(postgres, (A,)) as store:
        await live(store, 3)
        told = await seen(store, 3)
    admin(postgres, (A,), ()).rekey(lambda _: None)
    assert keys_in_use(postgres) == [PLAIN]
    async with opened(postgres, ()) as store:
        assert await seen(store, 3) == told


@pytest.mark.req("SECR-03")
async def test_beside_servers_it_goes_on_with_their_own_key_only(postgres: str) -> None:
    async with opened(postgres, (A,)) as store, opened(postgres, (B, A)) as other:
        for number in range(6):
            await live(store, number)
        assert await store.beat("the-older-server", 600)
        assert await other.beat("the-newer-server", 600)
        with pytest.raises(StoreRefused) as caught:  # the older one goes on with its key
            admin(postgres, (B, A)).rekey(lambda _: None)
        assert str(caught.value).partition(" is in use ")[2] == (
            f"by a server that seals with the key '{NAMES[A,]}', with the session the-older-se, and this command "
            f"seals with the key '{NAMES[B,]}'. Restart all servers with the same store_keys, or stop them"
        )
        await store.end_session("the-older-server")
        with pytest.raises(StoreRefused, match="and this command does not seal"):
            admin(postgres, (A, B), ()).rekey(lambda _: None)
        author = await live(other, 6)
        told = [await seen(other, number) for number in range(7)]
        count, _ = admin(postgres, (B, A)).rekey(lambda _: None)
        assert count > 0
        assert keys_in_use(postgres) == [NAMES[B,]]
        assert [await seen(other, number) for number in range(7)] == told
        await author.chunk("and on")
        assert admin(postgres, (B,)).keys().left == 0
        execute(postgres, "WITH old AS (UPDATE a2ad.sessions SET seals_with = NULL RETURNING 1) SELECT * FROM old")
        with pytest.raises(StoreRefused, match="in use by a server that is of an older version"):
            admin(postgres, (B, A)).rekey(lambda _: None)


@pytest.mark.req("SECR-03")
async def test_rows_that_are_being_written_are_not_waited_for(postgres: str) -> None:
    async with opened(postgres, ()) as store:
        for number in range(3):
            await live(store, number)
        told = [await seen(store, number) for number in range(3)]
    left = admin(postgres, (A,)).keys().left
    held = await asyncpg.connect(postgres)
    writing = held.transaction()
    await writing.start()
    await held.execute("SELECT 1 FROM a2ad.tasks, a2ad.events FOR UPDATE")
    rekeying = asyncio.create_task(asyncio.to_thread(admin(postgres, (A,)).rekey, lambda _: None))
    while not execute(postgres, "SELECT 1 FROM a2ad.content_keys WHERE id <> ''"):  # noqa: ASYNC110 - it polls a database
        await asyncio.sleep(0.01)
    assert keys_in_use(postgres) == [NAMES[A,], PLAIN]
    await writing.rollback()
    await held.close()
    assert await rekeying == (left, False)
    assert keys_in_use(postgres) == [NAMES[A,]]
    async with opened(postgres, (A,)) as store:
        assert [await seen(store, number) for number in range(3)] == told


@pytest.mark.req("SECR-03")
async def test_a_run_that_ends_early_is_gone_on_with(postgres: str) -> None:
    async with opened(postgres, (A,)) as store:
        for number in range(12):
            await live(store, number)
        told = [await seen(store, number) for number in range(12)]

    class EndedError(Exception):
        pass

    def end(count: int) -> None:
        if count > 20:
            raise EndedError

    all_of_it = admin(postgres, (B, A)).keys().left
    with pytest.raises(EndedError):
        admin(postgres, (B, A)).rekey(end)
    assert keys_in_use(postgres) == [NAMES[B,], NAMES[A,]]
    left = admin(postgres, (B, A)).keys().left
    assert 0 < left < all_of_it
    async with opened(postgres, (B, A)) as store:
        assert [await seen(store, number) for number in range(12)] == told
    assert admin(postgres, (B, A)).rekey(lambda _: None) == (left, False)
    assert keys_in_use(postgres) == [NAMES[B,]]


@pytest.mark.req("SECR-03")
async def test_servers_write_while_everything_is_rewritten(postgres: str) -> None:
    async with opened(postgres, ()) as store:
        for number in range(12):
            await live(store, number)
    async with opened(postgres, (A,)) as store, opened(postgres, (A,)) as other:
        rekeying = asyncio.create_task(asyncio.to_thread(admin(postgres, (A,)).rekey, lambda _: None))
        authors = await asyncio.gather(*(live(one, number) for number, one in enumerate([store, other] * 10, 12)))
        while not rekeying.done():
            await asyncio.gather(*(author.chunk("x") for author in authors))
        assert (await rekeying)[0] > 0
        told = [await seen(store, number) for number in range(32)]
        assert admin(postgres, (A,)).keys() == (NAMES[A,], [NAMES[A,]], 0)
    async with opened(postgres, (A,)) as store:
        assert [await seen(store, number) for number in range(32)] == told
    removal = PostgresKeptAdmin(PostgresOptions(dsn=postgres), sealing((A,)))
    assert removal.remove(Chosen(owner="ann"), lambda *_: True, lambda _: None).tasks == 32
    assert execute(postgres, "SELECT count(*) FROM a2ad.totals") == [(0,)]
