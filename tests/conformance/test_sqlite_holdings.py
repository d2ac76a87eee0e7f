"""What a SQLite file counts of its owners is what is in it, whatever has happened to it (spec: LIMT-02, KEPT-02)."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.push import FailedAttempt
from a2a_server.ports.records import StoredTurn
from a2a_server.ports.retention import Chosen, Deadlines, Holdings
from a2a_server.ports.store import StaleWrite
from tests.conformance.authors import ANN, ANN_ELSEWHERE, ASKING, BOB, COMPLETED, UNLIMITED, WORKING, Author, config
from tests.conformance.store_retention import THEN, swept
from tests.support.effort import effort
from tests.support.house import SqliteKeptAdmin, SqliteStore, schema
from tests.support.sqlite_file import make_older, recount

LONG = 300_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a2a.db"


def right(path: Path) -> bool:
    counted, there = recount(path)
    assert counted == there
    return bool(counted)


async def live(author: Author, dice: random.Random) -> None:
    """One thing that happens to a task."""
    match dice.randrange(8):
        case 0:
            await author.chunk("x" * dice.choice([1, 500]), notify=True)
        case 1:
            artifact = pb.Artifact(artifact_id="a", parts=[pb.Part(text="x" * dice.choice([1, 900, LONG]))])
            await author.chunk("y", artifacts=pb.Task(artifacts=[artifact]).SerializeToString())
        case 2:
            await author.commit(author.write(state=b"s" * dice.randrange(50), begin=[StoredTurn(1, b"request")]))
        case 3:
            await author.say(
                configs=[config(author.task_id, dice.choice("ab"), f"https://h/{'x' * dice.randrange(9)}")]
            )
        case 4:
            await author.store.put_config(author.scope, config(author.task_id, dice.choice("ab")))
        case 5:
            await author.store.delete_config(author.scope, author.task_id, dice.choice("ab"))
        case 6:
            values = {dice.choice("ab"): dice.choice([None, b"1", b"12345"])}
            await author.commit(author.write(remember=values))
        case _:
            state = dice.choice([WORKING, ASKING, COMPLETED])
            await author.become(state, dice.choice([1_000, 9_000]), end=[1], notify=True)


@pytest.mark.req("LIMT-02", "KEPT-01")
@pytest.mark.parametrize("seed", range(effort(3, everything=20)))
async def test_the_counts_fit_whatever_happens(path: Path, seed: int) -> None:
    dice, store = random.Random(seed), SqliteStore(path)
    await store.open()
    for _ in range(8):
        for _ in range(8):
            scope, context = dice.choice([ANN, BOB, ANN_ELSEWHERE]), f"context {dice.randrange(3)}"
            author = Author(store, scope=scope, context_id=context, state=dice.choice([WORKING, COMPLETED]))
            if dice.random() < 0.5:
                await author.start(state=b"state", remember={"a": b"123"})
            else:
                await author.create(configs=[config(author.task_id)])
            for _ in range(dice.randrange(8)):
                await live(author, dice)
        for delivery in await store.claim_deliveries(1_000, 1_001, 9, UNLIMITED):
            await store.finish_attempt(delivery, dice.choice([None, FailedAttempt(1_000, None, "gone")]))
        assert right(path)
        await swept(store, **{dice.choice(["tasks", "events", "webhooks", "contexts"]): THEN})
        assert right(path)
    SqliteKeptAdmin(path).remove(Deadlines(THEN, THEN, THEN, THEN, receipts=THEN), lambda *_: True, lambda _: None)
    assert right(path)
    await store.close()
    SqliteKeptAdmin(path).remove(Chosen(owner="bob", context="context 1"), lambda *_: True, lambda _: None)
    assert right(path)
    SqliteKeptAdmin(path).remove(Chosen(owner="ann"), lambda *_: True, lambda _: None)
    assert right(path)
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT DISTINCT owner FROM scopes").fetchall()
    assert names == [("bob",)]


@pytest.mark.req("LIMT-02", "DURA-09")
async def test_a_file_of_an_earlier_version_is_counted(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    for number, scope in enumerate((ANN, BOB, ANN, ANN_ELSEWHERE)):
        author = await Author(store, scope=scope).start(state=b"state", remember={"a": b"1" * number})
        await author.chunk("x" * 100, configs=[config(author.task_id)])
        await author.become([WORKING, ASKING, COMPLETED][number % 3])
        await author.chunk("not counted yet")
    await store.close()
    before, _ = recount(path)
    make_older(path, 9)
    store = SqliteStore(path)
    await store.open()
    assert recount(path) == (before, before)
    assert (await store.holdings("ann")).tasks == 3
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (max(schema.migrations()),)
    author.store = store
    assert (await author.load()).log_bytes == sum(len(e.wire) for e in await store.entries(author.task_id, 0, 10))
    await author.become(COMPLETED)
    assert right(path)
    await store.close()


@pytest.mark.req("LIMT-02", "KEPT-02")
async def test_operators_see_who_has_how_much(path: Path) -> None:
    store, admin = SqliteStore(path), SqliteKeptAdmin(path)
    await store.open()
    assert admin.usage(None, 10) == []
    for scope, count in ((ANN, 1), (BOB, 3), (ANN_ELSEWHERE, 2)):
        for _ in range(count):
            await Author(store, scope=scope).create()
    each = {scope: await store.holdings(scope.owner, scope.tenant) for scope in (BOB, ANN_ELSEWHERE, ANN)}
    assert admin.usage(None, 10) == list(each.items())
    assert admin.usage(None, 1) == [(BOB, each[BOB])]
    assert admin.usage("ann", 10) == [(ANN_ELSEWHERE, each[ANN_ELSEWHERE]), (ANN, each[ANN])]
    assert admin.usage("nobody", 10) == []
    await store.close()


@pytest.mark.req("LIMT-02", "KEPT-02")
async def test_what_an_operator_deletes_beside_a_server_makes_room_in_it(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    authors = [await Author(store, scope=ANN).create(remember={"a": b"1"}) for _ in range(2)]
    before = await store.holdings("ann")

    def remove(chosen: Chosen) -> None:
        SqliteKeptAdmin(path).remove(chosen, lambda *_: True, lambda _: None)

    remove(Chosen(task=authors[0].task_id))
    assert await store.holdings("ann") == Holdings(1, (before.bytes - 1) // 2 + 1)
    remove(Chosen(owner="ann"))
    assert await store.holdings("ann") == Holdings(0, 0)
    with pytest.raises(StaleWrite):
        await authors[1].say()
    await store.close()
