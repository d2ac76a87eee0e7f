"""Push configs and the webhooks they are owed (spec: PAID-01, PAID-02)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from a2a_server.adapters.sqlite.keys import task_key
from a2a_server.adapters.sqlite.sql import queries
from a2a_server.domain.scope import Scope
from a2a_server.ports.store import Debt, Hook, Write
from generated import a2a_pb2 as pb

_SQL = queries("push.sql")


def apply(connection: sqlite3.Connection, task: int, write: Write) -> None:
    """What a write registers and owes."""
    for hook in write.configs:
        _put(connection, task, hook)
    if write.owe and write.entries:
        _owe(connection, task, [entry.number for entry in write.entries if not entry.event.HasField("message")])


def _owe(connection: sqlite3.Connection, task: int, numbers: Sequence[int]) -> None:
    if not numbers:
        return
    for config, due_ms in connection.execute(_SQL["creditors"], (task,)).fetchall():
        connection.executemany(_SQL["owe"], [(config, number) for number in numbers])
        if due_ms is None:
            connection.execute(_SQL["due"], (config,))


def _put(connection: sqlite3.Connection, task: int, hook: Hook) -> None:
    config, schemes = hook.config, json.dumps(list(hook.schemes))
    connection.execute(_SQL["put"], (task, config.id, config.SerializeToString(), hook.version, schemes))


def _hook(wire: bytes, version: str, schemes: str) -> Hook:
    return Hook(pb.TaskPushNotificationConfig.FromString(wire), version, tuple(json.loads(schemes)))


def put_config(connection: sqlite3.Connection, scope: Scope, hook: Hook) -> bool:
    task = task_key(connection, scope, hook.config.task_id)
    if task is not None:
        _put(connection, task, hook)
    return task is not None


def get_config(connection: sqlite3.Connection, scope: Scope, task_id: str, config_id: str) -> Hook | None:
    row = connection.execute(_SQL["get"], (config_id, task_id, scope.tenant, scope.owner)).fetchone()
    return _hook(*row) if row else None


def configs(
    connection: sqlite3.Connection, scope: Scope, task_id: str, after: str, limit: int
) -> Sequence[Hook] | None:
    task = task_key(connection, scope, task_id)
    if task is None:
        return None
    return [_hook(*row) for row in connection.execute(_SQL["configs"], (task, after, limit))]


def delete_config(connection: sqlite3.Connection, scope: Scope, task_id: str, config_id: str) -> bool:
    task = task_key(connection, scope, task_id)
    if task is not None:
        connection.execute(_SQL["forgive"], (task, config_id))
        connection.execute(_SQL["delete"], (task, config_id))
    return task is not None


def claim_debts(connection: sqlite3.Connection, now_ms: int, until_ms: int, limit: int) -> Sequence[Debt]:
    debts = []
    for config, *kept, attempts, task_id, tenant, owner, number in connection.execute(
        _SQL["claimable"], (now_ms, limit)
    ).fetchall():
        connection.execute(_SQL["claim"], {"config": config, "until_ms": until_ms, "now_ms": now_ms})
        debts.append(Debt(Scope(tenant, owner), task_id, number, _hook(*kept), attempts, until_ms))
    return debts


def settle(connection: sqlite3.Connection, debt: Debt, retry_at_ms: int | None) -> bool:
    row = connection.execute(_SQL["claimed"], (debt.task_id, debt.hook.config.id, debt.until_ms)).fetchone()
    if row is None or row[1] != debt.number:
        return False
    config = row[0]
    if retry_at_ms is not None:
        connection.execute(_SQL["put_off"], (retry_at_ms, config))
        return True
    connection.execute(_SQL["pay"], (config, debt.number))
    connection.execute(_SQL["paid"], (config,))
    return True
