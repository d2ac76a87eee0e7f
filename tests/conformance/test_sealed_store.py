"""A file whose content is sealed: nothing in it can be read, keys change, changed rows are noticed (spec: SECR-03)."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.push import ConfigFilter
from a2a_server.ports.records import Receipt, StoredTurn
from a2a_server.ports.retention import Chosen, Deadlines
from a2a_server.ports.sealing import PLAIN, UNSEALED, ContentSealing
from a2a_server.ports.store import ContextQuery, Store, StoreDamaged, StoreRefused, TaskQuery
from tests.conformance.authors import ANN, ASKING, BOB, COMPLETED, HERE, THERE, UNLIMITED, Author, chunk, config
from tests.support.house import (
    SealedContent,
    SqliteKeptAdmin,
    SqlitePushAdmin,
    SqliteSealingAdmin,
    SqliteStore,
    TaskFilter,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

SECRET = "cinnamon"
A, B = bytes(32), bytes(range(32))
Keys = tuple[bytes, ...]
NAMES: dict[Keys, str] = {(): PLAIN, **{(key,): SealedContent([key]).first for key in (A, B)}}


def sealing(keys: Keys) -> ContentSealing:
    return SealedContent(keys) if keys else UNSEALED


def admin(path: Path, keys: Keys, wanted: Keys | None = None) -> SqliteSealingAdmin:
    """What rekeys with the first of the keys, or with no key."""
    opens = sealing(keys)
    return SqliteSealingAdmin(path, opens, opens if wanted is None else sealing(wanted))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a2a.db"


@asynccontextmanager
async def opened(path: Path, keys: Keys) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, sealing(keys))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class Talker(Author):
    """An author whose task has the text in its history and status."""

    def task(self) -> pb.Task:
        task = super().task()
        task.history.add(message_id="m", parts=[pb.Part(text=f"{SECRET} said")])
        task.status.message.parts.add(text=f"{SECRET} now")
        return task


async def live(store: Store, number: int) -> Author:
    """A task that has the text wherever one can have it, more of it the higher its number."""
    text = f"{SECRET} {number} " * (number**2 + 1)
    author = Talker(store, f"task-{number}", context_id=f"c-{number}", state=ASKING, status_ms=number)
    hook = config(author.task_id, url=f"https://hook.example/{SECRET}")
    receipt = Receipt(f"k-{number}", b"f" * 32, author.task_id, 9_000, text.encode())
    await author.create(configs=[hook], notify=True, receipt=receipt, state=text.encode())
    turn, remembered = StoredTurn(1, text.encode()), {"a": text.encode()}
    await author.commit(author.write(claim=HERE, begin=[turn], remember=remembered))
    await author.commit(author.write(*(chunk(author.number + 1 + n, text) for n in range(number + 1))))
    whole = pb.Task(artifacts=[pb.Artifact(artifact_id="a", name=text)]).SerializeToString()
    await author.chunk(text, artifacts=whole)
    await author.chunk("more " + text)
    await author.say()
    return author


async def seen(store: Store, number: int) -> list[Any]:
    """Everything that the store says about a task."""
    task_id, context = f"task-{number}", ContextQuery(ANN, f"c-{number}", "", 10, 10**9)
    memory = await store.context(context)
    page = await store.page(TaskQuery(ANN, TaskFilter(context_id=f"c-{number}"), None, 10, include_artifacts=True))
    return [
        await store.load(ANN, task_id),
        await store.entries(task_id, 0, 1_000),
        (list(page.tasks), page.total),
        await store.recall(ANN, f"k-{number}", 0),
        await store.configs(ANN, task_id, "", 10),
        (list(memory.history()), list(await memory.tasks()), memory.state()),
    ]


def found(path: Path, text: str = SECRET) -> list[str]:
    """The files that hold the text."""
    return [file.name for file in path.parent.iterdir() if text.encode() in file.read_bytes()]


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def keys_in_use(path: Path) -> Sequence[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [key for (key,) in connection.execute("SELECT id FROM content_keys ORDER BY turn DESC")]


@pytest.mark.req("SECR-03", "SECR-07")
async def test_nothing_that_was_said_is_in_any_file(path: Path) -> None:
    async with opened(path, (A,)) as store:
        before = []
        for number in range(8):
            await live(store, number)
            before.append(await seen(store, number))
        await store.reserve(ANN, Receipt("only", b"f", "none", 9_000), 0)
        await store.answer(ANN, "only", SECRET.encode())
        assert SECRET in str(before)
        assert len(list(path.parent.iterdir())) == 4  # with the log and its index
        assert found(path) == []
    assert found(path) == []
    assert found(path, "f" * 32) == []  # nor the hash of what was sent
    assert found(path, "task-3") == [path.name]
    async with opened(path, (B, A)) as store:
        assert [await seen(store, number) for number in range(8)] == before
        receipt = await store.recall(ANN, "only", 0)
        assert receipt is not None
        assert receipt.reply == SECRET.encode()
        turns = {one.task_id: one.turns[0].request for one in await store.claim(THERE, 10)}
        assert turns["task-0"] == f"{SECRET} 0 ".encode()
        delivery, *_ = await store.claim_deliveries(0, 1, 10, UNLIMITED)
        assert delivery.hook.config.url.endswith(SECRET)


STEPS = [
    pytest.param((), (A,), id="from plain"),
    pytest.param((A,), (B, A), id="to a new key"),
    pytest.param((A,), (A,), id="the same key"),
]


@pytest.mark.req("SECR-03", "SECR-07")
@pytest.mark.parametrize(("before", "after"), STEPS)
async def test_everything_gets_a_new_key_and_says_the_same(path: Path, before: Keys, after: Keys) -> None:
    async with opened(path, before) as store:
        for number in range(12):
            await live(store, number)
        told = [await seen(store, number) for number in range(12)]
    assert bool(found(path)) == (not before)
    left = admin(path, after).keys().left
    assert (left == 0) == (before == after)
    counts: list[int] = []
    assert admin(path, after).rekey(counts.append) == (left, True)
    assert counts == sorted(counts)
    assert counts[-1:] == [left][: len(counts)]
    assert found(path) == []
    assert keys_in_use(path) == [NAMES[after[:1]]]
    assert admin(path, after[:1]).keys() == (NAMES[after[:1]], [NAMES[after[:1]]], 0)
    async with opened(path, after[:1]) as store:
        assert [await seen(store, number) for number in range(12)] == told
    if before and before != after:
        with pytest.raises(StoreRefused, match=f"sealed with the key '{NAMES[after[:1]]}', which store_keys lacks"):
            await SqliteStore(path, sealing(before)).open()


@pytest.mark.req("SECR-03")
async def test_a_sealed_store_can_be_made_plain_again(path: Path) -> None:
    async with opened(path, (A,)) as store:
        await live(store, 3)
        told = await seen(store, 3)
    assert admin(path, (A,), ()).rekey(lambda _: None)[1]
    assert keys_in_use(path) == [PLAIN]
    async with opened(path, ()) as store:
        assert await seen(store, 3) == told
    assert found(path)


@pytest.mark.req("SECR-03")
async def test_beside_a_server_it_goes_on_with_its_own_key_only(path: Path) -> None:
    async with opened(path, (A,)) as store:
        for number in range(6):
            await live(store, number)
    async with opened(path, (B, A)) as store:
        with pytest.raises(StoreRefused) as caught:
            admin(path, (A, B)).rekey(lambda _: None)
        assert str(caught.value) == (
            f"the store {path} is in use by a server that seals with the key '{NAMES[B,]}', and this command seals "
            f"with the key '{NAMES[A,]}'. Restart the server with the same store_keys, or stop it"
        )
        with pytest.raises(StoreRefused, match="and this command does not seal"):
            admin(path, (A, B), ()).rekey(lambda _: None)
        author = await live(store, 6)
        told = [await seen(store, number) for number in range(7)]
        count, rebuilt = admin(path, (B, A)).rekey(lambda _: None)
        assert count > 0
        assert not rebuilt
        assert keys_in_use(path) == [NAMES[B,]]
        assert [await seen(store, number) for number in range(7)] == told
        await author.chunk("and on")
        assert admin(path, (B,)).keys().left == 0


@pytest.mark.req("SECR-03")
async def test_what_ends_early_is_repeated(path: Path) -> None:
    async with opened(path, (A,)) as store:
        for number in range(12):
            await live(store, number)
        told = [await seen(store, number) for number in range(12)]

    class Ended(Exception):  # noqa: N818 - as an operator ends it
        pass

    def end(count: int) -> None:
        raise Ended(count)

    with pytest.raises(Ended) as caught:
        admin(path, (B, A)).rekey(end)
    done, left = caught.value.args[0], admin(path, (B, A)).keys().left
    assert done > 0
    assert left > 0
    assert keys_in_use(path) == [NAMES[B,], NAMES[A,]]
    for missing in ((A,), (B,), ()):
        with pytest.raises(StoreRefused, match="sealed with the key"):
            await SqliteStore(path, sealing(missing)).open()
        with pytest.raises(StoreRefused, match="sealed with the key"):
            admin(path, missing).rekey(lambda _: None)
    async with opened(path, (B, A)) as store:
        assert [await seen(store, number) for number in range(12)] == told
    assert admin(path, (B, A)).rekey(lambda _: None) == (left, True)
    async with opened(path, (B,)) as store:
        assert [await seen(store, number) for number in range(12)] == told


@pytest.mark.req("SECR-03")
async def test_a_key_that_a_server_has_taken_up_meanwhile_stays(path: Path) -> None:
    """A server that was restarted with the old key in front, and back, has written with it."""
    async with opened(path, (A,)) as store:
        await live(store, 1)
    async with opened(path, (B, A)):

        def restart(_: int) -> None:
            run(path, "UPDATE content_keys SET turn = turn + 4")

        admin(path, (B, A)).rekey(restart)
        assert keys_in_use(path) == [NAMES[B,], NAMES[A,]]
        admin(path, (B, A)).rekey(lambda _: None)
        assert keys_in_use(path) == [NAMES[B,]]


@pytest.mark.req("SECR-03", "KEPT-02")
async def test_what_is_left_of_a_task_that_was_being_removed_goes(path: Path) -> None:
    async with opened(path, ()) as store:
        await live(store, 5)
        await live(store, 6)
    hide = "UPDATE tasks SET scope = 0, id = '~1', context_id = '', head = x'' WHERE id = 'task-5'"
    run(path, hide, "DELETE FROM turns WHERE task = 1", "DELETE FROM leases WHERE task = 1")  # as the first step does
    admin(path, (A,)).rekey(lambda _: None)
    assert found(path) == []
    async with opened(path, (A,)) as store:
        assert (await seen(store, 6))[0] is not None


SWAPS = {
    "the head of another task": "UPDATE tasks SET head = (SELECT head FROM tasks WHERE key = 2) WHERE key = 1",
    "another owner": "UPDATE tasks SET scope = (SELECT key FROM scopes WHERE owner = 'bob') WHERE key = 1",
    "artifacts": "UPDATE artifacts SET wire = (SELECT wire FROM artifacts WHERE task = 2) WHERE task = 1",
    "agent state": "UPDATE agent_states SET wire = (SELECT wire FROM agent_states WHERE task = 2) WHERE task = 1",
    "an event of another task": "UPDATE events SET wire = (SELECT wire FROM events WHERE task = 2 AND number = 6) "
    "WHERE task = 1 AND number = 6",
    "another event": "UPDATE events SET wire = (SELECT wire FROM events WHERE task = 1 AND number = 5) "
    "WHERE task = 1 AND number = 6",
    "another kind of event": "UPDATE events SET wire = CAST(x'1a' || substr(wire, 2) AS BLOB) "
    "WHERE task = 1 AND number = 3",
    "another context": "UPDATE context_states SET value = (SELECT value FROM context_states WHERE context_id = 'c-2')"
    " WHERE context_id = 'c-1'",
    "receipt": "UPDATE receipts SET reply = (SELECT reply FROM receipts WHERE key = 'k-2') WHERE key = 'k-1'",
    "fingerprint": "UPDATE receipts SET fingerprint = (SELECT fingerprint FROM receipts WHERE key = 'k-2') "
    "WHERE key = 'k-1'",
    "config": "UPDATE configs SET wire = (SELECT wire FROM configs WHERE task = 2) WHERE task = 1",
    "a longer head": "UPDATE tasks SET head = CAST(head || x'00' AS BLOB) WHERE key = 1",
    "a shorter head": "UPDATE tasks SET head = substr(head, 1, length(head) - 1) WHERE key = 1",
    "a plain head": "UPDATE tasks SET head = x'0a0474686569' WHERE key = 1",
    "a plain event": "UPDATE events SET wire = x'1200' WHERE number = 3 AND task = 1",
}


@pytest.mark.req("SECR-03")
@pytest.mark.parametrize("swap", SWAPS.values(), ids=SWAPS)
async def test_rows_that_were_changed_show_nothing(path: Path, swap: str) -> None:
    async with opened(path, (A,)) as store:
        for number in (1, 2):
            await live(store, number)
            await seen(store, number)
        await Author(store, "other", BOB).create()
    run(path, swap)
    async with opened(path, (A,)) as store:
        with pytest.raises(StoreDamaged, match="in the store is damaged"):
            await (store.load(BOB, "task-1") if "scope" in swap else seen(store, 1))
        assert await store.load(BOB, "other")
        assert await seen(store, 2)
    with pytest.raises(StoreDamaged):
        admin(path, (B, A)).rekey(lambda _: None)


@pytest.mark.req("SECR-03")
async def test_turns_that_were_swapped_are_not_taken_over(path: Path) -> None:
    async with opened(path, (A,)) as store:
        await live(store, 1)
        await live(store, 2)
    run(path, "UPDATE turns SET request = (SELECT request FROM turns WHERE task = 2)")
    async with opened(path, (A,)) as store:
        with pytest.raises(StoreDamaged, match=r"^the turn task-1 1 in the store is damaged, or in the wrong place$"):
            await store.claim(THERE, 10)
    run(path, "DELETE FROM turns WHERE task = 1", "UPDATE leases SET turns = 0 WHERE task = 1")
    async with opened(path, (A,)) as store:  # nothing was claimed
        assert [one.epoch for one in await store.claim(THERE, 10)] == [2]


@pytest.mark.req("SECR-03", "PAID-01")
async def test_a_damaged_config_holds_up_no_other(path: Path) -> None:
    async with opened(path, (A,)) as store:
        await live(store, 1)
        await live(store, 2)
    run(path, "UPDATE configs SET wire = (SELECT wire FROM configs WHERE task = 2)")
    async with opened(path, (A,)) as store:
        assert [one.task_id for one in await store.claim_deliveries(5, 6, 10, UNLIMITED)] == ["task-2"]
    with closing(sqlite3.connect(path)) as connection:
        parked = connection.execute("SELECT task, why, due_ms FROM configs WHERE parked_ms = 5").fetchall()
    assert parked == [(1, "damaged in the store", None)]


@pytest.mark.req("SECR-03")
async def test_operators_see_urls_with_the_key_only(path: Path) -> None:
    async with opened(path, (A,)) as store:
        await live(store, 1)
    (account,) = SqlitePushAdmin(path, sealing((B, A))).status(ConfigFilter(), 10)
    assert account.url == f"https://hook.example/{SECRET}"
    with pytest.raises(StoreRefused, match="and store_keys is empty"):
        SqlitePushAdmin(path).status(ConfigFilter(), 1)
    with pytest.raises(StoreRefused, match="and store_keys is empty"):
        SqlitePushAdmin(path).drop(ConfigFilter())


@pytest.mark.req("SECR-03", "KEPT-01")
async def test_logs_are_removed_and_the_last_artifacts_kept_sealed(path: Path) -> None:
    """The artifacts of a task that ended in a crash are in its log alone, and are written as a whole."""
    async with opened(path, (A,)) as store:
        for number in (1, 2):
            author = await Author(store, f"task-{number}").create()
            await author.chunk(SECRET)
            await author.become(COMPLETED)
        while await store.sweep(Deadlines(events=5_000)) is not None:
            pass
        assert await store.entries("task-1", 0, 10) == []
        assert await Author(store, "task-1").texts() == {"a": SECRET}
    assert found(path) == []
    with pytest.raises(StoreRefused, match="and store_keys is empty"):
        SqliteKeptAdmin(path).remove(Deadlines(tasks=5_000), lambda *_: True, lambda _: None)
    removed = SqliteKeptAdmin(path, sealing((A,))).remove(Deadlines(tasks=5_000), lambda *_: True, lambda _: None)
    assert removed.tasks == 2


@pytest.mark.req("SECR-03", "KEPT-01")
async def test_a_damaged_task_keeps_its_log_and_no_other_does(path: Path) -> None:
    async with opened(path, (A,)) as store:
        for number in (1, 2, 3):
            author = await Author(store, f"task-{number}").create()
            await author.chunk(SECRET)
            await author.become(COMPLETED)
    run(path, "UPDATE events SET wire = CAST(wire || x'00' AS BLOB) WHERE task = 2")
    async with opened(path, (A,)) as store:
        with structlog.testing.capture_logs() as logs:
            while await store.sweep(Deadlines(events=5_000)) is not None:
                pass
    assert [line["why"] for line in logs] == ["the event task-2 2 in the store is damaged, or in the wrong place"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT DISTINCT task FROM events").fetchall() == [(2,)]


@pytest.mark.req("SECR-03", "DURA-09")
async def test_a_file_from_before_has_plain_content(path: Path) -> None:
    async with opened(path, ()) as store:
        await live(store, 1)
        told = await seen(store, 1)
    run(path, "DROP TABLE content_keys", "PRAGMA user_version = 10")
    async with opened(path, (A,)) as store:
        assert await seen(store, 1) == told
        assert keys_in_use(path) == [NAMES[A,], PLAIN]
        await live(store, 2)
    admin(path, (A,)).rekey(lambda _: None)
    assert found(path) == []


async def test_there_must_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="there is no store"):
        admin(tmp_path / "no.db", (A,)).rekey(lambda _: None)


@pytest.mark.req("SECR-03", "SECR-07")
async def test_unused_parts_of_pages_keep_nothing_either(path: Path) -> None:
    """SQLite leaves old copies of rows behind when it splits pages; rebuilding the file is what removes these."""
    dice = random.Random(1984)
    async with opened(path, ()) as store:
        for _ in range(20):
            receipts = [
                Receipt(f"{dice.random()}", b"f", "t", 9_000, SECRET.encode() * dice.randrange(120)) for _ in range(100)
            ]
            await asyncio.gather(*(store.reserve(ANN, receipt, 0) for receipt in receipts))
    async with opened(path, (A,)):
        count, rebuilt = admin(path, (A,)).rekey(lambda _: None)
        assert count > 2_000
        assert not rebuilt
    assert found(path) == [path.name]
    assert admin(path, (A,)).rekey(lambda _: None) == (0, True)
    assert found(path) == []


@pytest.mark.req("LIMT-02")
@pytest.mark.parametrize(("before", "after"), [((), (A,)), ((A,), (B, A))])
async def test_what_owners_have_is_counted_as_it_is_stored_then(path: Path, before: Keys, after: Keys) -> None:
    async with opened(path, before) as store:
        for number in range(3):
            await live(store, number)
    admin(path, after).rekey(lambda _: None)
    with closing(sqlite3.connect(path)) as connection:
        counted = connection.execute("SELECT sum(bytes) FROM totals").fetchone()
        stored = connection.execute(
            "SELECT (SELECT sum(bytes) FROM task_sizes) + (SELECT sum(length(value)) FROM context_states)"
        ).fetchone()
    assert counted == stored
    SqliteKeptAdmin(path, sealing(after)).remove(Chosen(owner=ANN.owner), lambda *_: True, lambda _: None)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT coalesce(sum(bytes), 0) FROM totals").fetchone() == (0,)
