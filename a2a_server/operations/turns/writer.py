"""The one writer of a task's log in this process: numbers events, folds them, commits them in groups (spec: DURA-01).

Events queue while a commit is under way and go together in the next; nothing waits to fill a group. Readers are told
after the commit, so nothing is visible before it is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain import pieces
from a2a_server.domain.pieces import Draft
from a2a_server.domain.trace import Trace
from a2a_server.operations.turns.batch import Batch, Begun
from a2a_server.operations.turns.image import TaskImage
from a2a_server.ports.records import Entry, Lease, Write
from a2a_server.ports.store import Repeated, Store, StoredTask, StoreUnavailable

if TYPE_CHECKING:
    from a2a_server.domain.scope import Scope
    from a2a_server.operations.log.log import EventLog

_RETRY_FIRST, _RETRY_MOST = 0.05, 1.0

_BURST = 4
"""A task, WORKING, one artifact, COMPLETED: what a plain answer consists of."""

_BREATH = 0.001
_STEPS_TO_THE_DOOR = 4
"""Turns of the loop from an event to the wire: the commit is scheduled, done, its reader wakes, its door sends."""

logger = structlog.get_logger()


class TaskWriter:
    """A task being written."""

    # What most writers never come to need stands here: setting it for each would cost more than a status.
    closed: Exception | None = None
    on_lost: Callable[[Exception], None] | None = None
    on_owed: Callable[[], None] | None = None
    """Called when webhooks have become payable; where nobody wants to know, none are owed (PAID-01)."""
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

    def __init__(self, store: Store, log: EventLog, scope: Scope, task: StoredTask | Draft, pending_limit: int) -> None:
        self.scope = scope
        if isinstance(task, Draft):
            self.task_id, self.context_id = task.task_id, task.context_id
            self.number = self.durable = self.epoch = 0
            self.image = TaskImage(task)
        else:
            self.task_id, self.context_id = task.task.id, task.task.context_id
            self.number = self.durable = task.number
            self.epoch = task.epoch
            self.image = TaskImage(task.task)
        self.committed = self.number > 0
        self._ours = not self.committed
        """Whether the log is ours: until its first write has succeeded, a writer fails without ending the readers."""
        self._store = store
        self._log = log
        self._pending_limit = pending_limit
        self.batch = Batch()
        """What the next commit will hold. What goes there directly goes along; it makes no commit due."""

    # -- the log, and what makes a commit due

    def append(self, event: pb.StreamResponse) -> int:
        """Number an event, fold it into the task and queue it; returns its number."""
        if self.closed is not None:
            return self.number
        wire = event.SerializeToString()
        self.image.fold(event, len(wire))
        return self._queue(wire, event)

    def create(self, lease: Lease, begun: Begun) -> None:
        """The first event, the task as it stands; with it its creator takes the right to write, and its turn begins."""
        if self.closed is not None:
            return
        begun.number = self._queue(pieces.creation(self.image.created()))
        self.claim(lease)
        self.batch.begin(begun)

    def append_status(self, event: pb.StreamResponse, status: pb.TaskStatus, at_ms: int) -> None:
        """`append` for a status event, by somebody who knows that it is one, and its time."""
        if self.closed is None:
            self.image.fold_status(status, at_ms)
            self._queue(event.SerializeToString(), event)

    def append_plain_status(self, state: int, at_ms: int) -> None:
        """`append_status` for one that says nothing but when."""
        if self.closed is None:
            image = self.image
            self._queue(pieces.update(image.ids, image.fold_plain_status(state, at_ms)))

    def append_artifact(self, event: pb.StreamResponse, update: pb.TaskArtifactUpdateEvent) -> None:
        """`append` for an artifact event, by somebody who knows that it is one."""
        if self.closed is None:
            wire = event.SerializeToString()
            self.image.fold_artifact(update, len(wire))
            self._queue(wire, event)

    def _queue(self, wire: bytes, event: pb.StreamResponse | None = None) -> int:
        number = self.number = self.number + 1
        self.batch.entries.append(Entry(number, wire, event))
        if not (self._scheduled or self._draining):
            self._schedule()
        return number

    def claim(self, lease: Lease) -> None:
        """Take the right to write with the next commit, which then fails if anybody else wrote in between."""
        self.epoch += 1
        self.batch.claim = lease

    def end(self, numbers: Iterable[int]) -> None:
        """Turns are over."""
        self.batch.end(numbers)
        self._schedule()

    def save(self, state: bytes) -> None:
        self.batch.state = state
        self._schedule()

    def caused_by(self, trace: Trace | None) -> None:
        """Say to which trace the events belong from here on (TRAC-01)."""
        self.batch.caused_by(trace, self.number + 1)

    def close(self, error: Exception) -> None:
        """Write nothing more from here on; what waits is dropped."""
        self.closed = error
        self.batch.drop()
        if self._pausing is not None and not self._pausing.done():
            self._pausing.set_result(None)
        self._tell_waiters()

    # -- back-pressure and durability

    def hold(self) -> None:
        """Schedule no commit for now: whoever says so drains, or lets go before the loop turns."""
        self._scheduled = True

    def let_go(self) -> None:
        self._scheduled = False
        if self._dirty:
            self._schedule()

    @property
    def unwritten(self) -> Sequence[Entry]:
        """The log of a task of which nothing is under way to the store; none when something is."""
        return () if self.durable or self._committing else self.batch.entries

    @property
    def at_rest(self) -> bool:
        """Whether the image is exactly what is durable."""
        return self.durable == self.number

    @property
    def _dirty(self) -> bool:
        # Without a task there is nothing to add to.
        return not self.batch.empty and self.number > 0 and self.closed is None

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
        pending = len(self.batch.entries)
        return pending > _BURST or pending >= self._pending_limit

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
        while len(self.batch.entries) >= self._pending_limit:
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
        write = self.batch.take(self.scope, self.task_id, self.durable, self.epoch, self.image)
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
            self._log.publish(self.task_id, write.entries)
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
