"""The one writer of a task's log in this process: numbers events, folds them, commits them in groups (spec: DURA-01).

1. `append` numbers an event, folds it into the snapshot and queues it; it makes a commit due.
2. The commit begins when the loop turns, and takes all that is queued. What comes meanwhile goes with the next one;
   nothing waits to fill a group.
3. After the commit the log's readers are told, so nothing is visible before it is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import next_status_ms, status_update
from a2a_server.domain.lifecycle import may_move
from a2a_server.domain.reducer import fold
from a2a_server.domain.trace import Trace
from a2a_server.operations.log.snapshot import Batch, BeginningTurn, Snapshot
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import Entry, Lease, Receipt, Write
from a2a_server.ports.store import Repeated, Store, StoredTask, StoreUnavailable

if TYPE_CHECKING:
    from a2a_server.domain.scope import Scope
    from a2a_server.operations.log.readers import EventLog, Reader

_RETRY_FIRST, _RETRY_MOST = 0.05, 1.0

_PLAIN = 4
"""A task, WORKING, one artifact, COMPLETED: what a plain answer consists of."""
_BEFORE_CHUNKS = 2
"""The task and WORKING."""

_BREATH = 0.001
_STEPS_TO_THE_DOOR = 4
"""Turns of the loop from an event to the wire: the commit is scheduled, done, its reader wakes, its door sends."""

logger = structlog.get_logger()


class TaskWriter:
    """A task being written."""

    # What most writers never need has its default here: setting it for each would cost more than a status.
    closed: Exception | None = None
    """Why nothing more is written, once that is so."""
    on_lost: Callable[[Exception], None] | None = None
    """Called when a commit failed while nobody was waiting for it."""
    on_owed: Callable[[], None] | None = None
    """Called when webhooks have become payable; without it none are owed (PAID-01)."""
    patient = False
    """Whether to wait for a store that is away: a turn that runs does, whoever waits for an answer does not."""
    _scheduled = False
    _breathed = 0.0
    _draining = False
    _committing = False
    _commits = 0
    _waiters: Sequence[asyncio.Future[None]] = ()
    _kicked: asyncio.Task[None] | None = None
    _pausing: asyncio.Future[None] | None = None

    def __init__(self, store: Store, log: EventLog, scope: Scope, record: StoredTask, pending_limit: int) -> None:
        """Go on where `record` ends. One with number 0 is a task that is to be created."""
        self.scope = scope
        self.task_id, self.context_id = record.task.id, record.task.context_id
        self.number = self.durable = record.number
        """The last event that was queued, and the last that was committed."""
        self.committed = record.number > 0
        self._epoch = record.epoch
        self._ours = not self.committed
        """Whether the log is ours: until its first write has succeeded, a writer fails without ending the readers."""
        self._store = store
        self._log = log
        self._wakeups = log.wakeups
        self._pending_limit = pending_limit
        self._snapshot = Snapshot(record.task)
        self._batch = Batch()

    # -- the task with all that is queued

    @property
    def state(self) -> int:
        return self._snapshot.state

    @property
    def status_ms(self) -> int:
        return self._snapshot.status_ms

    @property
    def stop(self) -> str | None:
        """Why the server itself stopped the turn, "" if the agent did; None when it has not been seen to stop."""
        return self._snapshot.stop

    @property
    def head(self) -> pb.Task:
        """The task without its artifacts, to be read only."""
        return self._snapshot.head

    @property
    def at_rest(self) -> bool:
        """Whether all of it is durable."""
        return self.durable == self.number

    def wire(self) -> bytes:
        return self._snapshot.wire()

    def copy(self) -> pb.Task:
        """The task, for the caller to own."""
        return self._snapshot.copy()

    def view(self) -> Callable[[], pb.Task]:
        """A function that makes a copy of the task as it is now. A new task is copied only when that is called."""
        if 0 < self.number == len(self._batch.entries):
            return partial(_folded, tuple(self._batch.entries))
        return partial(_itself, self._snapshot.copy())

    def has_last_chunk(self, artifact_id: str) -> bool:
        """Whether the artifact is complete (ARTF-03)."""
        return self._snapshot.has_last_chunk(artifact_id)

    def follow(self) -> Reader:
        """A reader of the whole log, whatever has become of it so far."""
        return self._log.reader(self.task_id, 0, head=self.durable, error=self.closed)

    # -- what makes a commit due

    def append(self, event: pb.StreamResponse) -> int:
        """Number an event, fold it into the task and queue it; returns its number."""
        if self.closed is not None:
            return self.number
        wire = event.SerializeToString()
        self._snapshot.fold(event, len(wire))
        self.number += 1
        self._batch.entries.append(Entry(self.number, wire, event))
        self._schedule()
        return self.number

    def create(self, lease: Lease, turn: BeginningTurn) -> None:
        """Append the task itself as the first event; its creator takes the right to write, and a turn begins."""
        event = pb.StreamResponse()
        event.task.CopyFrom(self._snapshot.head)
        turn.number = self.append(event)
        self.claim(lease)
        self._batch.begin(turn)

    def move(self, state: int, now_ms: int, message: pb.Message | None = None) -> None:
        """Give the task a status on the server's own account, unless its lifecycle forbids it (STAT-04)."""
        if may_move(self.state, state):
            at_ms = next_status_ms(self.status_ms, now_ms)
            event, _ = status_update(self.task_id, self.context_id, state, at_ms, message)
            self.append(event)

    def end(self, numbers: Iterable[int]) -> None:
        self._batch.end(numbers)
        self._schedule()

    def save(self, state: bytes) -> None:
        self._batch.state = state
        self._schedule()

    # -- what goes along with the next commit

    def claim(self, lease: Lease) -> None:
        """Take the right to write with the next commit, which then fails if anybody else wrote in between."""
        self._epoch += 1
        self._batch.claim = lease

    def begin(self, turn: BeginningTurn) -> None:
        """Record that a turn begins, or waits for its turn."""
        self._batch.begin(turn)

    def register(self, hook: PushConfig) -> None:
        """Add a push config that must be there before the next event (SEND-07)."""
        self._batch.register(hook)

    def leave_receipt(self, once: Receipt, now_ms: int) -> None:
        """Let the commit succeed only if nobody has sent this before (ONCE-01). It has room for one receipt."""
        self._batch.once, self._batch.now_ms = once, now_ms

    @property
    def has_receipt(self) -> bool:
        return self._batch.once is not None

    def caused_by(self, trace: Trace | None) -> None:
        """Say to which trace the events belong from here on (TRAC-01)."""
        self._batch.caused_by(trace, self.number + 1)

    def close(self, error: Exception) -> None:
        """Write nothing more from here on; what waits is dropped."""
        self.closed = error
        self._batch.drop()
        if self._pausing is not None and not self._pausing.done():
            self._pausing.set_result(None)
        self._tell_waiters()

    # -- back-pressure and durability

    @property
    def _dirty(self) -> bool:
        # Without a task there is nothing to add to.
        return not self._batch.empty and self.number > 0 and self.closed is None

    def _schedule(self) -> None:
        if not self._scheduled and not self._draining:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._kick)

    def _kick(self) -> None:
        self._scheduled = False
        if self._dirty and not self._draining:
            self._kicked = asyncio.get_running_loop().create_task(self._drain_quietly())

    async def _drain_quietly(self) -> None:
        try:
            await self.drain()
        except Exception as error:  # noqa: BLE001 - whoever owns the run is told, and readers were
            if self.on_lost is not None:
                self.on_lost(error)

    async def drain(self) -> None:
        """Make everything appended so far durable; raises why it cannot become so.

        Not for tasks that may be canceled: a commit under way must be seen to its end. They use `settle`.
        """
        if self._draining:
            return await self.settle()
        self._draining = True
        try:
            while self._dirty:
                await self._commit()
        finally:
            self._draining = False
            if self._waiters:
                self._tell_waiters()
        if self.closed is not None:
            raise self.closed
        return None

    async def settle(self) -> None:
        """Wait until everything appended so far is durable, whatever is appended meanwhile; safe to cancel."""
        target = self._commits + self._committing + self._dirty
        while self._commits < target and self.closed is None:
            await self._next_commit()
        if self.closed is not None:
            raise self.closed

    @property
    def pressed(self) -> bool:
        """Whether `room` might wait; few turns ever need to ask."""
        pending = len(self._batch.entries)
        plain = _BEFORE_CHUNKS if self._snapshot.is_streaming else _PLAIN
        return pending > plain or pending >= self._pending_limit

    async def room(self) -> None:
        """Wait while too many events wait for the disk; safe to cancel.

        A burst from an agent that never pauses is let out now and then, so that its first event leaves while it goes
        on (STRM-08). Turns of few events are spared that: they are to cost one commit.
        """
        if self._scheduled and self.pressed:
            loop = asyncio.get_running_loop()
            if (now := loop.time()) > self._breathed + _BREATH:
                for _ in range(_STEPS_TO_THE_DOOR):
                    await asyncio.sleep(0)
                self._breathed = now
        while len(self._batch.entries) >= self._pending_limit:
            await self._next_commit()

    async def _next_commit(self) -> None:
        self._schedule()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters = [*self._waiters, waiter]
        await waiter

    def _tell_waiters(self) -> None:
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _commit(self) -> None:
        write = self._batch.take(self.scope, self.task_id, self.durable, self._epoch, self._snapshot)
        write.notify = self.on_owed is not None
        self._committing = True
        owed = False
        refusal: Exception | None = None
        try:
            try:
                owed = await self._store.commit(write)
            except (Repeated, StoreUnavailable) as error:
                refusal = error
            if refusal is not None:
                owed = await self._insist(write, refusal)
        except Exception as error:
            self.close(error)
            if self._ours:
                self._log.fail(self.task_id, error)
            raise
        finally:
            self._committing = False
        self._commits += 1
        self.committed = self._ours = True
        if write.entries:
            self.durable = write.entries[-1].number
            self._wakeups.tell(self.task_id, self.durable, write.entries)
        if owed and self.on_owed is not None:
            self.on_owed()
        if self._waiters:
            self._tell_waiters()

    async def _insist(self, write: Write, error: Exception) -> bool:
        """Commit all the same; once a turn is known to the outside, a store that is away is waited for (DURA-07)."""
        pause = _RETRY_FIRST
        while True:
            if isinstance(error, Repeated):
                if not self.committed or write.claim is not None:
                    raise error
                # Somebody else took the key in this very moment. The turn that is running must not pay for that.
                write.receipt = None
            else:
                if not (self.patient and self.committed) or write.claim is not None or self.closed is not None:
                    raise error
                logger.warning("store.unavailable", task_id=self.task_id, retry_in=pause)
                await self._pause(pause)
                pause = min(2 * pause, _RETRY_MOST)
            try:
                return await self._store.commit(write)
            except (Repeated, StoreUnavailable) as again:
                error = again

    async def _pause(self, seconds: float) -> None:
        """Sleep, unless the writer is closed meanwhile."""
        self._pausing = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._pausing], timeout=seconds)
        self._pausing = None


def _folded(entries: Sequence[Entry]) -> pb.Task:
    task = pb.Task()
    fold(task, (entry.event for entry in entries))
    return task


def _itself(task: pb.Task) -> pb.Task:
    return task
