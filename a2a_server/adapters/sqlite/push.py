"""Push configs and their deliveries: queued by writes, claimed by owner and host (spec: PAID-01, PAID-02)."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.sqlite import holdings
from a2a_server.adapters.sqlite.schema import queries, task_key
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.domain.webhooks import site_of
from a2a_server.ports.push import ClaimOrder, Delivery, FailedAttempt, PushConfig
from a2a_server.ports.records import MESSAGE, Write
from a2a_server.ports.sealing import UNSEALED, ContentSealing, config_place
from a2a_server.ports.store import StoreDamaged

_SQL = queries("push.sql")
_UNTRACED = (None, None)
log = structlog.get_logger(__name__)


def apply(connection: sqlite3.Connection, task: int, write: Write, sealing: ContentSealing) -> bool:
    """Store the configs of a write and queue its deliveries. Returns whether any has become due."""
    for hook in write.configs:
        _put(connection, task, hook, _sealed(hook, write.task_id, sealing), late=False)
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


def _sealed(hook: PushConfig, task_id: str, sealing: ContentSealing) -> bytes:
    return sealing.seal(hook.config.SerializeToString(), config_place(task_id, hook.config.id))


def _put(connection: sqlite3.Connection, task: int, hook: PushConfig, wire: bytes, *, late: bool) -> None:
    """`late`: whether no event comes along. A finished task then has nothing to send."""
    config, schemes = hook.config, json.dumps(list(hook.schemes))
    row = config.id, wire, hook.version, schemes, site_of(config.url), late, task
    connection.execute(_SQL["put"], row)


def config_of(task_id: str, config_id: str, wire: bytes, sealing: ContentSealing) -> pb.TaskPushNotificationConfig:
    if sealing is not UNSEALED:
        wire = sealing.open(wire, config_place(task_id, config_id))
    return pb.TaskPushNotificationConfig.FromString(wire)


def _hook_of(task_id: str, row: Sequence[Any], sealing: ContentSealing) -> PushConfig:
    config_id, wire, version, schemes = row
    return PushConfig(config_of(task_id, config_id, wire, sealing), version, tuple(json.loads(schemes)))


def put_config(connection: sqlite3.Connection, scope: Scope, hook: PushConfig, sealing: ContentSealing) -> bool:
    task = task_key(connection, scope, hook.config.task_id)
    if task is not None:
        with holdings.measured(connection, task):
            _put(connection, task, hook, _sealed(hook, hook.config.task_id, sealing), late=True)
    return task is not None


def get_config(
    connection: sqlite3.Connection, scope: Scope, task_id: str, config_id: str, sealing: ContentSealing
) -> PushConfig | None:
    row = connection.execute(_SQL["get"], (config_id, task_id, scope.tenant, scope.owner)).fetchone()
    return _hook_of(task_id, row, sealing) if row else None


def configs(  # noqa: PLR0913 - the call's
    connection: sqlite3.Connection, scope: Scope, task_id: str, after: str, limit: int, *, sealing: ContentSealing
) -> Sequence[PushConfig] | None:
    task = task_key(connection, scope, task_id)
    if task is None:
        return None
    return [_hook_of(task_id, row, sealing) for row in connection.execute(_SQL["configs"], (task, after, limit))]


def count_configs(connection: sqlite3.Connection, owner: str, host: str | None, limit: int) -> int:
    asked = (owner, limit) if host is None else (owner, host, limit)
    return int(connection.execute(_SQL["count_all" if host is None else "count"], asked).fetchone()[0])


def count_hosts(connection: sqlite3.Connection, owner: str, limit: int) -> int:
    return int(connection.execute(_SQL["count_hosts"], {"owner": owner, "limit": limit}).fetchone()[0])


def delete_config(connection: sqlite3.Connection, scope: Scope, task_id: str, config_id: str) -> bool:
    task = task_key(connection, scope, task_id)
    if task is not None:
        with holdings.measured(connection, task):
            connection.execute(_SQL["forgive"], (task, config_id))
            connection.execute(_SQL["delete"], (task, config_id))
    return task is not None


MOST_AT_ONCE = 32
"""Most deliveries claimed in one transaction, because its statements run on the event loop."""
_LANES_AT_ONCE = 256
"""Most lanes looked at in one transaction, for the same reason. A lane is one owner's deliveries to one host."""
_LAST_HOST = "\x7f"
"""Comes after every host."""

_EVER = -(2**63)


class ClaimRound(NamedTuple):
    """How far a claim has come on its way through all lanes."""

    place: tuple[str, str]
    """The owner and host that were looked at last. The next lane in alphabetical order follows."""
    stop: tuple[str, str]
    """The lane where the round began. The round ends there."""
    turned: bool = False
    due_ms: int = 0
    """When that lane's first delivery is due."""
    stays: bool = False
    """Whether that lane may have more due deliveries."""
    over: bool = False


def next_due(connection: sqlite3.Connection) -> int | None:
    row = connection.execute(_SQL["next"]).fetchone()
    return None if row[0] is None else int(row[0])


def unclaim(connection: sqlite3.Connection) -> None:
    connection.execute(_SQL["unclaim"], (_EVER,))
    connection.execute(_SQL["set_back"], {"now_ms": time.time_ns() // 1_000_000})


def claim(
    connection: sqlite3.Connection, order: ClaimOrder, at: ClaimRound, sealing: ContentSealing
) -> tuple[list[Delivery], ClaimRound]:
    """Claim deliveries of the next lanes. Returns them, and how far the round has come."""
    deliveries: list[Delivery] = []
    room = min(order.limit, MOST_AT_ONCE)
    for _ in range(_LANES_AT_ONCE):
        if len(deliveries) >= room:
            break
        at = _next(connection, at)
        if at.over:
            break
        if at.due_ms > order.now_ms:
            continue
        if not order.limits.room(at.place[0]):
            at = at._replace(place=(at.place[0], _LAST_HOST))  # none of this owner's lanes may be claimed from
            continue
        most = order.limits.room(*at.place)
        wanted = min(most, room - len(deliveries))
        if wanted > 0:
            found = list(_claim_of(connection, order, at.place, wanted, sealing))
            at = at._replace(stays=len(found) == wanted < most)
            deliveries += found
    return deliveries, at


def _next(connection: sqlite3.Connection, at: ClaimRound) -> ClaimRound:
    if at.stays:
        return at._replace(stays=False)
    row = connection.execute(_SQL["next_lane"], at.place).fetchone()
    if row is None:
        return at._replace(over=True) if at.turned else _next(connection, ClaimRound(("", ""), at.stop, turned=True))
    lane, due_ms = row[:2], row[2]
    return at._replace(over=True) if at.turned and lane > at.stop else at._replace(place=lane, due_ms=due_ms)


def _claim_of(
    connection: sqlite3.Connection, order: ClaimOrder, lane: tuple[str, str], limit: int, sealing: ContentSealing
) -> Iterator[Delivery]:
    rows = connection.execute(_SQL["claimable"], (*lane, order.now_ms, limit)).fetchall()
    marks = [{"config": row[0], "until_ms": order.until_ms, "now_ms": order.now_ms} for row in rows]
    connection.executemany(_SQL["claim"], marks)
    for key, *kept, attempts, rejections, failing_ms, task_id, tenant, owner, number, parent, state in rows:
        try:
            hook = _hook_of(task_id, kept, sealing)
        except StoreDamaged as error:  # parked, so that it holds up no other
            log.error("store.damaged", why=str(error))  # noqa: TRY400 - a traceback adds nothing
            park = FailedAttempt(order.now_ms, None, "damaged in the store")
            connection.execute(_SQL["put_off"], {**park._asdict(), "config": key})
            continue
        trace = None if parent is None else Trace(parent, state)
        order.limits.take(*lane)
        failed = attempts, order.until_ms, lane[1], failing_ms
        yield Delivery(Scope(tenant, owner), task_id, number, hook, *failed, trace, rejections)


def settle(connection: sqlite3.Connection, delivery: Delivery, failure: FailedAttempt | None) -> bool:
    row = connection.execute(_SQL["claimed"], (delivery.task_id, delivery.hook.config.id, delivery.until_ms)).fetchone()
    if row is None or row[1] != delivery.number:
        return False
    config = row[0]
    if failure is not None and not failure.skips:
        connection.execute(_SQL["put_off"], {**failure._asdict(), "config": config})
        return True
    connection.execute(_SQL["pay"], (config, delivery.number))
    skipped, why = failure is not None, failure.why if failure else ""
    connection.execute(_SQL["paid"], {"config": config, "skipped": skipped, "why": why})
    connection.execute(_SQL["finish"], (config,))
    return True
