"""Receipts of sends (spec: ONCE-01)."""

from __future__ import annotations

import sqlite3

from a2a_server.adapters.sqlite.schema import exists, queries, scope_key
from a2a_server.domain.scope import Scope
from a2a_server.ports.records import Receipt, Write
from a2a_server.ports.store import Repeated

_SQL = queries("receipts.sql")


def recall(connection: sqlite3.Connection, scope: Scope, key: str, now_ms: int) -> Receipt | None:
    row = connection.execute(_SQL["recall"], (scope.tenant, scope.owner, key, now_ms)).fetchone()
    return Receipt(*row) if row else None


def check(connection: sqlite3.Connection, write: Write, receipt: Receipt) -> None:
    found = recall(connection, write.scope, receipt.key, write.now_ms)
    if found is not None and (write.expected or found.task_id != write.task_id):
        raise Repeated(found)


def leave(connection: sqlite3.Connection, scope: Scope, receipt: Receipt) -> None:
    key = scope_key(connection, scope)
    row = key, receipt.key, receipt.fingerprint, receipt.task_id, receipt.expires_ms, receipt.reply
    connection.execute(_SQL["leave"], row)


def reserve(connection: sqlite3.Connection, scope: Scope, receipt: Receipt, now_ms: int, instead_of: str) -> Receipt:
    found = recall(connection, scope, receipt.key, now_ms)
    if found is not None and (found.task_id != instead_of or found.reply or exists(connection, instead_of)):
        return found
    leave(connection, scope, receipt)
    return receipt


def answer(connection: sqlite3.Connection, scope: Scope, key: str, reply: bytes) -> None:
    connection.execute(_SQL["answer"], (reply, scope.tenant, scope.owner, key))
