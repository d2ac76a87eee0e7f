"""What operators see and change, with or without a running server (spec: GATE-08, PAID-03, OPER-04)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from a2a_server.adapters.postgres import api_keys
from a2a_server.adapters.postgres.database import DatabaseOptions, connect, verdict
from a2a_server.adapters.postgres.push import config_of
from a2a_server.adapters.postgres.schema import check_known, keys_used, queries
from a2a_server.domain.scope import Scope
from a2a_server.ports.keys import StoredKey
from a2a_server.ports.push import ConfigFilter, ConfigStatus
from a2a_server.ports.sealing import UNSEALED, ContentSealing

if TYPE_CHECKING:
    import asyncpg

    from a2a_server.adapters.postgres.database import Connection

T = TypeVar("T")

_SQL = queries("push.sql")
_ALL = 2**62

_Config = tuple[int, str, str]
"""Slot, task and id."""


class Run(Protocol):
    """Runs work to its end, and returns its result."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


@contextmanager
def blocking(options: DatabaseOptions) -> Iterator[Run]:
    """Run asynchronous work from code that waits, also where an event loop runs: in a thread with a loop of its own."""
    with ThreadPoolExecutor(1) as thread:
        runner = asyncio.Runner()

        def run(work: Coroutine[Any, Any, T]) -> T:
            try:
                return thread.submit(runner.run, work).result()
            except Exception as error:
                raise verdict(error, options) from error

        try:
            yield run
        finally:
            thread.submit(runner.close).result()


def visit(options: DatabaseOptions, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Do something in one transaction on a connection of its own."""

    async def visiting() -> T:
        async with connected(options) as connection, connection.transaction():
            return await work(connection)

    with blocking(options) as run:
        return run(visiting())


@asynccontextmanager
async def connected(options: DatabaseOptions) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection to tables of this version."""
    connection = await connect(options)
    try:
        await check_known(connection, options.name)
        yield connection
    finally:
        connection.terminate()


class PostgresKeyAdmin:
    def __init__(self, options: DatabaseOptions) -> None:
        self._options = options

    def make(self, key: StoredKey) -> None:
        scopes = None if key.scopes is None else sorted(key.scopes)
        values = [scopes if name == "scopes" else value for name, value in key._asdict().items()]

        async def work(connection: Connection) -> None:
            await connection.execute(api_keys.SQL["alone"])
            await connection.execute(api_keys.SQL["make"], *values)

        visit(self._options, work)

    def keys(self, owner: str, limit: int) -> Sequence[StoredKey]:
        async def work(connection: Connection) -> Sequence[asyncpg.Record]:
            return await connection.fetch(api_keys.SQL["listed"], owner, limit)

        return [api_keys.key_of(row) for row in visit(self._options, work)]

    def revoke(self, key_id: str, now_ms: int) -> StoredKey | None:
        async def work(connection: Connection) -> asyncpg.Record | None:
            await connection.execute(api_keys.SQL["alone"])
            await connection.execute(api_keys.SQL["revoke"], key_id, now_ms)
            return await connection.fetchrow(api_keys.SQL["one"], key_id)

        row = visit(self._options, work)
        return api_keys.key_of(row) if row else None


class PostgresPushAdmin:
    def __init__(self, options: DatabaseOptions, sealing: ContentSealing = UNSEALED) -> None:
        self._options = options
        self._sealing = sealing

    def status(self, wanted: ConfigFilter, limit: int) -> Sequence[ConfigStatus]:
        found = visit(self._options, lambda connection: _found(connection, wanted, self._sealing, limit))
        return [account for _, account in found][:limit]

    def retry(self, wanted: ConfigFilter) -> int:
        async def work(connection: Connection) -> int:
            known = await _found(connection, wanted, self._sealing)
            found = [(config, said) for config, said in known if said.pending or said.parked_ms]
            await connection.executemany(_SQL["retry"], [config for config, _ in found])
            return sum(said.pending > 0 for _, said in found)

        return visit(self._options, work)

    def drop(self, wanted: ConfigFilter) -> int:
        async def work(connection: Connection) -> int:
            configs = sorted(config for config, _ in await _found(connection, wanted, self._sealing))
            await connection.executemany(_SQL["hold"], configs)
            dropped = [await connection.execute(_SQL["drop"], *config) for config in configs]
            await connection.executemany(_SQL["dropped"], configs)
            return sum(int(said.rpartition(" ")[2]) for said in dropped)

        return visit(self._options, work)


async def _found(
    connection: Connection, wanted: ConfigFilter, sealing: ContentSealing, limit: int = _ALL
) -> Sequence[tuple[_Config, ConfigStatus]]:
    sealing.begin(await keys_used(connection))
    rows: list[asyncpg.Record] = []
    for name, *values in _queries(wanted):
        rows += await connection.fetch(f"{_SQL['account']} {_SQL[name]}", limit, *values)
    found = [_account(row, sealing) for row in rows]
    return [(config, said) for config, said in found if said.parked_ms is not None or not wanted.parked]


def _queries(wanted: ConfigFilter) -> Sequence[tuple[str, ...]]:
    if wanted.config_id:
        return [("one", wanted.task_id, wanted.config_id)]
    if wanted.task_id:
        return [("of_task", wanted.task_id)]
    return [("parked",)] if wanted.parked else [("due",), ("parked",)]


def _account(row: asyncpg.Record, sealing: ContentSealing) -> tuple[_Config, ConfigStatus]:
    slot, task_id, config_id, tenant, owner, wire, *rest = row
    url = config_of(task_id, config_id, wire, sealing).url
    return (slot, task_id, config_id), ConfigStatus(Scope(tenant, owner), task_id, config_id, url, *rest)
