"""The store in one SQLite file, and which connection and thread does what (spec: RECV-01, DURA-01)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from a2a_server.adapters.sqlite import lists, push, push_admin, receipts, schema, tasks
from a2a_server.adapters.sqlite.writer import Writer, unavailable, work_in_the_background
from a2a_server.domain.scope import Scope
from a2a_server.ports.push import NO_LIMITS, ConfigFilter, ConfigStatus, Delivery, FailedAttempt, HostLimits, PushConfig
from a2a_server.ports.records import Entry, Lease, Receipt, Write
from a2a_server.ports.store import Claimed, StoredTask, StoreUnavailable, TaskPage, TaskQuery

T = TypeVar("T")
_Work = Callable[[sqlite3.Connection], T]


class SqliteStore:
    """One connection writes, in groups. Long reads have a thread of their own; short ones run on the event loop."""

    shared = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None
        self._door = asyncio.Lock()
        self._writer: Writer | None = None
        self._reader: SqliteReader | None = None
        self._last_host = ""
        """The host whose webhooks were claimed last. The next claim begins after it."""

    async def open(self) -> None:
        """Raises `StoreRefused` if the file is another program's, newer, in use, or no database."""
        async with self._door:
            if self._writer is None:
                await asyncio.to_thread(self._open, asyncio.get_running_loop())

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        with ExitStack() as undo:
            lock = schema.acquire(self._path)
            undo.callback(os.close, lock)
            connection = undo.enter_context(closing(schema.connect_writer(self._path)))
            tasks.make_secret(connection)
            push.unclaim(connection)
            self._reader = SqliteReader(self._path)
            undo.pop_all()
        self._lock = lock
        self._writer = Writer(connection, loop)

    async def close(self) -> None:
        """Finish all accepted calls and release the file."""
        async with self._door:
            writer, self._writer = self._writer, None
            if writer is not None:
                await writer.drain()
                reader, self._reader = self._reader, None
                await asyncio.to_thread(self._close, writer, reader)

    def _close(self, writer: Writer, reader: SqliteReader | None) -> None:
        if reader is not None:
            reader.stop()
        writer.stop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _write(self, work: _Work[T], *, long: bool = False) -> T:
        if self._writer is None:
            raise StoreUnavailable("the store is closed")
        return await self._writer.do(work, long=long)

    def _read(self, work: _Work[T]) -> T:
        """Read on the event loop.

        A point read takes microseconds, and a thread would take fifty times as long. It never waits, because in WAL
        mode writers do not block readers.
        """
        if self._reader is None:
            raise StoreUnavailable("the store is closed")
        return self._reader.read(work)

    async def _scan(self, work: _Work[T]) -> T:
        if self._reader is None:
            raise StoreUnavailable("the store is closed")
        return await self._reader.scan(work)

    async def ping(self) -> None:
        self._read(tasks.secret)

    async def secret(self) -> bytes:
        return self._read(tasks.secret)

    # -- tasks

    async def commit(self, write: Write) -> bool:
        return await self._write(partial(tasks.commit, write=write))

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
        return self._read(partial(receipts.recall, scope=scope, key=key, now_ms=now_ms))

    async def reserve(self, scope: Scope, receipt: Receipt, now_ms: int, *, instead_of: str = "") -> Receipt:
        return await self._write(
            partial(receipts.reserve, scope=scope, receipt=receipt, now_ms=now_ms, instead_of=instead_of)
        )

    async def answer(self, scope: Scope, key: str, reply: bytes) -> None:
        await self._write(partial(receipts.answer, scope=scope, key=key, reply=reply))

    # -- push configs and deliveries

    async def put_config(self, scope: Scope, hook: PushConfig) -> bool:
        return await self._write(partial(push.put_config, scope=scope, hook=hook))

    async def get_config(self, scope: Scope, task_id: str, config_id: str) -> PushConfig | None:
        return self._read(partial(push.get_config, scope=scope, task_id=task_id, config_id=config_id))

    async def configs(self, scope: Scope, task_id: str, after: str, limit: int) -> Sequence[PushConfig] | None:
        return await self._scan(partial(push.configs, scope=scope, task_id=task_id, after=after, limit=limit))

    async def delete_config(self, scope: Scope, task_id: str, config_id: str) -> bool:
        work = partial(push.delete_config, scope=scope, task_id=task_id, config_id=config_id)
        return await self._write(work, long=True)  # it may have thousands of deliveries

    async def next_due(self) -> int | None:
        return self._read(push.next_due)

    async def claim_deliveries(
        self, now_ms: int, until_ms: int, limit: int, limits: HostLimits = NO_LIMITS
    ) -> Sequence[Delivery]:
        """In steps, each in its own transaction: there may be many hosts, and the statements run on the event loop."""
        order = push.ClaimOrder(now_ms, until_ms, limit, limits)
        at = push.ClaimRound(self._last_host, self._last_host)
        claimed: list[Delivery] = []
        while order.limit > 0 and not at.over:
            deliveries, at = await self._write(partial(push.claim, order=order, at=at))
            claimed += deliveries
            order = push.started(deliveries, order)
        self._last_host = at.place
        return claimed

    async def finish_attempt(self, delivery: Delivery, failure: FailedAttempt | None) -> bool:
        return await self._write(partial(push.settle, delivery=delivery, failure=failure))

    async def push_status(self, wanted: ConfigFilter, limit: int) -> Sequence[ConfigStatus]:
        return await self._scan(partial(push_admin.status, wanted=wanted, limit=limit))

    async def retry_deliveries(self, wanted: ConfigFilter) -> int:
        return await self._write(partial(push_admin.retry, wanted=wanted), long=True)

    async def drop_deliveries(self, wanted: ConfigFilter) -> int:
        return await self._write(partial(push_admin.drop, wanted=wanted), long=True)


class SqliteReader:
    """Two connections that cannot write."""

    def __init__(self, path: Path) -> None:
        self._near = schema.connect_reader(path, timeout=0)  # for the event loop, which must never wait
        self._far = schema.connect_reader(path, timeout=5)
        self._thread = ThreadPoolExecutor(1, "sqlite-reader", initializer=work_in_the_background)

    def read(self, work: _Work[T]) -> T:
        """Read on the event loop."""
        return _serving(work, self._near)

    async def scan(self, work: _Work[T]) -> T:
        """Read in the reader's thread."""
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
