"""Slots that move between databases while servers use them: nothing is lost, doubled or wrong (spec: SCAL-05)."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from a2a_server.ports.records import Receipt
from a2a_server.ports.retention import Deadlines
from a2a_server.ports.store import ContextQuery, StoreRefused, StoreUnavailable, TaskQuery
from tests.conformance.authors import ANN, BOB, COMPLETED, HERE, THERE, UNLIMITED, Author, chunk, config
from tests.support.effort import effort
from tests.support.house import (
    Ids,
    Journey,
    PostgresOptions,
    PostgresShardAdmin,
    Scope,
    SealedContent,
    ShardedStore,
    ShardOptions,
    TaskFilter,
    evenly,
    place_of,
    slots_in,
    slots_text,
)
from tests.support.postgres import execute

Dsns = Sequence[str]
LOWER, UPPER = "0-2047", "2048-4095"
COPIED = ("tasks", "events", "artifacts", "agent_states", "turns", "context_states")
TABLES = (*COPIED, "fences", "totals", "receipts", "configs", "debts", "leftovers", "leaving")


def options(dsns: Dsns, *, patience: float = 30.0) -> list[ShardOptions]:
    rows = zip("ab", dsns, (LOWER, UPPER), strict=True)
    return [ShardOptions(name, PostgresOptions(dsn=dsn, patience=patience), slots_in(own)) for name, dsn, own in rows]


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
def admin(store: ShardedStore, dsns: Dsns) -> PostgresShardAdmin:
    del store  # the databases are one store
    return PostgresShardAdmin(options(dsns))


def rows_of(dsn: str, slots: str = "0-4095") -> dict[str, int]:
    listed = ",".join(map(str, slots_in(slots)))
    counted = "SELECT count(*) FROM a2ad.{} WHERE slot IN ({})"
    found = {table: execute(dsn, counted.format(table, listed))[0][0] for table in TABLES}
    return {table: count for table, count in found.items() if count}


async def move(admin: PostgresShardAdmin, slots: str, to: str) -> list[str]:
    lines: list[str] = []
    await asyncio.to_thread(admin.move, slots_in(slots), to, lines.append)
    return lines


SLOT = str(place_of(ANN).slot)


async def lived(store: ShardedStore, scope: Scope = ANN) -> Author:
    """A task with everything that a task can have."""
    author = await Author(store, Ids().new_task(scope), scope=scope).start(state=b"saved")
    await author.chunk("one ", configs=[config(author.task_id), config(author.task_id, "d")], notify=True)
    await author.chunk("two", notify=True, remember={"name": b"value"}, artifacts=b"")
    await store.reserve(scope, Receipt("k", b"f", author.task_id, 1 << 50), 0)
    return author


async def seen(store: ShardedStore, author: Author) -> list[object]:
    """All that callers can see of a task and its context."""
    scope = author.scope
    memory = await store.context(ContextQuery(scope, "context", "", 9, 1 << 20))
    return [
        await author.load(),
        await store.entries(author.task_id, 0, 99),
        await store.page(TaskQuery(scope, TaskFilter(), None, 99, include_artifacts=True)),
        await store.recall(scope, "k", 0),
        [hook.config for hook in await store.configs(scope, author.task_id, "", 9) or ()],
        await store.holdings(scope.owner),
        memory.state(),
        await memory.tasks(),
    ]


@pytest.mark.req("SCAL-05")
async def test_everything_of_a_slot_moves(store: ShardedStore, admin: PostgresShardAdmin, dsns: Dsns) -> None:
    await store.beat(HERE, 600)
    author, other = await lived(store), await lived(store, BOB)
    before, rows = await seen(store, author), rows_of(dsns[0])
    assert set(rows) == {*TABLES} - {"leftovers", "leaving"}
    lines = await move(admin, f"{SLOT},0-9", "b")
    assert lines == [f"11 of 11 slots: 0-9,{SLOT} with 1 tasks from a to b"]
    assert await seen(store, author) == before
    assert rows_of(dsns[0]) == {}
    assert rows_of(dsns[1], SLOT) == rows
    await author.chunk("three", notify=True)
    assert (await other.load()).number == 3
    claimed = await store.claim_deliveries(5, 9, 10, UNLIMITED)
    assert Counter(one.task_id for one in claimed) == {author.task_id: 2, other.task_id: 2}
    assert all([await store.finish_attempt(one, None) for one in claimed])
    await store.end_session(HERE)
    assert {one.task_id for one in await store.claim(THERE, 9)} == {author.task_id, other.task_id}
    assert await move(admin, SLOT, "b") == []


@pytest.mark.req("SCAL-05")
async def test_changes_while_slots_move_come_too(
    store: ShardedStore, admin: PostgresShardAdmin, dsns: Dsns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first copy and the last one a log grows and is cut, tasks begin, end and go."""
    ids = Ids()
    grows, ends, goes, cut = [await Author(store, ids.new_task(ANN)).create() for _ in range(4)]
    for author in (ends, goes, cut):
        await author.chunk("x", artifacts=b"")
    await cut.become(COMPLETED)
    close = Journey._close  # noqa: SLF001 - a moment that no call from outside can choose
    begun: list[Author] = []

    ran = asyncio.get_running_loop()

    async def in_our_loop(journey: Journey) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(change_here(), ran))
        await close(journey)

    async def change_here() -> None:
        for number in range(3):
            await grows.commit(grows.write(chunk(grows.number + 1, f"{number}"), state=f"{number}".encode()))
        begun.append(await Author(store, ids.new_task(ANN)).start())
        await ends.become(COMPLETED)
        goes.status_ms = 100
        await goes.become(COMPLETED)
        while await store.sweep(Deadlines(tasks=500, events=2_000)) is not None:
            pass

    monkeypatch.setattr(Journey, "_close", in_our_loop)
    await move(admin, SLOT, "b")
    assert rows_of(dsns[0]) == {}
    assert await store.load(ANN, goes.task_id) is None
    assert list(await store.entries(goes.task_id, 0, 9)) == []
    assert list(await store.entries(cut.task_id, 0, 9)) == []
    assert len(await store.entries(grows.task_id, 0, 9)) == 4
    record = await grows.load()
    assert (record.number, record.state) == (4, b"2")
    assert (await begun[0].load()).number == 1
    assert (await ends.load()).task.status.state == COMPLETED
    page = await store.page(TaskQuery(ANN, TaskFilter(), None, 9, include_artifacts=True))
    assert (page.total, len(page.tasks)) == (4, 4)
    assert rows_of(dsns[1], SLOT)["tasks"] == 4


class Killed(BaseException):
    """Stands for kill -9: nothing is tidied up."""


@pytest.mark.req("SCAL-05")
@pytest.mark.parametrize("again", ["undo", "move"])
@pytest.mark.parametrize("step", ["_copy", "_close", "_arrive", "_clear"])
async def test_a_move_that_was_killed_is_undone_or_run_again(  # noqa: PLR0913, PLR0917 - the parts
    store: ShardedStore, admin: PostgresShardAdmin, dsns: Dsns, monkeypatch: pytest.MonkeyPatch, step: str, again: str
) -> None:
    author = await lived(store)
    before = await seen(store, author)

    async def die(_: Journey) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Journey, step, die)
        with pytest.raises(Killed):
            await move(admin, SLOT, "b")
    closed, arrived = step == "_arrive", step == "_clear"
    if closed:
        hasty = ShardedStore(options(dsns, patience=0.2))
        await hasty.open()  # a server may start meanwhile
        with pytest.raises(StoreUnavailable, match=r"^the slot 402 is on the way to another database"):
            await hasty.load(ANN, author.task_id)
        await hasty.close()
    if again == "undo":
        lines: list[str] = []
        await asyncio.to_thread(admin.settle, lines.append)
        where = "have arrived in b" if arrived else "are in a as before"
        assert lines == [f"a move was cut short: the slots {SLOT} {where}"]
    else:
        await move(admin, SLOT, "b")
        arrived = True
    assert await seen(store, author) == before
    await author.chunk("three", notify=True)
    assert rows_of(dsns[not arrived], SLOT) == {}
    assert (await asyncio.to_thread(admin.look))[0].moving == frozenset()


@pytest.mark.req("SCAL-05")
async def test_slots_do_not_move_to_where_a_server_would_not_look(
    store: ShardedStore, admin: PostgresShardAdmin, dsns: Dsns
) -> None:
    await lived(store)
    assert await store.beat(HERE, 600)
    execute(dsns[0], "INSERT INTO a2ad.sessions (id, until) VALUES ('alone', now() + interval '1 hour')")
    with pytest.raises(StoreRefused, match=r"^1 running servers do not know the database that the slots are to move"):
        await move(admin, SLOT, "b")
    assert not any(shard.moving for shard in await asyncio.to_thread(admin.look))
    execute(dsns[0], "UPDATE a2ad.sessions SET until = now() WHERE id = 'alone'")
    await move(admin, SLOT, "b")


@pytest.mark.req("SCAL-05")
async def test_a_command_stops_when_another_takes_over(
    admin: PostgresShardAdmin, store: ShardedStore, monkeypatch: pytest.MonkeyPatch, dsns: Dsns
) -> None:
    author = await lived(store)
    close = Journey._close  # noqa: SLF001 - as above

    async def slow(journey: Journey) -> None:
        monkeypatch.setattr(Journey, "_close", close)
        await asyncio.to_thread(PostgresShardAdmin(options(dsns)).move, slots_in(SLOT), "b", lambda _: None)
        await close(journey)

    monkeypatch.setattr(Journey, "_close", slow)
    with pytest.raises(StoreRefused, match=r"^another command moves slots of this database; this one has stopped$"):
        await move(admin, SLOT, "b")
    await author.chunk("x")
    assert rows_of(dsns[0]) == {}


@pytest.mark.req("SCAL-05", "SECR-03")
async def test_sealed_content_stays_readable(dsns: Dsns) -> None:
    old, new = bytes(32), bytes([1]) * 32
    store = ShardedStore(options(dsns), SealedContent([old]))
    await store.open()
    author = await lived(store)
    before = await seen(store, author)
    await store.close()
    execute(dsns[1], "DELETE FROM a2ad.content_keys")
    store = author.store = ShardedStore(options(dsns), SealedContent([new, old]))
    await store.open()
    await move(PostgresShardAdmin(options(dsns)), SLOT, "b")
    assert await seen(store, author) == before
    await store.close()
    with pytest.raises(StoreRefused, match="sealed with the key"):  # the new database knows that it needs the old key
        await ShardedStore(options(dsns), SealedContent([new])).open()


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.req("SCAL-05")
def test_an_even_spread_is_even(count: int) -> None:
    chance = random.Random(count)
    weights = {f"d{number}": dict[int, int]() for number in range(count)}
    for slot in range(4096):
        weights["d0" if slot < 3000 else "d1"][slot] = 1 + int(chance.paretovariate(1.5))
    held = {name: dict(slots) for name, slots in weights.items()}
    for moved, source, target in evenly(weights):
        for slot in moved:
            held[target][slot] = held[source].pop(slot)
    sums = [sum(slots.values()) for slots in held.values()]
    heaviest = max(weight for slots in held.values() for weight in slots.values())
    assert max(sums) - min(sums) <= max(heaviest, sum(sums) // 50)


# -- under load


@dataclass
class Load:
    """Callers of a few scopes, each with a task at a time, who check all that they see."""

    stores: Sequence[ShardedStore]
    scopes: Sequence[Scope]
    ids: Ids = field(default_factory=Ids)
    made: dict[str, Author] = field(default_factory=dict)
    stop: bool = False

    async def run(self, scope: Scope) -> None:
        chance = random.Random(str(scope))
        while not self.stop:
            author = Author(chance.choice(self.stores), self.ids.new_task(scope), scope=scope)
            await author.start()
            self.made[author.task_id] = author
            await store_config(chance.choice(self.stores), author)
            for number in range(chance.randrange(1, 8)):
                author.store = chance.choice(self.stores)
                text = f"{number};"
                await author.chunk(text, notify=True)
                await self.check(chance.choice(self.stores), author)
                await asyncio.sleep(0.02)
            await author.become(COMPLETED, end=[1], notify=True)
            await self.check_list(chance.choice(self.stores), scope)

    async def check(self, store: ShardedStore, author: Author) -> None:
        record = await store.load(author.scope, author.task_id)
        assert record is not None
        assert record.number == author.number
        entries = await store.entries(author.task_id, 0, 99)
        assert [entry.number for entry in entries] == [*range(1, author.number + 1)]
        hooks = await store.configs(author.scope, author.task_id, "", 9)
        assert hooks is not None
        assert len(hooks) == 1

    async def check_list(self, store: ShardedStore, scope: Scope) -> None:
        page = await store.page(TaskQuery(scope, TaskFilter(), None, 20, include_artifacts=False))
        mine = [author for author in self.made.values() if author.scope == scope]
        assert page.total == len(mine)
        assert len(page.tasks) == min(20, len(mine))


async def store_config(store: ShardedStore, author: Author) -> None:
    assert await store.put_config(author.scope, config(author.task_id))


def write_settings(folder: Path, dsns: Dsns) -> Path:
    rows = zip("ab", dsns, (LOWER, UPPER), strict=True)
    tables = [f'[[postgresql.shards]]\nname = "{n}"\ndsn = "{dsn}"\nslots = "{own}"\n' for n, dsn, own in rows]
    path = folder / "a2ad.toml"
    path.write_text("\n".join([f'store = "{dsns[0]}"', *tables]))
    return path


async def command(
    settings: Path, *words: str, kill: Callable[[], Awaitable[None]] | None = None
) -> tuple[int | None, str, str]:
    """Run `a2ad db shards`. It is killed when `kill` returns, unless it was done before."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "a2a_server", "db", "shards", *words, "--config", str(settings),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    if kill is not None:
        waiting = asyncio.ensure_future(process.wait())
        killing = asyncio.ensure_future(kill())
        await asyncio.wait([waiting, killing], return_when=asyncio.FIRST_COMPLETED)
        killing.cancel()
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def in_the_middle(dsn: str) -> None:
    """Wait until slots move from or to a database, and then a little."""
    while not execute(dsn, "SELECT 1 FROM a2ad.shard WHERE moving IS NOT NULL"):  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)
    await asyncio.sleep(random.uniform(0, 0.5))


@pytest.mark.req("SCAL-05")
@pytest.mark.timeout(600)
async def test_slots_move_under_load_with_kills_in_the_middle(dsns: Dsns, tmp_path: Path) -> None:
    settings, killed = write_settings(tmp_path, dsns), 0
    async with AsyncExitStack() as stack:
        stores = [ShardedStore(options(dsns)) for _ in range(2)]
        for number, store in enumerate(stores):
            await store.open()
            stack.push_async_callback(store.close)
            assert await store.beat(f"server {number}", 3_600)
        load = Load(stores, [Scope("load", f"owner {number}") for number in range(8)])
        slots = sorted(place_of(scope).slot for scope in load.scopes)
        callers = asyncio.gather(*map(load.run, load.scopes))
        stack.callback(callers.cancel)
        for attempt in range(effort(2, everything=10)):
            to, some = "ba"[attempt % 2], slots_text(random.sample(slots, 6))
            status, _, _ = await command(settings, "move", some, "--to", to, kill=partial(in_the_middle, dsns[0]))
            killed += status == -signal.SIGKILL
            again = ["undo"] if attempt % 4 == 1 else ["move", some, "--to", to]
            status, _, err = await command(settings, *again)
            assert status == 0, err
            assert not callers.done() or not callers.exception()
        load.stop = True
        await callers
        assert killed
        await check_all(load, stores, dsns)


async def check_all(load: Load, stores: Sequence[ShardedStore], dsns: Dsns) -> None:
    for author in load.made.values():
        await load.check(stores[0], author)
    tables = [rows_of(dsn) for dsn in dsns]
    held = [{row[0] for row in execute(dsn, "SELECT task FROM a2ad.fences")} for dsn in dsns]
    assert held[0] | held[1] == load.made.keys()
    assert not held[0] & held[1]
    assert sum(found.get("tasks", 0) for found in tables) == len(load.made)
    assert sum(found.get("events", 0) for found in tables) == sum(author.number for author in load.made.values())
    assert not any(found.get("leaving") for found in tables)
    for scope in load.scopes:
        mine = [author for author in load.made.values() if author.scope == scope]
        assert (await stores[1].holdings(scope.owner)).tasks == len(mine)
    owed = Counter({author.task_id: author.number - 1 for author in load.made.values()})
    paid: Counter[str] = Counter()
    while claimed := await stores[0].claim_deliveries(1 << 40, 1 << 41, 100, UNLIMITED):
        for one in claimed:
            assert one.number == paid[one.task_id] + 2  # in order, none twice
            paid[one.task_id] += 1
        assert all(await asyncio.gather(*(stores[1].finish_attempt(one, None) for one in claimed)))
    assert paid == owed


@pytest.mark.req("SCAL-05", "OPER-04")
async def test_the_commands(store: ShardedStore, dsns: Dsns, tmp_path: Path) -> None:
    settings = write_settings(tmp_path, dsns)
    for _ in range(3):
        await lived(store)
    await store.close()
    status, out, err = await command(settings, "plan", "--give", f"b={SLOT},5000")
    assert (status, out) == (2, "")
    assert "--give b=402,5000: '5000' must be slots from 0 to 4095" in err
    status, out, _ = await command(settings, "plan", "--give", f"b={SLOT}")
    assert status == 0
    lines = out.splitlines()
    assert lines[0].split() == ["database", "slots", "tasks", "data", "on", "disk", "which"]
    assert [line.split()[:3] for line in lines[1:3]] == [["a", "2048", "3"], ["b", "2048", "0"]]
    assert lines[4] == "these moves would do that:"
    assert lines[5].startswith(f"  a2ad db shards move {SLOT} --to b  # 1 slots, 3 tasks, ")
    told = json.loads((await command(settings, "plan", "--json"))[1])
    assert [one["slots"] for one in told["databases"]] == [LOWER, UPPER]
    assert told["moves"]
    assert {(one["from"], one["to"]) for one in told["moves"]} <= {("a", "b"), ("b", "a")}
    status, out, _ = await command(settings, "move", SLOT, "--to", dsns[1], "--dry-run")
    assert out.startswith("would move 1 slots with 3 tasks, ")
    assert rows_of(dsns[0])["tasks"] == 3
    status, out, err = await command(settings, "move", SLOT, "--to", "b")
    assert (status, out, err) == (0, "moved 1 slots to b\n", f"… 1 of 1 slots: {SLOT} with 3 tasks from a to b\n")
    assert (await command(settings, "undo"))[1] == "no move was cut short\n"
    status, _, err = await command(settings, "move", "1-x", "--to", "b")
    assert (status, "'1-x' must be slots from 0 to 4095, such as 0-2047,3000" in err) == (2, True)
    status, _, err = await command(settings, "move", "1", "--to", "c")
    assert (status, "'c' is no database of [[postgresql.shards]]; there are a, b" in err) == (2, True)
    settings.write_text(f'store = "{dsns[0]}"')
    assert "the store is one database" in (await command(settings, "plan"))[2]
