"""Shows the state of the file, and upgrades its schema while no server uses it (spec: DURA-09, OPER-04)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from a2a_server.adapters.sql.statements import KINDS
from a2a_server.adapters.sqlite import schema
from a2a_server.ports.database import Amount, DatabaseStatus, LiveServer, Upgraded

_SIZES = """
SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_master USING (name) WHERE aggregate = TRUE GROUP BY tbl_name
"""


class SqliteDatabaseAdmin:
    """Every call opens the file and closes it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def status(self) -> DatabaseStatus:
        """A server that uses the file has the same version as the file: it could not have opened it otherwise."""
        version, amounts = 0, list[Amount]()
        in_use = schema.in_use(self._path)
        if self._path.is_file():
            with schema.refusing(self._path), closing(schema.connect_reader(self._path, timeout=5)) as connection:
                version = schema.version_of(connection, self._path)
                amounts = list(_amounts(connection))
        newest = max(schema.migrations())
        return DatabaseStatus(
            store=str(self._path),
            version=version,
            newest=newest,
            oldest=version,
            expand=[str(number) for number in sorted(schema.migrations()) if number > version],
            contract=(),
            bytes=sum(file.stat().st_size for file in (self._path, Path(f"{self._path}-wal")) if file.is_file()),
            amounts=amounts,
            servers=[LiveServer("", version, "", None)] if in_use else (),
            wakeups="local",
        )

    def upgrade(self, tell: Callable[[str], None]) -> Upgraded:
        with ExitStack() as held, schema.refusing(self._path):
            schema.acquire(self._path, held)
            before = 0 if not self._path.stat().st_size else self._version()
            connection = schema.connect_writer(self._path, held, tell=tell)
            return Upgraded(before, schema.version_of(connection, self._path), ())

    def _version(self) -> int:
        with closing(schema.connect_reader(self._path, timeout=5)) as connection:
            return schema.version_of(connection, self._path)


def _amounts(connection: sqlite3.Connection) -> Iterator[Amount]:
    made = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    sizes = _sizes(connection)
    for table in [table for table in KINDS if table in made]:
        (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - ours
        yield Amount(KINDS[table], rows, sizes.get(table))


def _sizes(connection: sqlite3.Connection) -> Mapping[str, int]:
    """The bytes of tables with their indexes; nothing where SQLite was built without the table that knows."""
    with suppress(sqlite3.OperationalError):
        return dict(connection.execute(_SIZES).fetchall())
    return {}
