"""What `a2ad db shards` does: shows what is where, and moves slots between databases (spec: SCAL-05)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, TypeVar
from uuid import UUID, uuid4

import asyncpg

from a2a_server.adapters.postgres.database import Database, connect, verdict
from a2a_server.adapters.postgres.journey import Journey
from a2a_server.adapters.postgres.schema import check_known, queries
from a2a_server.adapters.postgres.shard_map import ShardOptions, held_by
from a2a_server.domain.slots import slots_text
from a2a_server.ports.shards import Load, ShardLoad
from a2a_server.ports.store import StoreRefused

T = TypeVar("T")

_SQL = queries("moving.sql")
_SLOTS_AT_ONCE: Final = 256
_TASKS_AT_ONCE: Final = 1_000
"""A slot with more than these moves alone."""

Tell = Callable[[str], None]
Databases = Mapping[str, Database]
"""By their names in the settings; the home comes first."""


class PostgresShardAdmin:
    """Calls block."""

    def __init__(self, shards: Sequence[ShardOptions]) -> None:
        self._shards = shards

    def look(self) -> Sequence[ShardLoad]:
        return self._run(_look)

    def move(self, slots: frozenset[int], to: str, tell: Tell) -> int:
        return self._run(partial(_move, slots=slots, to=to, tell=tell))

    def settle(self, tell: Tell) -> None:
        self._run(partial(_settle, tell=tell))

    def _run(self, work: Callable[[Databases], Awaitable[T]]) -> T:
        return asyncio.run(self._with_databases(work))

    async def _with_databases(self, work: Callable[[Databases], Awaitable[T]]) -> T:
        try:
            async with _opened(self._shards) as databases:
                return await work(databases)
        except asyncpg.PostgresError as error:  # such as a task that is there already
            raise StoreRefused(f"the databases do not do it: SQLSTATE {error.sqlstate}") from error


@asynccontextmanager
async def _opened(shards: Sequence[ShardOptions]) -> AsyncIterator[Databases]:
    async with AsyncExitStack() as stack:
        databases = {}
        for shard in shards:
            await _check(shard)
            databases[shard.name] = database = Database(shard.options)
            await database.open()
            stack.push_async_callback(database.close)
        held = [await held_by(database) for database in databases.values()]
        if held[0].home != held[0].id or {one.id for one in held} - held[0].members:
            raise StoreRefused("these databases are not one store yet: start a server with these settings")
        yield databases


async def _check(shard: ShardOptions) -> None:
    connection = await connect(shard.options)
    try:
        await check_known(connection, shard.options.name)
    except Exception as error:
        raise verdict(error, shard.options) from error
    finally:
        connection.terminate()


async def _look(databases: Databases) -> Sequence[ShardLoad]:
    return [await _load(name, database) for name, database in databases.items()]


async def _load(name: str, database: Database) -> ShardLoad:
    now = await held_by(database)
    rows = await database.fetch(_SQL["sizes"])
    ((disk_bytes,),) = await database.fetch(_SQL["database_size"])
    loads = {row["slot"]: Load(row["tasks"], row["bytes"]) for row in rows if row["tasks"] or row["bytes"]}
    return ShardLoad(name, now.slots, loads, disk_bytes, now.moving)


async def _move(databases: Databases, slots: frozenset[int], to: str, tell: Tell) -> int:
    await _settle(databases, tell)
    home, target, moved = next(iter(databases.values())), databases[to], 0
    found = [(await _load(name, one), one) for name, one in databases.items() if name != to]
    count = sum(len(shard.slots & slots) for shard, _ in found)
    for shard, source in found:
        for some in _batches(sorted(shard.slots & slots), shard.loads):
            tasks = await Journey(source, target, some, home).go()
            moved += len(some)
            tell(f"{moved} of {count} slots: {slots_text(some)} with {tasks} tasks from {shard.name} to {to}")
    return moved


def _batches(slots: Sequence[int], loads: Mapping[int, Load]) -> Iterator[frozenset[int]]:
    """Slots that move together: few, if they are full."""
    some: list[int] = []
    room = _TASKS_AT_ONCE
    for slot in slots:
        tasks = loads.get(slot, Load()).tasks
        if some and (tasks > room or len(some) == _SLOTS_AT_ONCE):
            yield frozenset(some)
            some, room = [], _TASKS_AT_ONCE
        some.append(slot)
        room -= tasks
    if some:
        yield frozenset(some)


async def _settle(databases: Databases, tell: Tell) -> None:
    home, names = next(iter(databases.values())), {(await held_by(one)).id: name for name, one in databases.items()}
    for name, database in databases.items():
        now = await held_by(database)
        to: UUID | None = (await database.fetch(_SQL["moving_to"]))[0][0]
        if to is None or to == now.id:
            continue
        if to not in names:
            raise StoreRefused(f"slots are on their way from {name!r} to a database that postgresql.shards lacks")
        arrived = await Journey(database, databases[names[to]], now.moving, home).settle()
        words = f"have arrived in {names[to]}" if arrived else f"are in {name} as before"
        tell(f"a move was cut short: the slots {slots_text(now.moving)} {words}")
    for database in databases.values():
        if (await held_by(database)).moving:  # a move that did not get further than this note
            token = uuid4()
            await database.fetch(_SQL["take"], token)
            await database.fetch(_SQL["over"], token)
