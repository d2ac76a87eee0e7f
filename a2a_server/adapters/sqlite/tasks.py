"""One task: writing, reading, its turns and who runs them; and receipts (spec: DURA-01 to -03, -05, ONCE-01)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.sqlite import holdings, push
from a2a_server.adapters.sqlite.schema import exists, queries, scope_key
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.domain.reducer import fold
from a2a_server.domain.scope import Scope
from a2a_server.ports.records import ARTIFACT, Entry, Receipt, StoredTurn, TaskHead, Write
from a2a_server.ports.sealing import (
    UNSEALED,
    ContentSealing,
    agent_state_place,
    artifacts_place,
    context_place,
    event_place,
    head_place,
    reply_place,
    turn_place,
)
from a2a_server.ports.store import Claimed, Repeated, StaleWrite, StoredTask

_SQL = queries("tasks.sql")
_RECEIPTS = queries("receipts.sql")

_ARTIFACT = bytes([ARTIFACT << 3 | 2])
"""The first byte of a serialised artifact update: field number and wire type."""

_APPEND = tuple(_SQL["append"] + ", (?, ?, ?)" * more for more in range(8))
"""The statement for one entry, two, three …: one statement for several rows is faster than one per row."""


def commit(connection: sqlite3.Connection, write: Write, sealing: ContentSealing) -> bool:
    """Store a write. Returns whether a webhook has become due."""
    if sealing is not UNSEALED:
        write = sealing.sealed(write)
    if write.receipt is not None:
        _refuse_repetition(connection, write, write.receipt, sealing)
    if write.expected:
        key, watched, before = _change(connection, write)
    else:
        key, watched, before = _create(connection, write), False, None
    if write.artifacts is not None:
        connection.execute(_SQL["artifacts"], (key, write.expected + len(write.entries), write.artifacts))
    if write.state is not None:
        connection.execute(_SQL["agent_state"], (key, write.state))
    if write.remember is not None:
        _remember(connection, key, write.remember, write.scope, sealing)
    owed = bool(watched or write.configs) and push.apply(connection, key, write, sealing)
    if write.receipt is not None:
        _leave_receipt(connection, write.scope, write.receipt)
    if before is not None:
        holdings.change(connection, key, before, before.state if write.head is None else write.head.state)
    elif not write.expected:
        connection.execute(holdings.ENTER, (key,))
    return owed


def _refuse_repetition(connection: sqlite3.Connection, write: Write, receipt: Receipt, sealing: ContentSealing) -> None:
    found = recall(connection, write.scope, receipt.key, write.now_ms, sealing)
    if found is not None and (write.expected or found.task_id != write.task_id):
        raise Repeated(found)


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
    _append(connection, key, write.entries)
    _create_lease(connection, key, write)
    return key


def _insert(connection: sqlite3.Connection, write: Write) -> int | None:
    """Insert the task. None if the id is taken or the scope is new: then the statement inserts nothing."""
    head = write.head
    assert head is not None  # noqa: S101 - a write that creates has one
    log_bytes = sum([len(entry.wire) for entry in write.entries])
    row = write.scope.tenant, write.scope.owner, write.task_id, *_columns(write, head, shelved=0), log_bytes
    cursor = connection.execute(_SQL["create"], row)
    return cursor.lastrowid if cursor.rowcount else None


def _change(connection: sqlite3.Connection, write: Write) -> tuple[int, bool, holdings.TaskSize | None]:
    """Change a task. Returns its key, whether it has push configs, and its size before, if that is to be counted."""
    row = connection.execute(_SQL["writable"], (write.task_id, write.scope.tenant, write.scope.owner)).fetchone()
    if row is None:
        raise StaleWrite(write.task_id)
    key, epoch, shelved, number, watched = row
    if write.expected != number or write.epoch != epoch + (write.claim is not None):
        raise StaleWrite(write.task_id)
    head = write.head
    chunks_only = head is None and write.artifacts is None and write.state is None and not write.configs
    before = None if chunks_only else holdings.size_of(connection, key)
    if write.entries:
        _append(connection, key, write.entries)
    if head is not None:
        connection.execute(_SQL["head"], (*_columns(write, head, shelved), key))
    _change_turns(connection, key, write)
    return key, watched, before


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


def _remember(
    connection: sqlite3.Connection,
    key: int,
    changes: Mapping[str, bytes | None],
    scope: Scope,
    sealing: ContentSealing,
) -> None:
    (context,) = connection.execute(_SQL["context"], (key,)).fetchone()
    with holdings.context_measured(connection, key):
        for name, value in changes.items():
            if value is None:
                connection.execute(_SQL["forget"], (key, name))
            else:
                sealed = sealing.seal(value, context_place(scope, context, name))
                connection.execute(_SQL["remember"], (name, sealed, key))


def load(connection: sqlite3.Connection, scope: Scope, task_id: str, sealing: ContentSealing) -> StoredTask | None:
    row = connection.execute(_SQL["load"], (task_id, scope.tenant, scope.owner)).fetchone()
    if row is None:
        return None
    key, head, epoch, shelved, number, artifacts, state, log_bytes = row
    # Entries never change, so entries between the row's numbers stay the same if a commit happens meanwhile.
    if sealing is not UNSEALED:  # the calls below would cost 3 % of a load even where they change nothing
        head = sealing.open(head, head_place(scope, task_id))
        artifacts = sealing.open(artifacts, artifacts_place(task_id))
        state = sealing.open(state, agent_state_place(task_id))
    task = whole(connection, head + artifacts, (key, task_id, shelved, number), sealing)
    return StoredTask(task, number, epoch, state, log_bytes)


Tail = tuple[int, str, int, int]
"""Where artifact events are that the stored artifacts lack: task key and id, last number before them, last number."""


def whole(connection: sqlite3.Connection, stored: bytes, tail: Tail, sealing: ContentSealing) -> pb.Task:
    """A task from the bytes of its head and artifacts, which are open, and later artifact events."""
    task = pb.Task.FromString(stored)  # joined, the bytes of both parse as the whole message
    key, task_id, shelved, number = tail
    if shelved < number:
        rows = connection.execute(_SQL["tail"], (key, shelved, number, _ARTIFACT))
        fold(task, (pb.StreamResponse.FromString(sealing.open(wire, event_place(task_id, at))) for at, wire in rows))
    return task


def entries(
    connection: sqlite3.Connection, task_id: str, after: int, limit: int, sealing: ContentSealing
) -> list[Entry]:
    rows = connection.execute(_SQL["entries"], (task_id, after, limit))
    if sealing is UNSEALED:
        return [Entry(number, wire) for number, wire in rows]
    return [Entry(number, sealing.open(wire, event_place(task_id, number))) for number, wire in rows]


def has_context(connection: sqlite3.Connection, scope: Scope, context_id: str) -> bool:
    row = connection.execute(_SQL["has_context"], (scope.tenant, scope.owner, context_id)).fetchone()
    return row is not None


def secret(connection: sqlite3.Connection) -> bytes:
    return bytes(connection.execute(_SQL["secret"]).fetchone()[0])


def make_secret(connection: sqlite3.Connection) -> None:
    """Once per file."""
    connection.execute(_SQL["secret_add"])


_TURNS = queries("turns.sql")

_FIRST_EPOCH = 1
"""The epoch of a task whose creator claimed it."""


def _create_lease(connection: sqlite3.Connection, task: int, write: Write) -> None:
    if write.epoch == _FIRST_EPOCH and not write.begin and write.head is not None and write.head.state in TERMINAL:
        return
    turns = {turn.number: turn.request for turn in write.begin if turn.number not in write.end}
    connection.execute(_TURNS["create"], (task, write.epoch, write.claim or "", len(turns)))
    for number, request in turns.items():
        connection.execute(_TURNS["begin"], (task, number, request))


def _change_turns(connection: sqlite3.Connection, task: int, write: Write) -> None:
    """Store what a write changes about the turns of a task, and about who may write it."""
    if write.claim is not None:
        connection.execute(_TURNS["lease"], (write.epoch, write.claim, task))
    if not write.begin and not write.end:
        return
    if write.claim is None:
        connection.execute(_TURNS["unclaimed"], (task, write.epoch))
    for turn in write.begin:
        connection.execute(_TURNS["begin"], (task, turn.number, turn.request))
    for number in write.end:
        connection.execute(_TURNS["end"], (task, number))
    connection.execute(_TURNS["recount"], {"task": task})


def claim(connection: sqlite3.Connection, session: str, limit: int, sealing: ContentSealing) -> Sequence[Claimed]:
    claimed = []
    for task, epoch, task_id, tenant, owner in connection.execute(_TURNS["left"], (session, limit)).fetchall():
        connection.execute(_TURNS["lease"], (epoch + 1, session, task))
        rows = connection.execute(_TURNS["turns"], (task,))
        turns = [StoredTurn(number, sealing.open(wire, turn_place(task_id, number))) for number, wire in rows]
        claimed.append(Claimed(Scope(tenant, owner), task_id, epoch + 1, turns))
    return claimed


# -- receipts of sends


def recall(
    connection: sqlite3.Connection, scope: Scope, key: str, now_ms: int, sealing: ContentSealing
) -> Receipt | None:
    row = connection.execute(_RECEIPTS["recall"], (scope.tenant, scope.owner, key, now_ms)).fetchone()
    return sealing.opened_receipt(scope, Receipt(*row)) if row else None


def _leave_receipt(connection: sqlite3.Connection, scope: Scope, receipt: Receipt) -> None:
    """Store a receipt that is sealed."""
    row = receipt.key, receipt.fingerprint, receipt.task_id, receipt.expires_ms, receipt.reply
    connection.execute(_RECEIPTS["leave"], (scope_key(connection, scope), *row))


def reserve(  # noqa: PLR0913 - the call's
    connection: sqlite3.Connection,
    scope: Scope,
    receipt: Receipt,
    now_ms: int,
    instead_of: str,
    *,
    sealing: ContentSealing,
) -> Receipt:
    found = recall(connection, scope, receipt.key, now_ms, sealing)
    if found is not None and (found.task_id != instead_of or found.reply or exists(connection, instead_of)):
        return found
    _leave_receipt(connection, scope, sealing.sealed_receipt(scope, receipt))
    return receipt


def answer(connection: sqlite3.Connection, scope: Scope, key: str, reply: bytes, sealing: ContentSealing) -> None:
    sealed = sealing.seal(reply, reply_place(scope, key))
    connection.execute(_RECEIPTS["answer"], (sealed, scope.tenant, scope.owner, key))
