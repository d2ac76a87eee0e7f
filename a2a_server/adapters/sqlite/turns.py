"""Turns, leases and wishes to cancel (spec: DURA-02, DURA-03)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from a2a_server.adapters.sqlite.sql import queries
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.domain.scope import Scope
from a2a_server.ports.records import Lease, StoredTurn, Write
from a2a_server.ports.store import Claimed, Renewal

_SQL = queries("turns.sql")

_NOBODYS = Lease("", 0)

_FIRST = 1
"""The epoch of a task whose creator claimed it."""


def create(connection: sqlite3.Connection, task: int, write: Write) -> None:
    """The lease and the turns of a new task."""
    if write.epoch == _FIRST and not write.begin and write.head is not None and write.head.state in TERMINAL:
        return
    turns = {turn.number: turn.request for turn in write.begin if turn.number not in write.end}
    lease = write.claim or _NOBODYS
    connection.execute(_SQL["create"], (task, write.epoch, lease.replica, lease.until_ms, len(turns)))
    for number, request in turns.items():
        connection.execute(_SQL["begin"], (task, number, request))


def apply(connection: sqlite3.Connection, task: int, write: Write) -> None:
    """What a write changes about the turns and the lease of a task."""
    if write.claim is not None:
        _lease(connection, task, write.epoch, write.claim)
    if not write.begin and not write.end:
        return
    if write.claim is None:
        connection.execute(_SQL["unclaimed"], (task, write.epoch))
    for turn in write.begin:
        connection.execute(_SQL["begin"], (task, turn.number, turn.request))
    for number in write.end:
        connection.execute(_SQL["end"], (task, number))
    connection.execute(_SQL["recount"], {"task": task})


def _lease(connection: sqlite3.Connection, task: int, epoch: int, lease: Lease) -> None:
    connection.execute(_SQL["lease"], (epoch, lease.replica, lease.until_ms, task))


def claim(connection: sqlite3.Connection, lease: Lease, lapsed_before_ms: int, limit: int) -> Sequence[Claimed]:
    claimed = []
    for task, epoch, task_id, tenant, owner in connection.execute(_SQL["lapsed"], (lapsed_before_ms, limit)).fetchall():
        _lease(connection, task, epoch + 1, lease)
        turns = [StoredTurn(*row) for row in connection.execute(_SQL["turns"], (task,))]
        claimed.append(Claimed(Scope(tenant, owner), task_id, epoch + 1, turns))
    return claimed


def renew(connection: sqlite3.Connection, lease: Lease, held: Mapping[str, int]) -> Renewal:
    lost, cancels = set(), {}
    for task_id, epoch in held.items():
        row = connection.execute(_SQL["held"], (task_id,)).fetchone()
        if row is None or row[1] != epoch:
            lost.add(task_id)
            continue
        task, _, cancel = row
        connection.execute(_SQL["extend"], (lease.replica, lease.until_ms, task))
        if cancel is not None:
            cancels[task_id] = cancel
    return Renewal(frozenset(lost), cancels)


def request_cancel(connection: sqlite3.Connection, scope: Scope, task_id: str, metadata: bytes) -> bool:
    return connection.execute(_SQL["cancel"], (metadata, task_id, scope.tenant, scope.owner)).rowcount > 0
