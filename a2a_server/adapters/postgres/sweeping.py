"""Removing tasks, logs and what else is old, a little at a time (spec: KEPT-01, CTX-13).

A round goes through the stages. Each step looks for a few things that are old, and removes them in one transaction that
looks at each of them again. What is too large for that vanishes at once, and its rows go in the steps that follow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

import structlog

from a2a_server.adapters.postgres.database import Database
from a2a_server.adapters.postgres.schema import queries
from a2a_server.adapters.postgres.tasks import Shelf, whole
from a2a_server.ports.records import ARTIFACT
from a2a_server.ports.retention import Deadlines, Removed
from a2a_server.ports.sealing import ContentSealing, artifacts_place
from a2a_server.ports.store import StoreDamaged

if TYPE_CHECKING:
    from a2a_server.adapters.postgres.database import Connection

_SQL = queries("sweeping.sql")
log = structlog.get_logger(__name__)
_SHELVES = queries("lists.sql")["shelves"]

_FIRST: Final = -(2**63)
_LOOKED_AT: Final = 256
_AT_ONCE: Final = 64
_ROWS: Final = 1_000
_MARGIN_MS: Final = 60_000
_NO_SCOPE: Final = UUID(int=0)


class Lane(NamedTuple):
    """The tasks of one state in one scope, in the order in which they were finished."""

    slot: int = 0
    scope: UUID = _NO_SCOPE
    state: int = 0


class OldTask(NamedTuple):
    slot: int
    task: str
    number: int


class _Limits(NamedTuple):
    """Which of the tasks may go."""

    before_ms: int = _FIRST
    owed: bool = False
    chosen: bool = False


class Walk:
    """Goes through the finished tasks of all lanes, the oldest of each first."""

    def __init__(self, *, logs: bool) -> None:
        self._logs = logs
        self._from_ms = _FIRST
        """Tasks that were finished before have no logs any more."""
        self._lane = Lane()
        self._after: tuple[int, str] | None = None
        self.found: Sequence[OldTask] = ()

    async def look(self, database: Database, before_ms: int, *, owed: bool) -> bool:
        """Find the next old tasks; there may be none here. False at the end."""
        if self._after is None:
            row = await database.first(_SQL["next_lane"], *self._lane)
            if row is None:
                await self._end(database, before_ms)
                return False
            self._lane, self._after = Lane(*row), (self._from_ms, "")
        values = *self._lane, *self._after, before_ms, _LOOKED_AT, owed, not self._logs
        rows = await database.fetch(_SQL["finished"], *values)
        self.found = [OldTask(self._lane.slot, task, number) for task, _, number, ready in rows if ready]
        self._after = (rows[-1]["status_ms"], rows[-1]["task"]) if len(rows) == _LOOKED_AT else None
        return True

    async def _end(self, database: Database, before_ms: int) -> None:
        if self._logs:
            (owing_ms,) = (await database.fetch(_SQL["first_owing"]))[0]
            self._from_ms = min(before_ms, before_ms if owing_ms is None else owing_ms) - _MARGIN_MS
        self._lane, self._after = Lane(), None

    def next_few(self) -> list[OldTask]:
        """Tasks of one lane, as many as may go in one transaction."""
        few: list[OldTask] = []
        room = _ROWS
        for old in self.found[:_AT_ONCE]:
            room -= old.number
            if few and room < 0:
                break
            few.append(old)
        self.found = self.found[len(few) :]
        return few


Stage = Callable[[Deadlines], Awaitable[Removed | None]]
"""One step of a stage; None when there is nothing more."""


class Sweep:
    """One round after the other. `part` is the part of the totals that is changed."""

    def __init__(self, database: Database, part: int, sealing: ContentSealing) -> None:
        self._database = database
        self._part = part
        self._sealing = sealing
        self._tasks, self._logs = Walk(logs=False), Walk(logs=True)
        self._context: tuple[object, ...] = ()
        """The value that was looked at last."""
        self._stages: Sequence[Stage] = (
            lambda _: self.leftover(),
            self._old_tasks,
            lambda _: self.leftover(),
            self._old_logs,
            self._parked,
            self._receipts,
            self._contexts,
        )
        self._stage = 0

    async def step(self, deadlines: Deadlines) -> Removed | None:
        if self._stage == len(self._stages):
            self._stage = 0
            return None
        removed = await self._stages[self._stage](deadlines)
        if removed is None:
            self._stage += 1
        return removed or Removed()

    async def leftover(self) -> Removed | None:
        """Remove a part of what is left of a task that was large. None when nothing is left of any."""
        row = await self._database.first(_SQL["leftover"])
        if row is None:
            return None
        ((events, webhooks),) = await self._database.fetch(_SQL["cut"], *row, _ROWS)
        if not events and not webhooks:
            await self._database.fetch(_SQL["nothing_left"], *row)
        return Removed(events=events, webhooks=webhooks)

    async def _old_tasks(self, deadlines: Deadlines) -> Removed | None:
        walk, before_ms = self._tasks, deadlines.tasks
        if before_ms is None:
            return None
        if not walk.found:
            return Removed() if await walk.look(self._database, before_ms, owed=deadlines.owed) else None
        return await self._take(walk.next_few(), _Limits(before_ms, owed=deadlines.owed))

    async def take(self, few: Sequence[OldTask]) -> Removed:
        """Remove tasks of one slot, however young. Those with turns of a living session stay."""
        return await self._take(few, _Limits(chosen=True))

    async def _take(self, few: Sequence[OldTask], limits: _Limits) -> Removed:
        names = [old.task for old in few]
        values = limits.before_ms, limits.owed, self._part, _ROWS, limits.chosen
        row = (await self._database.fetch(_SQL["take_away"], few[0].slot, names, *values))[0]
        return Removed(**dict(row))

    async def _old_logs(self, deadlines: Deadlines) -> Removed | None:
        walk, before_ms = self._logs, deadlines.events
        if before_ms is None:
            return None
        if not walk.found:
            return Removed() if await walk.look(self._database, before_ms, owed=True) else None
        old = walk.found[0]
        try:
            events = await self._database.transaction(partial(self._cut_log, old))
        except StoreDamaged as error:  # it stays, and others go
            log.error("store.damaged", during="retention", why=str(error))  # noqa: TRY400 - a traceback adds nothing
            events = 0
        if events < _ROWS:
            walk.found = walk.found[1:]
        return Removed(events=events)

    async def _parked(self, deadlines: Deadlines) -> Removed | None:
        if deadlines.webhooks is None:
            return None
        ((configs, webhooks),) = await self._database.fetch(_SQL["parked"], deadlines.webhooks, _AT_ONCE, self._part)
        return Removed(configs=configs, webhooks=webhooks) if configs else None

    async def _receipts(self, deadlines: Deadlines) -> Removed | None:
        if deadlines.receipts is None:
            return None
        gone = len(await self._database.fetch(_SQL["expired"], deadlines.receipts, _AT_ONCE))
        return Removed(receipts=gone) if gone else None

    async def _contexts(self, deadlines: Deadlines) -> Removed | None:
        before_ms, after = deadlines.contexts, self._context or (_FIRST, 0, _NO_SCOPE, "", b"")
        rows = []
        if before_ms is not None:
            rows = list(await self._database.fetch(_SQL["unchanged"], *after, before_ms, _AT_ONCE))
        if not rows:
            self._context = ()
            return None
        self._context = tuple(rows[-1])
        _, *columns = zip(*rows, strict=True)
        ((gone,),) = await self._database.fetch(_SQL["forget_values"], *columns, before_ms, self._part)
        return Removed(context_values=gone)

    async def _cut_log(self, old: OldTask, connection: Connection) -> int:
        """Remove the first entries of a log, after the artifacts were stored whole. Returns how many."""
        place = old.slot, old.task
        row = await connection.fetchrow(_SQL["hold_log"], *place)
        if row is None:
            return 0
        if row["shelved"] < row["number"]:
            await self._shelve(old, row["number"], connection)
        if row["log_bytes"]:  # these are the first entries
            await connection.execute(_SQL["without_log"], *place, self._part)
        return len(await connection.fetch(_SQL["cut_log"], *place, _ROWS))

    async def _shelve(self, old: OldTask, number: int, connection: Connection) -> None:
        ((_, *shelf),) = await connection.fetch(_SHELVES, old.slot, [old.task], ARTIFACT)
        artifacts = whole(old.task, b"", Shelf(*shelf), self._sealing).SerializeToString()
        sealed = self._sealing.seal(artifacts, artifacts_place(old.task))
        await connection.execute(_SQL["shelve"], old.slot, old.task, number, sealed)
