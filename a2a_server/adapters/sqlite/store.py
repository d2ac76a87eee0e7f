"""The store in one SQLite file, and which connection and thread does what (spec: RECV-01, DURA-01)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from a2a_server.adapters.sqlite import lists, push, schema, tasks
from a2a_server.adapters.sqlite.writer import Writer, unavailable, work_in_the_background
from a2a_server.domain.scope import Scope
from a2a_server.ports.push import ClaimLimits, Delivery, FailedAttempt, PushConfig
from a2a_server.ports.records import Entry, Lease, Receipt, Write
from a2a_server.ports.store import Claimed, StoredTask, StoreGone, StoreUnavailable, TaskPage, TaskQuery

T = TypeVar("T")
log = structlog.get_logger(__name__)

_Work = Callable[[sqlite3.Connection], T]

_LONG = 2**20
"""So many bytes of a task take milliseconds to write, and are written in the thread."""


class SqliteStore:
    """One connection writes, in groups. Long reads have a thread of their own; short ones run on the event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = ExitStack()
        self._door = asyncio.Lock()
        self._writer: Writer | None = None
        self._reader: SqliteReader | None = None
        self._last_lane = "", ""
        """The owner and host whose webhooks were claimed last. The next claim begins after them."""

    async def open(self) -> None:
        """Raises `StoreRefused` if the file is another program's, newer, in use, or no database."""
        async with self._door:
            if self._writer is None:
                await asyncio.to_thread(self._open, asyncio.get_running_loop())

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        with schema.refusing(self._path), ExitStack() as undo:
            descriptor = schema.acquire(self._path, undo)
            connection = schema.connect_writer(self._path, undo)
            tasks.make_secret(connection)
            push.unclaim(connection)
            files = OpenFiles(self._path, descriptor)
            writer = Writer(connection, loop, files.check)
            undo.callback(writer.stop)
            self._reader = SqliteReader(self._path, files)
            undo.callback(self._reader.stop)
            self._held = undo.pop_all()
        self._writer = writer

    async def close(self) -> None:
        """Finish all accepted calls and release the file."""
        async with self._door:
            writer, self._writer = self._writer, None
            if writer is not None:
                await writer.drain()
                self._reader = None
                await asyncio.to_thread(self._held.close)

    async def _write(self, work: _Work[T], *, long: bool = False) -> T:
        if self._writer is None:
            raise StoreUnavailable("the store is closed")
        return await self._writer.do(work, long=long)

    def _read(self, work: _Work[T]) -> T:
        """Read on the event loop.

        A point read takes microseconds, and a thread would take fifty times as long. It never waits, because in WAL
        mode writers do not block readers.
        """
        return self._readable().read(work)

    async def _scan(self, work: _Work[T]) -> T:
        return await self._readable().scan(work)

    def _readable(self) -> SqliteReader:
        if self._reader is None:
            raise StoreUnavailable("the store is closed")
        self._reader.files.check_reads()
        return self._reader

    async def ping(self) -> None:
        if self._readable().files.look():
            await self._write(tasks.secret)  # is refused, and saves what is in the log
        self._read(tasks.secret)

    async def secret(self) -> bytes:
        return self._read(tasks.secret)

    # -- tasks

    async def commit(self, write: Write) -> bool:
        long = write.head is not None and len(write.head.task) + len(write.artifacts or b"") > _LONG
        return await self._write(partial(tasks.commit, write=write), long=long)

    async def load(self, scope: Scope, task_id: str) -> StoredTask | None:
        return self._read(partial(tasks.load, scope=scope, task_id=task_id))

    async def entries(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        return self._read(partial(tasks.entries, task_id=task_id, after=after, limit=limit))

    async def page(self, query: TaskQuery) -> TaskPage:
        return await self._scan(partial(lists.page, query=query))

    async def has_context(self, scope: Scope, context_id: str) -> bool:
        return self._read(partial(tasks.has_context, scope=scope, context_id=context_id))

    async def waiting_since(self, state: int, before_ms: int, limit: int) -> Sequence[tuple[Scope, str]]:
        return await self._scan(partial(lists.waiting_since, state=state, before_ms=before_ms, limit=limit))

    # -- leases

    async def claim(self, lease: Lease, lapsed_before_ms: int, limit: int) -> Sequence[Claimed]:
        work = partial(tasks.claim, lease=lease, lapsed_before_ms=lapsed_before_ms, limit=limit)
        return await self._write(work, long=True)

    # -- receipts

    async def recall(self, scope: Scope, key: str, now_ms: int) -> Receipt | None:
        return self._read(partial(tasks.recall, scope=scope, key=key, now_ms=now_ms))

    async def reserve(self, scope: Scope, receipt: Receipt, now_ms: int, *, instead_of: str = "") -> Receipt:
        return await self._write(
            partial(tasks.reserve, scope=scope, receipt=receipt, now_ms=now_ms, instead_of=instead_of)
        )

    async def answer(self, scope: Scope, key: str, reply: bytes) -> None:
        await self._write(partial(tasks.answer, scope=scope, key=key, reply=reply))

    # -- push configs and deliveries

    async def put_config(self, scope: Scope, hook: PushConfig) -> bool:
        return await self._write(partial(push.put_config, scope=scope, hook=hook))

    async def get_config(self, scope: Scope, task_id: str, config_id: str) -> PushConfig | None:
        return self._read(partial(push.get_config, scope=scope, task_id=task_id, config_id=config_id))

    async def configs(self, scope: Scope, task_id: str, after: str, limit: int) -> Sequence[PushConfig] | None:
        return await self._scan(partial(push.configs, scope=scope, task_id=task_id, after=after, limit=limit))

    async def count_configs(self, owner: str, host: str, limit: int) -> int:
        return await self._scan(partial(push.count_configs, owner=owner, host=host, limit=limit))

    async def delete_config(self, scope: Scope, task_id: str, config_id: str) -> bool:
        work = partial(push.delete_config, scope=scope, task_id=task_id, config_id=config_id)
        return await self._write(work, long=True)  # it may have thousands of deliveries

    async def next_due(self) -> int | None:
        return self._read(push.next_due)

    async def claim_deliveries(self, now_ms: int, until_ms: int, limit: int, limits: ClaimLimits) -> Sequence[Delivery]:
        """In steps, each in its own transaction: there may be many hosts, and the statements run on the event loop."""
        order = push.ClaimOrder(now_ms, until_ms, limit, limits)
        at = push.ClaimRound(self._last_lane, self._last_lane)
        claimed: list[Delivery] = []
        while order.limit > 0 and not at.over:
            deliveries, at = await self._write(partial(push.claim, order=order, at=at))
            claimed += deliveries
            order = order._replace(limit=order.limit - len(deliveries))
        self._last_lane = at.place
        return claimed

    async def finish_attempt(self, delivery: Delivery, failure: FailedAttempt | None) -> bool:
        return await self._write(partial(push.settle, delivery=delivery, failure=failure))


class OpenFiles:
    """The files that the connections have open. What is written while one of them is not in its place would be lost."""

    def __init__(self, path: Path, database: int) -> None:
        """`database` is a descriptor of the file. The other two are beside the file that a link leads to."""
        self._files = [("its database file", path.absolute(), _identity(os.fstat(database)))]
        for what, suffix in (("its write-ahead log", "-wal"), ("the index of its write-ahead log", "-shm")):
            beside = Path(f"{path.resolve()}{suffix}")
            self._files.append((what, beside, _identity(beside.stat())))
        self.fault = ""
        self.lost = False
        """Whether the database itself is not in its place, so that reads would show what a restart does not find."""

    def check(self) -> None:
        """Check before a write. The database is looked for every time, the others if one was missing last time."""
        if (self.fault or _fault(*self._files[0])) and self.look():
            raise StoreGone(self.fault)

    def check_reads(self) -> None:
        if self.lost and self.look() and self.lost:
            raise StoreGone(self.fault)

    def look(self) -> str:
        """Look for all files. Returns what is wrong, if anything is."""
        faults = [_fault(*file) for file in self._files]
        fault = next(filter(None, faults), "")
        if fault != self.fault:
            self.fault, self.lost = fault, bool(faults[0])
            if fault:
                log.error("store.gone", path=str(self._files[0][1]), why=fault)
            else:
                log.info("store.back", path=str(self._files[0][1]))
        return fault


def _fault(what: str, path: Path, known: tuple[int, int]) -> str:
    try:
        found = path.stat()
    except OSError:
        return f"{what} was deleted or moved"
    return "" if _identity(found) == known else f"{what} was replaced"


def _identity(file: os.stat_result) -> tuple[int, int]:
    return file.st_dev, file.st_ino


class SqliteReader:
    """Two connections that cannot write."""

    def __init__(self, path: Path, files: OpenFiles) -> None:
        self.files = files
        self._near = schema.connect_reader(path, timeout=0)  # for the event loop, which must never wait
        self._far = schema.connect_reader(path, timeout=5)
        self._thread = ThreadPoolExecutor(1, "sqlite-reader", initializer=work_in_the_background)

    def read(self, work: _Work[T]) -> T:
        return _serving(work, self._near)

    async def scan(self, work: _Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, _serving, work, self._far)

    def stop(self) -> None:
        """Let running reads finish. Blocks; must not be called on the event loop."""
        self._thread.shutdown()
        self._near.close()
        self._far.close()


def _serving(work: _Work[T], connection: sqlite3.Connection) -> T:
    try:
        return work(connection)
    except sqlite3.Error as error:
        raise unavailable(error) from error
