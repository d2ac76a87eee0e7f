"""Writes all content anew under the key that seals now, beside running servers or without them (spec: SECR-03).

1. Each table is gone through in the order of its key. The first bytes of a value tell under which key it is.
2. What is under another key is opened and sealed again, in transactions of a few rows. Rows that somebody writes at the
   moment are left for the next round, so that nobody ever waits for a server here, and servers wait for milliseconds.
3. When nothing is left, the other keys are no longer needed, and the database says so.

What sealing adds to a task is not counted to its owner. Its totals still agree: what was counted is taken off again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from a2a_server.adapters.postgres.administration import Run, blocking
from a2a_server.adapters.postgres.database import DatabaseOptions, connect
from a2a_server.adapters.postgres.schema import SQL, check_known, keys_used, queries
from a2a_server.adapters.sql import contents
from a2a_server.adapters.sql.contents import FRONT, Content, sealing_told
from a2a_server.domain.scope import Scope
from a2a_server.domain.slots import place_of
from a2a_server.ports.sealing import SETTING, ContentSealing, KeysInUse
from a2a_server.ports.store import StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

_SQL = queries("rekeying.sql")
_HOUR: Final = 3_600.0
_LOOKED_AT: Final = 1_000
_AT_ONCE: Final = 64
_BYTES: Final = 2**20
"""How many rows are written in one transaction, and about how many bytes of them."""
_ROUNDS: Final = 100
_PAUSE: Final = 0.1
"""Seconds between two rounds in which nothing could be written. So many of them are enough."""
_SHARE: Final = 2
_PART: Final = 99
"""Of the totals: no server writes to it, so that nobody waits."""

Position = tuple[Any, ...]


_FIRST: Final = {"smallint": -1, "bigint": -1, "integer": -1, "text": "", "bytea": b"", "uuid": UUID(int=0)}
"""What comes before every key, by the types of its columns. The slot leads, and is never negative."""


class SealedKind(NamedTuple):
    """A column with content, and how to go through it."""

    content: Content
    key: Mapping[str, str]
    """The columns of the key, and their types."""
    found_by: str
    """The columns that the place is made of."""
    scope: str = "NULL, NULL"
    """Tenant and owner, if its length is counted to them by itself, and not with a task."""

    @property
    def find(self) -> str:
        (table, column, _, front), names = self.content, ", ".join(self.key)
        after = ", ".join(f"${number}" for number in range(1, len(self.key) + 1))
        return (
            f"SELECT {names}, octet_length({column}), substring({column} FROM {front} FOR {FRONT}) FROM a2ad.{table} "  # noqa: S608 - ours
            f"WHERE {column} <> '' AND ({names}) > ({after}) ORDER BY {names} LIMIT ${len(self.key) + 1}"
        )

    @property
    def hold(self) -> str:
        """Lock the rows that nobody is writing at this moment."""
        table, column, *_ = self.content
        return (
            f"SELECT {', '.join(self.key)}, {column}, {self.scope}, {self.found_by} FROM a2ad.{table} "  # noqa: S608 - ours
            f"JOIN {self._given()} USING ({', '.join(self.key)}) FOR UPDATE OF {table} SKIP LOCKED"
        )

    @property
    def write(self) -> str:
        table, column, *_ = self.content
        same = " AND ".join(f"{table}.{name} = given.{name}" for name in self.key)
        return f"UPDATE a2ad.{table} SET {column} = given.sealed FROM {self._given('bytea')} WHERE {same}"  # noqa: S608 - ours

    def _given(self, sealed: str = "") -> str:
        """Keys as rows, of one array for each column; `sealed` is the type of one more column."""
        columns = {**self.key, **({"sealed": sealed} if sealed else {})}
        arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(columns.values(), 1))
        return f"unnest({arrays}) AS given ({', '.join(columns)})"


_TASK: Final = {"slot": "smallint", "task": "text"}
_RECEIPT: Final = {"slot": "smallint", "scope": "uuid", "key": "text"}
_VALUE: Final = {"slot": "smallint", "scope": "uuid", "context_id": "text", "name": "bytea"}
KINDS: Final = (
    SealedKind(contents.HEADS, _TASK, "tenant, owner, task"),
    SealedKind(contents.ARTIFACTS, _TASK, "task"),
    SealedKind(contents.AGENT_STATES, _TASK, "task"),
    SealedKind(contents.EVENTS, {**_TASK, "number": "integer"}, "task, number"),
    SealedKind(contents.TURNS, {**_TASK, "number": "bigint"}, "task, number"),
    SealedKind(contents.FINGERPRINTS, _RECEIPT, "tenant, owner, key"),
    SealedKind(contents.REPLIES, _RECEIPT, "tenant, owner, key"),
    SealedKind(
        contents.CONTEXT_STATES, _VALUE, "tenant, owner, context_id, convert_from(name, 'UTF8')", "tenant, owner"
    ),
    SealedKind(contents.CONFIGS, {**_TASK, "id": "text"}, "task, id", "tenant, owner"),
)


class PostgresSealingAdmin:
    """Every call connects, and disconnects."""

    def __init__(self, options: DatabaseOptions, sealing: ContentSealing, wanted: ContentSealing) -> None:
        """`sealing` opens what there is, and `wanted` seals it."""
        self._options = replace(options, command_timeout=_HOUR)
        self._sealing = sealing
        self._wanted = wanted

    def keys(self) -> KeysInUse:
        with self._connected() as (run, connection):
            used = run(keys_used(connection))
            self._sealing.begin(used)
            left = sum(len(batch) for kind in KINDS for batch in self._others(run, connection, kind))
            return KeysInUse(used[0] if used else self._wanted.first, used, left)

    def rekey(self, tell: Callable[[int], None]) -> tuple[int, bool]:
        with self._connected() as (run, connection):
            turn, count = run(self._begin(connection)), 0
            for _ in range(_ROUNDS):
                left, before = 0, count
                for kind in KINDS:
                    for batch in self._others(run, connection, kind):
                        for done, skipped in self._rewrite(run, connection, kind, batch):
                            count, left = count + done, left + skipped
                            tell(count)
                if not left:
                    run(self._end(connection, turn))
                    return count, False
                if count == before:
                    time.sleep(_PAUSE)
            raise StoreUnavailable(f"{left} values are being written all the time; run this again")

    @contextmanager
    def _connected(self) -> Iterator[tuple[Run, Connection]]:
        with blocking(self._options) as run:
            connection = run(connect(self._options))
            try:
                run(check_known(connection, self._options.name, everything=True))
                yield run, connection
            finally:
                run(_cut(connection))

    async def _begin(self, connection: Connection) -> int:
        """A server would go on with its own key, so that must be the same one. Returns the turn of the key."""
        async with connection.transaction():
            self._sealing.begin(await keys_used(connection))
            await self._check_servers(connection)
            if not await connection.fetchval(_SQL["alive"]):
                await connection.execute(SQL["alone"])
                await connection.execute(SQL["seal_with"], self._wanted.first)
            first, turn = await connection.fetchrow(_SQL["first"]) or (self._wanted.first, 0)
        if first != self._wanted.first:
            raise StoreRefused(self._refusal(f"a server that {sealing_told(first)} and has just begun"))
        return int(turn)

    async def _check_servers(self, connection: Connection) -> None:
        for session, key in await connection.fetch(_SQL["others"], self._wanted.first):
            told = "is of an older version" if key is None else sealing_told(key)
            raise StoreRefused(self._refusal(f"a server that {told}, with the session {session[:12]}"))

    def _refusal(self, who: str) -> str:
        return (
            f"the store {self._options.name} is in use by {who}, and this command {sealing_told(self._wanted.first)}. "
            f"Restart all servers with the same {SETTING}, or stop them"
        )

    async def _end(self, connection: Connection, turn: int) -> None:
        """Only the wanted key is used from now on. A server with another one that has come meanwhile keeps its own."""
        async with connection.transaction():
            await connection.execute(SQL["alone"])
            await self._check_servers(connection)
            await connection.execute(_SQL["forget_others"], self._wanted.first, turn)

    def _others(self, run: Run, connection: Connection, kind: SealedKind) -> Iterator[Sequence[Position]]:
        """The keys of values under other keys, as many at a time as one transaction may write."""
        at: Position = tuple(_FIRST[one] for one in kind.key.values())
        width = len(at)
        while rows := run(connection.fetch(kind.find, *at, _LOOKED_AT)):
            at = tuple(rows[-1])[:width]
            batch: list[Position] = []
            room = _BYTES
            for *position, size, front in rows:
                if self._sealing.key_of(front) == self._wanted.first:
                    continue
                if batch and (room < size or len(batch) == _AT_ONCE):
                    yield batch
                    batch, room = [], _BYTES
                batch.append(tuple(position))
                room -= size
            if batch:
                yield batch

    def _rewrite(
        self, run: Run, connection: Connection, kind: SealedKind, batch: Sequence[Position]
    ) -> Iterator[tuple[int, int]]:
        """Seal values again, and leave servers a pause. Yields how many were written, and how many were in use."""
        begun = time.perf_counter()
        done = run(self._write(connection, kind, batch))
        yield done, len(batch) - done
        time.sleep(_SHARE * (time.perf_counter() - begun))

    async def _write(self, connection: Connection, kind: SealedKind, batch: Sequence[Position]) -> int:
        width = len(kind.key)
        async with connection.transaction():
            rows = await connection.fetch(kind.hold, *zip(*batch, strict=True))
            sealed, growth = list[tuple[Any, ...]](), Counter[Scope]()
            for row in rows:
                key, (value, tenant, owner, *names) = tuple(row)[:width], tuple(row)[width:]
                place = kind.content.place(*names)
                sealed.append((*key, self._wanted.seal(self._sealing.open(value, place), place)))
                if owner is not None:
                    growth[Scope(tenant, owner)] += len(sealed[-1][-1]) - len(value)
            if sealed:
                await connection.execute(kind.write, *zip(*sealed, strict=True))
            for scope, size in growth.items():
                await connection.execute(_SQL["grow"], *place_of(scope), *scope, _PART, size)
        return len(rows)


async def _cut(connection: Connection) -> None:
    connection.terminate()
