"""The store on several PostgreSQL databases keeps the promises, and each call goes to the database of its scope."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from a2a_server.ports.push import ConfigFilter
from a2a_server.ports.records import Receipt
from a2a_server.ports.retention import Chosen, Deadlines, Removed
from a2a_server.ports.store import ContextQuery, StaleWrite, Store, StoreRefused, StoreUnavailable, TaskQuery
from tests.conformance.authors import ANN, ANN_ELSEWHERE, ASKING, BOB, COMPLETED, HERE, THERE, UNLIMITED, Author, config
from tests.conformance.store_contract import StoreContract
from tests.conformance.store_sessions import LetterPromises, SessionPromises
from tests.support.house import (
    Ids,
    PostgresKeyAdmin,
    PostgresOptions,
    PostgresStore,
    ShardedKeptAdmin,
    ShardedPushAdmin,
    ShardedStore,
    ShardOptions,
    TaskFilter,
    place_of,
    slots_in,
)
from tests.support.postgres import Cluster, execute

Dsns = Sequence[str]
LOWER, UPPER = "0-2047", "2048-4095"
"""ANN is in the first one, BOB and ANN_ELSEWHERE in the second."""

TABLES = ("tasks", "fences", "events", "turns", "totals", "receipts", "configs", "debts", "context_states")


def options(dsns: Dsns, slots: Sequence[str] = (LOWER, UPPER), *, patience: float = 30.0) -> list[ShardOptions]:
    pairs = zip("abc", dsns, slots, strict=False)
    return [ShardOptions(name, PostgresOptions(dsn=dsn, patience=patience), slots_in(own)) for name, dsn, own in pairs]


@pytest.fixture
def dsns(postgres: str, other_postgres: str) -> Dsns:
    return postgres, other_postgres


@pytest.fixture
async def store(dsns: Dsns) -> AsyncIterator[ShardedStore]:
    store = ShardedStore(options(dsns))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def others(store: ShardedStore, dsns: Dsns) -> AsyncIterator[ShardedStore]:
    del store  # it is there first
    others = ShardedStore(options(dsns))
    await others.open()
    yield others
    await others.close()


def counts(dsn: str) -> Mapping[str, int]:
    return {table: execute(dsn, f"SELECT count(*) FROM a2ad.{table}")[0][0] for table in TABLES}  # noqa: S608


@pytest.mark.req("SCAL-05")
class TestShardedStore(StoreContract):
    """The contract; the fixture is the module's. An id is given once if it carries its slot, as all made ids do."""

    async def test_another_scope_cannot_create_a_task_of_the_same_id(self, store: Store) -> None:
        author = await Author(store, Ids().new_task(ANN)).create()
        with pytest.raises(StaleWrite):
            await Author(store, author.task_id, BOB).create()
        assert await store.load(BOB, author.task_id) is None
        assert (await author.load()).number == 1

    async def test_a_write_that_is_refused_counts_for_nothing(self, store: Store) -> None:
        for scope in (ANN, BOB):
            author = await Author(store, Ids().new_task(scope), scope=scope).create()
            for other in (ANN, BOB):
                before = await store.holdings(other.owner)
                with pytest.raises(StaleWrite):
                    await Author(store, author.task_id, scope=other).create()
                assert await store.holdings(other.owner) == before


@pytest.mark.req("SCAL-05")
class TestSharedShardedStore(SessionPromises, LetterPromises):
    """What servers share, over several databases."""


@contextmanager
def unreachable(cluster: Cluster, dsn: str) -> Iterator[None]:
    name = dsn.rpartition("/")[2]
    cluster.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
    cluster.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608
    try:
        yield
    finally:
        cluster.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")


@pytest.mark.req("SCAL-05")
class TestWhereThingsAre:
    def test_the_scopes_of_these_tests_are_apart(self) -> None:
        assert [place_of(scope).slot > 2047 for scope in (ANN, BOB, ANN_ELSEWHERE)] == [False, True, True]

    async def test_everything_of_a_scope_is_in_the_database_of_its_slot(self, store: ShardedStore, dsns: Dsns) -> None:
        author = await Author(store, scope=BOB).start(state=b"s", receipt=Receipt("k", b"f", "t", 9_000))
        await author.chunk("x", configs=[config(author.task_id)], notify=True, remember={"a": b"1"})
        assert set(counts(dsns[0]).values()) == {0}
        assert set(counts(dsns[1]).values()) >= {1}
        assert 0 not in counts(dsns[1]).values()

    @pytest.mark.parametrize("made", ["before", "now"])
    async def test_a_log_is_found_by_the_id_alone(self, store: ShardedStore, made: str) -> None:
        ids = Ids()
        for scope in (ANN, BOB):
            task_id = ids.new() if made == "before" else ids.new_task(scope)
            author = await Author(store, task_id, scope=scope).create()
            await author.chunk("x")
            assert [entry.number for entry in await store.entries(task_id, 0, 9)] == [1, 2]
            assert [entry.number for entry in await store.entries(task_id, 1, 9)] == [2]
            assert await store.numbers([task_id, ids.new(), ids.new_task(BOB)]) == {task_id: 2}
        assert list(await store.entries(ids.new(), 0, 9)) == []

    async def test_a_call_for_a_scope_touches_one_database(
        self, store: ShardedStore, dsns: Dsns, postgres_cluster: Cluster
    ) -> None:
        """With the second one away, everything works for those in the first."""
        author = await Author(store, Ids().new_task(ANN)).start()
        away = Author(store, scope=BOB)
        hasty = ShardedStore(options(dsns, patience=0.2))
        await hasty.open()
        with unreachable(postgres_cluster, dsns[1]):
            await self.use(store, author)
            for call in (hasty.load(BOB, "t"), hasty.holdings("ann"), Author(hasty, scope=BOB).create()):
                with pytest.raises(StoreUnavailable):
                    await call
        await hasty.close()
        await away.create()
        assert (await store.holdings("bob")).tasks == 1

    async def use(self, store: ShardedStore, author: Author) -> None:
        await author.chunk("x", configs=[config(author.task_id)], notify=True, remember={"a": b"1"})
        assert (await author.load()).number == 2
        assert len(await store.entries(author.task_id, 0, 9)) == 2
        page = await store.page(TaskQuery(ANN, TaskFilter(), None, 9, include_artifacts=True))
        assert page.total == 1
        assert await store.reserve(ANN, Receipt("k", b"f", "t", 9_000), 0)
        assert await store.put_config(ANN, config(author.task_id, "d"))
        assert await store.configs(ANN, author.task_id, "", 9)
        assert (await store.holdings("ann", "acme")).tasks == 1
        (delivery,) = await store.claim_deliveries(0, 1, 10, UNLIMITED)
        assert await store.finish_attempt(delivery, None)
        assert await store.next_due() is None
        assert await store.beat(HERE, 600)
        assert await store.waiting_since(ASKING, 9_999, 9) == []
        assert list(await store.claim(HERE, 10)) == []
        await store.ping()

    async def test_turns_in_all_databases_are_taken_over_and_the_home_says_when(
        self, store: ShardedStore, others: ShardedStore
    ) -> None:
        assert await store.beat(HERE, 600)
        tasks = {(await Author(store, scope=scope).start()).task_id for scope in (ANN, BOB, ANN_ELSEWHERE)}
        assert list(await others.claim(THERE, 10)) == []
        await store.end_session(HERE)
        assert {one.task_id for one in await others.claim(THERE, 2)} < tasks
        assert len(await others.claim(THERE, 10)) == 1

    async def test_lists_over_all_scopes_are_in_one_order(self, store: ShardedStore) -> None:
        authors = [
            await Author(store, scope=scope, state=ASKING, status_ms=number).create()
            for number, scope in enumerate((ANN, BOB, ANN_ELSEWHERE, ANN, BOB))
        ]
        found = [task_id for _, task_id in await store.waiting_since(ASKING, 9_999, 4)]
        assert found == [author.task_id for author in authors[:4]]

    async def test_owners_are_counted_over_all_databases(self, store: ShardedStore) -> None:
        for scope in (ANN, ANN_ELSEWHERE):
            author = await Author(store, scope=scope).create()
            urls = ("https://one.example/", f"https://{scope.tenant}.example/")
            await author.chunk("x", configs=[config(author.task_id, url, url) for url in urls], notify=True)
        assert await store.count_configs("ann", None, 100) == 4
        assert await store.count_configs("ann", None, 3) == 3
        assert await store.count_configs("ann", "one.example:443", 100) == 2
        assert await store.count_hosts("ann", 100) == 3
        assert await store.count_hosts("ann", 2) == 2
        assert (await store.holdings("ann")).tasks == 2
        assert (await store.holdings("ann", "globex")).tasks == 1

    @pytest.mark.req("PAID-02")
    async def test_deliveries_of_all_databases_are_claimed_within_the_limits(self, store: ShardedStore) -> None:
        authors = [await Author(store, scope=scope).create() for scope in (ANN, BOB)]
        for author in authors:
            await author.chunk("x", configs=[config(author.task_id, one) for one in "cd"], notify=True)
        claimed = [one for _ in range(2) for one in await store.claim_deliveries(5, 6, 3, UNLIMITED)]
        assert sorted((one.task_id, one.hook.config.id) for one in claimed) == sorted(
            (author.task_id, one) for author in authors for one in "cd"
        )
        assert all([await store.finish_attempt(one, None) for one in claimed])

    @pytest.mark.req("KEPT-01")
    async def test_a_round_of_the_sweep_goes_through_all_databases(self, store: ShardedStore, dsns: Dsns) -> None:
        for scope in (ANN, BOB):
            await (await Author(store, scope=scope).create()).become(COMPLETED)
        removed = Removed()
        while (step := await store.sweep(Deadlines(tasks=1 << 50))) is not None:
            removed = removed.plus(step)
        assert removed.tasks == 2
        assert [counts(dsn)["tasks"] for dsn in dsns] == [0, 0]

    async def test_sessions_keys_and_the_secret_are_in_the_home(self, store: ShardedStore, dsns: Dsns) -> None:
        alone = PostgresStore(PostgresOptions(dsn=dsns[0]), alone=False)
        await alone.open()
        assert await alone.secret() == await store.secret()
        assert await store.beat(HERE, 600)
        assert await alone.lives(HERE)
        await alone.close()
        assert PostgresKeyAdmin(PostgresOptions(dsn=dsns[0])).keys("", 1) == []
        assert list(await store.keys_after(0, 9)) == []


@pytest.mark.req("SCAL-05")
class TestOperators:
    @pytest.mark.req("KEPT-02")
    async def test_data_is_removed_from_all_databases_after_one_question(self, store: ShardedStore, dsns: Dsns) -> None:
        assert await store.beat(HERE, 600)
        await Author(store, scope=ANN).create()
        await Author(store, scope=ANN_ELSEWHERE).create()
        await Author(store, scope=BOB).create()
        busy = await Author(store, scope=ANN_ELSEWHERE).start()
        while not execute(dsns[1], "SELECT 1 FROM a2ad.sessions"):  # noqa: ASYNC110 - until it is noted there
            await asyncio.sleep(0.05)
        asked: list[tuple[int, int]] = []
        told: list[Removed] = []

        def agree(expected: Removed, stay: int) -> bool:
            asked.append((expected.tasks, stay))
            return len(asked) > 1

        admin = ShardedKeptAdmin(options(dsns))
        assert admin.remove(Chosen(owner="ann"), agree, told.append) == Removed()
        assert admin.remove(Chosen(owner="ann"), agree, told.append).tasks == 2
        assert asked == [(2, 1), (2, 1)]
        assert told[-1].tasks == 2
        assert [(scope, held.tasks) for scope, held in admin.usage("ann", 9)] == [(ANN_ELSEWHERE, 1)]
        assert [scope.owner for scope, _ in admin.usage(None, 9)] == ["ann", "bob"]
        assert len(admin.usage(None, 1)) == 1
        assert (await busy.load()).number == 1

    @pytest.mark.req("PAID-03")
    async def test_push_configs_of_all_databases_are_shown_and_retried(self, store: ShardedStore, dsns: Dsns) -> None:
        authors = [await Author(store, scope=scope).create() for scope in (BOB, ANN)]
        for author in authors:
            await author.chunk("x", configs=[config(author.task_id)], notify=True)
        admin = ShardedPushAdmin(options(dsns))
        assert {one.task_id for one in admin.status(ConfigFilter(), 10)} == {author.task_id for author in authors}
        assert len(admin.status(ConfigFilter(), 1)) == 1
        assert [one.scope for one in admin.status(ConfigFilter(authors[0].task_id), 9)] == [BOB]
        assert admin.retry(ConfigFilter()) == 2
        assert admin.drop(ConfigFilter(authors[1].task_id)) == 1
        assert [one.task_id for one in await store.claim_deliveries(0, 1, 9, UNLIMITED)] == [authors[0].task_id]

    async def test_nothing_is_removed_while_slots_move(self, store: ShardedStore, dsns: Dsns) -> None:
        del store
        execute(dsns[1], "UPDATE a2ad.shard SET moving = decode('01', 'hex')")
        with pytest.raises(StoreRefused, match=r"^slots are moving from or to the database 'b'"):
            ShardedKeptAdmin(options(dsns)).remove(Chosen(owner="ann"), lambda *_: True, lambda _: None)


async def refused(shards: Sequence[ShardOptions]) -> str:
    store = ShardedStore(shards)
    with pytest.raises(StoreRefused) as caught:
        await store.open()
    await store.close()
    return str(caught.value)


@pytest.mark.req("SCAL-05")
class TestTheStart:
    async def test_two_servers_that_start_at_once_make_one_store(self, dsns: Dsns) -> None:
        stores = [ShardedStore(options(dsns)) for _ in range(4)]
        await asyncio.gather(*(store.open() for store in stores))
        author = await Author(stores[0], scope=BOB).create()
        assert all([await store.load(BOB, author.task_id) for store in stores])
        for store in stores:
            await store.close()

    async def test_the_databases_decide_and_not_the_settings(self, store: ShardedStore, dsns: Dsns) -> None:
        author = await Author(store, scope=BOB).create()
        await store.close()
        other = ShardedStore(options(dsns, (UPPER, LOWER)))
        await other.open()
        author.store = other
        await author.chunk("x")
        assert counts(dsns[0])["tasks"] == 0
        await other.close()

    async def test_a_database_is_not_listed_twice(self, dsns: Dsns) -> None:
        again = [dsns[0], f"{dsns[0]}?sslmode=disable"]
        expected = "postgresql.shards: 'a' and 'b' are the same database, or copies of it"
        assert await refused(options(again)) == expected

    async def test_a_database_with_tasks_keeps_its_slots(self, dsns: Dsns) -> None:
        alone = PostgresStore(PostgresOptions(dsn=dsns[0]))
        await alone.open()
        author = await Author(alone).create()
        await alone.close()
        for shards, name in ((options(dsns), "a"), (options(dsns[::-1]), "b")):
            assert await refused(shards) == (
                f"postgresql.shards: the database '{name}' has tasks already, or a server uses it. Make it `store`, "
                "give it slots 0-4095 and the others none, and move slots with `a2ad db shards move`"
            )
        await alone.open()
        await author.chunk("still alone")
        await alone.close()
        author.store = ShardedStore(options(dsns, ("0-4095", "")))
        await author.store.open()
        await author.chunk("x")
        await author.store.close()

    async def test_a_server_that_knows_one_of_several_is_refused(self, store: ShardedStore, dsns: Dsns) -> None:
        del store
        for dsn in dsns:
            with pytest.raises(StoreRefused, match="is one of several databases that are a store together"):
                await PostgresStore(PostgresOptions(dsn=dsn)).open()
        assert await refused(options(dsns, ("0-4095",))) == (
            f"no database in postgresql.shards has the slots {UPPER}. List all databases of the store"
        )
        expected = "postgresql.shards: the database 'a' belongs to a store with another home"
        assert await refused(options(dsns[::-1])) == expected

    async def test_a_database_of_another_store_is_refused(self, dsns: Dsns) -> None:
        execute(dsns[1], "UPDATE a2ad.shard SET home = gen_random_uuid()")
        assert await refused(options(dsns)) == "postgresql.shards: the database 'b' belongs to another store"

    async def test_one_that_joins_later_has_no_slots(self, store: ShardedStore, dsns: Dsns, own_postgres: str) -> None:
        await store.close()
        wider = ShardedStore(options([*dsns, own_postgres], ("0-1000", "1001-2000", "2001-4095")))
        await wider.open()
        await Author(wider, scope=ANN).create()
        await wider.close()
        assert counts(own_postgres)["tasks"] == 0
        await store.open()  # the one without slots need not be known

    async def test_slots_that_are_in_two_places_stop_the_start(self, store: ShardedStore, dsns: Dsns) -> None:
        await store.close()
        execute(dsns[0], "UPDATE a2ad.shard SET slots = set_bit(slots, 4095, 1)")
        assert await refused(options(dsns)) == "both 'a' and 'b' have the slots 4095"


def mark(dsn: str, bit: int, slot: int = place_of(ANN).slot) -> None:
    """Say that a slot is in a database, or is not."""
    execute(dsn, f"UPDATE a2ad.shard SET slots = set_bit(slots, {slot}, {bit}), version = version + 1")  # noqa: S608


@pytest.mark.req("SCAL-05")
class TestAnOldMap:
    """A server that knows where a slot was."""

    async def moved(self, dsns: Dsns) -> None:
        """Move a slot without rows, behind everybody's back."""
        for dsn, bit in zip(dsns, (0, 1), strict=True):
            mark(dsn, bit)

    async def test_a_new_task_goes_where_the_slot_is(self, store: ShardedStore, dsns: Dsns) -> None:
        await self.moved(dsns)
        author = await Author(store).create()
        assert [counts(dsn)["tasks"] for dsn in dsns] == [0, 1]
        await author.chunk("x")

    async def test_a_database_refuses_what_is_not_its_own(self, dsns: Dsns, store: ShardedStore) -> None:
        alone = PostgresStore(PostgresOptions(dsn=dsns[1]), alone=False)
        await alone.open()
        with pytest.raises(StaleWrite):
            await Author(alone, scope=ANN).create()
        await Author(alone, scope=BOB).create()
        await alone.close()
        assert counts(dsns[1])["tasks"] == 1
        del store

    @pytest.mark.parametrize("call", range(8))
    async def test_what_a_call_has_missed_is_looked_for_again(
        self, store: ShardedStore, others: ShardedStore, dsns: Dsns, call: int
    ) -> None:
        task_id = Ids().new_task(ANN)
        await self.moved(dsns)
        author = await Author(others, task_id).create()
        await author.chunk("x", configs=[config(task_id)], notify=True, remember={"a": b"1"})
        await others.reserve(ANN, Receipt("k", b"f", task_id, 9_000), 0)
        (delivery,) = await others.claim_deliveries(0, 1, 9, UNLIMITED)
        calls: Sequence[Callable[[], Awaitable[object]]] = [
            lambda: store.load(ANN, task_id),
            lambda: store.entries(task_id, 0, 9),
            lambda: store.has_context(ANN, "context"),
            lambda: store.recall(ANN, "k", 0),
            lambda: store.get_config(ANN, task_id, "c"),
            lambda: store.put_config(ANN, config(task_id, "d")),
            lambda: store.delete_config(ANN, task_id, "c"),
            lambda: store.finish_attempt(delivery, None),
        ]
        assert await calls[call]()
        page = await store.page(TaskQuery(ANN, TaskFilter(), None, 9, include_artifacts=True))
        assert page.total == 1
        assert set(counts(dsns[0]).values()) == {0}

    async def test_a_context_that_moves_is_read_where_it_is(
        self, store: ShardedStore, others: ShardedStore, dsns: Dsns
    ) -> None:
        memory = await store.context(ContextQuery(ANN, "context", "", 9, 1 << 20))
        await self.moved(dsns)
        author = await Author(others).create()
        assert [task.id for task in await memory.tasks()] == [author.task_id]

    async def test_a_slot_that_is_nowhere_is_waited_for(self, store: ShardedStore, dsns: Dsns) -> None:
        mark(dsns[0], 0)
        waiting = asyncio.create_task(Author(store).create())
        counting = asyncio.create_task(store.holdings("ann"))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        assert not counting.done()
        mark(dsns[1], 1)
        await waiting
        await counting
        assert counts(dsns[1])["tasks"] == 1

    async def test_a_slot_that_stays_away_is_unavailable(self, store: ShardedStore, dsns: Dsns) -> None:
        await store.close()
        hasty = ShardedStore(options(dsns, patience=0.2))
        await hasty.open()
        mark(dsns[0], 0)
        with pytest.raises(StoreUnavailable, match=r"^the slot 402 is on the way to another database"):
            await Author(hasty).create()
        with pytest.raises(StoreUnavailable, match=r"^slots are on the way to another database"):
            await hasty.holdings("ann")
        await Author(hasty, scope=BOB).create()
        await hasty.close()
