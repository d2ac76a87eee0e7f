"""Upgrades of the schema: while servers start at once, and beside servers of the version before (spec: SCAL-07)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.sealing import UNSEALED
from a2a_server.ports.store import StoreRefused, StoreUnavailable
from tests.bindings.actors import COMPLETED, INPUT, WORKING, Actor, Gate, asking, chunk, status
from tests.conformance.authors import Author
from tests.conformance.store_retention import finished
from tests.support.house import (
    PostgresDatabaseAdmin,
    PostgresOptions,
    PostgresSealingAdmin,
    PostgresStore,
    SqliteDatabaseAdmin,
    SqliteStore,
    postgres_copying,
    postgres_schema,
    schema,
)
from tests.support.postgres import execute
from tests.support.world import World, kinds, say, serving

OLD: Mapping[int, Mapping[str, str]] = postgres_schema.migrations()
THIS = max(OLD)
NEXT = THIS + 1
NEW = {
    **OLD,
    NEXT: {
        "tasks_note": "ALTER TABLE a2ad.tasks ADD COLUMN IF NOT EXISTS note text",
        "contract_note": "ALTER TABLE a2ad.tasks ADD CONSTRAINT only_new CHECK (note IS NOT DISTINCT FROM note)",
    },
}
"""A version more, which the programs of both versions can use until it contracts."""
CONTRACTED = "SELECT count(*) FROM pg_constraint WHERE conname = 'only_new'"


def store_of(dsn: str, steps: Mapping[int, Mapping[str, str]] = OLD, **options: Any) -> PostgresStore:
    return PostgresStore(PostgresOptions(dsn=dsn), steps=steps, **options)


def versions(dsn: str) -> tuple[int, int, int]:
    """Version, oldest version that may write, and whether the tables were contracted."""
    ((version, oldest),) = execute(dsn, "SELECT version, oldest FROM a2ad.versions")
    ((contracted,),) = execute(dsn, CONTRACTED)
    return version, oldest, contracted


@asynccontextmanager
async def server(dsn: str, steps: Mapping[int, Mapping[str, str]], agent: Actor) -> AsyncIterator[World]:
    store = store_of(dsn, steps)
    async with serving(agent, store=store, replicas=store) as world:
        yield world


@pytest.mark.req("SCAL-07", "DURA-09")
async def test_two_versions_serve_one_database_side_by_side(own_postgres: str) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(WORKING, "begun"))
        await gate.wait()
        outlet.emit(chunk("a", last=True))
        outlet.emit(status(COMPLETED))

    async with server(own_postgres, OLD, Actor(act)) as old:
        running = await old.send(say("go", configuration={"return_immediately": True}))
        await old.reaches(running.id, WORKING)
        async with server(own_postgres, NEW, asking()) as new:
            assert versions(own_postgres) == (NEXT, 1, 0)  # expanded, while the old one worked
            waiting = await new.send(say("hello"))
            assert (await old.get(waiting.id)).status.state == INPUT
            items = new.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=running.id))
            first = await anext(aiter(items))
            gate.open()
            assert kinds([first, *[item async for item in items]]) == ["task", "artifact_update", "COMPLETED"]
            assert (await old.send(say("more", task_id=waiting.id))).status.state == COMPLETED
            assert (await new.get(waiting.id)) == (await old.get(waiting.id))
            async with server(own_postgres, OLD, Actor(act)) as again:  # an old one may come back, also now
                assert (await again.get(running.id)) == (await new.get(running.id))
            found = PostgresDatabaseAdmin(PostgresOptions(dsn=own_postgres), steps=NEW).status()
            assert sorted(one.schema for one in found.servers) == [THIS, NEXT]
            assert (found.expand, found.contract) == ([], [f"{NEXT} contract_note"])
    async with server(own_postgres, NEW, Actor(act)) as alone:
        assert versions(own_postgres) == (NEXT, NEXT, 1)
        assert (await alone.get(running.id)).status.state == COMPLETED
        with pytest.raises(StoreRefused, match=f"which servers of version {NEXT} and newer can use; this server has"):
            await store_of(own_postgres).open()


@pytest.mark.req("SCAL-07")
async def test_nothing_is_contracted_while_an_older_server_lives(own_postgres: str) -> None:
    old, admin = store_of(own_postgres), PostgresDatabaseAdmin(PostgresOptions(dsn=own_postgres), steps=NEW)
    await old.open()
    assert await old.beat("a-session-that-lives", 600)
    said: list[str] = []
    done = admin.upgrade(said.append)
    assert (done.before, done.after, said) == (THIS, NEXT, [f"{NEXT} tasks_note"])
    assert done.waits_for == [f"the server a-session-th with schema version {THIS}"]
    await Author(old).create()
    assert await old.beat("a-session-that-lives", 600)
    await old.end_session("a-session-that-lives")
    assert admin.upgrade(said.append) == (NEXT, NEXT, ())
    assert said[1:] == [f"{NEXT} contract_note"]
    assert versions(own_postgres) == (NEXT, NEXT, 1)
    assert not await old.beat("another", 600)  # it has been away for too long
    assert not await old.lives("another")
    await old.close()


@pytest.mark.req("SCAL-07", "DURA-09")
async def test_servers_of_two_versions_start_at_once(own_postgres: str) -> None:
    stores = [store_of(own_postgres, steps) for steps in (NEW, OLD, NEW, OLD, NEW, NEW)]
    opened = await asyncio.gather(*(store.open() for store in stores), return_exceptions=True)
    assert all(isinstance(one, StoreRefused) for one in opened if one is not None)  # only an old one that was late
    assert [opened[0], opened[2], opened[4], opened[5]] == [None] * 4
    assert versions(own_postgres) == (NEXT, NEXT, 1)
    await finished(stores[0])
    for store in stores:
        await store.close()


async def test_contracting_does_not_wait_for_those_who_hold_the_tables(own_postgres: str) -> None:
    async with server(own_postgres, OLD, asking()):
        pass
    async with holding(own_postgres, "LOCK TABLE a2ad.tasks IN ACCESS SHARE MODE"):
        slow = {**NEW, NEXT: {"contract_note": NEW[NEXT]["contract_note"].replace("note", "task")}}
        admin = PostgresDatabaseAdmin(PostgresOptions(dsn=own_postgres), steps=slow)
        done = await asyncio.to_thread(admin.upgrade, lambda _: None)
        assert done.waits_for == ["somebody who has locked the tables"]
        assert versions(own_postgres) == (NEXT, 1, 0)
    assert not admin.upgrade(lambda _: None).waits_for


@asynccontextmanager
async def holding(dsn: str, statement: str) -> AsyncIterator[None]:
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        await connection.execute(statement)
        yield
    await connection.close()


@pytest.mark.req("SCAL-07")
async def test_a_server_may_leave_the_upgrade_to_the_command(own_postgres: str, tmp_path: Path) -> None:
    careful = store_of(own_postgres, upgrade=False)
    with pytest.raises(StoreRefused, match="there are no tables in the store"):
        await careful.open()
    admin = PostgresDatabaseAdmin(PostgresOptions(dsn=own_postgres))
    assert admin.status().version == 0
    assert admin.upgrade(lambda _: None) == (0, THIS, ())
    await careful.open()
    await Author(careful).create()
    await careful.close()
    execute_in(own_postgres, "UPDATE a2ad.versions SET version = 1")
    with pytest.raises(
        StoreRefused, match=f"has schema version 1, and this server needs {THIS}. Run `a2ad db upgrade`"
    ):
        await careful.open()
    file = SqliteStore(tmp_path / "a2a.db", upgrade=False)
    with pytest.raises(StoreRefused, match=r"has schema version 0, and this server needs .* Run `a2ad db upgrade`"):
        await file.open()
    assert SqliteDatabaseAdmin(tmp_path / "a2a.db").upgrade(lambda _: None).after == max(schema.migrations())
    await file.open()
    await file.close()


@pytest.mark.req("SCAL-07")
async def test_servers_need_no_right_to_change_tables(own_postgres: str) -> None:
    PostgresDatabaseAdmin(PostgresOptions(dsn=own_postgres)).upgrade(lambda _: None)
    connection = await asyncpg.connect(own_postgres)
    await connection.execute("DO $$ BEGIN CREATE ROLE servers LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    guide = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    rights = guide[guide.index("GRANT USAGE") :].partition("```")[0]
    await connection.execute(rights)
    limited = store_of(own_postgres.replace("a2ad@", "servers@"), upgrade=False)
    await limited.open()
    assert await limited.beat("here", 600)
    await finished(limited)
    await limited.end_session("here")
    await limited.close()
    await connection.execute("DROP OWNED BY servers")
    await connection.close()


def execute_in(dsn: str, statement: str) -> None:
    execute(dsn, f"WITH done AS ({statement} RETURNING 1) SELECT count(*) FROM done")  # noqa: S608 - a test's own


async def test_what_needs_all_content_refuses_what_it_does_not_know(own_postgres: str) -> None:
    options = PostgresOptions(dsn=own_postgres)
    PostgresDatabaseAdmin(options, steps=NEW).upgrade(lambda _: None)
    execute_in(own_postgres, "UPDATE a2ad.versions SET oldest = 1")
    told = f"has schema version {NEXT}, and this command knows no more than {THIS}"
    with pytest.raises(StoreRefused, match=told), postgres_copying.copied_from(options):
        pass
    with pytest.raises(StoreRefused, match=told), postgres_copying.copied_to(options):
        pass
    with pytest.raises(StoreRefused, match=told):
        PostgresSealingAdmin(options, UNSEALED, UNSEALED).rekey(lambda _: None)


async def test_the_state_of_a_database_is_shown(own_postgres: str) -> None:
    admin = PostgresDatabaseAdmin(PostgresOptions(dsn=own_postgres), wakeup_dsn=own_postgres)
    empty = admin.status()
    assert (empty.version, empty.newest, empty.too_new, empty.amounts, empty.servers) == (0, THIS, False, [], ())
    assert empty.expand[0] == "1 secrets"
    store = store_of(own_postgres)
    await store.open()
    await finished(store)
    await store.beat("here", 600)
    found = await asyncio.to_thread(admin.status)
    assert (found.version, found.oldest, found.expand, found.contract) == (THIS, 1, [], [])
    assert {kind: rows for kind, rows, *_ in found.amounts if rows} == {"tasks": 1, "events": 4}
    assert found.bytes > sum(amount.bytes or 0 for amount in found.amounts) > 0
    ((session, version, program, seconds),) = found.servers
    assert (session, version, bool(program)) == ("here", THIS, True)
    assert seconds is not None
    assert 0 <= seconds < 300
    assert found.wakeups == "notify"
    execute_in(own_postgres, f"UPDATE a2ad.versions SET version = {NEXT}, oldest = {NEXT}")  # noqa: S608 - a number
    assert (await asyncio.to_thread(admin.status)).too_new
    with pytest.raises(StoreRefused, match=f"has schema version {NEXT}"):
        admin.upgrade(lambda _: None)
    await store.close()


async def test_the_state_of_a_file_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "a2a.db"
    admin, newest = SqliteDatabaseAdmin(path), max(schema.migrations())
    empty = admin.status()
    assert (empty.version, empty.newest, len(empty.expand), empty.bytes) == (0, newest, newest, 0)
    assert empty.amounts == []
    store = SqliteStore(path)
    await store.open()
    await finished(store)
    found = admin.status()
    assert (found.version, found.expand, len(found.servers)) == (newest, [], 1)
    assert {kind: rows for kind, rows, *_ in found.amounts if rows} == {"tasks": 1, "events": 4}
    with pytest.raises(StoreRefused, match="is in use by another server"):
        admin.upgrade(lambda _: None)
    await store.close()
    assert admin.status().servers == ()


async def test_a_database_that_is_away_is_said_to_be() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        PostgresDatabaseAdmin(PostgresOptions(dsn="postgresql://ann@127.0.0.1:9/x")).status()
