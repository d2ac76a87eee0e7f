"""The SQLite file: its lock, schema, connections, queries, and keys of scopes and tasks (spec: DURA-09, AUTZ-03)."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.resources import files
from pathlib import Path

from a2a_server.domain.scope import Scope
from a2a_server.ports.store import StoreRefused

_OLDEST_SQLITE = (3, 34)
"""What RHEL 9 has, the oldest system that brings a Python new enough."""

_APPLICATION_ID = int.from_bytes(b"a2as")
"""Tells our files from other programs'."""

_FREE_BYTE = 0x4000_0200
"""The first after those that SQLite locks, on the page that it never writes to."""

_DURABLE = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 67108864;
"""
# A checkpoint every 16 MB instead of every 4: it runs in the way of the writer. After a burst the WAL shrinks again.


def migrations() -> Mapping[int, str]:
    found = (path for path in files(__package__).joinpath("migrations").iterdir() if path.name.endswith(".sql"))
    return {int(path.name[:3]): path.read_text("utf-8") for path in sorted(found, key=lambda path: path.name)}


def acquire(path: Path, held: ExitStack) -> int:
    """Make sure that nobody else uses the file. `held` lets go of it, as the end of the process does.

    Returns a descriptor of the file. Closing it drops the locks that SQLite has for this process, so it is closed last.
    """
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreRefused(f"SQLite {sqlite3.sqlite_version} is too old; the store needs 3.34 or newer")
    if not path.parent.is_dir():
        raise StoreRefused(f"the store {path} cannot be there: {path.parent} is not a directory")
    lock = f"{path.resolve()}.lock"  # for this process, and for servers that know no other lock
    try:
        fcntl.flock(_descriptor(lock, held), fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock = "a lock on the file itself"  # whatever its name, and whatever became of the file beside it
        database = _descriptor(str(path), held)
        _lock(database)
    except BlockingIOError as error:
        raise StoreRefused(f"the store {path} is in use by another server, which holds {lock}") from error
    except OSError as error:
        raise StoreRefused(f"the store {path} cannot be written: {error.strerror}") from error
    return database


def _descriptor(name: str, held: ExitStack) -> int:
    # Credentials of webhooks are in it: for nobody else's eyes. SQLite gives its other files the same mode.
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    held.callback(os.close, descriptor)
    return descriptor


def _lock(descriptor: int) -> None:
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may not have this kind; if the lock is taken, the other kind says so, too
            flock = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _FREE_BYTE, 1, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, flock)
            return
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _FREE_BYTE)


def connect_writer(path: Path, held: ExitStack) -> sqlite3.Connection:
    """The connection that writes, to a file that has the schema of this version. `held` closes it."""
    # Opened in one thread, then used by two others, never at the same time.
    connection = sqlite3.connect(path, isolation_level=None, timeout=5, check_same_thread=False)
    held.callback(connection.close)
    connection.execute("PRAGMA cache_size = -16384")
    _check_owner(connection, path)
    connection.executescript(_DURABLE)
    _check_mode(connection, path)
    migrate(connection, path, migrations())
    return connection


def connect_reader(path: Path, *, timeout: float) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout, check_same_thread=False)
    connection.execute("PRAGMA user_version").fetchone()  # opens the log, too, which might be gone later
    return connection


def migrate(connection: sqlite3.Connection, path: Path, steps: Mapping[int, str]) -> None:
    """Apply missing migrations, each in a transaction of its own. Refuses a newer file."""
    newest = max(steps)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > newest:
        raise StoreRefused(
            f"the store {path} has schema version {version}; this server knows versions up to {newest}. "
            "Run the newer server that wrote it, or another file"
        )
    for number in range(version + 1, newest + 1):
        marks = f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {number};"
        try:
            connection.executescript(f"BEGIN IMMEDIATE; {steps[number]} {marks} COMMIT;")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def check_known(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is another program's, or has another schema version."""
    _check_owner(connection, path)
    newest = max(migrations())
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != newest:
        side = (
            "Use the server that wrote it" if version > newest else "Start this server once, which brings it up to date"
        )
        raise StoreRefused(f"the store {path} has schema version {version}, and this command knows {newest}. {side}")


def _check_owner(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != _APPLICATION_ID:
        raise StoreRefused(f"the store {path} is a database of another program")


def _check_mode(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        raise StoreRefused(f"the store {path} is on a file system without shared memory, which WAL mode needs")


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreRefused(f"the store {path} cannot be used: {error}") from error


_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def queries(file: str) -> Mapping[str, str]:
    """The sections of a `.sql` file by their names."""
    _, *sections = _NAME.split(files(__package__).joinpath(file).read_text("utf-8"))
    return dict(zip(sections[::2], map(str.strip, sections[1::2]), strict=True))


_KEYS = queries("keys.sql")


def scope_key(connection: sqlite3.Connection, scope: Scope) -> int:
    """The key of a scope, which is added if it is new."""
    place = scope.tenant, scope.owner
    row = connection.execute(_KEYS["scope"], place).fetchone()
    return int(row[0]) if row else int(connection.execute(_KEYS["scope_add"], place).lastrowid or 0)


def task_key(connection: sqlite3.Connection, scope: Scope, task_id: str) -> int | None:
    row = connection.execute(_KEYS["task"], (task_id, scope.tenant, scope.owner)).fetchone()
    return int(row[0]) if row else None


def exists(connection: sqlite3.Connection, task_id: str) -> bool:
    """Whether there is a task with this id in any scope."""
    return connection.execute(_KEYS["exists"], (task_id,)).fetchone() is not None
