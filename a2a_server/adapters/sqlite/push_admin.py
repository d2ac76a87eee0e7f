"""What operators see of push configs and do about them, with or without a running server (spec: PAID-03, OPER-04).

No lock is held for longer than a short transaction, so that a server is never held up.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from a2a_server.adapters.sqlite import content_keys, schema
from a2a_server.adapters.sqlite.push import config_of
from a2a_server.adapters.sqlite.schema import queries
from a2a_server.adapters.sqlite.writer import unavailable
from a2a_server.domain.scope import Scope
from a2a_server.ports.push import ConfigFilter, ConfigStatus
from a2a_server.ports.sealing import UNSEALED, ContentSealing

_SQL = queries("push.sql")

_EVER, _ALL = -(2**63), 2**63 - 1


class SqlitePushAdmin:
    """Every call opens the file, does one thing in a transaction, and closes it."""

    def __init__(self, path: Path, sealing: ContentSealing = UNSEALED) -> None:
        self._path = path
        self._sealing = sealing

    def status(self, wanted: ConfigFilter, limit: int) -> Sequence[ConfigStatus]:
        with visiting(self._path, "BEGIN") as connection:
            return [account for _, account in _found(connection, wanted, self._sealing, limit)][:limit]

    def retry(self, wanted: ConfigFilter) -> int:
        with visiting(self._path) as connection:
            known = _found(connection, wanted, self._sealing)
            found = [(key, account) for key, account in known if account.pending or account.parked_ms]
            connection.executemany(_SQL["retry"], [(key,) for key, _ in found])
            return sum(account.pending > 0 for _, account in found)

    def drop(self, wanted: ConfigFilter) -> int:
        with visiting(self._path) as connection:
            found = list(_found(connection, wanted, self._sealing))
            for name in ("drop", "dropped", "finish"):
                connection.executemany(_SQL[name], [(key,) for key, _ in found])
            return sum(account.pending for _, account in found)


@contextmanager
def visiting(path: Path, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
    """A transaction in a file that a server may be using."""
    with schema.refusing(path), closing(schema.connect_existing(path)) as connection:
        schema.check_known(connection, path)
        try:
            connection.execute(begin)
            with connection:
                yield connection
        except sqlite3.OperationalError as error:
            raise unavailable(error) from error


def _found(
    connection: sqlite3.Connection, wanted: ConfigFilter, sealing: ContentSealing, limit: int = _ALL
) -> Iterator[tuple[int, ConfigStatus]]:
    sealing.begin(content_keys.used(connection))
    for key in _keys(connection, wanted, limit):
        tenant, owner, task_id, config_id, wire, *rest = connection.execute(_SQL["account"], (key,)).fetchone()
        url = config_of(task_id, config_id, wire, sealing).url
        account = ConfigStatus(Scope(tenant, owner), task_id, config_id, url, *rest)
        if account.parked_ms is not None or not wanted.parked:
            yield key, account._replace(claimed=bool(account.claimed))  # SQLite has no booleans


def _keys(connection: sqlite3.Connection, wanted: ConfigFilter, limit: int) -> Sequence[int]:
    if wanted.config_id:
        rows = connection.execute(_SQL["key_of_config"], (wanted.task_id, wanted.config_id, limit)).fetchall()
    elif wanted.task_id:
        rows = connection.execute(_SQL["keys_of_task"], (wanted.task_id, limit)).fetchall()
    else:
        rows = [] if wanted.parked else connection.execute(_SQL["keys_due"], (_EVER, limit)).fetchall()
        rows += connection.execute(_SQL["keys_parked"], (_EVER, limit)).fetchall()
    return [key for (key,) in rows]
