"""Push configs and their deliveries: queued by writes, claimed by owner and host (spec: PAID-01, PAID-02)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.postgres import holdings
from a2a_server.adapters.postgres.database import Database
from a2a_server.adapters.postgres.schema import queries
from a2a_server.domain.scope import Scope
from a2a_server.domain.slots import place_of
from a2a_server.domain.trace import Trace
from a2a_server.domain.webhooks import site_of
from a2a_server.ports.push import ClaimLimits, ClaimOrder, Delivery, FailedAttempt, PushConfig
from a2a_server.ports.records import Write
from a2a_server.ports.sealing import ContentSealing, config_place
from a2a_server.ports.store import StoreDamaged

if TYPE_CHECKING:
    import asyncpg

    from a2a_server.adapters.postgres.database import Connection, Rows

_SQL = queries("push.sql")
log = structlog.get_logger(__name__)

_LANES_AT_ONCE: Final = 64
"""Lanes that are looked at in one statement. A lane is one owner's deliveries to one host."""
_NOWHERE: Final = ("", "")


class Put(NamedTuple):
    """A config that is to be stored."""

    scope: Scope
    task_id: str
    hook: PushConfig
    late: bool
    """Whether no event comes along. A finished task then has nothing to send."""

    async def do(self, connection: Connection, sealing: ContentSealing) -> int | None:
        """Store it. Returns how much longer it has become; None if there is no such task."""
        config, (slot, key) = self.hook.config, place_of(self.scope)
        wire = sealing.seal(config.SerializeToString(), config_place(self.task_id, config.id))
        said = self.hook.version, list(self.hook.schemes), wire, self.late
        values = slot, self.task_id, key, config.id, site_of(config.url), *said
        grown: int | None = await connection.fetchval(_SQL["put"], *values)
        return grown


async def put_with_write(connection: Connection, write: Write, sealing: ContentSealing) -> int:
    """Store the configs of a write. Returns how much longer they have become."""
    puts = [Put(write.scope, write.task_id, hook, late=False) for hook in write.configs]
    return sum([await put.do(connection, sealing) or 0 for put in puts])


async def put_config(database: Database, scope: Scope, hook: PushConfig, part: int, sealing: ContentSealing) -> bool:
    put = Put(scope, hook.config.task_id, hook, late=True)

    async def work(connection: Connection) -> bool:
        grown = await put.do(connection, sealing)
        if grown is not None:
            await holdings.grow(connection, (place_of(scope).slot, put.task_id), part, grown)
        return grown is not None

    return await database.transaction(work)


def config_of(task_id: str, config_id: str, wire: bytes, sealing: ContentSealing) -> pb.TaskPushNotificationConfig:
    return pb.TaskPushNotificationConfig.FromString(sealing.open(wire, config_place(task_id, config_id)))


def _hook_of(task_id: str, row: Sequence[Any], sealing: ContentSealing) -> PushConfig:
    config_id, wire, version, schemes = row
    return PushConfig(config_of(task_id, config_id, wire, sealing), version, tuple(schemes))


async def get_config(
    database: Database, scope: Scope, task_id: str, config_id: str, sealing: ContentSealing
) -> PushConfig | None:
    slot, key = place_of(scope)
    row = await database.first(_SQL["get"], slot, task_id, key, config_id)
    return _hook_of(task_id, tuple(row), sealing) if row else None


async def configs(  # noqa: PLR0913 - the call's
    database: Database, scope: Scope, task_id: str, after: str, limit: int, *, sealing: ContentSealing
) -> Sequence[PushConfig] | None:
    if not await _has_task(database, scope, task_id):
        return None
    rows = await database.fetch(_SQL["configs"], place_of(scope).slot, task_id, after, limit)
    return [_hook_of(task_id, tuple(row), sealing) for row in rows]


async def _has_task(database: Database, scope: Scope, task_id: str) -> bool:
    slot, key = place_of(scope)
    return bool(await database.fetch(_SQL["task"], slot, task_id, key))


async def count_configs(database: Database, owner: str, host: str | None, limit: int) -> int:
    if host is None:
        return int((await database.fetch(_SQL["count_all"], owner, limit))[0][0])
    return int((await database.fetch(_SQL["count"], owner, host, limit))[0][0])


async def hosts(database: Database, owner: str, limit: int) -> Sequence[str]:
    return [row["host"] for row in await database.fetch(_SQL["hosts"], owner, limit)]


async def delete_config(database: Database, scope: Scope, task_id: str, config_id: str, part: int) -> bool:
    if not await _has_task(database, scope, task_id):
        return False
    slot, key = place_of(scope)
    await database.fetch(_SQL["delete"], slot, task_id, config_id, key, part)
    return True


async def next_due(database: Database) -> int | None:
    found: int | None = (await database.fetch(_SQL["next"]))[0][0]
    return found


async def set_back(connection: Connection, now_ms: int) -> None:
    await connection.execute(_SQL["set_back"], now_ms)


class Wanted(NamedTuple):
    """How many deliveries a claim takes of a lane."""

    owner: str
    host: str
    most: int


class LaneRound:
    """Claims go around all lanes. Each begins after the lane where the one before ended."""

    def __init__(self, database: Database, sealing: ContentSealing) -> None:
        self._database = database
        self._sealing = sealing
        self._last = _NOWHERE

    async def claim(self, order: ClaimOrder) -> Sequence[Delivery]:
        deliveries: list[Delivery] = []
        limit = order.limit
        stop, place, turned = self._last, self._last, False
        while limit > 0:
            found = await self._database.fetch(_SQL["lanes"], *place, order.now_ms, limit, _LANES_AT_ONCE)
            lanes = [lane for lane in found if not turned or (lane["owner"], lane["host"]) <= stop]
            wanted, looked_at = _share(lanes, order.limits, limit)
            if wanted:
                deliveries += await self._take(wanted, order)
            limit -= sum(want.most for want in wanted)
            if looked_at:
                place = self._last = lanes[looked_at - 1]["owner"], lanes[looked_at - 1]["host"]
            if limit > 0 and len(lanes) < _LANES_AT_ONCE:
                if turned:
                    break
                place, turned = _NOWHERE, True
        return deliveries

    async def _take(self, wanted: Sequence[Wanted], order: ClaimOrder) -> Sequence[Delivery]:
        rows = await self._database.fetch(_SQL["claim"], *zip(*wanted, strict=True), order.now_ms, order.until_ms)
        deliveries = []
        for row in sorted(rows, key=itemgetter("turn", "since")):
            try:
                deliveries.append(_delivery(row, order.until_ms, self._sealing))
            except StoreDamaged as error:  # parked, so that it holds up no other
                log.error("store.damaged", why=str(error))  # noqa: TRY400 - a traceback adds nothing
                config = place_of(Scope(row["tenant"], row["owner"])).slot, row["task"], row["id"], order.until_ms
                park = FailedAttempt(order.now_ms, None, "damaged in the store")
                await _put_off(self._database, config, park)
        return deliveries


def _share(lanes: Rows, limits: ClaimLimits, limit: int) -> tuple[Sequence[Wanted], int]:
    """What to take of which lanes, and how many lanes were looked at."""
    wanted: list[Wanted] = []
    for number, (owner, host, due) in enumerate(lanes):
        if limit == 0:
            return wanted, number
        most = min(due, limit, limits.room(owner, host)) if due and limits.room(owner) else 0
        for _ in range(most):
            limits.take(owner, host)
        if most > 0:
            wanted.append(Wanted(owner, host, most))
            limit -= most
    return wanted, len(lanes)


def _delivery(row: asyncpg.Record, until_ms: int, sealing: ContentSealing) -> Delivery:
    _, _, tenant, owner, task_id, number, *kept, attempts, host, failing_ms, parent, state, rejections = row
    trace = None if parent is None else Trace(parent, state)
    hook, place = _hook_of(task_id, kept, sealing), (Scope(tenant, owner), task_id, number)
    return Delivery(*place, hook, attempts, until_ms, host, failing_ms, trace, rejections)


async def settle(database: Database, delivery: Delivery, failure: FailedAttempt | None) -> bool:
    config = place_of(delivery.scope).slot, delivery.task_id, delivery.hook.config.id, delivery.until_ms
    if failure is not None and not failure.skips:
        return await _put_off(database, config, failure)
    skipped, why = int(failure is not None), failure.why if failure else ""
    return bool(await database.fetch(_SQL["paid"], *config, delivery.number, skipped, why))


async def _put_off(database: Database, config: tuple[int, str, str, int], failure: FailedAttempt) -> bool:
    said = failure.now_ms, failure.retry_ms, int(failure.tried), int(failure.rejected), failure.why
    return bool(await database.fetch(_SQL["put_off"], *config, *said))
