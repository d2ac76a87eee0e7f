"""Files that the SQLite store refuses, and why; its migrations (spec: DURA-09)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from a2a_server.ports.push import PushConfig
from a2a_server.ports.store import ContextQuery, StoreRefused
from tests.conformance.authors import ANN, UNLIMITED, Author, chunk, config
from tests.support.house import SqliteStore, schema
from tests.support.sqlite_file import make_older


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a2a.db"


def open_and_close(path: Path) -> None:
    async def session() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()

    asyncio.run(session())


def refusal(path: Path) -> str:
    with pytest.raises(StoreRefused) as caught:
        open_and_close(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_commit_waits_for_the_disk_itself(path: Path) -> None:
    """What no kill -9 can show: a power cut loses nothing either."""
    with ExitStack() as held:
        connection = schema.connect_writer(path, held)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


async def test_a_file_in_use_is_refused_until_it_is_free(path: Path) -> None:
    first, second = SqliteStore(path), SqliteStore(path)
    await first.open()
    with pytest.raises(StoreRefused, match=f"{path} is in use by another server"):
        await second.open()
    await Author(first).create()  # unharmed
    await first.close()
    await second.open()
    await second.close()


@pytest.mark.req("DURA-09")
async def test_of_many_who_open_a_new_file_one_gets_it(path: Path) -> None:
    stores = [SqliteStore(path) for _ in range(8)]
    results = await asyncio.gather(*(store.open() for store in stores), return_exceptions=True)
    assert [result for result in results if not isinstance(result, StoreRefused)] == [None]
    author = await Author(stores[results.index(None)]).create()
    await author.store.close()


@pytest.mark.req("DURA-09")
def test_a_file_from_a_newer_server_is_refused_and_left_alone(path: Path) -> None:
    open_and_close(path)
    newest = max(schema.migrations())
    run(path, f"PRAGMA user_version = {newest + 1}")
    before = path.read_bytes()
    text = refusal(path)
    assert f"has schema version {newest + 1}; this server knows versions up to {newest}" in text
    assert path.read_bytes() == before


@pytest.mark.req("DURA-09")
def test_migrations_are_numbered_without_gaps() -> None:
    assert list(schema.migrations()) == list(range(1, len(schema.migrations()) + 1))
    assert len(list((Path(schema.__file__).parent / "migrations").glob("*.sql"))) == len(schema.migrations())


@pytest.mark.req("DURA-09")
def test_migrations_are_applied_once_and_in_order(path: Path) -> None:
    steps = {1: "CREATE TABLE a (x);", 2: "ALTER TABLE a ADD COLUMN y;"}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        schema.migrate(connection, path, {1: steps[1]})
        for _ in range(2):
            schema.migrate(connection, path, steps)
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert [row[1] for row in connection.execute("PRAGMA table_info(a)")] == ["x", "y"]


@pytest.mark.req("DURA-09")
async def test_a_file_of_the_first_schema_keeps_its_configs_and_what_they_are_owed(path: Path) -> None:
    """Only 1.0 was spoken then, so that is what all its configs were made with."""
    store = SqliteStore(path)
    await store.open()
    author = await Author(store).create()
    await author.chunk("owed")
    await store.close()
    make_older(path, 1)
    hook = config(author.task_id)
    hook.config.authentication.scheme = "Bearer"
    with closing(sqlite3.connect(path)) as connection, connection:
        kept = (connection.execute("SELECT key FROM tasks").fetchone()[0], "c", 0, hook.config.SerializeToString())
        connection.execute("INSERT INTO configs (task, id, due_ms, wire) VALUES (?, ?, ?, ?)", kept)
        connection.execute("INSERT INTO debts SELECT key, 2 FROM configs")
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)

    await store.open()
    assert await store.configs(ANN, author.task_id, "", 10) == [PushConfig(hook.config, "1.0", ())]
    (delivery,) = await store.claim_deliveries(0, 1, 10, UNLIMITED)
    assert (delivery.hook, delivery.number, delivery.rejections) == (hook, 2, 0)
    assert delivery.scope == ANN
    assert [await store.count_configs(owner, delivery.host, 10) for owner in ("ann", "bob")] == [1, 0]
    younger = config(author.task_id, "d")._replace(version="0.3", schemes=("Basic",))
    await author.commit(author.write(chunk(3, "more"), configs=[younger]))
    assert await store.get_config(ANN, author.task_id, "d") == younger
    await store.close()


@pytest.mark.req("DURA-09", "AGNT-06")
async def test_the_contexts_of_an_older_file_are_remembered(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    author = await Author(store).create()
    await store.close()
    make_older(path, 6)

    await store.open()
    memory = await store.context(ContextQuery(ANN, author.context_id, "", 10, 10_000))
    assert [task.id for task in await memory.tasks()] == [author.task_id]
    await author.chunk("more", remember={"a": b"1"})
    assert memory.state() == {"a": b"1"}
    await store.close()


@pytest.mark.req("DURA-09")
def test_a_migration_that_fails_leaves_nothing(path: Path) -> None:
    steps = {1: "CREATE TABLE a (x);", 2: "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1);"}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.OperationalError):
            schema.migrate(connection, path, steps)
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("a",)]


def test_what_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("dear diary\n" * 1_000)
    assert "file is not a database" in refusal(path)
    assert path.read_text() == "dear diary\n" * 1_000


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    run(path, "CREATE TABLE diary (entry)")
    before = path.read_bytes()
    assert "is a database of another program" in refusal(path)
    assert path.read_bytes() == before


def test_an_empty_file_is_a_new_store(path: Path) -> None:
    path.touch()
    open_and_close(path)


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path / 'missing'} is not a directory" in refusal(tmp_path / "missing" / "a2a.db")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    assert "cannot be written: Is a directory" in refusal(tmp_path)


def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 33, 0))
    with pytest.raises(StoreRefused, match=r"needs 3\.34 or newer"):
        open_and_close(path)


def test_a_file_system_without_shared_memory_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_DURABLE", "")
    assert "which WAL mode needs" in refusal(path)


@pytest.mark.long
def test_a_file_that_another_program_keeps_locked_is_refused(path: Path) -> None:
    open_and_close(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert "cannot be used: database is locked" in refusal(path)


def test_a_refused_file_is_not_locked(path: Path) -> None:
    path.write_text("dear diary\n" * 1_000)
    refusal(path)
    path.unlink()
    open_and_close(path)
