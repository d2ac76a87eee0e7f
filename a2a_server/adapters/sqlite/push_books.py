"""The file's books of webhooks for a visitor: beside the server that uses it, or without one (spec: PAID-03, OPER-04).

Nothing is claimed and no lock is taken for longer than a short transaction, so that a server never waits for a visitor.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from a2a_server.adapters.sqlite import push_accounts, schema
from a2a_server.adapters.sqlite.writer import unavailable
from a2a_server.ports.push import ConfigFilter, ConfigStatus
from a2a_server.ports.store import StoreRefused

T = TypeVar("T")


class PushBooks:
    """Every call opens the file, does one thing, and lets go of it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def status(self, wanted: ConfigFilter, limit: int) -> Sequence[ConfigStatus]:
        return self._do(partial(push_accounts.status, wanted=wanted, limit=limit), "BEGIN")

    def retry(self, wanted: ConfigFilter) -> int:
        return self._do(partial(push_accounts.retry, wanted=wanted))

    def drop(self, wanted: ConfigFilter) -> int:
        return self._do(partial(push_accounts.drop, wanted=wanted))

    def _do(self, work: Callable[[sqlite3.Connection], T], begin: str = "BEGIN IMMEDIATE") -> T:
        with schema.refusing(self._path), closing(self._connect()) as connection:
            schema.check_known(connection, self._path)
            with _transaction(connection, begin):
                return work(connection)

    def _connect(self) -> sqlite3.Connection:
        if not self._path.is_file():
            raise StoreRefused(f"there is no store {self._path}; a server makes it when it starts")
        return sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=5)


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    try:
        connection.execute(begin)
        yield
        connection.commit()
    except sqlite3.OperationalError as error:
        connection.rollback()
        raise unavailable(error) from error
