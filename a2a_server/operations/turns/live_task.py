"""A task with live turns: drives the agent, lets further messages wait, carries out a cancel (spec: EXEC, CANX, STAT).

It lives exactly as long as its turns. A task that waits for input has none.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable

import structlog
from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import millis, next_status_ms, set_time
from a2a_server.domain.input_requests import kept_of
from a2a_server.domain.lifecycle import STOPPING, TERMINAL
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.operations.services import Services, restartable
from a2a_server.operations.turns.exchange import TurnInput, WaitingMessages
from a2a_server.operations.turns.registry import Seat, owner_of, shutting_down
from a2a_server.operations.turns.turn_events import DirectReply, TurnEvents
from a2a_server.operations.turns.turn_task import TurnTask
from a2a_server.ports.agent import InvalidAgentResponse, never_run
from a2a_server.protocol.errors import A2AError, Reason

logger = structlog.get_logger()

_FAILED_TEXT = "The agent failed while working on this task."
_UNTOLD = "how is not told, because the turn knows the answer to a sensitive request"
_STOPPED_TEXT = "The server was stopped while the agent was working on this task. Send the message again to start over."


class LiveTask:
    """Owns the writer of one task while turns are live."""

    # What most tasks never need has its default here: setting it for each would cost more than a status.
    confirmed: asyncio.Future[None] | None = None
    """Done when the first commit is; None for those who need not know."""
    cancel_metadata: struct_pb2.Struct | None = None
    """What came with the wish to cancel the task; None as long as nobody has it."""
    over = False
    _cancels = 0
    """Cancels that are waiting for the agent to stop."""
    _in_agent = False
    _handing_over = False
    _discreet = False
    """Whether the agent knows what nobody else may read, so that its words stay out of the log (XTRA-04)."""
    _seat: Seat | None = None
    """The place in the queue, while there is no slot."""
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
        self.agent = services.agent_for(writer.scope.tenant)
        self.writer = writer
        self.task_id = writer.task_id
        self.saved = saved
        """What the agent saved."""
        self.direct = direct
        """Set for a turn that may answer without making a task."""
        self.waiting = WaitingMessages()
        self._current = first
        if first.call.trace is not None:
            writer.caused_by(first.call.trace)
        writer.on_lost = self._lost
        writer.patient = True

    # -- beginning

    def launch(self, on_end: Callable[[LiveTask], None], *, confirm: bool) -> None:
        """Start driving, when the loop turns. With `confirm` the first commit comes before anything else."""
        loop = asyncio.get_running_loop()
        if confirm:
            self.confirmed = loop.create_future()
        self._task = TurnTask(self._drive(on_end), loop=loop, name="turn")

    def join(self, message: TurnInput) -> None:
        """Add a message to the task; it is durable in the history before its turn comes."""
        said = message.request.message
        said.task_id, said.context_id = self.task_id, self.writer.context_id
        message.kept = kept_of(self.writer.head, said)
        self._discreet = self._discreet or message.kept is not None
        message.number = self.writer.append(pb.StreamResponse(message=message.kept or said))
        self.writer.begin(message)

    def enqueue(self, message: TurnInput) -> None:
        """Let a further message wait for the running turn (SEND-13)."""
        if len(self.waiting) >= self.services.limits.waiting_messages:
            text = f"{len(self.waiting)} messages are waiting for this task already. Try again later."
            raise A2AError(Reason.OVERLOADED, text, metadata={"taskId": self.task_id}, retry_after=1)
        self.join(message)
        self.waiting.put(message)

    def with_receipt(self, key: str) -> TurnInput | None:
        """The message that left this receipt, if its turn runs or is still to come."""
        return next((message for message in (self._current, *self.waiting) if message.key == key), None)

    # -- driving the agent

    async def _drive(self, on_end: Callable[[LiveTask], None]) -> None:
        slots, owner, seated = self.services.slots, owner_of(self._current.call.caller), False
        try:
            if self.confirmed is not None:
                await self.writer.drain()
                self.confirmed.set_result(None)
            seated = slots.occupy(owner) or await self._wait_for_slot(owner)
            current: TurnInput | None = self._current
            while current is not None:
                await self._turn(current)
                if not self.waiting:
                    await self.writer.drain()
                current = self._next() if self.waiting else None
        except Exception as error:  # noqa: BLE001 - whatever ended the writing, readers and starters have been told
            self._abandon(error)
        finally:
            self.over = True
            self.writer.on_lost = None  # or the two would keep each other until the garbage is collected
            on_end(self)
            if seated:
                slots.release(owner)

    def _next(self) -> TurnInput:
        message = self.waiting.take()
        self.writer.caused_by(message.call.trace)
        return message

    async def _wait_for_slot(self, owner: str) -> bool:
        """Whether there was a slot before the turn was given up."""
        over = asyncio.Event()
        self._seat = self.services.slots.wait(owner, over.set)
        await over.wait()
        return not self._seat.canceled

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
        self.waiting.wake()  # whoever still listens hears that the turn is over
        if self.cancel_metadata is not None:
            self.move(pb.TASK_STATE_CANCELED)
        if self.direct is not None:
            await self.direct.settle()
            if self.direct.given and not self.exists:
                return
        if not self._handing_over:
            # A turn that ends without a message, a terminal or an interrupted state has failed (EXEC-06).
            if self.writer.state not in STOPPING and not (self.waiting and self.exists):
                self._invalid("the agent returned without completing, asking or failing")
            self.writer.end([current.number, *events.taken])

    async def _run_agent(self, current: TurnInput, events: TurnEvents) -> None:
        writer = self.writer
        if self.exists and writer.state != pb.TASK_STATE_WORKING:
            current.after = writer.number
            self.move(pb.TASK_STATE_WORKING)
        elif current.after is None:
            current.after = writer.number
        self._in_agent = True
        if self.services.limits.turn_timeout:  # most turns end in their first step, and need no timer
            asyncio.get_running_loop().call_soon(self._limit_time)
        try:
            run: Callable[..., Awaitable[object]] = self.agent.run  # an author's own may return anything
            answer = await run(current.begin(writer, self.saved, self.waiting), events)
            if answer is not None and (fault := never_run(answer)):
                self._invalid(fault)
        except asyncio.CancelledError:
            self._absorb_cancel()
        except InvalidAgentResponse as error:
            self._invalid(_UNTOLD if self._discreet else str(error))
        except BaseException as error:  # noqa: BLE001 - a library that means to end its program must not end ours
            self._accuse(error)
        finally:
            self._in_agent = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        if self._task is not None and self._task.signaled:
            await self._task.forget_signals()

    def _accuse(self, error: BaseException) -> None:
        task = self._task
        if isinstance(error, GeneratorExit) and (task is None or asyncio.current_task(task.get_loop()) is not task):
            raise error  # not the agent's: nobody runs this turn any more, and Python throws its coroutine away
        _log_failure(self.task_id, error, discreet=self._discreet)
        self._blame(_FAILED_TEXT, "AGENT_FAILED")

    def _limit_time(self) -> None:
        if self._in_agent and self._timer is None:
            limit = self.services.limits.turn_timeout
            self._timer = asyncio.get_running_loop().call_later(limit, self._expire, limit)

    def _absorb_cancel(self) -> None:
        """The agent has stopped because somebody asked: a cancel, the time limit, the end of the server, or itself."""
        if self.cancel_metadata is None and not self._handing_over and self.writer.state not in TERMINAL:
            logger.warning("agent.failed", task_id=self.task_id, why="the agent canceled itself")
            self._blame(_FAILED_TEXT, "AGENT_FAILED")

    def _invalid(self, why: str) -> None:
        logger.warning("agent.invalid_response", task_id=self.task_id, why=why)
        self._blame(f"The agent broke the protocol: {why}.", Reason.INVALID_AGENT_RESPONSE.name)

    def _blame(self, text: str, reason: str) -> None:
        """Fail the task for what its agent did. One that was canceled is canceled, whatever its agent stops with."""
        if self.cancel_metadata is None:
            self.move(pb.TASK_STATE_FAILED, text, reason)

    # -- the task

    @property
    def exists(self) -> bool:
        """Whether the task has been created, as far as its turns are concerned."""
        return self.writer.number > 0

    def open(self) -> None:
        """Create the task: its first event. A direct turn does so only when it needs to."""
        current = self._current
        self.writer.create(self.services.leases.new(), current)
        current.after = current.number
        if self.saved:
            self.writer.save(self.saved)
        if self.direct is not None:
            self.direct.become_task()

    def record(self, event: pb.StreamResponse) -> None:
        """Create the task for a checked event that is not a direct answer, and append it (EXEC-02)."""
        self._open_for(event.status_update.status.state)
        if event.HasField("status_update"):  # it was made before the WORKING that now goes in front of it (STAT-04)
            stamp = event.status_update.status.timestamp
            set_time(stamp, next_status_ms(self.writer.status_ms, millis(stamp)))
        self.writer.append(event)

    def _open_for(self, state: int) -> None:
        self.open()
        if state != pb.TASK_STATE_WORKING:
            self.move(pb.TASK_STATE_WORKING)

    def move(self, state: int, text: str = "", reason: str = "") -> None:
        """Move the task on the server's own account, if the lifecycle allows it."""
        if not self.exists:
            self._open_for(state)
        message = self.services.explain(self.writer, text, {"reason": reason}) if text else None
        self.writer.move(state, self.services.clock.now_ms(), message)

    def save(self, state: bytes) -> None:
        """Keep what the agent saved; written with its task, once there is one."""
        self.saved = state
        if self.exists:
            self.writer.save(state)

    # -- ending early

    async def cancel(self, metadata: struct_pb2.Struct) -> bool:
        """Signal the agent and wait for it; False when it has not stopped within the grace period (CANC-06).

        A repeat waits along: another signal would only disturb the agent's clean-up (CANC-04).
        """
        if not self._cancels:
            self.cancel_metadata = metadata
            self._interrupt()
        self._cancels += 1
        try:
            return await self.ended(self.services.limits.cancel_grace)
        finally:
            self._cancels -= 1

    async def ended(self, within: float) -> bool:
        """Wait for the end of all turns; whether it has come."""
        if self._task is not None and not self.over:
            await asyncio.wait([self._task], timeout=within)
        return self.over

    def _interrupt(self) -> None:
        if self._seat is not None:
            self.services.slots.leave(self._seat)
        if self._in_agent and self._task is not None:
            self._task.cancel()

    def _expire(self, limit: float) -> None:
        """The task fails at once, so that even an agent that ignores the signal cannot keep it open (AGNT-05)."""
        logger.warning("turn.timeout", task_id=self.task_id, seconds=limit)
        self.move(pb.TASK_STATE_FAILED, f"The agent did not finish within {limit:g} seconds.", "TURN_TIMEOUT")
        self._interrupt()

    def shut_down(self) -> None:
        """The server stops: a restartable turn is left for the next process, any other is recorded as failed.

        A task that waits for its client goes on waiting, even when its agent has not returned yet.
        """
        if self.writer.state in TERMINAL:
            pass  # all there is to do is on its way to the disk
        elif self.exists and restartable(self.agent, self._current.request, self.saved):
            self._handing_over = True
            self.writer.close(shutting_down())
        elif self.writer.state in STOPPING:
            self._handing_over = True
        else:
            self.move(pb.TASK_STATE_FAILED, _STOPPED_TEXT, "SERVER_STOPPED")
        self._interrupt()

    def _lost(self, error: Exception) -> None:
        """The writer gave up in the background; without it the turn is worth nothing."""
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
            self.confirmed.exception()  # the starter may be gone; an unread error is no news then


def _log_failure(task_id: str, error: BaseException, *, discreet: bool) -> None:
    """Log the traceback; where the agent knows what nobody may read, only the places that lead to the error."""
    if not discreet:
        logger.error("agent.failed", task_id=task_id, exc_info=error)
        return
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    logger.error("agent.failed", task_id=task_id, error=type(error).__name__, frames=frames)
