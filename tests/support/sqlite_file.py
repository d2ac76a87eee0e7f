"""What tests do with the file of a SQLite store: count what is in it, and make it as old as they need."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.house import schema

Counts = dict[tuple[int, int], tuple[int, int]]
"""Tasks and bytes by scope and state."""

_COUNTED = "SELECT scope, state, tasks, bytes FROM totals WHERE tasks <> 0 OR bytes <> 0"
_THERE = """
SELECT scope, state, count(*), sum(length(head)
    + coalesce((SELECT sum(length(wire)) FROM artifacts WHERE task = tasks.key), 0)
    + coalesce((SELECT sum(length(wire)) FROM agent_states WHERE task = tasks.key), 0)
    + coalesce((SELECT sum(length(wire)) FROM configs WHERE task = tasks.key), 0)
    + coalesce((SELECT sum(length(wire)) FROM events WHERE task = tasks.key AND number <= tasks.number), 0))
FROM tasks WHERE scope <> 0 GROUP BY scope, state
UNION ALL SELECT scope, 0, 0, sum(length(value)) FROM context_states GROUP BY scope
"""


def recount(path: Path) -> tuple[Counts, Counts]:
    """What is counted, and what is there. Logs count as far as the row of their task knows them."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN")
        counted, there = (connection.execute(sql).fetchall() for sql in (_COUNTED, _THERE))
    return tuple({row[:2]: row[2:] for row in rows} for rows in (counted, there))  # type: ignore[return-value]


def make_older(path: Path, version: int) -> None:
    """Give a closed file the schema of an earlier version, with the data that it had room for."""
    old = path.with_name("old.db")
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        steps = {number: step for number, step in schema.migrations().items() if number <= version}
        schema.migrate(connection, old, steps)
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        connection.execute("ATTACH ? AS new", (str(path),))
        for table in tables:
            columns = ", ".join(row[1] for row in connection.execute(f"PRAGMA main.table_info({table})"))
            connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}")  # noqa: S608 - ours
    old.replace(path)
