"""Removing tasks, logs and what else is old, a little at a time (spec: KEPT-01, KEPT-02, CTX-13).

1. `find` looks for a few things that are old, in the thread that reads.
2. `remove` looks at each of them again and removes it, in a transaction of about a millisecond.
3. What is too large for that is removed in several transactions. The first one hides the task from everybody.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final, NamedTuple

import structlog

from a2a_server.adapters.sqlite import holdings
from a2a_server.adapters.sqlite.schema import queries
from a2a_server.adapters.sqlite.tasks import whole
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.ports.retention import Deadlines, Removed
from a2a_server.ports.sealing import ContentSealing, artifacts_place
from a2a_server.ports.store import StoreDamaged

_SQL = queries("sweeping.sql")
log = structlog.get_logger(__name__)

_FIRST: Final = -(2**63)
_LOOKED_AT: Final = 256
_AT_ONCE: Final = 64
_MOMENT: Final = 0.001
"""Seconds after which no further thing is removed in the same transaction, because it runs on the event loop."""
_HEAVY: Final = 256 * 1024
"""What weighs more is removed in the thread."""
_ROWS, _BYTES = 1_000, 2**20
"""How much of a heavy task is removed in one transaction."""
_MARGIN_MS: Final = 60_000
_INCREMENTAL: Final = 2
_PAGES: Final = 64
"""Pages that are given back in one transaction."""

HIDDEN, TASKS, LOGS, PARKED, RECEIPTS, CONTEXTS, _END = range(7)

OldThing = tuple[int] | tuple[int, str]
"""The key of something that is old, in the table of its stage."""


class SweepPlace(NamedTuple):
    """How far a round has come."""

    stage: int = HIDDEN
    lane: tuple[int, int] = 0, 0
    """The scope and the state whose tasks were looked at last."""
    after: tuple[int, str | int] | None = None
    """The last thing that was looked at; None at the end of a lane."""
    logs_from: int = _FIRST
    """Tasks that were finished before have no logs any more. Kept from round to round."""


class Found(NamedTuple):
    """Old things of one stage, and where to look for more."""

    things: Sequence[OldThing] = ()
    stage: int = HIDDEN
    then: SweepPlace = SweepPlace()

    @property
    def over(self) -> bool:
        return self.then.stage == _END and not self.things

    def again(self) -> Found:
        """The beginning of the next round."""
        return Found(then=SweepPlace(logs_from=self.then.logs_from))


class SweepStep(NamedTuple):
    """What a transaction has done."""

    removed: Removed
    done: int = 0
    """How many things are gone, or are to stay."""
    heavy: bool = False
    """Whether the next thing is to be removed in the thread."""


def find(connection: sqlite3.Connection, deadlines: Deadlines, at: SweepPlace) -> Found:
    """The next things that are old; there may be none here, and more further on."""
    if at.stage == TASKS and deadlines.tasks is not None:
        return _finished(connection, at, deadlines.tasks, owed=deadlines.owed)
    if at.stage == LOGS and deadlines.events is not None:
        return _finished(connection, at, deadlines.events, owed=True)
    if at.stage == CONTEXTS and deadlines.contexts is not None:
        after = at.after or (_FIRST, _FIRST)
        rows = connection.execute(_SQL["unchanged"], (*after, deadlines.contexts, _AT_ONCE)).fetchall()
        then = at._replace(after=(rows[-1][1], rows[-1][0])) if rows else _next(at)
        return Found([(key,) for key, _ in rows], at.stage, then)
    return _vanishing(connection, at, deadlines)


def _next(at: SweepPlace) -> SweepPlace:
    return SweepPlace(at.stage + 1, logs_from=at.logs_from)


def _vanishing(connection: sqlite3.Connection, at: SweepPlace, deadlines: Deadlines) -> Found:
    """Things of which none stays, so that the first are always the next."""
    query, before_ms = {
        HIDDEN: ("removing", _FIRST),
        PARKED: ("parked", deadlines.webhooks),
        RECEIPTS: ("expired", deadlines.receipts),
    }.get(at.stage, ("", None))
    if before_ms is None:
        return Found(then=_next(at))
    values = (_AT_ONCE,) if at.stage == HIDDEN else (before_ms, _AT_ONCE)
    things = connection.execute(_SQL[query], values).fetchall()
    return Found(things, at.stage, at if things else _next(at))


def _finished(connection: sqlite3.Connection, at: SweepPlace, before_ms: int, *, owed: bool) -> Found:
    """Tasks of the next lanes that are to go, or whose logs are. As many are looked at as take about a millisecond."""
    logs, room, things = at.stage == LOGS, _LOOKED_AT, list[OldThing]()
    while room > 0:
        if at.after is None:
            lane = connection.execute(_SQL["next_lane"], at.lane).fetchone()
            if lane is None:
                then = _next(at)
                return Found(things, at.stage, _without_logs(connection, then, before_ms) if logs else then)
            at = at._replace(lane=lane, after=(at.logs_from if logs else _FIRST, ""))
        scope, state = at.lane
        after_ms, after_id = at.after or (_FIRST, "")
        asked = {"scope": scope, "state": state, "after_ms": after_ms, "after_id": after_id, "before_ms": before_ms}
        more = {"owed": owed, "whole": not logs, "limit": room}
        rows = connection.execute(_SQL["finished"], {**asked, **more}).fetchall()
        things += [(row[0],) for row in rows if row[3]]
        at = at._replace(after=rows[-1][1:3] if len(rows) == room else None)
        room -= len(rows) + 1
    return Found(things, at.stage, at)


def _without_logs(connection: sqlite3.Connection, then: SweepPlace, before_ms: int) -> SweepPlace:
    """The next round need not look again at tasks whose logs are gone."""
    (owing_ms,) = connection.execute(_SQL["first_owing"]).fetchone()
    return then._replace(logs_from=min(before_ms, before_ms if owing_ms is None else owing_ms) - _MARGIN_MS)


def remove(
    connection: sqlite3.Connection, found: Found, deadlines: Deadlines, sealing: ContentSealing, *, heavy: bool = False
) -> SweepStep:
    """Remove what is still to go. With `heavy` only the first, or a part of it."""
    removed, end = Removed(), time.perf_counter() + _MOMENT
    for done, thing in enumerate(found.things):
        if done and (heavy or time.perf_counter() > end):
            return SweepStep(removed, done)
        if not heavy and found.stage <= LOGS and _weight(connection, thing[0]) > _HEAVY:
            return SweepStep(removed, done, heavy=not done)
        try:
            gone, finished = remove_one(connection, found.stage, thing, deadlines, sealing)
        except StoreDamaged as error:  # it stays, and others go
            log.error("store.damaged", during="retention", why=str(error))  # noqa: TRY400 - a traceback adds nothing
            gone, finished = Removed(), True
        removed = removed.plus(gone)
        if not finished:
            return SweepStep(removed, done)
    return SweepStep(removed, len(found.things))


def _weight(connection: sqlite3.Connection, task: int) -> float:
    return float(connection.execute(_SQL["weight"], {"task": task}).fetchone()[0])


def remove_one(
    connection: sqlite3.Connection, stage: int, thing: OldThing, deadlines: Deadlines, sealing: ContentSealing
) -> tuple[Removed, bool]:
    """Remove one thing. Returns how much is gone, and whether all is."""
    if stage == PARKED:
        return _config(connection, thing[0], deadlines.webhooks)
    if stage == RECEIPTS:
        return Removed(receipts=connection.execute(_SQL["forget_receipt"], (*thing, deadlines.receipts)).rowcount), True
    if stage == CONTEXTS:
        return Removed(context_values=_forget_value(connection, thing[0], deadlines.contexts)), True
    row = _known(connection, thing[0])
    if row is None or (row.scope and not row.over(deadlines, logs=stage == LOGS)):
        return Removed(), True
    if stage == LOGS and row.scope:
        with holdings.measured(connection, row.key):
            _shelve(connection, row, sealing)
            events, finished = _cut_log(connection, row.key)
            connection.execute(_SQL["empty_log"], (row.key,))
        return Removed(events=events), finished
    return _take_away(connection, row)


class KnownTask(NamedTuple):
    """What decides about a task."""

    key: int
    task_id: str
    scope: int
    """0 when it is gone for everybody."""
    state: int
    status_ms: int
    turns: int
    owing: bool

    def over(self, deadlines: Deadlines, *, logs: bool) -> bool:
        before_ms = deadlines.events if logs else deadlines.tasks
        if before_ms is None or self.state not in TERMINAL or self.status_ms >= before_ms or self.turns:
            return False
        return not (self.owing and (logs or deadlines.owed))


def _known(connection: sqlite3.Connection, key: int) -> KnownTask | None:
    row = connection.execute(_SQL["known"], (key,)).fetchone()
    return KnownTask(key, *row) if row else None


def take_away(connection: sqlite3.Connection, key: int) -> tuple[Removed, bool]:
    """Remove a task, however young it is, or as much of it as one transaction may. Gone it is in any case."""
    row = _known(connection, key)
    return _take_away(connection, row) if row else (Removed(), True)


def _take_away(connection: sqlite3.Connection, row: KnownTask) -> tuple[Removed, bool]:
    task, receipts = (row.key,), 0
    if row.scope:
        holdings.leave(connection, holdings.size_of(connection, row.key))
        receipts = connection.execute(_SQL["drop_receipts"], (row.task_id,)).rowcount
        connection.execute(_SQL["drop_lease"], task)
        connection.execute(_SQL["drop_turns"], task)
    events, no_events = _cut_log(connection, row.key)
    configs, webhooks, no_configs = _cut_configs(connection, row.key)
    if no_events and no_configs:
        for name in ("drop_artifacts", "drop_state", "drop_task"):
            connection.execute(_SQL[name], task)
    elif row.scope:
        connection.execute(_SQL["silence"], task)
        connection.execute(_SQL["hide"], task)
    return Removed(bool(row.scope), events, configs, webhooks, receipts), no_events and no_configs


def _cut_log(connection: sqlite3.Connection, task: int) -> tuple[int, bool]:
    """Remove the first events of a log. Returns how many, and whether that is all."""
    rows = connection.execute(_SQL["first_events"], (task, _ROWS)).fetchall()
    room, count = _BYTES, 0
    for _, size in rows:
        room -= size
        if room < 0 and count:
            break
        count += 1
    if count:
        connection.execute(_SQL["cut_log"], (task, rows[count - 1][0]))
    return count, count == len(rows) < _ROWS


def _cut_configs(connection: sqlite3.Connection, task: int) -> tuple[int, int, bool]:
    """Remove the configs of a task. Returns how many, how many of their webhooks, and whether that is all."""
    configs = webhooks = 0
    for (config,) in connection.execute(_SQL["configs"], (task,)).fetchall():
        gone, finished = _config(connection, config, None)
        configs, webhooks = configs + gone.configs, webhooks + gone.webhooks
        if not finished:
            return configs, webhooks, False
    return configs, webhooks, True


def _config(connection: sqlite3.Connection, config: int, before_ms: int | None) -> tuple[Removed, bool]:
    """Remove a config, with a time only if it was parked before."""
    task = None if before_ms is None else connection.execute(_SQL["parked_of"], (config, before_ms)).fetchone()
    if before_ms is not None and task is None:
        return Removed(), True
    webhooks = connection.execute(_SQL["cut_debts"], {"config": config, "limit": _ROWS}).rowcount
    if webhooks == _ROWS:
        return Removed(webhooks=webhooks), False
    with holdings.measured(connection, *task) if task else nullcontext():
        connection.execute(_SQL["drop_config"], (config,))
    return Removed(configs=1, webhooks=webhooks), True


def _forget_value(connection: sqlite3.Connection, row: int, before_ms: int | None) -> int:
    value = connection.execute(_SQL["value"], (row,)).fetchone()
    gone = connection.execute(_SQL["forget_value"], {"row": row, "before_ms": before_ms}).rowcount
    if gone:
        scope, size = value
        holdings.grow_contexts(connection, scope, -size)
    return gone


def _shelve(connection: sqlite3.Connection, task: KnownTask, sealing: ContentSealing) -> None:
    """Store the artifacts whole. After a crash the last of them are in the log alone."""
    shelved, number, wire, at = connection.execute(_SQL["shelf"], (task.key,)).fetchone()
    if (stored := max(shelved, at)) < number:
        place = artifacts_place(task.task_id)
        artifacts = whole(connection, sealing.open(wire, place), (task.key, task.task_id, stored, number), sealing)
        sealed = sealing.seal(artifacts.SerializeToString(), place)
        connection.execute(_SQL["shelve"], (task.key, number, sealed))


def may_shrink(connection: sqlite3.Connection) -> bool:
    """Whether there are free pages, in a file that was made to give them back."""
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    return bool(mode == _INCREMENTAL and free)


def shrink(connection: sqlite3.Connection) -> None:
    """Move pages from the end of the file to free places, a few at a time."""
    for _ in range(_PAGES):
        connection.execute("PRAGMA incremental_vacuum(1)")  # Python steps once, whatever the number
