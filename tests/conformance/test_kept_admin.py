"""What operators remove, beside an open store: just that, and no byte of it stays (spec: KEPT-02, SECR-07)."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.keys import KeyAdmin, StoredKey
from a2a_server.ports.push import FailedAttempt
from a2a_server.ports.records import Receipt
from a2a_server.ports.retention import Chosen, Deadlines, Holdings, KeptAdmin, Removed
from a2a_server.ports.store import Store, StoreRefused
from tests.conformance.authors import (
    ANN,
    ANN_ELSEWHERE,
    ASKING,
    BOB,
    COMPLETED,
    HERE,
    UNLIMITED,
    Author,
    chunk,
    config,
)
from tests.conformance.store_retention import NEW, OLD, THEN, finished, state_of, total
from tests.support.house import (
    PostgresKeptAdmin,
    PostgresKeyAdmin,
    PostgresOptions,
    PostgresStore,
    Scope,
    SqliteKeptAdmin,
    SqliteKeyAdmin,
    SqliteStore,
)
from tests.support.postgres import all_rows

SECRET = b"cinnamon"
NOBODY = Chosen(owner="nobody")


Place = Path | str
"""A file, or the URL of a database."""


@pytest.fixture(params=["sqlite", "postgres"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    place: Place = request.getfixturevalue("postgres") if request.param == "postgres" else tmp_path / "a2a.db"
    return place


@pytest.fixture
async def store(path: Place) -> AsyncIterator[Store]:
    store = PostgresStore(PostgresOptions(dsn=path)) if isinstance(path, str) else SqliteStore(path)
    await store.open()
    yield store
    await store.close()


class Ledger:
    """Agrees, or does not, and remembers what was counted."""

    def __init__(self, path: Place) -> None:
        self._admin: KeptAdmin = (
            SqliteKeptAdmin(path) if isinstance(path, Path) else PostgresKeptAdmin(PostgresOptions(dsn=path))
        )
        self.busy = 0

    def remove(self, wanted: Chosen | Deadlines) -> Removed:
        """Remove it; what was counted before must be what is gone."""
        expected = self.count(wanted)
        removed = self._admin.remove(wanted, lambda *_: True, lambda _: None)
        assert removed == expected
        return removed

    def count(self, wanted: Chosen | Deadlines) -> Removed:
        counted: list[Removed] = []

        def agree(expected: Removed, busy: int) -> bool:
            counted.append(expected)
            self.busy = busy
            return False

        assert self._admin.remove(wanted, agree, lambda _: None) == Removed()
        (found,) = counted
        return found

    def usage(self, owner: str | None = None, limit: int = 10) -> list[tuple[Scope, Holdings]]:
        return list(self._admin.usage(owner, limit))

    def rebuild(self) -> None:
        self._admin.rebuild()


@pytest.fixture
def ledger(path: Place) -> Ledger:
    return Ledger(path)


def found(path: Place, text: bytes = SECRET) -> list[str]:
    """The files that hold the text, or that the tables do."""
    if isinstance(path, str):
        return ["tables"] * (text in all_rows(path))
    return [file.name for file in path.parent.iterdir() if text in file.read_bytes()]


def size(path: Path) -> int:
    return path.stat().st_size


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a2a.db"


@pytest.fixture
async def file_store(file: Path) -> AsyncIterator[Store]:
    store = SqliteStore(file)
    await store.open()
    yield store
    await store.close()


async def told_all(store: Store, scope: Scope, number: int) -> Author:
    """A finished task that has the text wherever a task can have it, long and short."""
    text = f"{SECRET.decode()} {number} "
    author = Author(store, f"{scope.owner}-{scope.tenant}-{number}", scope, context_id=f"c-{number}")
    hook = config(author.task_id, url=f"https://hook.example/{SECRET.decode()}")
    receipt = Receipt(f"k-{number}", b"f", author.task_id, NEW)
    await author.start(configs=[hook], notify=True, state=text.encode() * number, remember={"a": text.encode()})
    for _ in range(3):
        await author.commit(author.write(*(chunk(author.number + 1 + n, text * number) for n in range(number))))
    await author.say(receipt=receipt)
    artifacts = pb.Task(artifacts=[pb.Artifact(artifact_id="a", name=text * number)]).SerializeToString()
    await author.become(COMPLETED, OLD, end=[1], artifacts=artifacts, notify=True)
    return author


async def test_only_what_is_old_is_pruned(store: Store, ledger: Ledger) -> None:
    old, new, waiting = await finished(store), await finished(store, NEW), Author(store, state=ASKING)
    await waiting.create()
    await store.put_config(ANN, config(waiting.task_id))
    await waiting.chunk("x", notify=True)
    (delivery,) = await store.claim_deliveries(0, 1, 10, UNLIMITED)
    await store.finish_attempt(delivery, FailedAttempt(OLD, None))
    await store.reserve(BOB, Receipt("k", b"f", "gone", OLD), 0)
    await store.reserve(BOB, Receipt("l", b"f", "there", NEW), 0)
    author = await Author(store, scope=BOB).start(remember={"a": b"1"})
    await author.become(COMPLETED, OLD, end=[1])
    everything = Deadlines(THEN, None, THEN, THEN, THEN)
    assert ledger.remove(everything) == Removed(2, 6, 1, 1, 1, 1)
    assert await store.load(ANN, old.task_id) is None
    assert (await new.load()).number == 4
    await waiting.load()
    assert await store.recall(BOB, "l", 0) is not None
    assert ledger.remove(everything) == Removed()
    assert ledger.remove(Deadlines(events=NEW + 1)) == Removed(events=4)
    assert await new.texts() == {"a": "0;1;"}
    assert (await total(store), await total(store, BOB)) == (2, 0)


@pytest.mark.req("KEPT-02", "SECR-07")
async def test_an_owner_is_forgotten_and_nobody_else(store: Store, ledger: Ledger, path: Place) -> None:
    for number in (1, 5, 40):
        await told_all(store, ANN, number)
    elsewhere, other = await told_all(store, ANN_ELSEWHERE, 2), await finished(store, scope=BOB)
    await store.answer(ANN, "k-1", SECRET)
    assert ledger.remove(NOBODY) == Removed()
    removed = ledger.remove(Chosen(owner="ann", tenant="acme"))
    assert removed == Removed(tasks=3, events=147, configs=3, webhooks=6, receipts=3, context_values=3)
    assert (await total(store), await state_of(store, "c-1")) == (0, {})
    assert (await elsewhere.load()).number == 9
    assert ledger.remove(Chosen(owner="ann")).tasks == 1
    assert (await other.load()).number == 4
    assert found(path) == []
    assert found(path, b"ann") == []
    assert found(path, b"bob") != []
    await finished(store)  # whoever comes again begins anew
    assert await total(store) == 1


@pytest.mark.req("KEPT-02")
async def test_a_tenant_a_context_and_a_task_are_deleted(store: Store, ledger: Ledger) -> None:
    one, two = await told_all(store, ANN, 1), await told_all(store, ANN, 2)
    three, four = await told_all(store, ANN_ELSEWHERE, 3), await finished(store, scope=BOB)
    assert ledger.remove(Chosen(task=one.task_id)) == Removed(1, 6, 1, 2, 1)
    assert await state_of(store, "c-1") != {}
    assert ledger.remove(Chosen(context="c-2", owner="bob")) == Removed()
    assert ledger.remove(Chosen(context="c-2")) == Removed(1, 9, 1, 2, 1, 1)
    assert await store.load(ANN, two.task_id) is None
    assert ledger.remove(Chosen(tenant="acme")) == Removed(tasks=1, events=4, context_values=1)
    assert await store.load(BOB, four.task_id) is None
    await three.load()


@pytest.mark.req("KEPT-02")
async def test_tasks_at_work_stay_beside_a_server_and_go_without_one(store: Store, ledger: Ledger, path: Place) -> None:
    if isinstance(store, PostgresStore):
        assert await store.beat(HERE, 600)
    running, waiting = await Author(store).start(remember={"a": b"1"}), await Author(store, state=ASKING).create()
    await store.reserve(ANN, Receipt("k", b"f", running.task_id, NEW), 0)
    removed = ledger.remove(Chosen(owner="ann"))
    assert (removed, ledger.busy) == (Removed(tasks=1, events=1), 1)
    await running.chunk("on it goes")
    assert await store.load(ANN, waiting.task_id) is None
    assert await state_of(store, "context") == {"a": b"1"}
    assert await store.recall(ANN, "k", 0) is not None
    if isinstance(store, PostgresStore):
        await store.end_session(HERE)
    await store.close()
    removed = ledger.remove(Chosen(owner="ann"))
    assert (removed, ledger.busy) == (Removed(tasks=1, events=2, receipts=1, context_values=1), 0)
    assert found(path, b"ann") == []
    await store.open()


@pytest.mark.req("LIMT-02")
async def test_what_is_removed_counts_no_more(store: SqliteStore | PostgresStore, ledger: Ledger) -> None:
    for scope, number in ((ANN, 1), (ANN, 2), (ANN_ELSEWHERE, 30)):
        await told_all(store, scope, number)
    await finished(store, scope=BOB)
    acme, elsewhere, bob = [(scope, await held_by(store, scope)) for scope in (ANN, ANN_ELSEWHERE, BOB)]
    assert [held.tasks for _, held in (acme, elsewhere, bob)] == [2, 1, 1]
    assert ledger.usage() == [elsewhere, acme, bob]
    assert ledger.usage("ann") == [elsewhere, acme]
    assert ledger.usage(limit=1) == [elsewhere]
    assert ledger.usage("nobody") == []
    ledger.remove(Chosen(context="c-2"))
    assert acme[1].bytes > (await held_by(store, ANN)).bytes > 0
    ledger.remove(Deadlines(events=NEW + 1))
    assert bob[1].bytes > (await held_by(store, BOB)).bytes > 0
    ledger.remove(Deadlines(tasks=NEW + 1))
    assert ledger.usage("bob") == []
    await told_all(store, ANN, 2)
    assert ledger.usage("ann") == [elsewhere, acme]
    ledger.remove(Chosen(tenant=ANN.tenant))
    assert ledger.usage() == [elsewhere]
    ledger.remove(Chosen(owner="ann"))
    assert ledger.usage() == []


async def held_by(store: SqliteStore | PostgresStore, scope: Scope) -> Holdings:
    return await store.holdings(scope.owner, scope.tenant)


async def test_a_file_is_rebuilt_only_while_nobody_uses_it(file_store: Store, file: Path) -> None:
    store, path, ledger = file_store, file, Ledger(file)
    for number in range(100):
        await told_all(store, BOB, number)
    await finished(store)
    with pytest.raises(StoreRefused, match="in use by a server"):
        ledger.rebuild()
    assert ledger.remove(Chosen(owner="bob")).tasks == 100
    await store.close()
    before = size(path)
    ledger.rebuild()
    assert size(path) < before / 4
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    await store.open()
    assert await total(store) == 1


@pytest.mark.req("KEPT-02")
async def test_keys_of_an_owner_are_revoked_and_forgotten(
    store: SqliteStore | PostgresStore, ledger: Ledger, path: Place
) -> None:
    admin: KeyAdmin = SqliteKeyAdmin(path) if isinstance(path, Path) else PostgresKeyAdmin(PostgresOptions(dsn=path))
    for number, owner in enumerate(("ann", "ann", "bob")):
        digest = b"%d" % number
        admin.make(StoredKey(f"key{number}", digest, owner, "acme", None, extended_card=False, name="n", made_ms=1))
    seen = (await store.keys_after(0, 10))[-1][0]
    assert ledger.remove(Chosen(owner="ann", tenant="globex")) == Removed()
    assert ledger.remove(Chosen(owner="ann")) == Removed(keys=2)
    assert ledger.remove(Chosen(owner="ann")) == Removed()
    changed = [key for _, key in await store.keys_after(seen, 10)]
    assert [(key.digest, key.owner, bool(key.revoked_ms)) for key in changed] == [(b"0", "", True), (b"1", "", True)]
    assert [key.key_id for key in admin.keys("bob", 10) if key.owner] == ["key2"]
    assert found(path, b"ann") == []


async def test_there_must_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="there is no store"):
        Ledger(tmp_path / "no.db").count(NOBODY)
    assert found(tmp_path / "no.db", b"") == []


def test_a_database_has_no_file_to_rebuild(postgres: str) -> None:
    with pytest.raises(StoreRefused, match="no file to rebuild; VACUUM FULL does so"):
        Ledger(postgres).rebuild()
