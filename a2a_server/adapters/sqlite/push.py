"""Push configs, and what a write owes to them (spec: PAID-01)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.sqlite.keys import task_key
from a2a_server.adapters.sqlite.sql import queries
from a2a_server.domain.scope import Scope
from a2a_server.domain.webhooks import site_of
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import MESSAGE, Write

_SQL = queries("push.sql")
_UNTRACED = (None, None)


def apply(connection: sqlite3.Connection, task: int, write: Write) -> bool:
    """What a write registers and owes; whether anything has become payable."""
    for hook in write.configs:
        _put(connection, task, hook)
    if not (write.notify and write.entries):
        return False
    numbers = [entry.number for entry in write.entries if entry.kind != MESSAGE]
    if write.traces:
        return _owe(connection, task, [(number, *(write.trace_of(number) or _UNTRACED)) for number in numbers])
    return _owe(connection, task, [(number, *_UNTRACED) for number in numbers])


def _owe(connection: sqlite3.Connection, task: int, deliveries: Sequence[tuple[int, str | None, str | None]]) -> bool:
    payable = False
    for config, due_ms, parked_ms in connection.execute(_SQL["creditors"], (task,)).fetchall() if deliveries else ():
        connection.executemany(_SQL["owe"], [(config, *delivery) for delivery in deliveries])
        if parked_ms is None:
            payable = True
            if due_ms is None:
                connection.execute(_SQL["due"], (config,))
    return payable


def _put(connection: sqlite3.Connection, task: int, hook: PushConfig) -> None:
    config, schemes = hook.config, json.dumps(list(hook.schemes))
    row = task, config.id, config.SerializeToString(), hook.version, schemes, site_of(config.url)
    connection.execute(_SQL["put"], row)


def hook_of(wire: bytes, version: str, schemes: str) -> PushConfig:
    return PushConfig(pb.TaskPushNotificationConfig.FromString(wire), version, tuple(json.loads(schemes)))


def put_config(connection: sqlite3.Connection, scope: Scope, hook: PushConfig) -> bool:
    task = task_key(connection, scope, hook.config.task_id)
    if task is not None:
        _put(connection, task, hook)
    return task is not None


def get_config(connection: sqlite3.Connection, scope: Scope, task_id: str, config_id: str) -> PushConfig | None:
    row = connection.execute(_SQL["get"], (config_id, task_id, scope.tenant, scope.owner)).fetchone()
    return hook_of(*row) if row else None


def configs(
    connection: sqlite3.Connection, scope: Scope, task_id: str, after: str, limit: int
) -> Sequence[PushConfig] | None:
    task = task_key(connection, scope, task_id)
    if task is None:
        return None
    return [hook_of(*row) for row in connection.execute(_SQL["configs"], (task, after, limit))]


def delete_config(connection: sqlite3.Connection, scope: Scope, task_id: str, config_id: str) -> bool:
    task = task_key(connection, scope, task_id)
    if task is not None:
        connection.execute(_SQL["forgive"], (task, config_id))
        connection.execute(_SQL["delete"], (task, config_id))
    return task is not None
