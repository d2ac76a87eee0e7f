"""A task with live turns: runs the agent, queues further messages, carries out a cancel (spec: EXEC, CANX, STAT).

A live task exists as long as it has turns. A task that waits for input has none.
"""

from __future__ import annotations

import asyncio
from asyncio import FIRST_COMPLETED
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import structlog
from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import millis, next_status_ms, set_time
from a2a_server.domain.input_requests import kept_of
from a2a_server.domain.lifecycle import STOPPING, TERMINAL
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.operations.services import Services, plan_of
from a2a_server.operations.turns.exchange import TurnInput, WaitingMessages
from a2a_server.operations.turns.registry import STOP_SECONDS, QueuedTurn, owner_of, shutting_down
from a2a_server.operations.turns.turn_events import DirectReply, TurnEvents
from a2a_server.operations.turns.turn_failures import broke_protocol, canceled_itself, failed
from a2a_server.operations.turns.turn_task import TurnTask
from a2a_server.ports.agent import Plan, never_run
from a2a_server.ports.store import ContextQuery, StoreUnavailable
from a2a_server.protocol.errors import A2AError, Reason

logger = structlog.get_logger()

_STOPPED_TEXT = "The server was stopped while the agent was working on this task. Send the message again to start over."


class LiveTask:
    """Owns the writer of one task while turns are live."""

    # Defaults of rarely used attributes are on the class, because setting them for every task costs time.
    confirmed: asyncio.Future[None] | None = None
    """Done when the first commit is done; None if nobody waits for it."""
    cancel_metadata: struct_pb2.Struct | None = None
    """The metadata of the cancel request; None if there was none."""
    over = False
    plan: Plan | None = None
    """The agent's plan, if callers need scopes to send further messages."""
    _cancels = 0
    """How many cancel calls wait for the agent to stop."""
    _refused: asyncio.Future[None] | None = None
    """Done when the agent refuses to stop; None if nobody has asked it to."""
    _in_agent = False
    _handing_over = False
    _remembered: Mapping[str, bytes | None] | None = None
    """Values that turns have saved for the context, and that may not be stored yet."""
    knows_secret = False
    """Whether the agent knows the answer to a sensitive request. Then its error texts stay out of the log (XTRA-04)."""
    _admit: Callable[[], None] | None = None
    """Adds the first message to the task, if the agent may still refuse it; None afterwards (AGNT-12)."""
    _queued: QueuedTurn | None = None
    """Its entry in the queue, while it waits for a slot."""
    _timer: asyncio.TimerHandle | None = None
    _task: TurnTask | None = None

    def __init__(
        self,
        services: Services,
        writer: TaskWriter,
        first: TurnInput,
        *,
        saved: bytes = b"",
        direct: DirectReply | None = None,
    ) -> None:
        self.services = services
        self.served = services.agents.of(writer.scope.tenant)
        self.writer = writer
        self.task_id = writer.task_id
        self.saved = saved
        """The state that the agent saved."""
        self.direct = direct
        """Set if the first turn may answer or refuse without a task."""
        self.waiting = WaitingMessages()
        self._current = first
        if first.call.trace is not None:
            writer.caused_by(first.call.trace)
        writer.on_lost = self._lost
        writer.waits_for_store = True

    def require_scopes(self, plan: Plan) -> None:
        """Require the skill's scopes for further messages (GATE-07)."""
        if plan.scopes:
            self.plan = plan

    # -- start, and further messages

    def launch(self, on_end: Callable[[LiveTask], None], *, confirm: bool) -> None:
        """Start the turns, in the next step of the event loop. With `confirm` the first commit comes before that."""
        loop = asyncio.get_running_loop()
        if confirm:
            self.confirmed = loop.create_future()
        self._task = TurnTask(self._drive(on_end), loop=loop, name="turn")

    def join(self, message: TurnInput) -> None:
        """Add a message to the task's history, before its turn begins."""
        self._address(message)
        message.number = self.writer.append(pb.StreamResponse(message=message.kept or message.request.message))
        self.writer.begin(message)

    def wait_for_admission(self, message: TurnInput, admit: Callable[[], None]) -> None:
        """Let the agent refuse the first message. The agent's first event calls `admit`, which adds it (AGNT-12)."""
        self._address(message)
        message.number = self.writer.number + 1
        self._admit = admit

    def _address(self, message: TurnInput) -> None:
        said = message.request.message
        said.task_id, said.context_id = self.task_id, self.writer.context_id
        message.kept = kept_of(self.writer.head, said)
        self.knows_secret = self.knows_secret or message.kept is not None

    def enqueue(self, message: TurnInput) -> None:
        """Queue a further message until the running turn has ended (SEND-13)."""
        if len(self.waiting) >= self.services.limits.waiting_messages:
            text = f"{len(self.waiting)} messages are waiting for this task already. Try again later."
            raise A2AError(Reason.OVERLOADED, text, metadata={"taskId": self.task_id}, retry_after=1)
        self.join(message)
        self.waiting.put(message)

    def with_receipt(self, key: str) -> TurnInput | None:
        """Return the message with this receipt, if its turn runs or waits."""
        return next((message for message in (self._current, *self.waiting) if message.key == key), None)

    def with_number(self, number: int) -> TurnInput | None:
        """Return the message with this number, if its turn runs or waits."""
        return next((message for message in (self._current, *self.waiting) if message.number == number), None)

    # -- running the agent

    async def _drive(self, on_end: Callable[[LiveTask], None]) -> None:
        slots, owner, seated = self.served.slots, owner_of(self._current.call.caller), False
        try:
            if self.confirmed is not None:
                await self.writer.drain()
                self.confirmed.set_result(None)
            seated = slots.occupy(owner) or await self._wait_for_slot(owner)
            current: TurnInput | None = self._current
            while current is not None:
                await self._turn(current)
                if not self.waiting or self._remembered is not None:  # the next turn reads these values from the store
                    await self.writer.drain()
                current = self._next() if self.waiting else None
        except Exception as error:  # noqa: BLE001 - whatever ended the writing, readers and starters have been told
            self._abandon(error)
        finally:
            self.over = True
            self.writer.on_lost = None  # breaks the reference cycle
            on_end(self)
            if seated:
                slots.release(owner)

    def _next(self) -> TurnInput:
        message = self.waiting.take()
        self.writer.caused_by(message.call.trace)
        return message

    async def _wait_for_slot(self, owner: str) -> bool:
        """Wait for a slot; False if the turn was canceled first."""
        over = asyncio.Event()
        self._queued = self.served.slots.wait(owner, over.set)
        await over.wait()
        self._current.new = False  # other tasks may have begun in the context
        if self._queued.canceled:
            return False
        if (fault := await self._no_room()) is not None:
            if not self.exists:
                self._abandon(fault)
            else:
                self.move(pb.TASK_STATE_FAILED, fault.message, fault.reason.name)
        return True

    async def _no_room(self) -> A2AError | None:
        """Return why a turn that waited cannot begin: the turns before it may have used up its owner's room."""
        if self._current.rerun:
            return None  # it had begun before
        with suppress(StoreUnavailable):  # whatever the turn writes waits for it
            return await self.services.quotas.fault(self._current.call)
        return None

    async def _turn(self, current: TurnInput) -> None:
        self._current = current
        if self._handing_over:
            return
        if self.writer.state in TERMINAL:
            self.writer.end([current.number])
            return
        events = TurnEvents(self, self.writer)
        if self.cancel_metadata is None:
            await self._run_agent(current, events)
        events.over = True
        self.waiting.wake()  # wakes an agent that still waits for a message
        if self.cancel_metadata is not None:
            self.move(pb.TASK_STATE_CANCELED)
        if self.direct is not None:
            await self.direct.settle()
            if self.direct.given and not self.exists:
                return
        if not self._handing_over:
            # A turn that ends without a message, a terminal or an interrupted state has failed (EXEC-06).
            if self.writer.state not in STOPPING and not (self.waiting and self.exists):
                broke_protocol(self, "the agent returned without completing, asking or failing")
            self.writer.end([current.number, *events.taken])

    async def _run_agent(self, current: TurnInput, events: TurnEvents) -> None:
        writer = self.writer
        if self.exists and writer.state != pb.TASK_STATE_WORKING:
            current.after = writer.number
            self.move(pb.TASK_STATE_WORKING)
        elif current.after is None:
            current.after = writer.number
        self._in_agent = True
        if self.served.limits.turn_timeout:  # most turns end in their first step and need no timer
            asyncio.get_running_loop().call_soon(self._limit_time)
        try:
            run: Callable[..., Awaitable[object]] = self.served.agent.run  # an author's own may return anything
            memory = None if current.new else await self.services.store.context(self._context())
            answer = await run(current.begin(writer, self.saved, self.waiting, memory), events)
            if answer is not None and (fault := never_run(answer)):
                broke_protocol(self, fault)
        except asyncio.CancelledError:
            self._absorb_cancel()
        except BaseException as error:  # SystemExit from a library must not end the server
            if isinstance(error, GeneratorExit) and not self._is_running():
                raise  # not from the agent: this turn's coroutine is being destroyed
            failed(self, error)
        finally:
            self._in_agent = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        if self._task is not None and self._task.signaled:
            await self._task.forget_signals()

    def _context(self) -> ContextQuery:
        writer, limits = self.writer, self.services.limits
        place = writer.scope, writer.context_id, self.task_id
        return ContextQuery(*place, limits.context_messages, limits.context_bytes)

    def _is_running(self) -> bool:
        return self._task is not None and asyncio.current_task(self._task.get_loop()) is self._task

    def _limit_time(self) -> None:
        if self._in_agent and self._timer is None:
            limit = self.served.limits.turn_timeout
            self._timer = asyncio.get_running_loop().call_later(limit, self._expire, limit)

    def _absorb_cancel(self) -> None:
        """Handle the agent's CancelledError: from a cancel, the time limit, the server's stop, or the agent itself."""
        if not self._handing_over and self.writer.state not in TERMINAL:
            canceled_itself(self)

    def fail(self, text: str, reason: str) -> None:
        """Fail the task because of its agent. If a cancel is pending, the task is canceled instead."""
        if self.cancel_metadata is None:
            self.move(pb.TASK_STATE_FAILED, text, reason)

    # -- the task

    @property
    def exists(self) -> bool:
        """Whether the task has been created and has its first message."""
        return self.writer.number > 0 and self._admit is None

    async def wait_until_admitted(self) -> None:
        """Wait until the first message is in the task, or the turn that refused it has ended (AGNT-12)."""
        if self.direct is not None:
            await asyncio.wait([self.direct.message])
        if self._admit is not None:
            await self.ended(STOP_SECONDS)

    def open(self) -> None:
        """Create the task, as its first event. A direct turn does this only when it needs a task."""
        current, admit = self._current, self._admit
        if admit is None:
            self.writer.create(self.services.session.id, current)
            self.services.audit_creation(current.call, self.task_id)
            self.services.audit_config(current.call, self.task_id, current.request)
        else:
            self._admit = None
            admit()
        current.after = current.number
        if self.saved:
            self.writer.save(self.saved)
        if self._remembered is not None:
            self.writer.remember(self._remembered)
        if self.direct is not None:
            self.direct.become_task()

    def record(self, event: pb.StreamResponse) -> None:
        """Create the task for a checked event that is not a direct answer, and append it (EXEC-02)."""
        self._open_for(event.status_update.status.state)
        if event.HasField("status_update"):  # its time is before that of WORKING, which comes first (STAT-04)
            stamp = event.status_update.status.timestamp
            set_time(stamp, next_status_ms(self.writer.status_ms, millis(stamp)))
        self.writer.append(event)

    def _open_for(self, state: int) -> None:
        self.open()
        if pb.TASK_STATE_WORKING not in {state, self.writer.state}:
            self.move(pb.TASK_STATE_WORKING)

    def move(self, state: int, text: str = "", reason: str = "") -> None:
        """Set a state on behalf of the server, if the lifecycle allows it."""
        if not self.exists:
            self._open_for(state)
        message = self.services.status_message(self.writer, text, {"reason": reason}) if text else None
        self.writer.move(state, self.services.clock.now_ms(), message)

    def save(self, state: bytes) -> None:
        """Save the agent's state. It is written when the task exists."""
        self.saved = state
        if self.exists:
            self.writer.save(state)

    def remember(self, changes: Mapping[str, bytes | None]) -> None:
        """Save values for all tasks of the context. They are written when the task exists."""
        self._remembered = {**(self._remembered or {}), **changes}
        if self.exists:
            self.writer.remember(changes)

    # -- ending early

    async def cancel(self, metadata: struct_pb2.Struct) -> bool:
        """Signal the agent and wait until it stops; False if it has not stopped within the grace period (CANC-06).

        A repeated cancel only waits: another signal would disturb the agent's clean-up (CANC-04).
        """
        if not self._cancels:
            self.cancel_metadata = metadata
            self._refused = asyncio.get_running_loop().create_future()
            self._interrupt()
        self._cancels += 1
        try:
            if self._task is not None and self._refused is not None and not self.over:
                ends = (self._task, self._refused)
                await asyncio.wait(ends, timeout=self.served.limits.cancel_grace, return_when=FIRST_COMPLETED)
            return self.over
        finally:
            self._cancels -= 1

    def refuse_cancel(self) -> None:
        """Let the turn go on as if nobody had asked to cancel it."""
        if self._refused is not None and not self._refused.done():
            self._refused.set_result(None)
            self.cancel_metadata = None

    async def ended(self, within: float) -> bool:
        """Wait for the end of all turns; False if they have not ended in time."""
        if self._task is not None and not self.over:
            await asyncio.wait([self._task], timeout=within)
        return self.over

    def _interrupt(self) -> None:
        if self._queued is not None:
            self.served.slots.leave(self._queued)
        if self._in_agent and self._task is not None:
            self._task.cancel()

    def _expire(self, limit: float) -> None:
        """Fail the task at once, before the agent stops, because the agent may ignore the signal (AGNT-05)."""
        logger.warning("turn.timeout", task_id=self.task_id, seconds=limit)
        self.move(pb.TASK_STATE_FAILED, f"The agent did not finish within {limit:g} seconds.", "TURN_TIMEOUT")
        self._interrupt()

    def outgrow(self, most: int) -> None:
        """The task fails at once, as at the time limit, so that no agent can fill the store (LIMT-01)."""
        size = self.writer.log_bytes
        logger.warning("turn.too_large", task_id=self.task_id, bytes=size)
        text = f"The log of this task has {size} bytes, and limits.bytes_per_task allows {most}."
        self.move(pb.TASK_STATE_FAILED, text, Reason.QUOTA_EXCEEDED.name)
        self._interrupt()

    def shut_down(self) -> None:
        """Stop the turns because the server stops: leave restartable ones to the next process, and fail the others.

        A task that waits for its client keeps waiting, even if its agent has not returned yet.
        """
        if self.writer.state in TERMINAL:
            pass  # everything is queued for the store already
        elif self.exists and plan_of(self.served.agent, self._current.request, self.saved).restartable:
            self._handing_over = True
            self.writer.close(shutting_down())
        elif self.writer.state in STOPPING:
            self._handing_over = True
            if self._admit is not None:  # the message is not in the task, and its sender may try again
                self.writer.close(shutting_down())
                self._abandon(shutting_down())
        else:
            self.move(pb.TASK_STATE_FAILED, _STOPPED_TEXT, "SERVER_STOPPED")
        self._interrupt()

    def give_up(self, error: Exception) -> None:
        """Leave the turns to another server, as they are in the store. Readers here go on and see what that writes."""
        self.writer.close(error)
        self._lost(error)

    def _lost(self, error: Exception) -> None:
        """Stop the turns because the writer has failed."""
        self._abandon(error)
        self._interrupt()

    def _abandon(self, error: Exception) -> None:
        if not self._handing_over:
            logger.warning("turn.abandoned", task_id=self.task_id, error=repr(error))
        self._handing_over = True
        if self.direct is not None:
            self.direct.fail(error)
        if self.confirmed is not None and not self.confirmed.done():
            self.confirmed.set_exception(error)
            self.confirmed.exception()  # nobody may read this error; reading it here avoids asyncio's warning
