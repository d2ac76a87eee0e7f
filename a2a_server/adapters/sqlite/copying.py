"""Copies rows out of the file, or into a new one that appears when it is complete (spec: OPER-04)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from a2a_server.adapters.sqlite import schema
from a2a_server.adapters.sqlite.schema import queries
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.ports.copying import Row, RowBatches
from a2a_server.ports.store import StoreRefused

_SQL = queries("copying.sql")
_FAST = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536; BEGIN"
"""For a file that nobody knows yet: whatever breaks it off, it is begun anew."""


class SqliteCopy:
    """The rows of a file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def count(self, kind: str) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {kind}").fetchone()[0])  # noqa: S608 - ours

    def rows(self, kind: str) -> Iterator[Sequence[Row]]:
        cursor, batches = self._connection.execute(_SQL[kind]), RowBatches()
        while rows := cursor.fetchmany(batches.next):
            batches.saw(rows)
            yield rows

    def write(self, kind: str, rows: Sequence[Row]) -> None:
        if kind in {"tasks", "context_states", "receipts"}:
            self._add("add_scope", sorted({row[:2] for row in rows}))
        if kind == "tasks":
            for row in rows:
                self._task(*row)
        elif kind == "configs":  # how many debts it has, is counted
            self._add("add_configs", [(*row[1:13], *row[14:]) for row in rows])
        elif kind in {"events", "turns", "debts"}:
            self._add(f"add_{kind}", [row[2:] for row in rows])
        else:
            self._add(f"add_{kind}", rows)

    def _add(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        self._connection.executemany(_SQL[name], rows)

    def _task(  # noqa: PLR0913, PLR0917 - the columns
        self,
        tenant: str,
        owner: str,
        task_id: str,
        context_id: str,
        state: int,
        status_ms: int,
        number: int,
        shelved: int,
        epoch: int,
        busy: int,
        session: str,
        log_bytes: int,
        head: bytes,
        artifacts: bytes | None,
        agent_state: bytes | None,
    ) -> None:
        row = tenant, owner, task_id, context_id, state, status_ms, number, shelved, log_bytes, head
        key = self._connection.execute(_SQL["add_task"], row).lastrowid
        if busy or epoch != 1 or state not in TERMINAL:  # as when a task is created
            self._connection.execute(_SQL["add_lease"], (key, epoch, session, busy))
        if artifacts is not None:
            self._connection.execute(_SQL["add_artifacts"], (key, shelved, artifacts))
        if agent_state is not None:
            self._connection.execute(_SQL["add_agent_state"], (key, agent_state))

    def finish(self) -> None:
        for name in ("recount_turns", "count_tasks", "count_contexts"):
            self._connection.execute(_SQL[name])


@contextmanager
def copied_from(path: Path) -> Iterator[SqliteCopy]:
    """The rows of a file, which nobody can write to meanwhile."""
    with ExitStack() as held, schema.refusing(path):
        schema.check_there(path)
        schema.acquire(path, held)
        connection = schema.connect_existing(path)
        held.callback(connection.close)
        schema.check_known(connection, path)
        connection.execute("BEGIN IMMEDIATE")
        yield SqliteCopy(connection)
        connection.execute("ROLLBACK")


@contextmanager
def copied_to(path: Path) -> Iterator[SqliteCopy]:
    """A new file. It gets its name when all has succeeded; before that it is beside it, with `.copying` at the end."""
    if path.exists():
        raise StoreRefused(f"there is a file {path} already; copy to one that does not exist")
    if not path.parent.is_dir():
        raise StoreRefused(f"the store {path} cannot be there: {path.parent} is not a directory")
    made = Path(f"{path}.copying")
    with ExitStack() as held, schema.refusing(path):
        schema.acquire(made, held)
        held.callback(_remove, made)
        os.truncate(made, 0)  # what a broken copy has left
        connection = sqlite3.connect(made, isolation_level=None, check_same_thread=False)
        held.callback(connection.close)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        schema.migrate(connection, path, schema.migrations())
        connection.executescript(_FAST)
        yield SqliteCopy(connection)
        connection.execute("COMMIT")
        connection.close()
        _publish(made, path)


def _publish(made: Path, path: Path) -> None:
    descriptor = os.open(made, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(made, path)  # fails if somebody else has made it meanwhile
    except FileExistsError:
        raise StoreRefused(f"there is a file {path} by now; copy to one that does not exist") from None
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove(made: Path) -> None:
    for name in (made, Path(f"{made}.lock")):
        name.unlink(missing_ok=True)
