"""Receipts of sends (spec: ONCE-01)."""

from __future__ import annotations

import sqlite3

from a2a_server.adapters.sqlite.keys import exists, scope_key
from a2a_server.adapters.sqlite.sql import queries
from a2a_server.domain.scope import Scope
from a2a_server.ports.kept import Once
from a2a_server.ports.store import Repeated
from a2a_server.ports.write import Write

_SQL = queries("receipts.sql")


def recall(connection: sqlite3.Connection, scope: Scope, key: str, now_ms: int) -> Once | None:
    row = connection.execute(_SQL["recall"], (scope.tenant, scope.owner, key, now_ms)).fetchone()
    return Once(*row) if row else None


def check(connection: sqlite3.Connection, write: Write, once: Once) -> None:
    found = recall(connection, write.scope, once.key, write.now_ms)
    if found is not None and (write.expected or found.task_id != write.task_id):
        raise Repeated(found)


def leave(connection: sqlite3.Connection, scope: Scope, once: Once) -> None:
    key = scope_key(connection, scope)
    row = key, once.key, once.fingerprint, once.task_id, once.expires_ms, once.reply
    connection.execute(_SQL["leave"], row)


def reserve(connection: sqlite3.Connection, scope: Scope, once: Once, now_ms: int, instead_of: str) -> Once:
    found = recall(connection, scope, once.key, now_ms)
    if found is not None and (found.task_id != instead_of or found.reply or exists(connection, instead_of)):
        return found
    leave(connection, scope, once)
    return once


def answer(connection: sqlite3.Connection, scope: Scope, key: str, reply: bytes) -> None:
    connection.execute(_SQL["answer"], (reply, scope.tenant, scope.owner, key))
