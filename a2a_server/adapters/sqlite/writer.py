"""Group commit on the one connection that writes (spec: DURA-01, DURA-07).

Everything that waits is done in one transaction on the event loop; a thread commits it, because that waits for the
disk; then the callers' futures are resolved. Meanwhile the next group gathers. It begins when its time has come or,
where several write at once, when the loop has paused: a commit costs as much as a send, whatever it holds.

The statements run on the loop because they take microseconds, and every statement that runs in a thread gives up the
interpreter's lock and must win it back from the loop, several times: under load that took a hundred times as long.
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
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from a2a_server.ports.store import Repeated, StaleWrite, StoreUnavailable

_GROUP = 128
"""Most jobs in one transaction: it bounds how long the loop does nothing else."""

_WAITING = 20_000
"""Most jobs that wait. Callers await theirs and so bound themselves; this is reached when the disk hangs."""

_NAP = 50e-6
_PAUSED = 150e-6
_LONGEST_PAUSE = 2e-3
"""Seconds. A nap that ends in time says that nobody else needs the processor."""

_PATIENCE = "PRAGMA busy_timeout = 5000"
_NO_PATIENCE = "PRAGMA busy_timeout = 0"
"""How long to wait for a lock that another program holds; on the loop never."""

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

T = TypeVar("T")


class Job(Generic[T]):
    """Something to do in a transaction. It checks all its preconditions before it touches anything."""

    __slots__ = ("error", "future", "long", "result", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T], future: asyncio.Future[T], *, long: bool) -> None:
        self.work = work
        self.future = future
        self.long = long
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


Group = Sequence[Job[object]]


class Writer:
    """Owns the writing connection. The loop and the thread take turns with it and never use it at once."""

    def __init__(self, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop) -> None:
        connection.execute(_NO_PATIENCE)
        self._connection = connection
        self._loop = loop
        self._waiting: deque[Job[object]] = deque()
        self._busy = False
        """From the first job on, until a group has been told and nothing waits."""
        self._idle: asyncio.Future[None] | None = None
        self._begun: SimpleQueue[Group | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="sqlite-writer", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[sqlite3.Connection], T], *, long: bool = False) -> T:
        """Do it in the next transaction; returns once it is durable. What is `long` keeps off the loop."""
        if len(self._waiting) >= _WAITING:
            raise StoreUnavailable(f"{_WAITING} writes wait for the disk")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the store was opened in another event loop; close it there, or here, and open it here")
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append(Job(work, future, long=long))  # type: ignore[arg-type]  # the future knows the type
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._begin)  # whoever else writes in this turn of the loop comes along
        return await future

    async def drain(self) -> None:
        """Wait until everything that was accepted is done. Where the loop has died, that is what it had begun."""
        if self._busy and not self._loop.is_closed():
            self._idle = self._loop.create_future()
            await self._idle

    def stop(self) -> None:
        """Leave the file in one piece. Blocks; not for the event loop's thread."""
        self._begun.put(None)
        self._thread.join()
        with suppress(sqlite3.Error):  # then the next one to open the file does it
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    # -- on the event loop

    def _begin(self) -> None:
        if not self._waiting:
            self._rest()
            return
        group = [self._waiting.popleft() for _ in range(min(len(self._waiting), _GROUP))]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for job in group:
                if not job.long:
                    job.run(self._connection)
        except Exception:  # noqa: BLE001 - whatever it is, the thread meets it again, and sees whose it is
            self._roll_back()
        self._begun.put(group)

    def _finish(self, group: Group) -> None:
        for job in group:
            job.tell()
        if len(group) == 1:
            self._loop.call_soon(self._begin)  # after whoever was just woken: it may write again

    def _rest(self) -> None:
        self._busy = False
        if self._idle is not None:
            self._idle.set_result(None)

    # -- in the thread

    def _run(self) -> None:
        work_in_the_background()
        while (group := self._begun.get()) is not None:
            self._complete(group)
            with suppress(RuntimeError):  # the loop was closed: nobody is left to be told
                self._loop.call_soon_threadsafe(self._finish, group)
                if len(group) > 1:
                    _await_a_pause()  # those who were just woken may write again, and others are on their way
                    self._loop.call_soon_threadsafe(self._begin)

    def _complete(self, group: Group) -> None:
        """Commit what the loop has done, or do everything over."""
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
        """A bad job takes its group down; then each gets a transaction of its own, and only the bad one fails."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._commit(group)
        except Exception as error:  # noqa: BLE001 - the thread must outlive whatever a job does
            self._roll_back()
            if len(group) == 1 or _is_locked(error):
                for job in group:
                    job.error = _verdict(error)
                return
            for job in group:
                self._redo([job])

    def _commit(self, jobs: Iterable[Job[object]]) -> None:
        for job in jobs:
            job.run(self._connection)
        self._connection.commit()  # one wait for the interpreter's lock; execute("COMMIT") would be three

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.rollback()


def _await_a_pause() -> None:
    """Sleep until the event loop does, or for a while.

    On a core that the two share, a nap ends when the loop sleeps. Where each has its own, it ends at once, and so does
    this: then groups need not grow.
    """
    now = time.monotonic()
    end = now + _LONGEST_PAUSE
    while now < end:
        begun = now
        time.sleep(_NAP)
        now = time.monotonic()
        if now - begun < _PAUSED:
            return


def _is_locked(error: Exception) -> bool:
    """Whether another program holds the file: each job by itself would wait for it as long."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED


def _verdict(error: Exception) -> Exception:
    """What the caller is told: the state of the engine, or that this very write is impossible."""
    if isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError:
        return unavailable(error)
    return error


def unavailable(error: sqlite3.Error) -> StoreUnavailable:
    """The engine's own words stay in the cause; whoever hears of the error gets its name only."""
    verdict = StoreUnavailable(f"the store cannot do it now ({getattr(error, 'sqlite_errorname', 'SQLITE_ERROR')})")
    verdict.__cause__ = error
    return verdict


def work_in_the_background() -> None:
    """Let the calling thread not interrupt others when it wakes.

    A thread that has waited for the disk is given the processor as soon as the disk is done; on a core that it shares
    with the event loop it pushes the loop aside. As a batch thread it waits for the loop to pause. With server and
    threads on one core that took a fifth to a third off a send. The command line asks the same for all threads that
    start with the server; this holds for a store in anybody's process, and for threads that start later.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it, and then it is only slower
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # 0 is the calling thread
