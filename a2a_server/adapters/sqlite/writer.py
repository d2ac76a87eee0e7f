"""The one thread that writes, and its group commit (spec: DURA-01, DURA-07).

It takes everything that waits, does it in one transaction and resolves the callers' futures after COMMIT; meanwhile
the next group gathers. Nothing waits to fill a group.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from a2a_server.ports.store import Repeated, StaleWrite, StoreUnavailable

_GROUP = 1_000
"""Most jobs in one transaction: it bounds how long the first of them waits."""

_WAITING = 20_000
"""Most jobs in the queue. Callers await theirs and bound themselves, so this is reached when the disk hangs."""

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

T = TypeVar("T")


class Job(Generic[T]):
    """Something to do in a transaction. It checks all its preconditions before it touches anything."""

    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T], future: asyncio.Future[T]) -> None:
        self.work = work
        self.future = future
        self.result: T | None = None
        self.error: Exception | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        self.result = self.error = None  # it may have run before, in a transaction that was rolled back
        try:
            self.result = self.work(connection)
        except (StaleWrite, Repeated) as verdict:
            self.error = verdict

    def tell(self) -> None:
        if self.future.done():
            return  # its caller was canceled
        if self.error is None:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # without an error there is one
        else:
            self.future.set_exception(self.error)


class Writer:
    """Owns the writing connection from start to stop."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._queue: SimpleQueue[Job[object] | None] = SimpleQueue()
        self._stopping = False
        self._thread = Thread(target=self._run, name="sqlite-writer", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do it in the next transaction; returns once it is durable."""
        if self._stopping:
            raise StoreUnavailable("the store is closed")
        if self._queue.qsize() >= _WAITING:
            raise StoreUnavailable(f"{_WAITING} writes wait for the disk")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(Job(work, future))  # type: ignore[arg-type]  # whoever awaits the future knows its type
        return await future

    def stop(self) -> None:
        """Refuse more, do what was accepted, leave the file in one piece. Blocks; not for the event loop's thread."""
        self._stopping = True
        self._queue.put(None)
        self._thread.join()
        with suppress(sqlite3.Error):  # the next one to open the file does it instead
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def _run(self) -> None:
        going = True
        while going:
            group: list[Job[object]] = []
            job = self._queue.get()
            while job is not None:
                group.append(job)
                if len(group) == _GROUP:
                    break
                try:
                    job = self._queue.get_nowait()
                except Empty:
                    break
            going = job is not None
            self._serve(group)
            _tell(group)

    def _serve(self, group: Sequence[Job[object]]) -> None:
        try:
            self._transact(group)
        except Exception as error:  # noqa: BLE001 - the thread must outlive whatever a job does
            self._roll_back()
            if len(group) == 1 or _is_locked(error):
                for job in group:
                    job.error = _verdict(error)
                return
            for job in group:  # one by one: whichever cannot be done fails alone
                self._serve([job])

    def _transact(self, group: Sequence[Job[object]]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for job in group:
            job.run(self._connection)
        execute("COMMIT")

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _tell(group: Sequence[Job[object]]) -> None:
    """Wake each loop once, however many of its callers there are."""
    for loop in {job.future.get_loop() for job in group}:
        jobs = [job for job in group if job.future.get_loop() is loop]
        with suppress(RuntimeError):  # a loop that is closed has nobody left to tell
            loop.call_soon_threadsafe(_tell_all, jobs)


def _tell_all(jobs: Sequence[Job[object]]) -> None:
    for job in jobs:
        job.tell()


def _is_locked(error: Exception) -> bool:
    """Whether another program holds the file; trying job by job would wait for it as often."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED


def _verdict(error: Exception) -> Exception:
    """What the caller is told: the state of the engine, or that this very write is impossible."""
    if isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError:
        return unavailable(error)
    return error


def unavailable(error: sqlite3.Error) -> StoreUnavailable:
    """The engine's own code and words stay in the cause; a client gets its name only."""
    verdict = StoreUnavailable(f"the store cannot do it now ({getattr(error, 'sqlite_errorname', 'SQLITE_ERROR')})")
    verdict.__cause__ = error
    return verdict
