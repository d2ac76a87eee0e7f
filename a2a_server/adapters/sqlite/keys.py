"""The integers that stand for scopes and tasks inside the file (spec: AUTZ-03)."""

from __future__ import annotations

import sqlite3

from a2a_server.adapters.sqlite.sql import queries
from a2a_server.domain.scope import Scope

_SQL = queries("keys.sql")


def scope_key(connection: sqlite3.Connection, scope: Scope) -> int:
    """The number of a scope, made when first needed."""
    place = scope.tenant, scope.owner
    row = connection.execute(_SQL["scope"], place).fetchone()
    return int(row[0]) if row else int(connection.execute(_SQL["scope_add"], place).lastrowid or 0)


def task_key(connection: sqlite3.Connection, scope: Scope, task_id: str) -> int | None:
    """The number of a task inside the scope."""
    row = connection.execute(_SQL["task"], (task_id, scope.tenant, scope.owner)).fetchone()
    return int(row[0]) if row else None


def exists(connection: sqlite3.Connection, task_id: str) -> bool:
    """Whether anybody has a task of this id."""
    return connection.execute(_SQL["exists"], (task_id,)).fetchone() is not None
