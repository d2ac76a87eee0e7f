"""One task: writing, reading, its turns and leases; and receipts of sends (spec: DURA-01 to -03, -05, ONCE-01)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.sqlite import push
from a2a_server.adapters.sqlite.schema import exists, queries, scope_key
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.domain.reducer import fold
from a2a_server.domain.scope import Scope
from a2a_server.ports.records import ARTIFACT, Entry, Lease, Receipt, StoredTurn, TaskHead, Write
from a2a_server.ports.store import Claimed, Repeated, StaleWrite, StoredTask

_SQL = queries("tasks.sql")
_RECEIPTS = queries("receipts.sql")

_ARTIFACT = bytes([ARTIFACT << 3 | 2])
"""The first byte of a serialised artifact update: field number and wire type."""

_APPEND = tuple(_SQL["append"] + ", (?, ?, ?)" * more for more in range(8))
"""The statement for one entry, two, three …: one statement for several rows is faster than one per row."""


def commit(connection: sqlite3.Connection, write: Write) -> bool:
    """Store a write. Returns whether a webhook has become due."""
    if write.receipt is not None:
        found = recall(connection, write.scope, write.receipt.key, write.now_ms)
        if found is not None and (write.expected or found.task_id != write.task_id):
            raise Repeated(found)
    if write.expected:
        key, watched = _change(connection, write)
    else:
        key, watched = _create(connection, write), False
    if write.entries:
        _append(connection, key, write.entries)
    if write.artifacts is not None:
        connection.execute(_SQL["artifacts"], (key, write.expected + len(write.entries), write.artifacts))
    if write.state is not None:
        connection.execute(_SQL["agent_state"], (key, write.state))
    owed = bool(watched or write.configs) and push.apply(connection, key, write)
    if write.receipt is not None:
        _leave_receipt(connection, write.scope, write.receipt)
    return owed


def _create(connection: sqlite3.Connection, write: Write) -> int:
    if write.epoch != (write.claim is not None):
        raise StaleWrite(write.task_id)
    key = _insert(connection, write)
    if key is None:
        if exists(connection, write.task_id):
            raise StaleWrite(write.task_id)  # perhaps in another scope, which the caller must not learn
        scope_key(connection, write.scope)
        key = _insert(connection, write)
    assert key is not None  # noqa: S101 - the id is free, and the scope exists
    _create_lease(connection, key, write)
    return key


def _insert(connection: sqlite3.Connection, write: Write) -> int | None:
    """Insert the task. None if the id is taken or the scope is new: then the statement inserts nothing."""
    head = write.head
    assert head is not None  # noqa: S101 - a write that creates has one
    row = write.scope.tenant, write.scope.owner, write.task_id, *_columns(write, head, shelved=0)
    cursor = connection.execute(_SQL["create"], row)
    if not cursor.rowcount:
        return None
    connection.execute(_SQL["enter"], (cursor.lastrowid, head.state))
    return cursor.lastrowid


def _change(connection: sqlite3.Connection, write: Write) -> tuple[int, bool]:
    """Change a task. Returns its key, and whether it has push configs."""
    row = connection.execute(_SQL["writable"], (write.task_id, write.scope.tenant, write.scope.owner)).fetchone()
    if row is None:
        raise StaleWrite(write.task_id)
    key, epoch, shelved, number, state, watched = row
    if write.expected != number or write.epoch != epoch + (write.claim is not None):
        raise StaleWrite(write.task_id)
    if (head := write.head) is not None:
        connection.execute(_SQL["head"], (*_columns(write, head, shelved), key))
        if head.state != state:
            connection.execute(_SQL["leave"], (key, state))
            connection.execute(_SQL["enter"], (key, head.state))
    _change_turns(connection, key, write)
    return key, watched


def _columns(write: Write, head: TaskHead, shelved: int) -> tuple[str, int, int, int, int, bytes]:
    number = write.expected + len(write.entries)
    # If no entry since the stored artifacts updates one, a reader need not look for later updates.
    if write.artifacts is not None or (
        shelved == write.expected and not any(entry.kind == ARTIFACT for entry in write.entries)
    ):
        shelved = number
    return head.context_id, head.state, head.status_ms, number, shelved, head.task


def _append(connection: sqlite3.Connection, key: int, entries: Sequence[Entry]) -> None:
    if len(entries) <= len(_APPEND):
        row = [column for entry in entries for column in (key, entry.number, entry.wire)]
        connection.execute(_APPEND[len(entries) - 1], row)
    else:
        connection.executemany(_SQL["append"], [(key, entry.number, entry.wire) for entry in entries])


def load(connection: sqlite3.Connection, scope: Scope, task_id: str) -> StoredTask | None:
    row = connection.execute(_SQL["load"], (task_id, scope.tenant, scope.owner)).fetchone()
    if row is None:
        return None
    key, head, epoch, shelved, number, artifacts, state = row
    # Entries never change, so entries between the row's numbers stay the same if a commit happens meanwhile.
    task = whole(connection, head, artifacts, (key, shelved, number))
    return StoredTask(task, number, epoch, state)


def whole(connection: sqlite3.Connection, head: bytes, artifacts: bytes, tail: tuple[int, int, int]) -> pb.Task:
    """A task from head, artifacts and later artifact events. `tail`: task key, last number before, last number."""
    task = pb.Task.FromString(head + artifacts)  # joined, the bytes of both parse as the whole message
    _, shelved, number = tail
    if shelved < number:
        rows = connection.execute(_SQL["tail"], (*tail, _ARTIFACT))
        fold(task, (pb.StreamResponse.FromString(wire) for (wire,) in rows))
    return task


def entries(connection: sqlite3.Connection, task_id: str, after: int, limit: int) -> list[Entry]:
    rows = connection.execute(_SQL["entries"], (task_id, after, limit))
    return [Entry(number, wire) for number, wire in rows]


def has_context(connection: sqlite3.Connection, scope: Scope, context_id: str) -> bool:
    row = connection.execute(_SQL["has_context"], (scope.tenant, scope.owner, context_id)).fetchone()
    return row is not None


def secret(connection: sqlite3.Connection) -> bytes:
    return bytes(connection.execute(_SQL["secret"]).fetchone()[0])


def make_secret(connection: sqlite3.Connection) -> None:
    """Once per file."""
    connection.execute(_SQL["secret_add"])


_TURNS = queries("turns.sql")

_NO_LEASE = Lease("", 0)

_FIRST_EPOCH = 1
"""The epoch of a task whose creator claimed it."""


def _create_lease(connection: sqlite3.Connection, task: int, write: Write) -> None:
    if write.epoch == _FIRST_EPOCH and not write.begin and write.head is not None and write.head.state in TERMINAL:
        return
    turns = {turn.number: turn.request for turn in write.begin if turn.number not in write.end}
    lease = write.claim or _NO_LEASE
    connection.execute(_TURNS["create"], (task, write.epoch, lease.replica, lease.until_ms, len(turns)))
    for number, request in turns.items():
        connection.execute(_TURNS["begin"], (task, number, request))


def _change_turns(connection: sqlite3.Connection, task: int, write: Write) -> None:
    """Store what a write changes about the turns and the lease of a task."""
    if write.claim is not None:
        _lease(connection, task, write.epoch, write.claim)
    if not write.begin and not write.end:
        return
    if write.claim is None:
        connection.execute(_TURNS["unclaimed"], (task, write.epoch))
    for turn in write.begin:
        connection.execute(_TURNS["begin"], (task, turn.number, turn.request))
    for number in write.end:
        connection.execute(_TURNS["end"], (task, number))
    connection.execute(_TURNS["recount"], {"task": task})


def _lease(connection: sqlite3.Connection, task: int, epoch: int, lease: Lease) -> None:
    connection.execute(_TURNS["lease"], (epoch, lease.replica, lease.until_ms, task))


def claim(connection: sqlite3.Connection, lease: Lease, lapsed_before_ms: int, limit: int) -> Sequence[Claimed]:
    claimed = []
    for task, epoch, task_id, tenant, owner in connection.execute(
        _TURNS["lapsed"], (lapsed_before_ms, limit)
    ).fetchall():
        _lease(connection, task, epoch + 1, lease)
        turns = [StoredTurn(*row) for row in connection.execute(_TURNS["turns"], (task,))]
        claimed.append(Claimed(Scope(tenant, owner), task_id, epoch + 1, turns))
    return claimed


# -- receipts of sends


def recall(connection: sqlite3.Connection, scope: Scope, key: str, now_ms: int) -> Receipt | None:
    row = connection.execute(_RECEIPTS["recall"], (scope.tenant, scope.owner, key, now_ms)).fetchone()
    return Receipt(*row) if row else None


def _leave_receipt(connection: sqlite3.Connection, scope: Scope, receipt: Receipt) -> None:
    row = receipt.key, receipt.fingerprint, receipt.task_id, receipt.expires_ms, receipt.reply
    connection.execute(_RECEIPTS["leave"], (scope_key(connection, scope), *row))


def reserve(connection: sqlite3.Connection, scope: Scope, receipt: Receipt, now_ms: int, instead_of: str) -> Receipt:
    found = recall(connection, scope, receipt.key, now_ms)
    if found is not None and (found.task_id != instead_of or found.reply or exists(connection, instead_of)):
        return found
    _leave_receipt(connection, scope, receipt)
    return receipt


def answer(connection: sqlite3.Connection, scope: Scope, key: str, reply: bytes) -> None:
    connection.execute(_RECEIPTS["answer"], (reply, scope.tenant, scope.owner, key))
