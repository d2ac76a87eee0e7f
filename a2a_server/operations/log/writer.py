"""The only writer of a task's log: numbers events, applies them to the task, commits them in groups (spec: DURA-01).

1. `append` numbers an event, applies it to the snapshot, queues it and schedules a commit.
2. The commit begins in the next step of the event loop, and takes all queued events. Events that arrive meanwhile go
   with the next commit. A commit never waits for more events.
3. After the commit, the log's readers are woken. So nothing is visible before it is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import next_status_ms, status_update
from a2a_server.domain.lifecycle import may_move
from a2a_server.domain.reducer import fold
from a2a_server.domain.trace import Trace
from a2a_server.operations.log.snapshot import Batch, BeginningTurn, Snapshot
from a2a_server.operations.replicas.session import lost_touch
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import Entry, Receipt, Write
from a2a_server.ports.store import Repeated, StaleWrite, Store, StoredTask, StoreUnavailable

if TYPE_CHECKING:
    from a2a_server.domain.scope import Scope
    from a2a_server.operations.log.readers import EventLog, Reader

_RETRY_FIRST, _RETRY_MOST = 0.05, 1.0

_PLAIN = 4
"""How many events a plain answer has: the task, WORKING, one artifact, COMPLETED."""
_BEFORE_CHUNKS = 2
"""How many events come before the first chunk: the task and WORKING."""

_BURST_SECONDS = 0.001
_LOOP_STEPS_TO_WIRE = 4
"""Steps of the event loop from an event to the wire: schedule the commit, commit, wake the reader, send."""

logger = structlog.get_logger()


class TaskWriter:
    """Writes one task."""

    # Defaults of rarely used attributes are on the class, because setting them for every writer costs time.
    closed: Exception | None = None
    """The error that closed the writer; None while it is open."""
    on_lost: Callable[[Exception], None] | None = None
    """Called when a commit fails and nobody waits for it."""
    on_deliveries: Callable[[], None] | None = None
    """Called when deliveries of webhooks have become due; None if webhooks are not delivered (PAID-01)."""
    waits_for_store = False
    """Whether to wait for a store that is away. A running turn waits; a caller that waits for an answer does not."""
    _scheduled = False
    _last_pause = 0.0
    _draining = False
    _committing = False
    _commits = 0
    _waiters: Sequence[asyncio.Future[None]] = ()
    _commit_due: asyncio.Task[None] | None = None
    _pausing: asyncio.Future[None] | None = None

    def __init__(self, store: Store, log: EventLog, scope: Scope, record: StoredTask, pending_limit: int) -> None:
        """Continue after `record`. A record with number 0 is a new task."""
        self.scope = scope
        self.task_id, self.context_id = record.task.id, record.task.context_id
        self.number = self.durable = record.number
        """The numbers of the last queued and of the last committed event."""
        self.log_bytes = record.log_bytes
        self.committed = record.number > 0
        self._epoch = record.epoch
        self._owns_log = not self.committed
        """Whether this writer has written the log. If its first write fails, it does not end the log's readers."""
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
        """Why the server stopped the turn; "" if the agent did; None if the turn has not stopped."""
        return self._snapshot.stop

    @property
    def head(self) -> pb.Task:
        """The task without its artifacts. Do not change it."""
        return self._snapshot.head

    @property
    def is_durable(self) -> bool:
        """Whether everything is durable."""
        return self.durable == self.number

    def wire(self) -> bytes:
        return self._snapshot.wire()

    def copy(self) -> pb.Task:
        """Return a copy of the task."""
        return self._snapshot.copy()

    def view(self) -> Callable[[], pb.Task]:
        """Return a function that makes a copy of the task as it is now. A new task is copied only when it is called."""
        if 0 < self.number == len(self._batch.entries):
            return partial(_folded, tuple(self._batch.entries))
        return partial(_itself, self._snapshot.copy())

    def has_last_chunk(self, artifact_id: str) -> bool:
        """Whether the artifact is complete (ARTF-03)."""
        return self._snapshot.has_last_chunk(artifact_id)

    def follow(self) -> Reader:
        """Open a reader of the whole log."""
        return self._log.reader(self.task_id, 0, head=self.durable, error=self.closed)

    # -- changes that schedule a commit

    def append(self, event: pb.StreamResponse) -> int:
        """Number an event, apply it to the task and queue it; return its number."""
        if self.closed is not None:
            return self.number
        wire = event.SerializeToString()
        self.log_bytes += len(wire)
        self._snapshot.fold(event, len(wire))
        self.number += 1
        self._batch.entries.append(Entry(self.number, wire, event))
        self._schedule()
        return self.number

    def create(self, session: str, turn: BeginningTurn) -> None:
        """Append the task itself as the first event, take the right to write, and begin a turn."""
        event = pb.StreamResponse()
        event.task.CopyFrom(self._snapshot.head)
        turn.number = self.append(event)
        self.claim(session)
        self._batch.begin(turn)

    def move(self, state: int, now_ms: int, message: pb.Message | None = None) -> None:
        """Set a status on behalf of the server, unless the lifecycle forbids it (STAT-04)."""
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

    def remember(self, changes: Mapping[str, bytes | None]) -> None:
        """Save values for all tasks of the context. The last value of a name counts."""
        self._batch.remember = {**(self._batch.remember or {}), **changes}
        self._schedule()

    # -- additions to the next commit

    def claim(self, session: str) -> None:
        """Take the right to write with the next commit. It fails if anybody else has written in between."""
        self._epoch += 1
        self._batch.claim = session

    def begin(self, turn: BeginningTurn) -> None:
        """Store a turn that begins, or waits to begin."""
        self._batch.begin(turn)

    def register(self, hook: PushConfig) -> None:
        """Add a push config that gets the events from the next one on (SEND-07)."""
        self._batch.register(hook)

    def add_receipt(self, once: Receipt, now_ms: int) -> None:
        """Let the commit succeed only if this send was not made before (ONCE-01). A commit has at most one receipt."""
        self._batch.once, self._batch.now_ms = once, now_ms

    @property
    def has_receipt(self) -> bool:
        return self._batch.once is not None

    def caused_by(self, trace: Trace | None) -> None:
        """Set the trace of all further events (TRAC-01)."""
        self._batch.caused_by(trace, self.number + 1)

    def close(self, error: Exception) -> None:
        """Write nothing more, and drop what is queued."""
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
            asyncio.get_running_loop().call_soon(self._commit_soon)

    def _commit_soon(self) -> None:
        self._scheduled = False
        if self._dirty and not self._draining:
            self._commit_due = asyncio.get_running_loop().create_task(self._drain_quietly())

    async def _drain_quietly(self) -> None:
        try:
            await self.drain()
        except Exception as error:  # noqa: BLE001 - whoever owns the run is told, and readers were
            if self.on_lost is not None:
                self.on_lost(error)

    async def drain(self) -> None:
        """Make everything appended so far durable, or raise the error that prevents it.

        A caller that may be canceled must use `settle`, because a commit must not be interrupted.
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
        """Wait until everything appended so far is durable. Safe to cancel."""
        target = self._commits + self._committing + self._dirty
        while self._commits < target and self.closed is None:
            await self._next_commit()
        if self.closed is not None:
            raise self.closed

    @property
    def is_full(self) -> bool:
        """Whether `room` might wait. Callers check it first, because that is cheaper."""
        pending = len(self._batch.entries)
        plain = _BEFORE_CHUNKS if self._snapshot.is_streaming else _PLAIN
        return pending > plain or pending >= self._pending_limit

    async def room(self) -> None:
        """Wait while too many events wait for the disk. Safe to cancel.

        An agent that never awaits is paused now and then, so that its first events are sent while it goes on (STRM-08).
        A turn of few events is not paused, so that it costs one commit.
        """
        if self._scheduled and self.is_full:
            loop = asyncio.get_running_loop()
            if (now := loop.time()) > self._last_pause + _BURST_SECONDS:
                for _ in range(_LOOP_STEPS_TO_WIRE):
                    await asyncio.sleep(0)
                self._last_pause = now
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
        write.notify = self.on_deliveries is not None
        self._committing = True
        owed = False
        refusal: Exception | None = None
        try:
            try:
                owed = await self._store.commit(write)
            except (Repeated, StoreUnavailable) as error:
                refusal = error
            if refusal is not None:
                owed = await self._retry(write, refusal)
        except Exception as error:
            if isinstance(error, StaleWrite) and self._owns_log and self.committed and self._log.shared:
                taken_over = lost_touch()  # readers here go on, and see what the other server writes
                self.close(taken_over)
                raise taken_over from error
            self.close(error)
            if self._owns_log:
                self._log.fail(self.task_id, error)
            raise
        finally:
            self._committing = False
        self._commits += 1
        self.committed = self._owns_log = True
        if write.entries:
            self.durable = write.entries[-1].number
            self._wakeups.tell(self.task_id, self.durable, write.entries)
        if owed and self.on_deliveries is not None:
            self.on_deliveries()
        if self._waiters:
            self._tell_waiters()

    async def _retry(self, write: Write, error: Exception) -> bool:
        """Repeat the commit while the store is away, if the turn is already visible to clients (DURA-07)."""
        pause = _RETRY_FIRST
        while True:
            if isinstance(error, Repeated):
                if not self.committed or write.claim is not None:
                    raise error
                # Somebody else took the key in this very moment. The turn that is running must not pay for that.
                write.receipt = None
            else:
                if not (self.waits_for_store and self.committed) or write.claim is not None or self.closed is not None:
                    raise error
                logger.warning("store.unavailable", task_id=self.task_id, retry_in=pause)
                await self._pause(pause)
                pause = min(2 * pause, _RETRY_MOST)
            try:
                return await self._store.commit(write)
            except (Repeated, StoreUnavailable) as again:
                error = again

    async def _pause(self, seconds: float) -> None:
        """Sleep until the time is over or the writer is closed."""
        self._pausing = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._pausing], timeout=seconds)
        self._pausing = None


def _folded(entries: Sequence[Entry]) -> pb.Task:
    task = pb.Task()
    fold(task, (entry.event for entry in entries))
    return task


def _itself(task: pb.Task) -> pb.Task:
    return task
