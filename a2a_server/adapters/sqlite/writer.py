"""Group commit on the one connection that writes (spec: DURA-01, DURA-07).

1. Jobs wait in a queue. A group of them runs in one transaction on the event loop.
2. A thread commits the transaction, because that waits for the disk. Meanwhile the next group gathers.
3. The callers' futures are resolved, and the next group begins. If several callers write at once, it begins when the
   loop pauses, so that the group is larger: a commit costs as much as a whole send, however much it holds.

The statements run on the loop, because they take microseconds. In a thread each of them would give up the interpreter's
lock and wait to get it back, which took a hundred times as long under load.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from a2a_server.ports.store import Repeated, StaleWrite, StoreGone, StoreUnavailable

_GROUP = 128
"""Most jobs in one transaction. It bounds how long the loop does nothing else."""

_WAITING = 20_000
"""Most jobs that wait. This is only reached when the disk hangs, because every caller awaits its job."""

_NAP = 50e-6
_PAUSED = 150e-6
_LONGEST_PAUSE = 2e-3
"""Seconds. If a short sleep ends on time, nothing else needs the processor."""

_PATIENCE = "PRAGMA busy_timeout = 5000"
_NO_PATIENCE = "PRAGMA busy_timeout = 0"
"""Milliseconds to wait for a lock that another program holds. On the loop there is no wait."""

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Job(Generic[T]):
    """Work for a transaction. It must check all preconditions before it writes anything."""

    work: Callable[[sqlite3.Connection], T]
    future: asyncio.Future[T]
    long: bool
    result: T | None = None
    error: Exception | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        self.result = self.error = None  # it may have run in a transaction that was rolled back
        try:
            self.result = self.work(connection)
        except (StaleWrite, Repeated) as verdict:
            self.error = verdict

    def tell(self) -> None:
        if self.future.done():
            return  # the caller was canceled
        if self.error is None:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # there is a result if there is no error
        else:
            self.future.set_exception(self.error)


Group = Sequence[Job[object]]


class Writer:
    """Owns the writing connection. The loop and the thread use it in turn, never at the same time."""

    def __init__(
        self, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop, check: Callable[[], None]
    ) -> None:
        """`check` is called in every transaction, before it writes. It raises `StoreGone` to refuse it."""
        connection.execute(_NO_PATIENCE)
        self._connection = connection
        self._check = check
        self._loop = loop
        self._waiting: deque[Job[object]] = deque()
        self._busy = False
        """From the first job until all are done."""
        self.groups = 0
        """How many have been begun. Whoever sees the same number again knows that nobody has written."""
        self._idle: asyncio.Future[None] | None = None
        self._begun: SimpleQueue[Group | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="sqlite-writer", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[sqlite3.Connection], T], *, long: bool = False) -> T:
        """Do the work in the next transaction. Returns when it is durable. `long` work runs in the thread."""
        if len(self._waiting) >= _WAITING:
            raise StoreUnavailable(f"{_WAITING} writes wait for the disk")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the store was opened in another event loop; close it there, or here, and open it here")
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append(Job(work, future, long=long))  # type: ignore[arg-type]  # the future has the type
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._begin)  # jobs added in this turn of the loop join the group
        return await future

    def empty_log_if_idle(self) -> None:
        """Write everything into the main file, in the thread. Jobs that come meanwhile wait."""
        if not self._busy:
            self._busy = True
            self._begun.put(())

    async def drain(self) -> None:
        """Wait until all accepted jobs are done. If their loop is closed, only those that had begun."""
        if self._busy and not self._loop.is_closed():
            self._idle = self._loop.create_future()
            await self._idle

    def stop(self) -> None:
        """Write everything into the main file. Blocks; must not be called on the event loop."""
        self._begun.put(None)
        self._thread.join()
        self._empty_log()
        self._connection.close()

    # -- on the event loop

    def _begin(self) -> None:
        if not self._waiting:
            self._rest()
            return
        self.groups += 1
        group = [self._waiting.popleft() for _ in range(min(len(self._waiting), _GROUP))]
        try:
            self._start()
            for job in group:
                if not job.long:
                    job.run(self._connection)
        except Exception:  # noqa: BLE001 - the thread does it again and finds the job that failed
            self._roll_back()
        self._begun.put(group)

    def _finish(self, group: Group) -> None:
        for job in group:
            job.tell()
        if len(group) <= 1:
            self._loop.call_soon(self._begin)  # after the caller that was just woken: it may write again

    def _rest(self) -> None:
        self._busy = False
        if self._idle is not None:
            self._idle.set_result(None)

    # -- in the thread

    def _run(self) -> None:
        work_in_the_background()
        while (group := self._begun.get()) is not None:
            if group:
                self._complete(group)
            else:
                self._empty_log()
            with suppress(RuntimeError):  # the loop was closed, so nobody waits
                self._loop.call_soon_threadsafe(self._finish, group)
                if len(group) > 1:
                    _await_a_pause()  # callers that were just woken may write again
                    self._loop.call_soon_threadsafe(self._begin)

    def _complete(self, group: Group) -> None:
        """Commit what the loop has done, or do everything again."""
        if self._connection.in_transaction:
            try:
                self._commit(job for job in group if job.long)
            except Exception:  # noqa: BLE001 - as on the loop
                self._roll_back()
            else:
                return
        self._connection.execute(_PATIENCE)
        self._redo(group)
        self._connection.execute(_NO_PATIENCE)

    def _redo(self, group: Group) -> None:
        """Do a group again. If it fails, each job gets a transaction of its own, and only the bad one fails."""
        try:
            self._start()
            self._commit(group)
        except Exception as error:  # noqa: BLE001 - no job may end the thread
            self._roll_back()
            if isinstance(error, StoreGone):
                self._empty_log()
            if len(group) == 1 or _holds_for_all(error):
                for job in group:
                    job.error = _verdict(error)
                return
            for job in group:
                self._redo([job])

    def _start(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._check()

    def _commit(self, jobs: Iterable[Job[object]]) -> None:
        for job in jobs:
            job.run(self._connection)
        self._connection.commit()  # waits once for the interpreter's lock; execute("COMMIT") waits three times

    def _empty_log(self) -> None:
        """Write everything into the main file. Another file in its place must not find a log that is not its own."""
        with suppress(sqlite3.Error):  # then whoever opens the file next does it
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.rollback()


def _await_a_pause() -> None:
    """Sleep until the event loop does, or for a while.

    If both share a core, a short sleep ends when the loop sleeps. If each has its own core, it ends at once, and groups
    need not grow.
    """
    now = time.monotonic()
    end = now + _LONGEST_PAUSE
    while now < end:
        begun = now
        time.sleep(_NAP)
        now = time.monotonic()
        if now - begun < _PAUSED:
            return


def _holds_for_all(error: Exception) -> bool:
    """Whether each job alone would fail, too: the files are gone, or another program holds a lock."""
    if isinstance(error, StoreGone):
        return True
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED


def _verdict(error: Exception) -> Exception:
    """The error for the caller: the store is unavailable, or this write is impossible."""
    if isinstance(error, StoreGone):
        return StoreGone(*error.args)  # one for each
    if isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError:
        return unavailable(error)
    return error


def unavailable(error: sqlite3.Error) -> StoreUnavailable:
    """The error for clients has only the name of SQLite's error. Its text stays in the cause."""
    verdict = StoreUnavailable(f"the store cannot do it now ({getattr(error, 'sqlite_errorname', 'SQLITE_ERROR')})")
    verdict.__cause__ = error
    return verdict


def work_in_the_background() -> None:
    """Schedule the calling thread so that it does not interrupt the event loop when it wakes.

    A thread that has waited for the disk is given the processor at once, and on a shared core it interrupts the loop.
    As a batch thread it waits until the loop pauses. With one core that saved a fifth to a third of a send. The command
    line does this for the whole server; here it is for a store inside any other process.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it, and then it is only slower
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # 0 is the calling thread
