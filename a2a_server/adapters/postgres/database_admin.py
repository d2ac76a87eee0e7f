"""Shows the state of a database, and upgrades its schema, beside running servers (spec: SCAL-07, OPER-04)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from a2a_server.adapters.postgres.administration import blocking
from a2a_server.adapters.postgres.database import DatabaseOptions, connect
from a2a_server.adapters.postgres.schema import (
    SchemaVersion,
    Steps,
    made,
    migrate,
    migrations,
    queries,
    to_contract,
    to_expand,
    version_of,
)
from a2a_server.adapters.postgres.wakeups import comes_back
from a2a_server.adapters.sql.statements import KINDS
from a2a_server.ports.database import Amount, DatabaseStatus, LiveServer, Upgraded

if TYPE_CHECKING:
    import asyncpg

_SQL = queries("status.sql")
_DAY: Final = 86_400.0
_COUNTED: Final = 64 * 2**20
"""Bytes of a table whose rows are counted. Of a larger one the database's guess is good enough."""
_FIRST_WITH_SESSIONS: Final = 2


class PostgresDatabaseAdmin:
    def __init__(self, options: DatabaseOptions, *, wakeup_dsn: str = "", steps: Steps | None = None) -> None:
        """`wakeup_dsn`: what wake-ups go through, if it is another one. `steps` are for tests."""
        self._options = replace(options, command_timeout=_DAY)  # a new index may take its time
        self._wakeups = replace(options, dsn=wakeup_dsn or options.dsn)
        self._steps = steps or migrations()

    def status(self) -> DatabaseStatus:
        with blocking(self._options) as run:
            return run(self._status())

    async def _status(self) -> DatabaseStatus:
        async with self._connected() as connection:
            at = await version_of(connection) if await made(connection) else SchemaVersion()
            tables = {row["name"]: row for row in await connection.fetch(_SQL["tables"])}
            servers = await _servers(connection) if "sessions" in tables else ()
            amounts = [await _amount(connection, tables[name]) for name in KINDS if name in tables]
        return DatabaseStatus(
            store=self._options.name,
            version=at.version,
            newest=max(self._steps),
            oldest=at.oldest,
            expand=[f"{number} {name}" for number, name in to_expand(self._steps, at)],
            contract=[f"{number} {name}" for number, name in to_contract(self._steps, at)],
            bytes=sum(row["bytes"] for row in tables.values()),
            amounts=amounts,
            servers=servers,
            wakeups="notify" if await comes_back(self._wakeups) else "polling",
        )

    def upgrade(self, tell: Callable[[str], None]) -> Upgraded:
        with blocking(self._options) as run:
            return run(self._upgrade(tell))

    async def _upgrade(self, tell: Callable[[str], None]) -> Upgraded:
        async with self._connected() as connection:
            before = await version_of(connection) if await made(connection) else SchemaVersion()
            waits_for = await migrate(connection, self._options.name, self._steps, tell)
            return Upgraded(before.version, (await version_of(connection)).version, waits_for)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        connection = await connect(self._options)
        try:
            yield connection
        finally:
            connection.terminate()


async def _servers(connection: asyncpg.Connection[asyncpg.Record]) -> Sequence[LiveServer]:
    rows = await connection.fetch(_SQL["servers"])
    return [
        LiveServer(row["id"], int(row["schema"] or _FIRST_WITH_SESSIONS), row["program"] or "", row["seconds"])
        for row in rows
    ]


async def _amount(connection: asyncpg.Connection[asyncpg.Record], row: asyncpg.Record) -> Amount:
    name, guess, size = row
    estimated = size > _COUNTED and guess >= 0
    rows = guess if estimated else await connection.fetchval(f"SELECT count(*) FROM a2ad.{name}")  # noqa: S608 - ours
    return Amount(KINDS[name], rows, size, estimated)
