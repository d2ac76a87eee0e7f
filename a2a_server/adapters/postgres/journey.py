"""The way of a few slots from one database to another, while servers use them (spec: SCAL-05).

Each step is one transaction, or can be run again.

1. `_begin` notes in both databases what moves. A command that is told to stop, or dies, leaves that note.
2. `_copy` copies heads, logs, artifacts and agent states, and again what has changed meanwhile. No server finds the
   copies, because their fences are still where they were.
3. `_close` gives the slots up: from now on nobody can write them. In the same transaction fences and all else that
   claims, deliveries and sweeps look for move aside. What was being written is waited for.
4. The last changes are copied, which is a moment's work.
5. `_arrive` puts what was moved aside into the new database, which has the slots from then on. Servers that find the
   slots gone look around until they see that.
6. `_clear` removes the rows where they were.

`settle` ends what a killed command has left: slots that have arrived stay, and others go back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

from a2a_server.adapters.postgres.database import Database
from a2a_server.adapters.postgres.schema import keys_used, queries
from a2a_server.adapters.postgres.shard_map import SQL as SHARDS
from a2a_server.adapters.postgres.shard_map import bits_of, held_by, held_on
from a2a_server.ports.store import StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    import asyncpg

    from a2a_server.adapters.postgres.database import Connection

T = TypeVar("T")
_Range = tuple[int, str, int, int]
"""Slot and task, the first and the last entry."""

_SQL = queries("moving.sql")

_COPIED: Final = "tasks", "artifacts", "agent_states"
"""Tables with one row for each task, which are copied while servers write, as `events` is."""
_LEAVING: Final = "fences", "turns", "totals", "context_states", "receipts", "configs", "debts", "leftovers"
"""Tables that move in one moment."""
_ROWS_AT_ONCE: Final = 100
_ENTRIES_AT_ONCE: Final = 500
_FEW: Final = 50
"""So many changes are copied while the slots are closed."""
_PASSES: Final = 20
_TRIES: Final = 20
"""How often a moment is looked for in which all writers are done."""


class _Copies:
    """What the target has by now, so that only changes are copied."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int, str], str] = {}
        """The version of each row, by table, slot and task."""
        self.logs: dict[tuple[int, str], tuple[int, int]] = {}
        """The first and the last entry of each task."""


class Journey:
    """A few slots on their way."""

    def __init__(self, source: Database, target: Database, slots: frozenset[int], home: Database) -> None:
        self._source = source
        self._target = target
        self._slots = slots
        self._listed = sorted(slots)
        self._home = home
        self._token = uuid4()
        self._copies = _Copies()

    async def go(self) -> int:
        """Make all the steps. Returns how many tasks have come."""
        await self._begin()
        for _ in range(_PASSES):
            if await self._copy() <= _FEW:
                break
        await self._check_servers()
        await self._close()
        await self._copy()
        await self._arrive()
        await self._clear()
        return sum(table == "tasks" for table, _, _ in self._copies.rows)

    async def settle(self) -> bool:
        """Go on with what another command has begun; True if the slots have arrived."""
        for database in (self._target, self._source):
            await database.fetch(_SQL["take"], self._token)
        arrived = self._slots <= (await held_by(self._target)).slots
        if not arrived:
            await self._work(self._source, self._reopen)
        await self._clear(self._source if arrived else self._target)
        return arrived

    # -- the steps

    async def _begin(self) -> None:
        await self._check_servers()
        to = (await held_by(self._target)).id
        for database in (self._target, self._source):
            await database.fetch(_SQL["take"], self._token)
            if not await database.fetch(_SQL["begin"], self._token, bits_of(self._slots), to):
                raise _taken_over()
        await self._clear_rows(self._target)  # of an attempt before
        for key in reversed(await self._source.transaction(keys_used)):
            await self._target.fetch(_SQL["key"], key)

    async def _check_servers(self) -> None:
        """Refuse to move what a server would look for in vain."""
        to = (await held_by(self._target)).id
        ((count,),) = await self._home.fetch(_SQL["unaware"], to)
        if count:
            raise StoreRefused(
                f"{count} running servers do not know the database that the slots are to move to. Restart them with it "
                "in postgresql.shards"
            )

    async def _copy(self) -> int:
        """Copy what is new or has changed. Returns how much that was."""
        changed = 0
        for table in _COPIED:
            rows = await self._source.fetch(_of("versions", table), self._listed)
            now = {(table, row["slot"], row["task"]): row["version"] for row in rows}
            known = {key: version for key, version in self._copies.rows.items() if key[0] == table}
            fresh = [key[1:] for key, version in now.items() if known.get(key) != version]
            gone = [key[1:] for key in known.keys() - now.keys()]
            for some in _portions([*gone, *fresh]):
                await self._replace(table, some)
            self._copies.rows = {key: v for key, v in self._copies.rows.items() if key[0] != table} | now
            changed += len(fresh) + len(gone)
        return changed + await self._copy_logs()

    async def _replace(self, table: str, keys: Sequence[tuple[int, str]]) -> None:
        columns = [*zip(*keys, strict=True)]
        rows = await self._source.fetch(_of("rows", table), *columns)

        async def work(connection: Connection) -> None:
            await connection.execute(_of("without", table), *columns)
            await _insert(connection, table, rows)

        await self._work(self._target, work)

    async def _copy_logs(self) -> int:
        rows = await self._source.fetch(_SQL["logs"], self._listed)
        now = {(row["slot"], row["task"]): (row["first"], row["last"]) for row in rows}
        fresh, gone = [], []
        for key in now.keys() | self._copies.logs.keys():
            first, last = now.get(key, (1, 0))
            known_first, known_last = self._copies.logs.get(key, (1, 0))
            if last > known_last:
                fresh.append((*key, max(first, known_last + 1), last))
            if known_last and (first > known_first or not last):
                gone.append((*key, known_first, first - 1 if last else known_last))
        for some in _portions(gone):
            await self._work(self._target, partial(_without_entries, ranges=some))
        for some in _ranges(fresh):
            await self._add_entries(some)
        self._copies.logs = now
        return len(fresh) + len(gone)

    async def _add_entries(self, ranges: Sequence[_Range]) -> None:
        rows = await self._source.fetch(_SQL["entries"], *zip(*ranges, strict=True))

        async def work(connection: Connection) -> None:
            await _without_entries(connection, ranges)
            await _insert(connection, "events", rows)

        await self._work(self._target, work)

    async def _close(self) -> None:
        for _ in range(_TRIES):
            with suppress(StoreUnavailable):  # somebody writes for long
                await self._work(self._source, self._leave)
                return
            await asyncio.sleep(random.uniform(0.05, 0.5))  # noqa: S311 - as servers do
        await self._work(self._source, self._leave)

    async def _leave(self, connection: Connection) -> None:
        await connection.execute(_SQL["hasten"])
        await connection.execute(SHARDS["shut"])
        now = await held_on(connection)
        if not now.slots & self._slots:
            return  # done before; the answer was lost
        await connection.execute(_SQL["still"].format(table=", ".join(f"a2ad.{table}" for table in _LEAVING)))
        await connection.execute(_SQL["own"], bits_of(now.slots - self._slots))
        for table in _LEAVING:
            await connection.execute(_of("leave", table), self._listed)

    async def _arrive(self) -> None:
        left = {table: await self._source.fetch(_of("left", table), self._listed) for table in _LEAVING}

        async def work(connection: Connection) -> None:
            await connection.execute(SHARDS["shut"])
            now = await held_on(connection)
            if self._slots <= now.slots:
                return  # done before; the answer was lost
            for table, rows in left.items():
                await connection.execute(_of("clear", table), self._listed)
                for some in _portions(rows):
                    await connection.execute(_of("arrive", table), [row["content"] for row in some])
            await connection.execute(_SQL["own"], bits_of(now.slots | self._slots))

        await self._work(self._target, work)

    async def _reopen(self, connection: Connection) -> None:
        """Put everything back, if it was moved aside."""
        await connection.execute(SHARDS["shut"])
        now = await held_on(connection)
        if self._slots <= now.slots:
            return
        for table in _LEAVING:
            await connection.execute(_of("clear", table), self._listed)  # what an old map has written here since
            for some in _portions(await connection.fetch(_of("left", table), self._listed)):
                await connection.execute(_of("arrive", table), [row["content"] for row in some])
        await connection.execute(_of("clear", "leaving"), self._listed)
        await connection.execute(_SQL["own"], bits_of(now.slots | self._slots))

    async def _clear(self, where: Database | None = None) -> None:
        """Remove the rows where the slots are not, and the notes."""
        await self._clear_rows(where or self._source)
        for database in (self._target, self._source):
            await database.fetch(_SQL["over"], self._token)

    async def _clear_rows(self, where: Database) -> None:
        while await self._work(where, self._clear_some):
            pass

    async def _clear_some(self, connection: Connection) -> int:
        if self._slots & (await held_on(connection)).slots:
            raise _taken_over()
        count = 0
        for table in ("leaving", "events", *_COPIED, *_LEAVING):
            count += len(await connection.fetch(_of("clear_some", table), self._listed))
        return count

    async def _work(self, database: Database, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do something, unless another command has taken over."""

        async def attempt(connection: Connection) -> T:
            if not await connection.fetch(_SQL["ours"], self._token):
                raise _taken_over()
            return await work(connection)

        return await database.transaction(attempt)


def _portions(some: Sequence[T]) -> Iterator[Sequence[T]]:
    for begin in range(0, len(some), _ROWS_AT_ONCE):
        yield some[begin : begin + _ROWS_AT_ONCE]


def _ranges(ranges: Sequence[_Range]) -> Iterator[Sequence[_Range]]:
    """The same entries in portions of a bounded number."""
    portion: list[_Range] = []
    room = _ENTRIES_AT_ONCE
    for slot, task, begin, last in ranges:
        first = begin
        while first <= last:
            end = min(last, first + room - 1)
            portion.append((slot, task, first, end))
            room -= end - first + 1
            first = end + 1
            if not room:
                yield portion
                portion, room = [], _ENTRIES_AT_ONCE
    if portion:
        yield portion


def _of(name: str, table: str) -> str:
    return _SQL[name].format(table=table)


async def _insert(connection: Connection, table: str, rows: Sequence[asyncpg.Record]) -> None:
    if rows:
        columns = [*rows[0].keys()]
        await connection.copy_records_to_table(table, schema_name="a2ad", columns=columns, records=map(tuple, rows))


async def _without_entries(connection: Connection, ranges: Sequence[_Range]) -> None:
    await connection.execute(_SQL["without_entries"], *zip(*ranges, strict=True))


def _taken_over() -> StoreRefused:
    return StoreRefused("another command moves slots of this database; this one has stopped")
