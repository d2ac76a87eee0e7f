"""What operators see of push configs and do about them, with or without a running server (spec: PAID-03, OPER-04).

No lock is held for longer than a short transaction, so that a server is never held up.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.sqlite import schema
from a2a_server.adapters.sqlite.schema import queries
from a2a_server.adapters.sqlite.writer import unavailable
from a2a_server.domain.scope import Scope
from a2a_server.ports.push import ConfigFilter, ConfigStatus
from a2a_server.ports.store import StoreRefused

_SQL = queries("push.sql")

_EVER, _ALL = -(2**63), 2**63 - 1


class SqlitePushAdmin:
    """Every call opens the file, does one thing in a transaction, and closes it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def status(self, wanted: ConfigFilter, limit: int) -> Sequence[ConfigStatus]:
        with self._transaction("BEGIN") as connection:
            return [account for _, account in _found(connection, wanted, limit)][:limit]

    def retry(self, wanted: ConfigFilter) -> int:
        with self._transaction() as connection:
            found = [
                (key, account) for key, account in _found(connection, wanted) if account.pending or account.parked_ms
            ]
            connection.executemany(_SQL["retry"], [(key,) for key, _ in found])
            return sum(account.pending > 0 for _, account in found)

    def drop(self, wanted: ConfigFilter) -> int:
        with self._transaction() as connection:
            found = list(_found(connection, wanted))
            for name in ("drop", "dropped", "finish"):
                connection.executemany(_SQL[name], [(key,) for key, _ in found])
            return sum(account.pending for _, account in found)

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        with schema.refusing(self._path), closing(self._connect()) as connection:
            schema.check_known(connection, self._path)
            try:
                connection.execute(begin)
                with connection:
                    yield connection
            except sqlite3.OperationalError as error:
                raise unavailable(error) from error

    def _connect(self) -> sqlite3.Connection:
        if not self._path.is_file():
            raise StoreRefused(f"there is no store {self._path}; a server makes it when it starts")
        return sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=5)


def _found(
    connection: sqlite3.Connection, wanted: ConfigFilter, limit: int = _ALL
) -> Iterator[tuple[int, ConfigStatus]]:
    for key in _keys(connection, wanted, limit):
        tenant, owner, task_id, config_id, wire, *rest = connection.execute(_SQL["account"], (key,)).fetchone()
        url = pb.TaskPushNotificationConfig.FromString(wire).url
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
