"""The SQLite file: its lock, schema, connections, queries, and keys of scopes and tasks (spec: DURA-09, AUTZ-03)."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from a2a_server.adapters.sql import statements
from a2a_server.domain.scope import Scope
from a2a_server.ports.store import StoreRefused

_OLDEST_SQLITE = (3, 34)
"""What RHEL 9 has, the oldest system that brings a Python new enough."""

_APPLICATION_ID = int.from_bytes(b"a2as")
"""Tells our files from other programs'."""

_FREE_BYTE = 0x4000_0200
"""The first after those that SQLite locks, on the page that it never writes to."""

_DURABLE = """
PRAGMA secure_delete = ON;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 67108864;
"""
# A checkpoint every 16 MB instead of every 4: it runs in the way of the writer. After a burst the WAL shrinks again.


queries = partial(statements.queries, __package__)
migrations = partial(statements.migrations, __package__)


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
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock_of(fcntl.F_WRLCK))
            return
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _FREE_BYTE)


def in_use(path: Path) -> bool:
    """Whether a server uses the file. On Linux, one that starts at this moment does not notice."""
    if not path.is_file():
        return False
    if sys.platform == "linux":
        with suppress(OSError), path.open("rb") as file:
            kind, *_ = struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_OFD_GETLK, _lock_of(fcntl.F_WRLCK)))
            return bool(kind != fcntl.F_UNLCK)
    with ExitStack() as held:
        try:
            acquire(path, held)
        except StoreRefused:
            return True
    return False


def _lock_of(kind: int) -> bytes:
    return struct.pack("hhqqi", kind, os.SEEK_SET, _FREE_BYTE, 1, 0)


def connect_writer(
    path: Path, held: ExitStack, *, upgrade: bool = True, tell: Callable[[str], None] = lambda _: None
) -> sqlite3.Connection:
    """The connection that writes, to a file that has the schema of this version. `held` closes it.

    `upgrade`: whether to bring an older file up to date, or to refuse it. `tell` is told each step before it is made.
    """
    # Opened in one thread, then used by two others, never at the same time.
    connection = sqlite3.connect(path, isolation_level=None, timeout=5, check_same_thread=False)
    held.callback(connection.close)
    connection.execute("PRAGMA cache_size = -16384")
    _check_owner(connection, path)
    if connection.execute("PRAGMA page_count").fetchone() == (0,):  # later, only rebuilding a file changes it
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # freed pages can be given back
    connection.executescript(_DURABLE)
    _check_mode(connection, path)
    if upgrade:
        migrate(connection, path, migrations(), tell)
    else:
        check_known(connection, path, whose="server")
    return connection


def version_of(connection: sqlite3.Connection, path: Path) -> int:
    """0 if there are no tables. Refuses a file of another program."""
    _check_owner(connection, path)
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_there(path: Path) -> None:
    if not path.is_file():
        raise StoreRefused(f"there is no store {path}; a server makes it when it starts")


def connect_existing(path: Path) -> sqlite3.Connection:
    """A connection for a command, to a file that a server may be using."""
    check_there(path)
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=5)


def connect_reader(path: Path, *, timeout: float) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout, check_same_thread=False)
    connection.execute("PRAGMA user_version").fetchone()  # opens the log, too, which might be gone later
    return connection


def migrate(
    connection: sqlite3.Connection, path: Path, steps: Mapping[int, str], tell: Callable[[str], None] = lambda _: None
) -> None:
    """Apply missing migrations, each in a transaction of its own. Refuses a newer file."""
    newest = max(steps)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > newest:
        raise StoreRefused(
            f"the store {path} has schema version {version}; this server knows versions up to {newest}. "
            "Run the newer server that wrote it, or another file"
        )
    for number in sorted(step for step in steps if step > version):
        tell(str(number))
        marks = f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {number};"
        try:
            connection.executescript(f"BEGIN IMMEDIATE; {steps[number]} {marks} COMMIT;")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def check_known(connection: sqlite3.Connection, path: Path, *, whose: str = "command") -> None:
    """Refuse a file that is another program's, or has another schema version."""
    newest, version = max(migrations()), version_of(connection, path)
    if version != newest:
        advice = "Use the version that wrote it" if version > newest else "Run `a2ad db upgrade`"
        raise StoreRefused(f"the store {path} has schema version {version}, and this {whose} needs {newest}. {advice}")


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
