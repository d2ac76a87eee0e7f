"""The store in a SQLite file keeps the promises, and those that only a file can keep."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.sqlite import writer
from a2a_server.adapters.sqlite import writer as module
from a2a_server.adapters.sqlite.writer import Writer
from a2a_server.ports.push import ConfigFilter, FailedAttempt
from a2a_server.ports.records import Receipt, TaskHead
from a2a_server.ports.retention import Deadlines
from a2a_server.ports.store import StaleWrite, Store, StoreUnavailable, TaskQuery
from tests.conformance.authors import ANN, ASKING, BOB, COMPLETED, THERE, UNLIMITED, Author, config
from tests.conformance.store_contract import StoreContract, StorePromises
from tests.support.house import INTERRUPTED, TERMINAL, SealedContent, SqlitePushAdmin, SqliteStore, TaskFilter, schema


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a2a.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.close()


class TestSqliteStore(StoreContract):
    """The contract; the fixture is the module's."""


class TestSealedSqliteStore(StorePromises):
    """The contract over a file whose content is sealed, but for counts: what is sealed is a little longer."""

    added = 43

    @pytest.fixture
    async def store(self, path: Path) -> AsyncIterator[SqliteStore]:
        store = SqliteStore(path, SealedContent([bytes(32)]))
        await store.open()
        yield store
        await store.close()


class TestTheFile:
    @pytest.mark.req("PAID-01", "PAID-03")
    async def test_claims_of_a_server_that_is_gone_are_void(self, store: SqliteStore, path: Path) -> None:
        """Nobody else can hold one, so that nobody has to wait until it lapses; what is put off stays so."""
        author = await Author(store).create()
        configs = [config(author.task_id, name) for name in ("claimed", "parked", "put off")]
        await author.chunk("x", configs=configs, notify=True)
        deliveries = {
            delivery.hook.config.id: delivery for delivery in await store.claim_deliveries(0, 1 << 60, 10, UNLIMITED)
        }
        await store.finish_attempt(deliveries["parked"], FailedAttempt(5, None, "gone"))
        await store.finish_attempt(deliveries["put off"], FailedAttempt(5, 1 << 50, "status 500"))
        await store.close()

        other = SqliteStore(path)
        await other.open()
        assert [delivery.hook.config.id for delivery in await other.claim_deliveries(1, 2, 10, UNLIMITED)] == [
            "claimed"
        ]
        found = {one.config_id: one for one in SqlitePushAdmin(path).status(ConfigFilter(), 10)}
        assert (found["parked"].parked_ms, found["parked"].why) == (5, "gone")
        assert (found["put off"].due_ms, found["put off"].attempts, found["put off"].failing_ms) == (1 << 50, 1, 5)
        await other.close()

    @pytest.mark.req("PAID-02")
    async def test_webhooks_do_not_wait_for_a_clock_that_was_set_back(self, store: SqliteStore, path: Path) -> None:
        """What was served in the future is due now, what is served next included."""
        author, ahead = await Author(store).create(), int(time.time() * 1000) + 86_400_000
        await author.chunk("x", configs=[config(author.task_id, name) for name in ("served", "put off")], notify=True)
        for delivery in await store.claim_deliveries(ahead, ahead + 1, 10, UNLIMITED):
            late = None if delivery.hook.config.id == "served" else FailedAttempt(ahead, ahead + 1_000, "status 500")
            await store.finish_attempt(delivery, late)
        await store.close()

        author.store = SqliteStore(path)
        await author.store.open()
        await author.chunk("y", notify=True)
        now = int(time.time() * 1000) + 1
        due = await author.store.claim_deliveries(now, now + 1, 10, UNLIMITED)
        assert [(delivery.hook.config.id, delivery.number) for delivery in due] == [("served", 3), ("put off", 2)]
        await author.store.close()

    async def test_another_server_finds_everything(self, store: SqliteStore, path: Path) -> None:
        author = await Author(store, state=ASKING).start(state=b"saved", receipt=Receipt("k", b"f", "t", 9_000))
        await author.chunk("one ", configs=[config(author.task_id)], notify=True)
        await author.chunk("two", artifacts=pb.Task().SerializeToString(), notify=True)
        await author.chunk("three")
        before, secret = await author.load(), await store.secret()
        await store.close()

        author.store = SqliteStore(path)
        await author.store.open()
        assert await author.load() == before
        assert await author.texts() == {"a": "three"}
        assert await author.store.secret() == secret
        assert await author.store.recall(ANN, "k", 0) == Receipt("k", b"f", "t", 9_000)
        page = await author.store.page(TaskQuery(ANN, TaskFilter(), None, 10, include_artifacts=True))
        assert (list(page.tasks), page.total) == ([before.task], 1)
        (delivery,) = await author.store.claim_deliveries(0, 1, 10, UNLIMITED)
        assert delivery.number == 2
        (claimed,) = await author.store.claim(THERE, 10)
        assert (claimed.epoch, len(claimed.turns)) == (2, 1)
        await author.store.close()

    async def test_nobody_else_may_read_the_file(self, store: SqliteStore, path: Path) -> None:
        await Author(store).create()
        files = list(path.parent.iterdir())
        assert len(files) == 4  # with its lock, its log and the log's index
        assert [file.stat().st_mode & 0o077 for file in files] == [0] * 4

    async def test_closing_leaves_one_file_that_holds_everything(self, store: SqliteStore, path: Path) -> None:
        await Author(store).create()
        await store.close()
        assert {file.name for file in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("SELECT count(*) FROM tasks").fetchone() == (1,)

    async def test_closing_does_what_was_accepted(self, store: SqliteStore) -> None:
        authors = [Author(store) for _ in range(500)]  # several groups
        writes = asyncio.gather(*(author.create() for author in authors))
        await asyncio.sleep(0)
        await store.close()
        await writes
        await store.open()
        assert all([await store.load(ANN, author.task_id) for author in authors])

    async def test_a_closed_store_is_unavailable(self, store: SqliteStore) -> None:
        author = await Author(store).create()
        await store.close()
        for use in (
            author.chunk("x"),
            author.load(),
            store.ping(),
            store.page(TaskQuery(ANN, TaskFilter(), None, 1, include_artifacts=False)),
        ):
            with pytest.raises(StoreUnavailable, match="closed"):
                await use


class TestGroups:
    async def test_a_bad_write_fails_alone(self, store: SqliteStore) -> None:
        authors = [Author(store) for _ in range(20)]
        writes = [author.write(author.first(), head=author.head()) for author in authors]
        bad = {3: TaskHead(b"", "\ud800", ASKING, 1_000), 7: TaskHead(b"", "context", ASKING, 2**70)}
        for number, head in bad.items():
            writes[number] = authors[number].write(authors[number].first(), head=head)
        results = await asyncio.gather(*map(store.commit, writes), return_exceptions=True)
        failed = {number: type(result) for number, result in enumerate(results) if result is not False}
        assert failed == {3: UnicodeEncodeError, 7: OverflowError}
        kept = [number for number, author in enumerate(authors) if await store.load(ANN, author.task_id)]
        assert kept == [number for number in range(20) if number not in failed]

    async def test_a_canceled_caller_disturbs_nobody(self, store: SqliteStore) -> None:
        tasks = [asyncio.create_task(Author(store).start()) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, Author) for result in results[1::2])

    async def test_another_programs_lock_is_waited_for(self, store: SqliteStore, path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            create = asyncio.create_task(Author(store).create())
            await asyncio.sleep(0.05)
            assert not create.done()
            assert await store.load(ANN, "never") is None  # reads go on
            other.execute("ROLLBACK")
            await create

    async def test_a_lock_that_stays_makes_the_store_unavailable(
        self, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer, "_PATIENCE", "PRAGMA busy_timeout = 20")
        monkeypatch.setattr(writer, "_WAITING", 3)
        authors = [Author(store) for _ in range(4)]
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            results = await asyncio.gather(*(author.create() for author in authors), return_exceptions=True)
            other.execute("ROLLBACK")
        expected = ["the store cannot do it now (SQLITE_BUSY)"] * 3 + ["3 writes wait for the disk"]
        assert [str(result) for result in results] == expected
        assert all(isinstance(result, StoreUnavailable) for result in results)
        await asyncio.gather(*(author.create() for author in authors[:3]))  # recovered by itself


def test_a_loop_that_dies_does_not_take_the_store_along(path: Path) -> None:
    store = SqliteStore(path)

    async def die() -> None:
        await store.open()
        other.execute("BEGIN IMMEDIATE")  # so that the write is still under way when the loop is closed
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(Author(store, "t").create(), 0.01)

    async def live() -> None:
        with pytest.raises(RuntimeError, match="another event loop"):
            await Author(store).create()
        await store.close()
        await store.open()
        assert (await store.load(ANN, "t")) is not None  # it had been accepted
        await Author(store).create()
        await store.close()

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        asyncio.run(die())
        other.execute("ROLLBACK")
        asyncio.run(live())


async def test_a_file_broken_from_outside_is_unavailable_and_shows_no_sql(store: SqliteStore, path: Path) -> None:
    author = await Author(store).create()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("DROP TABLE leases")
    for use in (author.load(), author.chunk("x"), store.waiting_since(ASKING, 9_000, 1)):
        with pytest.raises(StoreUnavailable, match=r"^the store cannot do it now \(SQLITE_ERROR\)$"):
            await use


async def test_totals_are_the_numbers_of_tasks(store: SqliteStore, path: Path) -> None:
    """No trigger keeps them, so whatever writes a task's state must."""
    for scope in (ANN, BOB):
        author = await Author(store, scope=scope).start()
        await Author(store, scope=scope, state=ASKING).create()
        await author.become(COMPLETED, end=[1])
        with pytest.raises(StaleWrite):
            await Author(store, author.task_id, scope).create()
    bad = Author(store, context_id="\ud800")  # takes its group down: everything in it is done again
    results = await asyncio.gather(Author(store).create(), bad.create(), return_exceptions=True)
    assert [type(result) for result in results] == [Author, UnicodeEncodeError]
    counted = "SELECT scope, state, count(*) FROM tasks GROUP BY scope, state"
    with closing(sqlite3.connect(path)) as connection:
        kept = connection.execute("SELECT scope, state, tasks FROM totals WHERE tasks > 0")
        assert sorted(kept) == sorted(connection.execute(counted))


def test_finished_tasks_are_those_that_cannot_go_on() -> None:
    states = ", ".join(map(str, sorted(TERMINAL)))
    for name in ("put", "finish"):
        assert f"state IN ({states})" in schema.queries("push.sql")[name]


def test_only_who_was_asked_is_in_the_order_of_waiting() -> None:
    states = ", ".join(map(str, sorted(INTERRUPTED)))
    assert f"state IN ({states})" in schema.migrations()[1]
    assert f"tasks.state IN ({states})" in schema.queries("lists.sql")["waiting_since"]


@pytest.mark.parametrize(
    "file", ["keys.sql", "lists.sql", "push.sql", "holdings.sql", "receipts.sql", "tasks.sql", "turns.sql"]
)
async def test_no_query_looks_at_all_rows(store: Store, path: Path, file: str) -> None:
    """Every table is reached by a key or an index, and nothing is sorted that an index could have in order."""
    with closing(sqlite3.connect(path)) as connection:
        for name, sql in schema.queries(file).items():
            names = re.findall(r":(\w+)", sql)
            values = dict.fromkeys(names, 0) if names else [0] * sql.count("?")
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
            slow = [step for step in plan if re.match(r"SCAN (?!live|hosts|\(subquery|CONSTANT)|USE TEMP", step)]
            assert not slow or name == "set_back", (name, plan)


async def test_writes_that_come_in_the_pause_after_a_group_are_one_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        paused.set()
        go_on.wait(10)

    monkeypatch.setattr(module, "_await_a_pause", pause)
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    begun: list[str] = []
    connection.set_trace_callback(lambda text: begun.append(text) if text.startswith("BEGIN") else None)
    writer = Writer(connection, asyncio.get_running_loop(), lambda: None)
    try:
        async with asyncio.timeout(30):
            await asyncio.gather(*[writer.do(_nothing) for _ in range(2)])
            await asyncio.to_thread(paused.wait, 10)
            later = [asyncio.ensure_future(writer.do(_nothing)) for _ in range(3)]
            await asyncio.sleep(0)
            later += [asyncio.ensure_future(writer.do(_nothing)) for _ in range(3)]
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(begun) == 1  # nothing begins before the pause is over
            go_on.set()
            await asyncio.gather(*later)
            assert len(begun) == 2
            await writer.drain()
    finally:
        go_on.set()
        await asyncio.to_thread(writer.stop)


async def test_a_writer_by_itself_waits_for_no_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[None] = []
    monkeypatch.setattr(module, "_await_a_pause", lambda: pauses.append(None))
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    writer = Writer(connection, asyncio.get_running_loop(), lambda: None)
    try:
        async with asyncio.timeout(30):
            for _ in range(5):
                await writer.do(_nothing)
            await writer.drain()
    finally:
        await asyncio.to_thread(writer.stop)
    assert not pauses


def _nothing(_: sqlite3.Connection) -> None:
    """A write is a write."""


class TestShrinking:
    """An idle file gives back what it does not need (spec: KEPT-01)."""

    async def test_free_pages_and_the_log_are_given_back_when_nobody_writes(
        self, store: SqliteStore, path: Path
    ) -> None:
        for number in range(300):
            author = await Author(store, f"old-{number}").start()
            await author.chunk("x" * 5_000)
            await author.become(COMPLETED, 1_000, end=[1])
        kept = await Author(store).create()
        while await store.sweep(Deadlines(tasks=5_000)) is not None:
            pass
        assert not await store.tidy()  # somebody has written since the last time
        log = path.with_name(f"{path.name}-wal")
        assert sizes(log)[0] > 2_000_000
        await emptied(store, log)
        await kept.chunk("after the log was emptied")
        await emptied(store, log)
        assert sizes(path)[0] < 500_000
        assert await store.load(ANN, "old-1") is None
        assert await kept.texts() == {"a": "after the log was emptied"}
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    async def test_a_log_that_is_gone_is_not_missed(self, store: SqliteStore, path: Path) -> None:
        await Author(store).create()
        path.with_name(f"{path.name}-wal").unlink()
        assert [await store.tidy() for _ in range(3)] == [False] * 3


async def emptied(store: SqliteStore, log: Path) -> None:
    async with asyncio.timeout(20):
        while any(sizes(log)):
            await store.tidy()
            await asyncio.sleep(0.01)


def sizes(*paths: Path) -> list[int]:
    return [path.stat().st_size for path in paths]
