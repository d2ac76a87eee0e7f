"""Copies of stores, from file to database and back: everything arrives, or nothing stays (spec: OPER-04, DURA-09)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.copying import COLUMNS, CopyProgress, CopyTarget, Digest, copy
from a2a_server.ports.keys import KeyAdmin, StoredKey
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import Receipt
from a2a_server.ports.sealing import UNSEALED, ContentSealing
from a2a_server.ports.store import ContextQuery, Store, StoreDamaged, StoreRefused, TaskQuery
from tests.conformance.authors import ANN, ANN_ELSEWHERE, ASKING, BOB, COMPLETED, HERE, UNLIMITED, Author, config
from tests.conformance.store_push import put_off
from tests.conformance.store_retention import finished
from tests.e2e.processes import environment
from tests.support.house import (
    PostgresKeyAdmin,
    PostgresOptions,
    PostgresStore,
    Scope,
    SealedContent,
    SqliteKeyAdmin,
    SqliteStore,
    TaskFilter,
    Trace,
    postgres_copying,
    sqlite_copying,
)
from tests.support.postgres import all_rows, execute

Place = Path | str
"""A file, or the URL of a database."""
SCOPES = (ANN, ANN_ELSEWHERE, BOB)
KEY = StoredKey(
    "id", b"digest", "ann", "acme", frozenset({"b", "a"}), extended_card=True, name="n", made_ms=1, used_ms=7
)
SECRET = "cinnamon"


@asynccontextmanager
async def opened(place: Place, sealing: ContentSealing = UNSEALED) -> AsyncIterator[Store]:
    store = (
        PostgresStore(PostgresOptions(dsn=place), sealing) if isinstance(place, str) else SqliteStore(place, sealing)
    )
    await store.open()
    yield store
    await store.close()


def admin_of(place: Place) -> KeyAdmin:
    return PostgresKeyAdmin(PostgresOptions(dsn=place)) if isinstance(place, str) else SqliteKeyAdmin(place)


def source_of(place: Place) -> AbstractContextManager[Any]:
    if isinstance(place, str):
        return postgres_copying.copied_from(PostgresOptions(dsn=place))
    return sqlite_copying.copied_from(place)


def target_of(place: Place) -> AbstractContextManager[Any]:
    if isinstance(place, str):
        return postgres_copying.copied_to(PostgresOptions(dsn=place))
    return sqlite_copying.copied_to(place)


def copied(source: Place, target: Place) -> tuple[dict[str, int], list[CopyProgress]]:
    said: list[CopyProgress] = []
    with source_of(source) as rows, target_of(target) as empty:
        return copy(rows, empty, said.append), said


async def fill(store: Store, place: Place) -> None:
    """Something of every kind, in every state that the stores tell apart."""
    await finished(store, chunks=3)
    whole = await Author(store, "whole", ANN_ELSEWHERE).start(state=b"state", remember={"a\0ü": SECRET.encode()})
    artifacts = pb.Task(artifacts=[pb.Artifact(artifact_id="a", name=SECRET)]).SerializeToString()
    await whole.become(COMPLETED, 5_000, end=[1], artifacts=artifacts)
    waiting = await Author(store, "waiting", BOB).start(receipt=Receipt("k", b"print", "waiting", 9_000))
    await waiting.become(ASKING, end=[1])
    hooks = [config("waiting", "c"), PushConfig(config("waiting", "d", "https://b.example/").config, "0.3", ("B", "Ü"))]
    traces = [(3, Trace(f"00-{'1' * 32}-{'2' * 16}-01", "a=b"))]
    await waiting.commit(waiting.write(waiting.next_chunk(0, SECRET), configs=hooks, notify=True, traces=traces))
    await waiting.say(notify=True)
    running = await Author(store, "running").start()
    for number in range(3):
        await running.chunk(str(number))
    await store.reserve(ANN, Receipt("alone", b"other", "none", 9_000), 0)
    await store.answer(ANN, "alone", b"reply")
    (one, _) = sorted(await store.claim_deliveries(1, 2, 10, UNLIMITED), key=lambda one: one.hook.config.id)
    await store.finish_attempt(one, put_off(None, why="gone"))
    admin_of(place).make(KEY)
    admin_of(place).make(KEY._replace(key_id="other", digest=b"d", scopes=None, extended_card=False))
    admin_of(place).revoke("other", 5)


async def contents(store: Store) -> dict[str, Any]:
    """All that the port shows."""
    found: dict[str, Any] = {"secret": await store.secret(), "keys": await store.keys_after(0, 10)}  # type: ignore[attr-defined]
    for scope in SCOPES:
        page = await store.page(TaskQuery(scope, TaskFilter(), None, 100, include_artifacts=True))
        found[f"page {scope}"] = page
        memory = await store.context(ContextQuery(scope, "context", "", 100, 10**9))
        found[f"context {scope}"] = ([*memory.history()], await memory.tasks(), {**memory.state()})
        for task in page.tasks:
            stored = await store.load(scope, task.id)
            assert stored is not None
            found[task.id] = stored._replace(session="")
            found[f"log {task.id}"] = await store.entries(task.id, 0, 100)
            found[f"hooks {task.id}"] = await store.configs(scope, task.id, "", 100)
        for key in ("k", "alone"):
            receipt = await store.recall(scope, key, 0)
            found[f"receipt {scope} {key}"] = receipt and (receipt.task_id, receipt.fingerprint, receipt.reply)
    found["bob"] = await store.holdings("bob")
    found["waiting"] = await store.waiting_since(ASKING, 10**9, 10)
    return found


@pytest.mark.req("OPER-04", "DURA-09")
@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("way", ["file to database", "database to file"])
async def test_everything_is_copied_there_and_back(
    own_postgres: str, tmp_path: Path, way: str, *, sealed: bool
) -> None:
    places: list[Place] = [tmp_path / "a.db", own_postgres, tmp_path / "b.db"]
    if way == "database to file":
        places = [own_postgres, tmp_path / "a.db"]
    sealing = SealedContent([bytes(32)]) if sealed else UNSEALED
    async with opened(places[0], sealing) as store:
        await fill(store, places[0])
        before = await contents(store)
    for source, target in pairwise(places):
        rows, said = copied(source, target)
        assert {kind: rows[kind] for kind in ("tasks", "events", "turns", "configs", "debts", "api_keys")} == {
            "tasks": 4, "events": 15, "turns": 1, "configs": 2, "debts": 2, "api_keys": 2,
        }  # fmt: skip
        assert [at.rows for at in said if not at.comparing][-1] == sum(rows.values())
        assert {at.kind for at in said if at.comparing} >= {"tasks", "events", "receipts"}
        if sealed and isinstance(target, str):
            assert SECRET.encode() not in all_rows(target)
    if sealed:
        with pytest.raises(StoreRefused, match="content that is sealed with the key"):
            async with opened(places[-1]):
                pass
    async with opened(places[-1], sealing) as store:
        assert await contents(store) == before
        (claimed,) = await store.claim("there", 10)
        assert (claimed.task_id, claimed.epoch, len(claimed.turns)) == ("running", 2, 1)
        due = await store.claim_deliveries(10, 20, 10, UNLIMITED)
        assert [(one.hook.config.id, one.number) for one in due] == [("d", 3)]
        author = await Author(store, "new", BOB).create()
        page = await store.page(TaskQuery(BOB, TaskFilter(), None, 100, include_artifacts=False))
        assert {task.id for task in page.tasks} == {"waiting", "new"}
        assert page.total == 2
        await author.become(COMPLETED)


def names(folder: Path, beginning: str) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(beginning))


@pytest.fixture(params=["file", "database"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    place: Place = request.getfixturevalue("own_postgres") if request.param == "database" else tmp_path / "to.db"
    return place


async def test_a_copy_that_breaks_off_leaves_nothing(tmp_path: Path, target: Place) -> None:
    async with opened(tmp_path / "a.db") as store:
        await fill(store, tmp_path / "a.db")

    def breaks(at: CopyProgress) -> None:
        if at.comparing and at.kind == "events":
            raise InterruptedError

    for _ in range(2):
        with pytest.raises(InterruptedError), source_of(tmp_path / "a.db") as rows, target_of(target) as empty:
            copy(rows, empty, breaks)
        assert names(tmp_path, "to.db") == []
    copied(tmp_path / "a.db", target)
    async with opened(target) as store:
        assert await store.load(BOB, "waiting")


@pytest.mark.parametrize("kind", ["events", "receipts", "context_states"])
async def test_what_does_not_arrive_is_noticed(tmp_path: Path, target: Place, kind: str) -> None:
    async with opened(tmp_path / "a.db") as store:
        await fill(store, tmp_path / "a.db")

    class Lossy:
        """Loses the last row of a kind, or a byte of it."""

        def __init__(self, target: CopyTarget) -> None:
            self.count, self.rows, self.finish = target.count, target.rows, target.finish
            self._write = target.write

        def write(self, what: str, rows: Sequence[tuple[Any, ...]]) -> None:
            lost = [*rows[:-1], (*rows[-1][:-1], b"x")] if what == "events" else rows[:-1]
            self._write(what, lost if what == kind else rows)

    with (
        pytest.raises(StoreDamaged, match=f"the copy differs from the store: of .* rows of {kind}, "),
        source_of(tmp_path / "a.db") as rows,
        target_of(target) as empty,
    ):
        copy(rows, Lossy(empty), lambda _: None)
    copied(tmp_path / "a.db", target)


async def test_a_store_in_use_is_not_copied(tmp_path: Path, own_postgres: str) -> None:
    file = tmp_path / "a.db"
    async with opened(file):
        with pytest.raises(StoreRefused, match="is in use by another server"):
            copied(file, own_postgres)
    copied(file, own_postgres)
    async with opened(own_postgres) as store:
        assert await store.beat(HERE, 600)  # type: ignore[attr-defined]
        with pytest.raises(StoreRefused, match="is in use by 1 servers; stop them before you copy"):
            copied(own_postgres, tmp_path / "b.db")
        with pytest.raises(StoreRefused, match="is in use by 1 servers"):
            copied(file, own_postgres)
        await store.end_session(HERE)  # type: ignore[attr-defined]
    copied(own_postgres, tmp_path / "b.db")


async def test_a_target_has_to_be_empty(tmp_path: Path, own_postgres: str) -> None:
    async with opened(tmp_path / "a.db") as store:
        await finished(store)
    async with opened(own_postgres):
        pass  # a server that has found nothing leaves nothing that matters
    copied(tmp_path / "a.db", own_postgres)
    with pytest.raises(StoreRefused, match="is not empty; copy to an empty database"):
        copied(tmp_path / "a.db", own_postgres)
    with pytest.raises(StoreRefused, match=r"there is a file .*a\.db already"):
        copied(own_postgres, tmp_path / "a.db")
    with pytest.raises(StoreRefused, match="is not a directory"):
        copied(own_postgres, tmp_path / "none" / "a.db")
    with pytest.raises(StoreRefused, match="there is no store"):
        copied(tmp_path / "none.db", tmp_path / "b.db")


async def test_names_that_a_database_cannot_store_are_refused(tmp_path: Path, own_postgres: str) -> None:
    async with opened(tmp_path / "a.db") as store:
        await finished(store, scope=Scope("", "a\0b"))
    with pytest.raises(StoreRefused, match="the character NUL, which PostgreSQL cannot store"):
        copied(tmp_path / "a.db", own_postgres)


def test_every_kind_has_its_columns_in_both_stores() -> None:
    for module in (sqlite_copying, postgres_copying):
        for kind, columns in COLUMNS.items():
            assert module._SQL[kind].upper().startswith("SELECT"), (kind, columns)  # noqa: SLF001 - what is read


def test_a_digest_knows_the_order_of_tasks_alone() -> None:
    rows = [("a", 1, b"x"), ("b", None, b"")]
    for kind, same in (("tasks", False), ("events", True)):
        one, other = Digest(kind), Digest(kind)
        one.add(rows)
        other.add(rows[::-1])
        assert (one == other) is same
        other.add(rows[:1])
        assert one != other


async def test_a_copy_that_was_killed_is_begun_anew(tmp_path: Path, target: Place) -> None:
    """kill -9 while rows are under way."""
    async with opened(tmp_path / "a.db") as store:
        await asyncio.gather(*(finished(store, chunks=2) for _ in range(400)))
    if await asyncio.to_thread(killed_while_copying, tmp_path, target):
        copied(tmp_path / "a.db", target)
    assert names(tmp_path, "to.db.copying") == []
    async with opened(target) as store:
        page = await store.page(TaskQuery(ANN, TaskFilter(), None, 1, include_artifacts=False))
        assert page.total == 400


def killed_while_copying(folder: Path, target: Place) -> bool:
    """Begin a copy in a process, and kill that as soon as it writes. False if it had ended by then."""
    url = target if isinstance(target, str) else f"sqlite:///{target}"
    line = [sys.executable, "-m", "a2a_server", "db", "copy", "--from", "sqlite:///a.db", "--to", url]
    with subprocess.Popen(line, cwd=folder, env=environment(), stderr=subprocess.PIPE) as process:
        while process.poll() is None and not begun(target):
            time.sleep(0.001)
        process.kill()
    return process.wait() != 0


def begun(target: Place) -> bool:
    if isinstance(target, Path):
        made = Path(f"{target}.copying")
        return made.exists() and made.stat().st_size > 100_000
    writing = (
        "SELECT 1 FROM pg_locks JOIN pg_class ON pg_class.oid = relation WHERE relname = 'tasks' AND mode ~ '^Row'"
    )
    return bool(execute(target, writing))
