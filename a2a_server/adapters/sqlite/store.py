"""The store in one SQLite file, and which connection and thread does what (spec: RECV-01, DURA-01)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.sqlite import api_keys, content_keys, holdings, lists, push, schema, sweeping, tasks
from a2a_server.adapters.sqlite.writer import Writer, unavailable, work_in_the_background
from a2a_server.domain.events import last_messages
from a2a_server.domain.scope import Scope
from a2a_server.ports.agent import ContextMemory
from a2a_server.ports.keys import StoredKey
from a2a_server.ports.push import ClaimLimits, ClaimOrder, Delivery, FailedAttempt, PushConfig
from a2a_server.ports.records import Entry, Receipt, Write
from a2a_server.ports.retention import Deadlines, Holdings, Removed
from a2a_server.ports.sealing import UNSEALED, ContentSealing
from a2a_server.ports.store import (
    Claimed,
    ContextQuery,
    StoredTask,
    StoreGone,
    StoreUnavailable,
    TaskPage,
    TaskQuery,
)

T = TypeVar("T")
log = structlog.get_logger(__name__)

_Work = Callable[[sqlite3.Connection], T]

_LONG = 2**20
"""So many bytes of a task take milliseconds to write, and are written in the thread."""


class SqliteStore:
    """One connection writes, in groups. Long reads have a thread of their own; short ones run on the event loop."""

    def __init__(self, path: Path, sealing: ContentSealing = UNSEALED, *, upgrade: bool = True) -> None:
        """`upgrade`: whether to bring an older file up to date, or to refuse it."""
        self._path = path
        self._upgrade = upgrade
        self._sealing = sealing
        self._held = ExitStack()
        self._door = asyncio.Lock()
        self._writer: Writer | None = None
        self._reader: SqliteReader | None = None
        self._last_lane = "", ""
        """The owner and host whose webhooks were claimed last. The next claim begins after them."""
        self._old = sweeping.Found()
        """What a sweep has found and not yet removed."""
        self._groups = 0
        """How many groups had been written when the store was tidied last."""

    async def open(self) -> None:
        """Raises `StoreRefused` if the file is another program's, newer, in use, or no database."""
        async with self._door:
            if self._writer is None:
                await asyncio.to_thread(self._open, asyncio.get_running_loop())

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        with schema.refusing(self._path), ExitStack() as undo:
            descriptor = schema.acquire(self._path, undo)
            connection = schema.connect_writer(self._path, undo, upgrade=self._upgrade)
            content_keys.take_up(connection, self._sealing)
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
        return await self._write(partial(tasks.commit, write=write, sealing=self._sealing), long=long)

    async def load(self, scope: Scope, task_id: str) -> StoredTask | None:
        return self._read(partial(tasks.load, scope=scope, task_id=task_id, sealing=self._sealing))

    async def entries(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        return self._read(partial(tasks.entries, task_id=task_id, after=after, limit=limit, sealing=self._sealing))

    async def page(self, query: TaskQuery) -> TaskPage:
        return await self._scan(partial(lists.page, query=query, sealing=self._sealing))

    async def has_context(self, scope: Scope, context_id: str) -> bool:
        return self._read(partial(tasks.has_context, scope=scope, context_id=context_id))

    async def context(self, query: ContextQuery) -> ContextMemory:
        """Read when it is asked: artifacts in the thread, everything else on the event loop, as `load` does."""
        newest = partial(lists.newest, query=query, sealing=self._sealing)

        def history() -> Sequence[pb.Message]:
            return last_messages(self._read(newest), query.limit, query.max_bytes)

        return ContextMemory(
            history,
            partial(self._scan, partial(newest, artifacts=True)),
            partial(self._read, partial(lists.state_of_context, query=query, sealing=self._sealing)),
        )

    async def holdings(self, owner: str, tenant: str = "") -> Holdings:
        if tenant:
            return self._read(partial(holdings.held_in_tenant, owner=owner, tenant=tenant))
        found, complete = self._read(partial(holdings.held, owner=owner, limit=holdings.FEW))
        return found if complete else (await self._scan(partial(holdings.held, owner=owner)))[0]

    async def waiting_since(self, state: int, before_ms: int, limit: int) -> Sequence[tuple[Scope, str]]:
        return await self._scan(partial(lists.waiting_since, state=state, before_ms=before_ms, limit=limit))

    async def claim(self, session: str, limit: int) -> Sequence[Claimed]:
        work = partial(tasks.claim, session=session, limit=limit, sealing=self._sealing)
        return await self._write(work, long=True)

    # -- receipts

    async def recall(self, scope: Scope, key: str, now_ms: int) -> Receipt | None:
        return self._read(partial(tasks.recall, scope=scope, key=key, now_ms=now_ms, sealing=self._sealing))

    async def reserve(self, scope: Scope, receipt: Receipt, now_ms: int, *, instead_of: str = "") -> Receipt:
        work = partial(tasks.reserve, scope=scope, receipt=receipt, now_ms=now_ms, instead_of=instead_of)
        return await self._write(partial(work, sealing=self._sealing))

    async def answer(self, scope: Scope, key: str, reply: bytes) -> None:
        await self._write(partial(tasks.answer, scope=scope, key=key, reply=reply, sealing=self._sealing))

    # -- push configs and deliveries

    async def put_config(self, scope: Scope, hook: PushConfig) -> bool:
        return await self._write(partial(push.put_config, scope=scope, hook=hook, sealing=self._sealing))

    async def get_config(self, scope: Scope, task_id: str, config_id: str) -> PushConfig | None:
        work = partial(push.get_config, scope=scope, task_id=task_id, config_id=config_id, sealing=self._sealing)
        return self._read(work)

    async def configs(self, scope: Scope, task_id: str, after: str, limit: int) -> Sequence[PushConfig] | None:
        asked = partial(push.configs, scope=scope, task_id=task_id, after=after, limit=limit, sealing=self._sealing)
        return await self._scan(asked)

    async def count_configs(self, owner: str, host: str | None, limit: int) -> int:
        return await self._scan(partial(push.count_configs, owner=owner, host=host, limit=limit))

    async def count_hosts(self, owner: str, limit: int) -> int:
        return await self._scan(partial(push.count_hosts, owner=owner, limit=limit))

    async def delete_config(self, scope: Scope, task_id: str, config_id: str) -> bool:
        work = partial(push.delete_config, scope=scope, task_id=task_id, config_id=config_id)
        return await self._write(work, long=True)  # it may have thousands of deliveries

    async def next_due(self) -> int | None:
        return self._read(push.next_due)

    async def claim_deliveries(self, now_ms: int, until_ms: int, limit: int, limits: ClaimLimits) -> Sequence[Delivery]:
        """In steps, each in its own transaction: there may be many hosts, and the statements run on the event loop."""
        order = ClaimOrder(now_ms, until_ms, limit, limits)
        at = push.ClaimRound(self._last_lane, self._last_lane)
        claimed: list[Delivery] = []
        while order.limit > 0 and not at.over:
            deliveries, at = await self._write(partial(push.claim, order=order, at=at, sealing=self._sealing))
            claimed += deliveries
            order = order._replace(limit=order.limit - len(deliveries))
        self._last_lane = at.place
        return claimed

    async def finish_attempt(self, delivery: Delivery, failure: FailedAttempt | None) -> bool:
        return await self._write(partial(push.settle, delivery=delivery, failure=failure))

    # -- API keys

    async def keys_after(self, change: int, limit: int) -> Sequence[tuple[int, StoredKey]]:
        return self._read(partial(api_keys.keys_after, change=change, limit=limit))

    async def note_use(self, used: Mapping[str, int]) -> None:
        await self._write(partial(api_keys.note_use, used=used), long=True)

    # -- retention

    async def sweep(self, deadlines: Deadlines) -> Removed | None:
        old = self._old
        if old.over:
            self._old = old.again()
            return None
        if not old.things:
            self._old = old = await self._scan(partial(sweeping.find, deadlines=deadlines, at=old.then))
        if not old.things:
            return Removed()
        remove = partial(sweeping.remove, found=old, deadlines=deadlines, sealing=self._sealing)
        step = await self._write(remove)
        if step.heavy:
            step = await self._write(partial(remove, heavy=True), long=True)
        self._old = old._replace(things=old.things[step.done :])
        return step.removed

    async def tidy(self) -> bool:
        writer = self._writer
        if writer is None or writer.groups != self._groups:
            self._groups = 0 if writer is None else writer.groups
            return False
        if self._read(sweeping.may_shrink):
            await self._write(sweeping.shrink)
            self._groups = writer.groups
            return True
        if self._readable().files.log_size():
            writer.empty_log_if_idle()
        return False


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

    def log_size(self) -> int:
        with suppress(FileNotFoundError):  # `look` says so
            return self._files[1][1].stat().st_size
        return 0

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
