"""Copies rows out of a database, or into an empty one, in one transaction (spec: OPER-04)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from a2a_server.adapters.postgres.administration import Run, blocking
from a2a_server.adapters.postgres.database import DatabaseOptions, connect
from a2a_server.adapters.postgres.schema import check_known, migrate, migrations, queries
from a2a_server.domain.scope import Scope
from a2a_server.domain.slots import place_of
from a2a_server.ports.copying import COLUMNS, Row, RowBatches
from a2a_server.ports.records import Entry
from a2a_server.ports.store import StoreRefused

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_SQL = queries("copying.sql")
_LONG: Final = 7 * 86_400.0
_PLAIN: Final = {"secrets", "content_keys", "api_keys"}
"""Kinds of rows that belong to no scope."""


class PostgresCopy:
    """The rows of a database, in a transaction that has begun."""

    def __init__(self, run: Run, connection: Connection) -> None:
        self._run = run
        self._connection = connection
        self._made = count(1)
        """Times of creation. Those of tasks that are made later are much greater."""

    def count(self, kind: str) -> int:
        return int(self._run(self._connection.fetchval(f"SELECT count(*) FROM a2ad.{kind}")))  # noqa: S608 - ours

    def rows(self, kind: str) -> Iterator[Sequence[Row]]:
        cursor, batches = self._run(_cursor(self._connection, _SQL[kind])), RowBatches()
        read = _READ.get(kind, tuple)
        while found := self._run(cursor.fetch(batches.next)):
            rows = [read(row) for row in found]
            batches.saw(rows)
            yield rows

    def write(self, kind: str, rows: Sequence[Row]) -> None:
        names, convert = COLUMNS[kind].split(), _WRITE.get(kind, tuple)
        if kind == "tasks":
            for table, records in _tasks([dict(zip(names, row, strict=True)) for row in rows], self._made).items():
                self._add(table, records)
        else:
            self._add(kind, [_placed(kind, dict(zip(names, convert(row), strict=True))) for row in rows])

    def _add(self, table: str, records: Sequence[Mapping[str, object]]) -> None:
        if records:
            self._run(_add(self._connection, table, records))

    def finish(self) -> None:
        for name in ("watched", "count_tasks", "count_others"):
            self._run(self._connection.execute(_SQL[name]))


async def _add(connection: Connection, table: str, records: Sequence[Mapping[str, object]]) -> None:
    values, columns = [tuple(record.values()) for record in records], [*records[0]]
    try:
        await connection.copy_records_to_table(table, schema_name="a2ad", columns=columns, records=values)
    except asyncpg.CharacterNotInRepertoireError:
        raise StoreRefused(
            f"the {table} have a name or an id with the character NUL, which PostgreSQL cannot store"
        ) from None


async def _cursor(connection: Connection, statement: str) -> Any:  # noqa: ANN401 - asyncpg has no name for it
    return await connection.cursor(statement)


def _listed(column: int) -> tuple[Callable[[Sequence[Any]], Row], Callable[[Row], Row]]:
    """How a list in a column is read, as JSON, and written again."""

    def changed(row: Sequence[Any], change: Callable[[Any], Any]) -> Row:
        value = None if row[column] is None else change(row[column])
        return (*row[:column], value, *row[column + 1 :])

    return lambda row: changed(row, json.dumps), lambda row: changed(row, json.loads)


_CONFIGS, _KEYS = _listed(6), _listed(4)
_READ: Final[Mapping[str, Callable[[Sequence[Any]], Row]]] = {
    "configs": _CONFIGS[0],
    "api_keys": _KEYS[0],
    "context_states": lambda row: (*row[:3], row[3].decode(), *row[4:]),
}
_WRITE: Final = {"configs": _CONFIGS[1], "api_keys": _KEYS[1]}


def _placed(kind: str, row: dict[str, Any]) -> Mapping[str, object]:
    """A row with what is found by this database alone."""
    if kind in _PLAIN:
        return {**row, "extended_card": bool(row["extended_card"])} if kind == "api_keys" else row
    slot, scope = place_of(Scope(row["tenant"], row["owner"]))
    row["slot"] = slot
    if kind in {"events", "turns", "debts"}:
        del row["tenant"], row["owner"]
    if kind == "events":
        row["kind"] = Entry(row["number"], row["wire"]).kind
    elif kind == "context_states":
        row |= {"name": row["name"].encode(), "grown": 0, "scope": scope}
    elif kind == "receipts":
        row |= {"session": "", "scope": scope}
    elif kind == "configs":
        row |= {"grown": 0, "over": bool(row["over"])}
    return row


def _tasks(rows: Sequence[dict[str, Any]], made: Iterator[int]) -> Mapping[str, Sequence[Mapping[str, object]]]:
    """The rows of tasks in their tables."""
    tables: dict[str, list[Mapping[str, object]]] = {
        name: [] for name in ("tasks", "fences", "artifacts", "agent_states")
    }
    for row in rows:
        slot, scope = place_of(Scope(row["tenant"], row["owner"]))
        key = {"slot": slot, "task": row["task"]}
        size = len(row["head"]) + row["log_bytes"]
        for table, name in (("artifacts", "artifacts"), ("agent_states", "agent_state")):
            if row[name] is not None:
                tables[table].append({**key, "wire": row[name]})
                size += len(row[name])
        head = {name: row[name] for name in ("tenant", "owner", "context_id", "state", "status_ms", "head")}
        tables["tasks"].append({**key, "scope": scope, "made_ns": next(made), **head})
        fence = {name: row[name] for name in ("number", "shelved", "epoch", "session", "log_bytes")}
        counted = {"counted": size, "grown": 0, "late": 0, "busy": bool(row["busy"]), "watched": False}
        tables["fences"].append({**key, "scope": scope, **fence, **counted})
    return tables


@contextmanager
def _transaction(options: DatabaseOptions, *, make: bool) -> Iterator[tuple[Run, Connection]]:
    """A transaction in tables of this version that nobody else writes to. It is kept if nothing is raised."""
    patient = replace(options, command_timeout=_LONG)
    with blocking(patient) as run:
        connection = run(connect(patient))
        try:
            if make:
                run(migrate(connection, options.name, migrations()))
            run(check_known(connection, options.name, everything=True))
            run(connection.execute("BEGIN"))
            run(_freeze(connection, options.name))
            yield run, connection
            run(connection.execute("COMMIT"))
        finally:
            run(_cut(connection))


async def _freeze(connection: Connection, name: str) -> None:
    await connection.execute(_SQL["no_long_waits"])
    try:
        await connection.execute(_SQL["freeze"])
    except asyncpg.LockNotAvailableError:
        raise StoreRefused(f"the store {name} is in use: somebody writes to it and does not end") from None
    if living := await connection.fetchval(_SQL["living"]):
        raise StoreRefused(f"the store {name} is in use by {living} servers; stop them before you copy")


async def _cut(connection: Connection) -> None:
    connection.terminate()


@contextmanager
def copied_from(options: DatabaseOptions) -> Iterator[PostgresCopy]:
    with _transaction(options, make=False) as (run, connection):
        yield PostgresCopy(run, connection)


@contextmanager
def copied_to(options: DatabaseOptions) -> Iterator[PostgresCopy]:
    """Tables are made where there are none. Whatever is raised, no row stays in them."""
    with _transaction(options, make=True) as (run, connection):
        if run(connection.fetchval(_SQL["occupied"])):
            raise StoreRefused(f"the store {options.name} is not empty; copy to an empty database")
        for name in ("clear_secrets", "clear_content_keys", "clear_totals"):
            run(connection.execute(_SQL[name]))
        yield PostgresCopy(run, connection)
