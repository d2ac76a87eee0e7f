"""The store in a PostgreSQL database keeps the promises, and those that only a database can keep."""

from __future__ import annotations

import asyncio
import random
import re
import string
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.push import ConfigFilter, FailedAttempt
from a2a_server.ports.records import Receipt, StoredTurn, TaskHead
from a2a_server.ports.replicas import Letter
from a2a_server.ports.retention import Deadlines
from a2a_server.ports.store import StaleWrite, StoreRefused, StoreUnavailable, TaskQuery
from tests.conformance.authors import (
    ANN,
    ASKING,
    BOB,
    COMPLETED,
    HERE,
    THERE,
    UNLIMITED,
    Author,
    chunk,
    config,
    message,
)
from tests.conformance.store_contract import StoreContract, StorePromises
from tests.conformance.store_sessions import LetterPromises, SessionPromises
from tests.support.house import (
    INTERRUPTED,
    TERMINAL,
    DatabaseClock,
    PostgresDatabase,
    PostgresOptions,
    PostgresPushAdmin,
    PostgresStore,
    Scope,
    SealedContent,
    SystemClock,
    TaskFilter,
    postgres_schema,
)
from tests.support.postgres import Cluster, has_pgbouncer, pgbouncer

if TYPE_CHECKING:
    Sql = asyncpg.Connection[asyncpg.Record]

SQL_FILES = (
    "holdings.sql",
    "lists.sql",
    "push.sql",
    "rates.sql",
    "sessions.sql",
    "sweeping.sql",
    "tasks.sql",
    "writes.sql",
)


@pytest.fixture
async def store(postgres: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(PostgresOptions(dsn=postgres))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def sql(postgres: str) -> AsyncIterator[Sql]:
    """A connection of the test's own."""
    connection = await asyncpg.connect(postgres)
    yield connection
    await connection.close()


class TestPostgresStore(StoreContract):
    """The contract; the fixture is the module's."""


class TestSealedPostgresStore(StorePromises):
    """The contract over a database whose content is sealed, but for counts: what is sealed is a little longer."""

    added = 43

    @pytest.fixture
    async def store(self, postgres: str) -> AsyncIterator[PostgresStore]:
        store = PostgresStore(PostgresOptions(dsn=postgres), SealedContent([bytes(32)]))
        await store.open()
        yield store
        await store.close()


@pytest.fixture(scope="session")
def pooler(postgres_cluster: Cluster) -> Iterator[int]:
    with pgbouncer(postgres_cluster) as port:
        yield port


@pytest.mark.long
@pytest.mark.req("SCAL-02")
@pytest.mark.skipif(not has_pgbouncer(), reason="needs pgbouncer: apt install pgbouncer")
class TestBehindPgBouncer(StoreContract):
    """The contract, where each transaction may have another connection. Debian's PgBouncer prepares no statements."""

    @pytest.fixture
    async def store(self, postgres: str, pooler: int) -> AsyncIterator[PostgresStore]:
        parts = urlsplit(postgres)
        url = parts._replace(netloc=f"{parts.username}@127.0.0.1:{pooler}").geturl()
        store = PostgresStore(PostgresOptions(dsn=url, prepared_statements=False))
        await store.open()
        yield store
        await store.close()


class TestTheDatabase:
    async def test_another_server_finds_everything(self, store: PostgresStore, postgres: str) -> None:
        author = await Author(store, state=ASKING).start(state=b"saved", receipt=Receipt("k", b"f", "t", 9_000))
        await author.chunk("one ", configs=[config(author.task_id)], notify=True)
        await author.chunk("two", notify=True)
        before, secret = await author.load(), await store.secret()
        await store.close()

        author.store = PostgresStore(PostgresOptions(dsn=postgres))
        await author.store.open()
        assert await author.load() == before
        assert await author.store.secret() == secret
        assert await author.store.recall(ANN, "k", 0) == Receipt("k", b"f", "t", 9_000)
        (delivery,) = await author.store.claim_deliveries(0, 1, 10, UNLIMITED)
        assert delivery.number == 2
        (claimed,) = await author.store.claim(THERE, 10)
        assert (claimed.epoch, len(claimed.turns)) == (2, 1)
        await author.store.close()

    @pytest.mark.req("PAID-01", "PAID-03")
    async def test_claims_of_a_server_that_is_gone_end_by_themselves(self, store: PostgresStore, postgres: str) -> None:
        author = await Author(store).create()
        configs = [config(author.task_id, name) for name in ("claimed", "parked", "put off")]
        await author.chunk("x", configs=configs, notify=True)
        deliveries = {
            delivery.hook.config.id: delivery for delivery in await store.claim_deliveries(0, 30_000, 10, UNLIMITED)
        }
        await store.finish_attempt(deliveries["parked"], FailedAttempt(5, None, "gone"))
        await store.finish_attempt(deliveries["put off"], FailedAttempt(5, 1 << 50, "status 500"))
        await store.close()
        await store.open()
        assert list(await store.claim_deliveries(29_999, 60_000, 10, UNLIMITED)) == []
        due = await store.claim_deliveries(30_000, 60_000, 10, UNLIMITED)
        assert [delivery.hook.config.id for delivery in due] == ["claimed"]
        found = {
            one.config_id: one for one in PostgresPushAdmin(PostgresOptions(dsn=postgres)).status(ConfigFilter(), 10)
        }
        assert (found["parked"].parked_ms, found["parked"].why) == (5, "gone")
        assert (found["put off"].due_ms, found["put off"].attempts, found["put off"].failing_ms) == (1 << 50, 1, 5)

    @pytest.mark.req("PAID-02")
    async def test_webhooks_do_not_wait_for_a_clock_that_was_set_back(self, store: PostgresStore) -> None:
        author, ahead = await Author(store).create(), int(time.time() * 1000) + 86_400_000
        await author.chunk("x", configs=[config(author.task_id)], notify=True)
        (delivery,) = await store.claim_deliveries(ahead, ahead + 1, 10, UNLIMITED)
        await store.finish_attempt(delivery, FailedAttempt(ahead, ahead + 1_000, "status 500"))
        await store.close()
        await store.open()
        now = int(time.time() * 1000) + 1
        assert len(await store.claim_deliveries(now, now + 1, 10, UNLIMITED)) == 1

    @pytest.mark.req("PAID-02", "SCAL-03")
    @pytest.mark.parametrize("minutes", [-5, 5])
    async def test_a_server_with_a_wrong_clock_waits_as_all_others(
        self, store: PostgresStore, postgres: str, monkeypatch: pytest.MonkeyPatch, minutes: int
    ) -> None:
        """What is due, or claimed, is so by the database's clock; nobody takes away what another one has claimed."""
        right, own = time.time_ns, DatabaseClock(SystemClock(), store)
        author = await Author(store).create()
        await author.chunk("x", configs=[config(author.task_id)], notify=True)
        now = own.steady_ms()
        assert len(await store.claim_deliveries(now, now + 60_000, 10, UNLIMITED)) == 1
        monkeypatch.setattr(time, "time_ns", lambda: right() + minutes * 60_000_000_000)
        other = PostgresStore(PostgresOptions(dsn=postgres))
        await other.open()
        wrong = DatabaseClock(SystemClock(), other)
        monkeypatch.undo()
        assert abs(wrong.steady_ms() - own.steady_ms()) < 30_000
        assert abs(wrong.now_ms() - own.now_ms()) < 30_000
        assert await other.next_due() == now + 60_000
        later = wrong.steady_ms()
        assert await other.claim_deliveries(later, later + 60_000, 10, UNLIMITED) == []
        await other.close()

    async def test_closing_does_what_was_accepted(self, store: PostgresStore) -> None:
        authors = [Author(store) for _ in range(500)]  # several groups
        writes = asyncio.gather(*(author.create() for author in authors))
        await asyncio.sleep(0)
        await store.close()
        await writes
        await store.open()
        assert all([await store.load(ANN, author.task_id) for author in authors])

    async def test_a_closed_store_is_unavailable(self, store: PostgresStore) -> None:
        author = await Author(store).create()
        await store.close()
        query = TaskQuery(ANN, TaskFilter(), None, 1, include_artifacts=False)
        for use in (author.chunk("x"), author.load(), store.ping(), store.page(query)):
            with pytest.raises(StoreUnavailable, match="closed"):
                await use

    @pytest.mark.req("SCAL-02")
    async def test_statements_need_not_be_prepared(self, store: PostgresStore, postgres: str) -> None:
        """Nothing is set on a connection, and no statement waits on another one to be prepared."""
        await store.close()
        unprepared = PostgresStore(PostgresOptions(dsn=postgres, prepared_statements=False))
        await unprepared.open()
        author = await Author(unprepared).start(remember={"a": b"1"})
        await author.chunk("x")
        assert await author.texts() == {"a": "x"}
        assert (await unprepared.page(TaskQuery(ANN, TaskFilter(), None, 1, include_artifacts=True))).total == 1
        await unprepared.close()


class TestGroups:
    async def test_a_bad_write_fails_alone(self, store: PostgresStore) -> None:
        authors = [Author(store) for _ in range(20)]
        writes = [author.write(author.first(), head=author.head()) for author in authors]
        bad = {3: TaskHead(b"", "\ud800", ASKING, 1_000), 7: TaskHead(b"", "context", ASKING, 2**70)}
        bad |= {11: TaskHead(b"", "nul \0", ASKING, 1_000)}
        too_long = "".join(random.Random(5).choices(string.printable, k=20_000))
        bad |= {13: TaskHead(b"", too_long, ASKING, 1_000)}
        for number, head in bad.items():
            writes[number] = authors[number].write(authors[number].first(), head=head)
        results = await asyncio.gather(*map(store.commit, writes), return_exceptions=True)
        failed = {number: type(result).__name__ for number, result in enumerate(results) if result is not False}
        assert failed == {
            3: "DataError",
            7: "DataError",
            11: "CharacterNotInRepertoireError",
            13: "ProgramLimitExceededError",
        }
        kept = [number for number, author in enumerate(authors) if await store.load(ANN, author.task_id)]
        assert kept == [number for number in range(20) if number not in failed]

    @pytest.mark.req("DURA-03", "SCAL-04")
    async def test_a_stale_write_fails_alone(self, store: PostgresStore) -> None:
        authors = [await Author(store).start() for _ in range(10)]
        await authors[4].chunk("first")
        authors[4].number -= 1
        results = await asyncio.gather(*(author.chunk("x") for author in authors), return_exceptions=True)
        assert [type(result) for result in results] == [*[type(None)] * 4, StaleWrite, *[type(None)] * 5]
        assert [await author.texts() for author in authors] == [*[{"a": "x"}] * 4, {"a": "first"}, *[{"a": "x"}] * 5]

    async def test_many_wait_and_are_stored_together(self, store: PostgresStore, sql: Sql) -> None:
        authors = [Author(store) for _ in range(200)]
        await asyncio.gather(*(author.create() for author in authors))
        assert await sql.fetchval("SELECT count(DISTINCT xmin::text) FROM a2ad.tasks") <= 4

    async def test_a_task_has_one_write_in_a_group(self, store: PostgresStore) -> None:
        """What comes while one is under way is stored after it."""
        author = await Author(store).start()
        writes = []
        for text in "abc":
            write = author.write(chunk(author.number + 1, text))
            writes.append(asyncio.ensure_future(store.commit(write)))
            author.number += 1
        await asyncio.gather(*writes)
        assert await author.texts() == {"a": "abc"}

    async def test_a_canceled_caller_disturbs_nobody(self, store: PostgresStore) -> None:
        tasks = [asyncio.create_task(Author(store).start()) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, Author) for result in results[1::2])

    async def test_totals_are_the_numbers_of_tasks(self, store: PostgresStore, sql: Sql) -> None:
        """No trigger keeps them, so whatever writes a task's state must."""
        for scope in (ANN, BOB):
            author = await Author(store, scope=scope).start()
            await Author(store, scope=scope, state=ASKING).create()
            await author.become(COMPLETED, end=[1])
            with pytest.raises(StaleWrite):
                await Author(store, author.task_id, scope, "another").create()
        kept = "SELECT slot, scope, state, sum(tasks) FROM a2ad.totals GROUP BY 1, 2, 3 HAVING sum(tasks) <> 0"
        counted = "SELECT slot, scope, state, count(*) FROM a2ad.tasks GROUP BY 1, 2, 3"
        assert sorted(map(tuple, await sql.fetch(kept))) == sorted(map(tuple, await sql.fetch(counted)))

    @pytest.mark.req("LIMT-02")
    async def test_bytes_are_counted_where_the_task_is(self, store: PostgresStore, sql: Sql) -> None:
        """Many write at once, also from one scope: what is counted is what is stored."""
        dice, authors = random.Random(11), [Author(store, scope=scope) for scope in (ANN, BOB) * 10]

        async def live(author: Author) -> None:
            text = "x" * dice.randrange(200)
            await author.start(configs=[config(author.task_id)], remember={f"{dice.randrange(3)}": text.encode()})
            for _ in range(dice.randrange(5)):
                await author.chunk(text)
            artifacts = pb.Task(artifacts=[pb.Artifact(artifact_id=text)]).SerializeToString()
            await author.chunk(text, artifacts=artifacts, state=text.encode())
            await store.put_config(author.scope, config(author.task_id, url=f"https://hook.example/{text}"))
            await author.become(dice.choice([ASKING, COMPLETED]), 5, end=[1], remember={"0": text.encode(), "1": None})
            if dice.randrange(2):
                await store.delete_config(author.scope, author.task_id, "c")

        await asyncio.gather(*map(live, authors))
        await _counted_right(sql)
        while await store.sweep(Deadlines(tasks=1_000, contexts=1_000, owed=False)) is not None:
            pass
        await _counted_right(sql)
        assert (await store.holdings("ann")).tasks == await sql.fetchval(
            "SELECT count(*) FROM a2ad.tasks WHERE owner = 'ann'"
        )

    @pytest.mark.req("LIMT-02")
    async def test_owners_with_very_long_names_are_told_apart(self, store: PostgresStore) -> None:
        """An index has no room for whole names."""
        name = "".join(random.Random(5).choices(string.printable, k=20_000))
        for owner in (name + "a", name + "b", name + "b"):
            await Author(store, scope=Scope("acme", owner)).create()
        assert [(await store.holdings(name + end)).tasks for end in "abc"] == [1, 2, 0]


async def _counted_right(sql: Sql) -> None:
    """What the totals have of each scope and state is what its rows hold."""
    kept = "SELECT scope, state, sum(bytes) FROM a2ad.totals GROUP BY 1, 2 HAVING sum(bytes) <> 0"
    assert sorted(map(tuple, await sql.fetch(kept))) == sorted(map(tuple, await sql.fetch(_STORED)))


_STORED = """
SELECT tasks.scope, state, sum(octet_length(head)
    + (SELECT sum(octet_length(wire)) FROM a2ad.events WHERE events.task = tasks.task)
    + coalesce((SELECT octet_length(wire) FROM a2ad.artifacts WHERE artifacts.task = tasks.task), 0)
    + coalesce((SELECT octet_length(wire) FROM a2ad.agent_states WHERE agent_states.task = tasks.task), 0))
FROM a2ad.tasks GROUP BY 1, 2
UNION ALL SELECT scope, 0, sum(size) FROM (
    SELECT scope, octet_length(wire) AS size FROM a2ad.configs JOIN a2ad.tasks USING (task)
    UNION ALL SELECT scope, octet_length(value) FROM a2ad.context_states) AS sizes
GROUP BY 1
"""


class TestTheSchema:
    async def test_keys_begin_with_the_slot(self, sql: Sql, store: PostgresStore) -> None:
        """So that slots can be spread over databases; what has no scope is the exception."""
        del store
        rows = await sql.fetch(_KEYS)
        assert {row["name"] for row in rows if row["first"] != "slot"} == {
            "api_keys_change_key",
            "api_keys_digest_key",
            "api_keys_pkey",
            "content_keys_pkey",
            "letters_pkey",
            "secrets_pkey",
            "sessions_pkey",
            "shard_pkey",
            "tasks_by_id",
            "versions_pkey",
        }

    async def test_nothing_works_behind_the_statements(self, sql: Sql, store: PostgresStore) -> None:
        """No sequence, trigger, function or default that moves: databases of several kinds can keep these tables."""
        del store
        assert (
            await sql.fetch("SELECT relname FROM pg_class WHERE relnamespace = 'a2ad'::regnamespace AND relkind = 'S'")
            == []
        )
        assert await sql.fetch("SELECT proname FROM pg_proc WHERE pronamespace = 'a2ad'::regnamespace") == []
        assert await sql.fetch("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal") == []

    @pytest.mark.req("DURA-09")
    async def test_servers_that_start_at_once_migrate_once(self, own_postgres: str) -> None:
        async with AsyncExitStack() as stack:
            connections = [await asyncpg.connect(own_postgres) for _ in range(8)]
            for connection in connections:
                stack.push_async_callback(connection.close)
            steps = postgres_schema.migrations()
            await asyncio.gather(*(postgres_schema.migrate(connection, "x", steps) for connection in connections))
            assert await connections[0].fetchval("SELECT version FROM a2ad.versions") == max(steps)
            for statements in steps.values():
                for statement in statements.values():
                    await connections[0].execute(statement)  # once more does no harm

    @pytest.mark.req("DURA-09")
    async def test_one_that_was_killed_while_it_migrated_is_taken_over_from(self, own_postgres: str) -> None:
        steps = postgres_schema.migrations()
        broken: Mapping[int, Mapping[str, str]] = {1: {**dict(list(steps[1].items())[:5]), "bad": "SELECT 1/0"}}
        connection = await asyncpg.connect(own_postgres)
        with pytest.raises(asyncpg.DivisionByZeroError):
            await postgres_schema.migrate(connection, "x", broken)
        assert await connection.fetch("SELECT version FROM a2ad.versions") == []
        await connection.close()
        store = PostgresStore(PostgresOptions(dsn=own_postgres))
        await store.open()
        await Author(store).create()
        await store.close()

    @pytest.mark.req("DURA-09")
    async def test_a_newer_database_is_refused_once_this_server_cannot_use_it(
        self, store: PostgresStore, sql: Sql
    ) -> None:
        await store.close()
        try:
            await sql.execute("UPDATE a2ad.versions SET version = 9")
            await store.open()  # it has only been expanded
            await store.close()
            await sql.execute("UPDATE a2ad.versions SET oldest = 8")
            with pytest.raises(
                StoreRefused, match="has schema version 9, which servers of version 8 and newer can use"
            ):
                await store.open()
        finally:
            await sql.execute("UPDATE a2ad.versions SET version = 1, oldest = 1")

    async def test_a_database_without_tables_is_no_store_for_commands(self, own_postgres: str) -> None:
        with pytest.raises(StoreRefused, match="there are no tables in the store"):
            PostgresPushAdmin(PostgresOptions(dsn=own_postgres)).status(ConfigFilter(), 1)

    def test_finished_tasks_are_those_that_cannot_go_on(self) -> None:
        states = ", ".join(map(str, sorted(TERMINAL)))
        for file, names in (("push.sql", ("put", "paid", "dropped")), ("sweeping.sql", ("next_lane", "take_away"))):
            for name in names:
                assert re.search(rf"state IN \({states}\)", postgres_schema.queries(file)[name])
        waiting = ", ".join(map(str, sorted(INTERRUPTED)))
        assert f"state IN ({waiting})" in postgres_schema.queries("lists.sql")["waiting_since"]
        assert f"state IN ({waiting})" in postgres_schema.migrations()[1]["tasks_by_age"]

    async def test_no_statement_looks_at_all_rows(self, sql: Sql, store: PostgresStore) -> None:
        """Every table is reached by a key or an index: without one, a scan is planned even where it is forbidden."""
        del store
        await sql.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
        for file in SQL_FILES:
            for name, statement in postgres_schema.queries(file).items():
                if name not in _PARTIAL:
                    plan = await plan_of(sql, statement)
                    slow = [step for step in plan if re.search(r"Seq Scan on (?!.*leftovers)", step)]
                    assert not slow or name == "set_back", (name, plan)

    async def test_groups_reach_rows_by_their_keys_also_in_tables_that_were_empty(self, own_postgres: str) -> None:
        """Plans are kept: one that was made for an empty table is used when that has a million rows."""
        store = PostgresStore(PostgresOptions(dsn=own_postgres))
        await store.open()
        await store.close()
        connection = await asyncpg.connect(own_postgres)
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        for name in ("create", "append", "change"):
            plan = await plan_of(connection, postgres_schema.queries("writes.sql")[name])
            assert not [step for step in plan if "Seq Scan" in step], (name, plan)
        await connection.close()


async def _outcome(author: Author, wanted: str) -> bool:
    """Write until it ends so: refused with these words, or not at all."""
    for _ in range(500):
        told = ""
        try:
            await author.chunk("x")
        except StoreUnavailable as error:
            told = str(error)
        if told == wanted:
            return True
        await asyncio.sleep(0.02)
    return False


_PARTIAL = {"account", "due", "parked", "of_task", "one"}
"""Statements of two parts. As a whole they are for operators."""


async def plan_of(sql: Sql, statement: str) -> list[str]:
    await sql.execute(f"PREPARE looked_at AS {statement}")
    count = max([int(number) for number in re.findall(r"\$(\d+)", statement)], default=0)
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    plan = [row[0] for row in await sql.fetch(f"EXPLAIN EXECUTE looked_at{values}")]
    await sql.execute("DEALLOCATE looked_at")
    return plan


_KEYS = """
SELECT c.relname AS name, a.attname AS first FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]
WHERE t.relnamespace = 'a2ad'::regnamespace AND i.indisunique
"""


async def back(store: PostgresStore) -> None:
    """Wait until the store has found out that its database is there."""
    async with asyncio.timeout(30):
        while True:
            with suppress(StoreUnavailable):
                return await store.ping()
            await asyncio.sleep(0.05)


class TestSharedPostgresStore(SessionPromises, LetterPromises):
    """What servers that share a database need of it."""

    @pytest.fixture
    async def others(self, postgres: str) -> AsyncIterator[PostgresStore]:
        others = PostgresStore(PostgresOptions(dsn=postgres))
        await others.open()
        yield others
        await others.close()

    @pytest.mark.req("PAID-02", "SCAL-03")
    async def test_who_starts_leaves_the_claims_of_others_alone(self, store: PostgresStore, postgres: str) -> None:
        author, now = await Author(store).create(), int(time.time() * 1000)
        await author.chunk("x", configs=[config(author.task_id)], notify=True)
        (delivery,) = await store.claim_deliveries(now + 1_000, now + 30_000, 10, UNLIMITED)
        third = PostgresStore(PostgresOptions(dsn=postgres))
        await third.open()
        assert list(await third.claim_deliveries(now + 29_000, now + 60_000, 10, UNLIMITED)) == []
        assert await store.finish_attempt(delivery, None)
        await third.close()

    @pytest.mark.req("PAID-02")
    async def test_of_many_claimers_each_webhook_goes_to_one(self, store: PostgresStore, others: PostgresStore) -> None:
        for _ in range(20):
            author = await Author(store).create()
            await author.chunk("x", configs=[config(author.task_id)], notify=True)
        rounds = [(store, others)[number % 2].claim_deliveries(1, 1 << 50, 4, UNLIMITED) for number in range(10)]
        claimed = [delivery.task_id for got in await asyncio.gather(*rounds) for delivery in got]
        while more := await store.claim_deliveries(1, 1 << 50, 4, UNLIMITED):
            claimed += [delivery.task_id for delivery in more]
        assert len(claimed) == len(set(claimed)) == 20

    @pytest.mark.req("DURA-03", "SCAL-03")
    async def test_a_heartbeat_that_is_being_written_comes_before_a_takeover(
        self, store: PostgresStore, others: PostgresStore, sql: Sql
    ) -> None:
        assert await store.beat(HERE, 600)
        author = await Author(store).start()
        await sql.execute("UPDATE a2ad.sessions SET until = clock_timestamp() + interval '0.2 seconds'")
        async with sql.transaction():  # as a heartbeat whose commit takes long
            await sql.execute("UPDATE a2ad.sessions SET until = clock_timestamp() + interval '1 hour'")
            await asyncio.sleep(0.3)
            claiming = asyncio.create_task(others.claim(THERE, 10))
            await asyncio.sleep(0.1)
            assert not claiming.done()
        assert list(await claiming) == []
        await author.chunk("still mine")

    @pytest.mark.req("SCAL-08")
    async def test_what_a_lost_commit_has_taken_over_is_told(
        self, others: PostgresStore, sql: Sql, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The connection breaks after the commit, and before its answer."""
        author = await Author(others).start("gone")
        transaction, broken = PostgresDatabase.transaction, list[bool]()

        async def breaks(database: PostgresDatabase, work: Any, **options: Any) -> Any:
            async def attempt(connection: Any) -> Any:
                done = await work(connection)
                if not broken:
                    broken.append(True)
                    await connection.execute("COMMIT")
                    raise ConnectionResetError
                return done

            return await transaction(database, attempt, **options)

        monkeypatch.setattr(PostgresDatabase, "transaction", breaks)
        (claimed,) = await others.claim(THERE, 10)
        assert (claimed.task_id, claimed.epoch) == (author.task_id, 2)
        assert list(await others.claim(THERE, 10)) == []
        assert broken
        assert await sql.fetchval("SELECT session FROM a2ad.fences") == THERE

    @pytest.mark.req("DURA-02", "SCAL-08")
    @pytest.mark.parametrize("follow_up", [False, True])
    @pytest.mark.parametrize("alone", [False, True])
    async def test_a_claim_that_nobody_heard_of_is_taken_over(
        self, others: PostgresStore, postgres: str, monkeypatch: pytest.MonkeyPatch, *, follow_up: bool, alone: bool
    ) -> None:
        """The database stores a turn and goes away before it says so: the server that began it knows nothing of it."""
        store = PostgresStore(PostgresOptions(dsn=postgres, patience=0.1))
        await store.open()
        assert await store.beat(HERE, 600)
        author = Author(store)
        if follow_up:
            await author.create(epoch=0)
        more: Any = {"claim": HERE, "begin": [StoredTurn(author.number + 1, b"request")]}
        if alone:
            more["receipt"] = Receipt("key", b"f", author.task_id, 1 << 50)
        entry = message(author.number + 1) if follow_up else author.first()
        write = author.write(entry, head=author.head(), **more)
        once = PostgresDatabase._once  # noqa: SLF001 - where an answer can be lost

        async def loses_answers(database: PostgresDatabase, attempt: Any, patience: float) -> Any:
            await once(database, attempt, patience)
            raise ConnectionResetError

        with monkeypatch.context() as patched:
            patched.setattr(PostgresDatabase, "_once", loses_answers)
            with pytest.raises(StoreUnavailable):
                await store.commit(write)
        assert list(await others.claim(THERE, 10)) == []
        await back(store)
        (claimed,) = await store.claim(HERE, 10)
        assert (claimed.task_id, claimed.epoch) == (author.task_id, write.epoch + 1)
        assert [turn.request for turn in claimed.turns] == [b"request"]
        assert list(await store.claim(HERE, 10)) == []
        await store.close()

    @pytest.mark.req("DURA-03")
    async def test_a_claim_that_was_answered_after_all_stays(
        self, postgres: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The database was away, and the same write is made again when it is back."""
        store = PostgresStore(PostgresOptions(dsn=postgres, patience=0.1))
        await store.open()
        author = Author(store)

        async def away(*_: object) -> Any:
            raise ConnectionResetError

        with monkeypatch.context() as patched:
            patched.setattr(PostgresDatabase, "_once", away)
            with pytest.raises(StoreUnavailable):
                await author.start()
        await back(store)
        await author.start()
        assert list(await store.claim(HERE, 10)) == []
        await author.chunk("still mine")
        await store.close()

    async def test_a_letter_that_was_posted_twice_is_handed_out_once(
        self, store: PostgresStore, others: PostgresStore
    ) -> None:
        """As when the first commit did not answer."""
        assert await store.beat(HERE, 600)
        for _ in range(2):
            await others.post(Letter(HERE, "l", b"question"))
            await others.post(Letter(HERE, "l", b"answer"))
        letters = [*await store.collect(HERE, 2), *await store.collect(HERE, 2)]
        assert [letter.body for letter in letters] == [b"question", b"answer"]

    async def test_what_sessions_leave_is_removed(self, store: PostgresStore, others: PostgresStore, sql: Sql) -> None:
        await Author(store).start("holds")
        rows = "VALUES ('old', clock_timestamp() - interval '2 days'), ('holds', '-infinity'), ('late', now())"
        await sql.execute(f"INSERT INTO a2ad.sessions (id, until) {rows}")
        rows = "VALUES ('late', now(), 'l', ''), ('gone', now(), 'l', '')"
        await sql.execute(f"INSERT INTO a2ad.letters (session, posted, id, body) {rows}")
        assert await others.beat(THERE, 600)
        assert [row["id"] for row in await sql.fetch("SELECT id FROM a2ad.sessions ORDER BY id")] == [
            "holds",
            "late",
            THERE,
        ]
        assert await sql.fetchval("SELECT count(*) FROM a2ad.letters") == 0

    async def test_servers_that_start_at_once_make_the_tables_together(self, own_postgres: str) -> None:
        stores = [PostgresStore(PostgresOptions(dsn=own_postgres)) for _ in range(4)]
        await asyncio.gather(*(store.open() for store in stores))
        author = await Author(stores[0]).create()
        assert all([await store.load(ANN, author.task_id) for store in stores])
        for store in stores:
            await store.close()
