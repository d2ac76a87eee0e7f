"""Writes all content anew under the key that seals now, for the command line, beside a server or alone (spec: SECR-03).

1. Each table is gone through in the order of its key. The first bytes of a value tell under which key it is.
2. What is under another key is opened and sealed again, in transactions of a few milliseconds. Another run finds the
   values that are left, whenever this one ends.
3. Without a server the file is rebuilt: overwritten content may be left in unused parts of its pages.
4. Then the other keys are no longer needed, and the file says so.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from a2a_server.adapters.sql import contents
from a2a_server.adapters.sql.contents import FRONT, Content, sealing_told
from a2a_server.adapters.sqlite import content_keys, holdings, sweeping
from a2a_server.adapters.sqlite.kept_admin import MOMENT, SHARE, empty_log, opened, rebuild, transaction
from a2a_server.ports.sealing import SETTING, ContentSealing, KeysInUse
from a2a_server.ports.store import StoreRefused

_BATCH = 1_000
"""Rows that are looked at in one query."""
Position = tuple[Any, ...]


class Kind(NamedTuple):
    """A column with content, and how to go through it."""

    content: Content
    key: Sequence[str]
    found_by: str
    """The columns that the place is made of."""
    counted_in: str = ""
    """The columns with the scope and the state that its bytes are counted in, if they are."""

    @property
    def start(self) -> Position:
        return (-1,) * len(self.key)

    @property
    def find(self) -> str:
        table, column, _, front = self.content
        keys, marks = ", ".join(self.key), ", ".join("?" * len(self.key))
        return (
            f"SELECT {keys}, substr({column}, {front}, {FRONT}) FROM {table} "  # noqa: S608 - ours
            f"WHERE ({keys}) > ({marks}) AND {column} <> x'' ORDER BY {keys} LIMIT ?"
        )

    @property
    def read(self) -> str:
        table, column, *_ = self.content
        joined = (
            f"scopes ON scopes.key = {table}.scope" if table in _OF_SCOPES else f"tasks ON tasks.key = {table}.task"
        )
        return (
            f"SELECT {table}.{column}, {self.counted_in or 'NULL, NULL'}, {self.found_by} "  # noqa: S608 - ours
            f"FROM {table} JOIN {joined} WHERE {self._is_it}"
        )

    @property
    def write(self) -> str:
        return f"UPDATE {self.content.table} SET {self.content.column} = ? WHERE {self._is_it}"  # noqa: S608 - ours

    @property
    def _is_it(self) -> str:
        return " AND ".join(f"{self.content.table}.{name} = ?" for name in self.key)


_OF_SCOPES = {"tasks", "receipts", "context_states"}
"""Tables whose rows name their scope; those of others name their task."""

_BY_STATE = "tasks.scope, tasks.state"

KINDS = (
    Kind(contents.HEADS, ("key",), "tenant, owner, tasks.id", _BY_STATE),
    Kind(contents.ARTIFACTS, ("task",), "tasks.id", _BY_STATE),
    Kind(contents.AGENT_STATES, ("task",), "tasks.id", _BY_STATE),
    Kind(contents.EVENTS, ("rowid",), "tasks.id, events.number"),
    Kind(contents.TURNS, ("task", "number"), "tasks.id, turns.number"),
    Kind(contents.FINGERPRINTS, ("scope", "key"), "tenant, owner, receipts.key"),
    Kind(contents.REPLIES, ("scope", "key"), "tenant, owner, receipts.key"),
    Kind(contents.CONTEXT_STATES, ("rowid",), "tenant, owner, context_id, name", "context_states.scope, 0"),
    Kind(contents.CONFIGS, ("key",), "tasks.id, configs.id", _BY_STATE),
)


class SqliteSealingAdmin:
    """Every call opens the file and closes it."""

    def __init__(self, path: Path, sealing: ContentSealing, wanted: ContentSealing) -> None:
        """`sealing` opens what there is, and `wanted` seals it."""
        self._path = path
        self._sealing = sealing
        self._wanted = wanted

    def keys(self) -> KeysInUse:
        with opened(self._path) as (connection, _):
            used = content_keys.used(connection)
            self._sealing.begin(used)
            left = sum(len(batch) for kind in KINDS for batch in self._others(connection, kind))
            return KeysInUse(used[0] if used else self._wanted.first, used, left)

    def rekey(self, tell: Callable[[int], None]) -> tuple[int, bool]:
        with opened(self._path) as (connection, alone):
            changes = self._begin(connection, alone=alone)
            _end_removals(connection)
            count = 0
            for kind in KINDS:
                for batch in self._others(connection, kind):
                    for done in self._rewrite(connection, kind, batch, share=0 if alone else SHARE):
                        count += done
                        tell(count)
            (rebuild if alone else empty_log)(connection)
            content_keys.forget_others(connection, self._wanted.first, changes)
            return count, alone

    def _begin(self, connection: sqlite3.Connection, *, alone: bool) -> int:
        """A server would go on with its own key, so that must be the same one."""
        used = content_keys.used(connection)
        self._sealing.begin(used)
        if alone:
            content_keys.seal_with(connection, self._wanted.first)
        elif used[:1] != [self._wanted.first]:
            raise StoreRefused(
                f"the store {self._path} is in use by a server that {sealing_told(used[0])}, and this command "
                f"{sealing_told(self._wanted.first)}. Restart the server with the same {SETTING}, or stop it"
            )
        return content_keys.changes(connection)

    def _others(self, connection: sqlite3.Connection, kind: Kind) -> Iterator[Sequence[Position]]:
        """The places of values under other keys, a batch at a time."""
        at = kind.start
        while rows := connection.execute(kind.find, (*at, _BATCH)).fetchall():
            at = rows[-1][:-1]
            if batch := [row[:-1] for row in rows if self._sealing.key_of(row[-1]) != self._wanted.first]:
                yield batch

    def _rewrite(
        self, connection: sqlite3.Connection, kind: Kind, batch: Sequence[Position], *, share: int
    ) -> Iterator[int]:
        """Seal values again, with pauses in which a server may write. Yields how many."""
        done = 0
        while done < len(batch):
            begun, before = time.perf_counter(), done
            with transaction(connection):
                while done < len(batch) and time.perf_counter() < begun + MOMENT:
                    self._reseal(connection, kind, batch[done])
                    done += 1
            yield done - before
            time.sleep(share * (time.perf_counter() - begun))

    def _reseal(self, connection: sqlite3.Connection, kind: Kind, at: Position) -> None:
        row = connection.execute(kind.read, at).fetchone()
        if row is None:  # it was removed meanwhile
            return
        value, scope, state, *names = row
        place = kind.content.place(*names)
        sealed = self._wanted.seal(self._sealing.open(value, place), place)
        connection.execute(kind.write, (sealed, *at))
        if kind.counted_in:
            holdings.grow(connection, len(sealed) - len(value), scope, state)


def _end_removals(connection: sqlite3.Connection) -> None:
    """What a killed command has left of removed tasks belongs to no task, so that it cannot be opened."""
    for (key,) in connection.execute("SELECT key FROM tasks WHERE scope = 0").fetchall():
        finished = False
        while not finished:
            with transaction(connection):
                _, finished = sweeping.take_away(connection, key)
