"""Removes what is old, or somebody's, for the command line: beside a server, or alone (spec: KEPT-02, SECR-07).

1. What is to go is listed and counted. Nothing is locked while somebody is asked.
2. What is old goes as a server's own sweep removes it. What was chosen goes in transactions of a few tasks each.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from a2a_server.adapters.postgres import api_keys
from a2a_server.adapters.postgres.administration import blocking, connected, visit
from a2a_server.adapters.postgres.database import Database, DatabaseOptions
from a2a_server.adapters.postgres.schema import keys_used, queries
from a2a_server.adapters.postgres.sweeping import OldTask, Sweep
from a2a_server.domain.scope import Scope
from a2a_server.ports.retention import Chosen, Deadlines, Holdings, Removed
from a2a_server.ports.sealing import UNSEALED, ContentSealing
from a2a_server.ports.store import StoreRefused

if TYPE_CHECKING:
    from a2a_server.adapters.postgres.database import Connection, Rows

_SQL = queries("kept.sql")
_AT_ONCE: Final = 64
_NEVER: Final = -(2**63)

Agree = Callable[[Removed, int], bool]
Tell = Callable[[Removed], None]


class PostgresKeptAdmin:
    def __init__(self, options: DatabaseOptions, sealing: ContentSealing = UNSEALED) -> None:
        self._options = replace(options, connections=2)
        self._sealing = sealing

    def remove(self, wanted: Chosen | Deadlines, agree: Agree, tell: Tell) -> Removed:
        with blocking(self._options) as run:
            return run(self._remove(wanted, agree, tell))

    async def _remove(self, wanted: Chosen | Deadlines, agree: Agree, tell: Tell) -> Removed:
        async with connected(self._options) as connection:
            used = await keys_used(connection)
        removed = Removed()
        async with self._opened() as database:
            if isinstance(wanted, Deadlines):  # what is chosen goes unread
                self._sealing.begin(used)
                plan = await _old(database, wanted)
            else:
                plan = await _chosen(database, wanted)
            if not agree(plan.counts, plan.busy):
                return removed
            async for step in _removing(database, plan, wanted, self._sealing):
                removed = removed.plus(step)
                tell(removed)
        return removed

    def usage(self, owner: str | None, limit: int) -> Sequence[tuple[Scope, Holdings]]:
        rows = visit(self._options, lambda connection: connection.fetch(_SQL["usage"], owner, limit))
        return [(Scope(tenant, name), Holdings(tasks, size)) for tenant, name, tasks, size in rows]

    def rebuild(self) -> None:
        raise StoreRefused("a PostgreSQL database has no file to rebuild; VACUUM FULL does so, table by table")

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Database]:
        database = Database(self._options)
        await database.open()
        try:
            yield database
        finally:
            await database.close()


@dataclass(slots=True)
class _Plan:
    """What is to go."""

    tasks: Sequence[OldTask] = ()
    busy: int = 0
    """How many tasks stay because a living session works on them."""
    receipts: Rows = ()
    values: Rows = ()
    keys: Sequence[str] = ()
    counts: Removed = field(default_factory=Removed)


def _columns(rows: Sequence[Any], width: int) -> Sequence[Sequence[object]]:
    return [*zip(*rows, strict=True)] if rows else [()] * width


async def _old(database: Database, deadlines: Deadlines) -> _Plan:
    tasks: list[OldTask] = []
    if deadlines.tasks is not None:
        rows = await database.fetch(_SQL["old_tasks"], deadlines.tasks)
        tasks = [OldTask(slot, task, number) for slot, task, number, _ in rows]
    counts = await _counted(database, tasks)
    gone = _columns([old[:2] for old in tasks], 2)
    if deadlines.events is not None:
        kept_from = _NEVER if deadlines.tasks is None else deadlines.tasks
        ((events,),) = await database.fetch(_SQL["old_logs"], deadlines.events, kept_from)
        counts = counts.plus(Removed(events=events))
    if deadlines.webhooks is not None:
        ((configs, webhooks),) = await database.fetch(_SQL["old_configs"], deadlines.webhooks, *gone)
        counts = counts.plus(Removed(configs=configs, webhooks=webhooks))
    if deadlines.receipts is not None:
        ((receipts,),) = await database.fetch(_SQL["old_receipts"], deadlines.receipts, *gone)
        counts = counts.plus(Removed(receipts=receipts))
    if deadlines.contexts is not None:
        ((values,),) = await database.fetch(_SQL["old_values"], deadlines.contexts, *gone)
        counts = counts.plus(Removed(context_values=values))
    return _Plan(tasks, counts=counts)


async def _counted(database: Database, tasks: Sequence[OldTask]) -> Removed:
    ((events, configs, webhooks, receipts),) = await database.fetch(
        _SQL["theirs"], *_columns([old[:2] for old in tasks], 2)
    )
    return Removed(len(tasks), events, configs, webhooks, receipts)


async def _chosen(database: Database, chosen: Chosen) -> _Plan:
    owner, tenant, task, context = chosen
    rows = await database.fetch(_SQL["chosen_tasks"], owner, tenant, task, context)
    tasks = [OldTask(slot, task_id, number) for slot, task_id, number, live in rows if not live]
    live = [(slot, task_id) for slot, task_id, _, live in rows if live]
    plan = _Plan(tasks, len(live), counts=await _counted(database, tasks))
    everything = _columns([(slot, task_id) for slot, task_id, _, _ in rows], 2)
    if task is None:
        plan.values = await database.fetch(_SQL["chosen_values"], owner, tenant, context, *_columns(live, 2))
    if chosen.whole:
        plan.receipts = await database.fetch(_SQL["chosen_receipts"], owner, tenant, *everything)
        plan.keys = [row["id"] for row in await database.fetch(_SQL["chosen_keys"], owner, tenant)]
    more = Removed(receipts=len(plan.receipts), context_values=len(plan.values), keys=len(plan.keys))
    plan.counts = plan.counts.plus(more)
    return plan


async def _removing(
    database: Database, plan: _Plan, wanted: Chosen | Deadlines, sealing: ContentSealing
) -> AsyncIterator[Removed]:
    """Remove what was listed. Yields how much is gone with each step."""
    sweep = Sweep(database, 0, sealing)
    if isinstance(wanted, Deadlines):
        while (step := await sweep.step(wanted)) is not None:
            yield step
        return
    for few in _few(plan.tasks):
        yield await sweep.take(few)
    while (step := await sweep.leftover()) is not None:
        yield step
    for rows in _batches(plan.receipts):
        yield Removed(receipts=len(await database.fetch(_SQL["drop_receipts"], *_columns(rows, 3))))
    for rows in _batches(plan.values):
        yield Removed(context_values=len(await database.fetch(_SQL["drop_values"], *_columns(rows, 4))))
    for key_id in plan.keys:
        yield Removed(keys=await database.transaction(partial(_empty_key, key_id)))
    if wanted.whole:
        await database.fetch(_SQL["drop_totals"], wanted.owner, wanted.tenant)


def _batches(rows: Rows) -> Iterator[Rows]:
    return (rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE))


def _few(tasks: Sequence[OldTask]) -> Sequence[Sequence[OldTask]]:
    """Tasks of one slot each, as many as may go in one transaction."""
    groups: list[list[OldTask]] = []
    for old in tasks:
        if not groups or groups[-1][0].slot != old.slot or len(groups[-1]) == _AT_ONCE:
            groups.append([])
        groups[-1].append(old)
    return groups


async def _empty_key(key_id: str, connection: Connection) -> int:
    """Revoke it, which servers notice, and forget whose it was."""
    await connection.execute(api_keys.SQL["alone"])
    return len(await connection.fetch(_SQL["empty_key"], key_id, time.time_ns() // 1_000_000))
