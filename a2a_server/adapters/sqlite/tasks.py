"""Writing and reading one task (spec: DURA-01, DURA-05)."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from a2a_server.adapters.sqlite import push, receipts, turns
from a2a_server.adapters.sqlite.keys import exists, scope_key
from a2a_server.adapters.sqlite.sql import queries
from a2a_server.domain.reducer import fold
from a2a_server.domain.scope import Scope
from a2a_server.ports.store import Entry, Record, StaleWrite, Write
from generated import a2a_pb2 as pb

_SQL = queries("tasks.sql")

_ARTIFACT = bytes([pb.StreamResponse.ARTIFACT_UPDATE_FIELD_NUMBER << 3 | 2])
"""The first byte of a serialised event that updates an artifact: field number and wire type (a nested message)."""


class Stored(NamedTuple):
    """What a writer must know about a task."""

    key: int
    epoch: int
    shelved: int
    number: int


_ABSENT = Stored(0, 0, 0, 0)


def commit(connection: sqlite3.Connection, write: Write) -> None:
    stored = _check(connection, write)
    key = _put_head(connection, write, stored)
    number = write.expected + len(write.entries)
    if write.entries:
        connection.executemany(_SQL["append"], [(key, entry.number, entry.wire) for entry in write.entries])
    if write.artifacts is not None:
        connection.execute(_SQL["artifacts"], (key, number, write.artifacts))
    if write.state is not None:
        connection.execute(_SQL["agent_state"], (key, write.state))
    turns.apply(connection, key, write)
    push.apply(connection, key, write)
    if write.once is not None:
        receipts.leave(connection, write.scope, write.once)


def _check(connection: sqlite3.Connection, write: Write) -> Stored:
    if write.once is not None:
        receipts.check(connection, write, write.once)
    row = connection.execute(_SQL["writable"], (write.task_id, write.scope.tenant, write.scope.owner)).fetchone()
    stored = Stored(*row) if row else _ABSENT
    if write.expected != stored.number or write.epoch != stored.epoch + (write.claim is not None):
        raise StaleWrite(write.task_id)
    if row is None and exists(connection, write.task_id):
        raise StaleWrite(write.task_id)  # in another scope; to the caller it looks the same
    return stored


def _put_head(connection: sqlite3.Connection, write: Write, stored: Stored) -> int:
    head = write.head
    if head is None:
        return stored.key
    number = write.expected + len(write.entries)
    # While the log has no artifacts that a reader must fold, the tail to be searched for them stays empty.
    idle = stored.shelved == write.expected and not any(entry.wire.startswith(_ARTIFACT) for entry in write.entries)
    shelved = number if idle or write.artifacts is not None else stored.shelved
    columns = head.context_id, head.state, head.status_ms, number, shelved, head.task
    if stored.key:
        connection.execute(_SQL["head"], (*columns, stored.key))
        return stored.key
    scope = scope_key(connection, write.scope)
    key = connection.execute(_SQL["create"], (scope, write.task_id, *columns)).lastrowid
    connection.execute(_SQL["create_lease"], (key,))
    return int(key or 0)


def load(connection: sqlite3.Connection, scope: Scope, task_id: str) -> Record | None:
    row = connection.execute(_SQL["load"], (task_id, scope.tenant, scope.owner)).fetchone()
    if row is None:
        return None
    key, head, epoch, live, shelved, number, artifacts, state = row
    # Entries never change, so what was committed since the row was read cannot get between it and its tail.
    task = whole(connection, head, artifacts, (key, shelved, number))
    return Record(task, number, epoch, state, live=bool(live))


def whole(connection: sqlite3.Connection, head: bytes, artifacts: bytes, tail: tuple[int, int, int]) -> pb.Task:
    """A task of its two halves and the artifact events of a tail: task key, number before the first, last number."""
    task = pb.Task.FromString(head + artifacts)  # halves of a message, concatenated, are the message
    _, shelved, number = tail
    if shelved < number:
        rows = connection.execute(_SQL["tail"], (*tail, _ARTIFACT))
        fold(task, (pb.StreamResponse.FromString(wire) for (wire,) in rows))
    return task


def entries(connection: sqlite3.Connection, task_id: str, after: int, limit: int) -> list[Entry]:
    rows = connection.execute(_SQL["entries"], (task_id, after, limit))
    return [Entry(number, pb.StreamResponse.FromString(wire), wire) for number, wire in rows]


def has_context(connection: sqlite3.Connection, scope: Scope, context_id: str) -> bool:
    row = connection.execute(_SQL["has_context"], (scope.tenant, scope.owner, context_id)).fetchone()
    return row is not None


def secret(connection: sqlite3.Connection) -> bytes:
    return bytes(connection.execute(_SQL["secret"]).fetchone()[0])


def make_secret(connection: sqlite3.Connection) -> None:
    """Once per file."""
    connection.execute(_SQL["secret_add"])
