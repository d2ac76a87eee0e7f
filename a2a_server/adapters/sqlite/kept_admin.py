"""Removes what is old, or somebody's, for the command line: beside a server, or alone (spec: KEPT-02, SECR-07).

1. What is to go is collected in temporary tables and counted. Nothing is locked while somebody is asked.
2. It goes in transactions of a few milliseconds, and each thing is looked at again, so that a server is not held up.
3. The places in the file are overwritten, and the write-ahead log is emptied.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from a2a_server.adapters.sqlite import content_keys, holdings, schema, sweeping
from a2a_server.adapters.sqlite.push_admin import visiting
from a2a_server.adapters.sqlite.schema import queries
from a2a_server.adapters.sqlite.writer import unavailable
from a2a_server.domain.scope import Scope
from a2a_server.ports.retention import Chosen, Deadlines, Holdings, Removed
from a2a_server.ports.sealing import UNSEALED, ContentSealing
from a2a_server.ports.store import StoreRefused

_SQL = queries("kept.sql")

MOMENT = 0.005
"""Seconds after which a transaction ends, so that a server waits no longer than that."""
SHARE = 2
_EVER = 2**63 - 1

Work = Callable[[Any], tuple[Removed, bool]]
"""Removes one thing. Says how much is gone, and whether all is."""


class SqliteKeptAdmin:
    """Every call opens the file and closes it."""

    def __init__(self, path: Path, sealing: ContentSealing = UNSEALED) -> None:
        self._path = path
        self._sealing = sealing

    def remove(
        self, wanted: Chosen | Deadlines, agree: Callable[[Removed, int], bool], tell: Callable[[Removed], None]
    ) -> Removed:
        with opened(self._path) as (connection, alone):
            if isinstance(wanted, Deadlines):  # what is chosen goes unread
                self._sealing.begin(content_keys.used(connection))
            expected, busy = _plan(connection, wanted, alone=alone)
            if not agree(expected, busy):
                return Removed()
            removed = _Removal(connection, wanted, tell, self._sealing, alone=alone).run()
            if alone:
                connection.executescript("PRAGMA incremental_vacuum")  # a server does it when it is idle
            empty_log(connection)
            return removed

    def usage(self, owner: str | None, limit: int) -> Sequence[tuple[Scope, Holdings]]:
        with visiting(self._path, "BEGIN") as connection:
            rows = connection.execute(_SQL["usage"], {"owner": owner, "limit": limit}).fetchall()
        return [(Scope(tenant, name), Holdings(tasks, size)) for tenant, name, tasks, size in rows]

    def rebuild(self) -> None:
        with opened(self._path) as (connection, alone):
            if not alone:
                raise StoreRefused(f"the store {self._path} is in use by a server; stop it before you rebuild the file")
            rebuild(connection)


@contextmanager
def opened(path: Path) -> Iterator[tuple[sqlite3.Connection, bool]]:
    """A connection, and whether no server uses the file. None can while this lasts."""
    with ExitStack() as held, schema.refusing(path):
        schema.check_there(path)  # before the lock would make it
        alone = _acquired(path, held)
        connection = schema.connect_existing(path)
        held.callback(connection.close)
        schema.check_known(connection, path)
        for pragma in ("secure_delete = ON", "temp_store = MEMORY", "synchronous = FULL"):
            connection.execute(f"PRAGMA {pragma}")
        try:
            yield connection, alone
        except sqlite3.OperationalError as error:
            raise unavailable(error) from error


def _acquired(path: Path, held: ExitStack) -> bool:
    try:
        schema.acquire(path, held)
    except StoreRefused:
        return False
    return True


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        yield


def rebuild(connection: sqlite3.Connection) -> None:
    """Write the file anew, so that nothing is left in it of what was overwritten."""
    connection.executescript("PRAGMA temp_store = DEFAULT; PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
    empty_log(connection)


def empty_log(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _plan(connection: sqlite3.Connection, wanted: Chosen | Deadlines, *, alone: bool) -> tuple[Removed, int]:
    """Collect what is to go. Returns how much that is, and how many tasks stay because a server works on them."""
    connection.executescript(_SQL["tables"])
    connection.execute("BEGIN")
    if isinstance(wanted, Deadlines):
        for name in ("old_tasks", "old_logs", "old_configs", "old_receipts", "old_values"):
            connection.execute(_SQL[name], wanted._asdict())
    else:
        named = {**wanted._asdict(), "whole": wanted.whole}
        where = " AND ".join(f"{column} = :{name}" for name, column in _COLUMNS.items() if named[name] is not None)
        connection.execute(f"{_SQL['chosen_tasks']} {where}", named)
        if alone:
            connection.execute(_SQL["all_live_too"])
        connection.execute(_SQL["chosen_receipts"], named)
        if wanted.task is None:
            connection.execute(_SQL["chosen_values"], named)
        if wanted.whole:
            connection.execute(_SQL["chosen_keys"], named)
    counts = Removed(*connection.execute(_SQL["counts"]).fetchone())
    (busy,) = connection.execute(_SQL["busy"]).fetchone()
    connection.execute("COMMIT")
    return counts, busy


_COLUMNS = {
    "owner": "scopes.owner",
    "tenant": "scopes.tenant",
    "task": "tasks.id",
    "context": "tasks.context_id",
}


class _Removal:
    """What was collected, on its way out."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        wanted: Chosen | Deadlines,
        tell: Callable[[Removed], None],
        sealing: ContentSealing,
        *,
        alone: bool,
    ) -> None:
        self._connection = connection
        self._sealing = sealing
        self._wanted = wanted
        self._tell = tell
        self._alone = alone
        self._removed = Removed()

    def run(self) -> Removed:
        self._each("(SELECT key, 0 FROM tasks WHERE scope = 0)", self._task)  # what a killed command has left
        if isinstance(self._wanted, Deadlines):
            self._run_old(self._wanted)
        else:
            self._run_chosen(self._wanted)
        return self._removed

    def _run_old(self, deadlines: Deadlines) -> None:
        stages = (
            ("doomed", sweeping.TASKS),
            ("doomed_logs", sweeping.LOGS),
            ("doomed_configs", sweeping.PARKED),
            ("doomed_receipts", sweeping.RECEIPTS),
        )
        for table, stage in stages:
            self._each(table, partial(self._old, stage, deadlines))
        self._each("doomed_values", partial(self._value, before_ms=deadlines.contexts))

    def _run_chosen(self, chosen: Chosen) -> None:
        self._each("doomed", self._task)
        self._each("doomed_receipts", self._receipt)
        self._each("doomed_values", partial(self._value, before_ms=_EVER))
        self._each("doomed_keys", self._key)
        if chosen.whole:
            with transaction(self._connection):
                self._connection.execute(_SQL["empty_totals"])
                self._connection.execute(_SQL["empty_scopes"], chosen._asdict())

    def _each(self, table: str, work: Work) -> None:
        """Remove things in short transactions, with pauses in which a server may write."""
        things: Sequence[Any] = self._connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - ours
        at = 0
        while at < len(things):
            begun = time.perf_counter()
            with transaction(self._connection):
                at = self._some(things, at, work, begun + MOMENT)
            self._tell(self._removed)
            time.sleep(SHARE * (time.perf_counter() - begun))

    def _some(self, things: Sequence[Any], at: int, work: Work, until: float) -> int:
        while at < len(things) and time.perf_counter() < until:
            gone, finished = work(things[at])
            self._removed = self._removed.plus(gone)
            if not finished:
                break
            at += 1
        return at

    def _old(self, stage: int, deadlines: Deadlines, thing: sweeping.OldThing) -> tuple[Removed, bool]:
        return sweeping.remove_one(self._connection, stage, thing, deadlines, self._sealing)

    def _task(self, row: tuple[int, int]) -> tuple[Removed, bool]:
        key, busy = row
        if busy or (not self._alone and self._connection.execute(_SQL["turns"], (key,)).fetchone()):
            return Removed(), True
        return sweeping.take_away(self._connection, key)

    def _receipt(self, row: tuple[int, str]) -> tuple[Removed, bool]:
        return Removed(receipts=self._connection.execute(_SQL["drop_receipt"], row).rowcount), True

    def _value(self, row: tuple[int, str, str], before_ms: int | None) -> tuple[Removed, bool]:
        size = self._connection.execute(_SQL["size_of_value"], row).fetchone()
        values = self._connection.execute(_SQL["drop_value"], (*row, before_ms)).rowcount
        if values:
            holdings.grow_contexts(self._connection, row[0], -size[0])
        return Removed(context_values=values), True

    def _key(self, row: tuple[str]) -> tuple[Removed, bool]:
        """Revoke it, which servers notice, and forget whose it was."""
        now_ms = time.time_ns() // 1_000_000
        return Removed(keys=self._connection.execute(_SQL["empty_key"], (now_ms, *row)).rowcount), True
