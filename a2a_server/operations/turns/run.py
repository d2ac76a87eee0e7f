"""A task with a live turn: drives the agent, lets further messages wait, carries out a cancel (spec: EXEC, CANX, STAT).

A run lives exactly as long as its turns. A task that waits for input has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.input_requests import kept_of
from a2a_server.domain.lifecycle import STOPPING, TERMINAL, is_stopping, is_terminal
from a2a_server.operations.services import Workshop
from a2a_server.operations.turns.briefing import brief
from a2a_server.operations.turns.direct import DirectReply
from a2a_server.operations.turns.failures import log_failure
from a2a_server.operations.turns.first_step import begin
from a2a_server.operations.turns.inbox import Inbox
from a2a_server.operations.turns.job import Job
from a2a_server.operations.turns.outlet import TurnOutlet
from a2a_server.operations.turns.signals import forget_signals, is_signaled
from a2a_server.operations.turns.slots import Seat
from a2a_server.operations.turns.subject import Subject
from a2a_server.operations.turns.writer import TaskWriter
from a2a_server.ports.agent import InvalidAgentResponse
from a2a_server.ports.plan import Plan
from a2a_server.protocol.errors import A2AError, Reason

logger = structlog.get_logger()

_FAILED_TEXT = "The agent failed while working on this task."
_UNTOLD = "how is not told, because the turn knows the answer to a sensitive request"
_STOPPED_TEXT = "The server was stopped while the agent was working on this task. Send the message again to start over."


class Run:
    """Owns the writer of one task while turns are live."""

    # What most runs never come to need stands here: setting it for each would cost more than a status.
    _cancels = 0
    """Cancels that are waiting for the agent to stop."""
    confirmed: asyncio.Future[None] | None = None
    task: asyncio.Task[None] | None = None
    over = False
    _in_agent = False
    _in_first_step = False
    _handing_over = False
    _discreet = False
    """Whether the agent knows what nobody else may read, so that its words stay out of the log (XTRA-04)."""
    _seat: Seat | None = None
    """The place in the queue, while there is no slot."""
    _timer: asyncio.TimerHandle | None = None
    _plan: Plan | None = None
    """The agent's, for the first turn of a new task."""

    def __init__(
        self, shop: Workshop, writer: TaskWriter, job: Job, *, state: bytes = b"", direct: DirectReply | None = None
    ) -> None:
        self.shop = shop
        self.writer = writer
        self.task_id = writer.task_id
        self.subject = Subject(shop, writer, job, state, direct)
        self.inbox = Inbox()
        self._current = job
        if job.call.trace is not None:
            writer.caused_by(job.call.trace)
        writer.on_lost = self._lost
        writer.patient = True

    # -- beginning

    def launch(self, *, confirm: bool, on_end: Callable[[Run], None]) -> None:
        """Start driving. With `confirm` nothing happens before what the writer holds is durable."""
        loop = asyncio.get_running_loop()
        if confirm:
            self.confirmed = loop.create_future()
        self.task = loop.create_task(self._drive(on_end))

    def begin(self, plan: Plan, on_end: Callable[[Run], None]) -> None:
        """Create the task, and let the agent take its first step; often it is the only one."""
        self._plan = plan
        self.writer.hold()
        self.subject.open()
        self._in_first_step = True
        begin(self._drive(on_end), self._adopt)
        self._in_first_step = False
        if not self.over:
            self.writer.let_go()
            if self._in_agent:
                self._set_timer()

    def _adopt(self, task: asyncio.Task[None]) -> None:
        self.task = task

    def join(self, job: Job) -> None:
        """Add a message to the task; it is durable in the history before its turn comes."""
        message = job.request.message
        message.task_id, message.context_id = self.task_id, self.writer.context_id
        job.kept = kept_of(self.writer.image.head, message)
        self._discreet = self._discreet or job.kept is not None
        job.number = self.writer.append(pb.StreamResponse(message=job.kept or message))
        self.writer.batch.begin(job)

    def enqueue(self, job: Job) -> None:
        """Let a further message wait for the running turn (SEND-13)."""
        if len(self.inbox) >= self.shop.limits.waiting_messages:
            text = f"{len(self.inbox)} messages are waiting for this task already. Try again later."
            raise A2AError(Reason.OVERLOADED, text, metadata={"taskId": self.task_id}, retry_after=1)
        self.join(job)
        self.inbox.put(job)

    def answering(self, key: str) -> Job | None:
        """The job with this receipt, if its turn runs or is still to come."""
        return next((job for job in (self._current, *self.inbox) if job.key == key), None)

    # -- the drive

    async def _drive(self, on_end: Callable[[Run], None]) -> None:
        slots, owner, seated = self.shop.slots, self._owner, False
        try:
            if self.confirmed is not None:
                await self.writer.drain()
                self.confirmed.set_result(None)
            seated = slots.occupy(owner) or await self._wait_for_slot(owner)
            job: Job | None = self._current
            while job is not None:
                await self._turn(job)
                if not self.inbox:
                    await self.writer.drain()
                job = self._next() if self.inbox else None
        except Exception as error:  # noqa: BLE001 - whatever ended the writing, readers and starters have been told
            self._abandon(error)
        finally:
            self.over = True
            self.writer.on_lost = None  # or the two would keep each other until the garbage is collected
            on_end(self)
            if seated:
                slots.release(owner)

    def _next(self) -> Job:
        job = self.inbox.take()
        self.writer.caused_by(job.call.trace)
        return job

    async def _wait_for_slot(self, owner: str) -> bool:
        self._seat = Seat(self.shop.slots, owner)
        return await self._seat.take()

    @property
    def _owner(self) -> str:
        """Whose share of the slots this run takes; the anonymous owner is everybody and has no share of its own."""
        caller = self._current.call.caller
        return f"{self.writer.scope.tenant}\n{caller.owner}" if caller.authenticated else ""

    async def _turn(self, job: Job) -> None:
        self._current = job
        if self._handing_over:
            return
        if self.writer.image.state in TERMINAL:
            self.writer.end([job.number])
            return
        subject = self.subject
        outlet = TurnOutlet(subject, self.inbox)
        if subject.cancel_metadata is None:
            await self._run_agent(job, outlet)
        outlet.over = True
        self.inbox.wake()  # what still listens hears that the turn is over
        if subject.cancel_metadata is not None:
            subject.move(pb.TASK_STATE_CANCELED)
        if subject.direct is not None:
            await subject.direct.settle()
            if subject.direct.given and not subject.exists:
                return
        if not self._handing_over:
            self._conclude(job, outlet)

    async def _run_agent(self, job: Job, outlet: TurnOutlet) -> None:
        writer = self.writer
        if writer.number and writer.image.state != pb.TASK_STATE_WORKING:
            job.after = writer.number
            self.subject.move(pb.TASK_STATE_WORKING)
        elif job.after is None:
            job.after = writer.number
        if not self._in_first_step:
            self._set_timer()
        self._in_agent = True
        try:
            await self.shop.agent.run(brief(job, writer, self.subject.saved, self.inbox, self._plan), outlet)
        except asyncio.CancelledError:
            self._absorb_cancel()
        except InvalidAgentResponse as error:
            self._invalid(_UNTOLD if self._discreet else str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a library that means to end its program must not end ours
            log_failure(self.task_id, error, discreet=self._discreet)
            self.subject.blame(_FAILED_TEXT, "AGENT_FAILED")
        finally:
            self._plan = None
            self._in_agent = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        if self.task is not None and is_signaled(self.task):
            await forget_signals(self.task)

    def _set_timer(self) -> None:
        if limit := self.shop.limits.turn_timeout:
            self._timer = asyncio.get_running_loop().call_later(limit, self._expire, limit)

    def _absorb_cancel(self) -> None:
        """The agent has stopped because somebody asked: a cancel, the time limit, the end of the server, or itself."""
        if self.subject.cancel_metadata is None and not self._handing_over and not is_terminal(self.subject.state):
            logger.warning("agent.failed", task_id=self.task_id, why="the agent canceled itself")
            self.subject.blame(_FAILED_TEXT, "AGENT_FAILED")

    def _conclude(self, job: Job, outlet: TurnOutlet) -> None:
        """A turn that ends without a message, a terminal or an interrupted state has failed (EXEC-06)."""
        if self.writer.image.state not in STOPPING and not (self.inbox and self.subject.exists):
            self._invalid("the agent returned without completing, asking or failing")
        self.writer.end([job.number, *outlet.taken] if outlet.taken else (job.number,))

    def _invalid(self, why: str) -> None:
        logger.warning("agent.invalid_response", task_id=self.task_id, why=why)
        self.subject.blame(f"The agent broke the protocol: {why}.", Reason.INVALID_AGENT_RESPONSE.name)

    # -- ending early

    async def cancel(self, metadata: struct_pb2.Struct) -> bool:
        """Signal the agent and wait for it; False when it has not stopped within the grace period (CANC-06).

        A repeat waits along: another signal would only disturb the agent's clean-up (CANC-04).
        """
        if not self._cancels:
            self.subject.cancel_metadata = metadata
            self._give_up_seat()
            self._interrupt()
        self._cancels += 1
        try:
            return await self.ended(self.shop.limits.cancel_grace)
        finally:
            self._cancels -= 1

    async def ended(self, within: float) -> bool:
        """Wait for the end of the run."""
        if self.task is not None and not self.over:
            await asyncio.wait([self.task], timeout=within)
        return self.over

    def _give_up_seat(self) -> None:
        if self._seat is not None:
            self._seat.give_up()

    def _interrupt(self) -> None:
        if self._in_agent and self.task is not None:
            self.task.cancel()

    def _expire(self, limit: float) -> None:
        """The task fails at once, so that even an agent that ignores the signal cannot keep it open (AGNT-05)."""
        logger.warning("turn.timeout", task_id=self.task_id, seconds=limit)
        self.subject.fail(f"The agent did not finish within {limit:g} seconds.", "TURN_TIMEOUT")
        self._interrupt()

    def shut_down(self) -> None:
        """The server stops: a restartable turn is left for the next process, any other is recorded as failed.

        A task that waits for its client goes on waiting, even when its agent has not returned yet.
        """
        if is_terminal(self.subject.state):
            pass  # all there is to do is on its way to the disk
        elif self._restartable():
            self._handing_over = True
            self.writer.close(shutting_down())
        elif is_stopping(self.subject.state):
            self._handing_over = True
        else:
            self.subject.fail(_STOPPED_TEXT, "SERVER_STOPPED")
        self._give_up_seat()
        self._interrupt()

    def _restartable(self) -> bool:
        return self.subject.exists and self.shop.agent.plan(self._current.request, self.subject.saved).restartable

    def _lost(self, error: Exception) -> None:
        """The writer gave up in the background; without it the turn is worth nothing."""
        self._abandon(error)
        self._interrupt()

    def _abandon(self, error: Exception) -> None:
        if not self._handing_over:
            logger.warning("run.abandoned", task_id=self.task_id, error=repr(error))
        self._handing_over = True
        if self.subject.direct is not None:
            self.subject.direct.fail(error)
        if self.confirmed is not None and not self.confirmed.done():
            self.confirmed.set_exception(error)
            self.confirmed.exception()  # the starter may be gone; an unread error is no news then


def shutting_down() -> A2AError:
    """What clients hear while the server stops."""
    return A2AError(Reason.UNAVAILABLE, "The server is shutting down. Try again in a moment.", retry_after=1)
