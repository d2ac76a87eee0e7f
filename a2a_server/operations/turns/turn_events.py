"""Checks an agent's events before they enter the log (spec: SEND-14, STAT-02, ARTF-03, EXEC-02, EXEC-03).

Missing ids and times are filled in. An event that the protocol forbids is an error of the agent. A state that the
task's lifecycle forbids is dropped and logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import structlog
from google.protobuf import struct_pb2
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.checkers import checker_of
from a2a_server.domain.demands import faults_of
from a2a_server.domain.events import has_in_band, mark_in_band, millis, next_status_ms, set_time
from a2a_server.domain.free_form import readable
from a2a_server.domain.input_requests import UNDECLARED
from a2a_server.domain.lifecycle import MOVES, STOPPING, TERMINAL, may_move
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.ports.agent import InternalEvent, InvalidAgentResponse
from a2a_server.protocol.names import INPUT_REQUEST_URI

if TYPE_CHECKING:
    from a2a_server.operations.turns.live_task import LiveTask

logger = structlog.get_logger()

_sound_status = checker_of(pb.TaskStatusUpdateEvent.DESCRIPTOR)
_sound_artifact = checker_of(pb.Artifact.DESCRIPTOR)
_sound_message = checker_of(pb.Message.DESCRIPTOR)

KeepReply = Callable[[pb.Message], Awaitable[None]]
"""Stores an answer before it is sent, for sends that may be repeated."""

Release = Callable[[], Awaitable[None]]
"""Removes the receipt of a send that was refused, so that it may be repeated (AGNT-12)."""

_KIND_PREFIX = "internal:"
_MOST_FAULTS = 5
_UNBOUNDED = 2**62


class TurnEvents:
    """The events of one turn. Events after the end of the turn are dropped and logged."""

    __slots__ = ("_dropped", "_live", "_most", "_writer", "over", "taken")

    def __init__(self, live: LiveTask, writer: TaskWriter) -> None:
        self._live = live
        self._writer = writer
        self._most = live.services.limits.bytes_per_task or _UNBOUNDED
        self._dropped = False
        self.over = False
        self.taken: list[int] = []
        """Numbers of further messages that this turn has taken."""

    # -- events

    def emit(self, event: pb.StreamResponse) -> None:
        match event.WhichOneof("payload"):
            case "artifact_update":
                self._artifact(event)
            case "status_update":
                self._status(event)
            case "message":
                self._reply(event.message)
            case "task":
                self._begin(event.task)
            case _:
                raise InvalidAgentResponse("an event needs one of status_update, artifact_update, message")

    def _begin(self, task: pb.Task) -> None:
        """Begin the task of a direct turn. What is in it beside its address comes as events of their own."""
        live = self._live
        if live.exists or self.over or (live.direct is not None and live.direct.given):
            raise InvalidAgentResponse("task: only a direct turn begins the task, and once")
        self._check_address(pb.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id))
        live.open()

    def _status(self, event: pb.StreamResponse) -> None:
        update, writer = event.status_update, self._writer
        status = update.status
        state = status.state
        self._check_address(update)
        if state == pb.TASK_STATE_AUTH_REQUIRED and has_in_band(update.metadata):
            mark_in_band(status.message)
        self._check_status(update, status)
        if self.over or not may_move(writer.state, state):
            return self._drop(event, f"{_name(writer.state)} → {_name(state)} is not allowed")
        given = millis(status.timestamp) if status.HasField("timestamp") else self._live.services.clock.now_ms()
        set_time(status.timestamp, next_status_ms(writer.status_ms, given))
        if state == pb.TASK_STATE_COMPLETED and self._live.waiting:
            # Another message has arrived: the task continues with it instead of ending.
            status.state = pb.TASK_STATE_WORKING
            self.over = True
        return self._append(event)

    def _append(self, event: pb.StreamResponse) -> None:
        if not self._live.exists:
            self._live.record(event)
        elif self._writer.log_bytes >= self._most and event.status_update.status.state not in STOPPING:
            self._live.outgrow(self._most)
        else:
            self._writer.append(event)

    def _check_status(self, update: pb.TaskStatusUpdateEvent, status: pb.TaskStatus) -> None:
        if status.HasField("message"):
            self._check_role(status.message)
            if INPUT_REQUEST_URI in status.message.extensions and not self._live.served.input_requests:
                raise InvalidAgentResponse(UNDECLARED)
        elif status.state in MOVES and not update.HasField("metadata"):
            return  # the usual case: nothing in it can be wrong
        if not _sound_status(update):
            _check_schema("status_update", update)

    def _artifact(self, event: pb.StreamResponse) -> None:
        update, writer = event.artifact_update, self._writer
        artifact = update.artifact  # kept, because every access makes a new wrapper
        self._check_address(update)
        if not _sound_artifact(artifact) or (update.HasField("metadata") and not readable(update.metadata)):
            _check_schema("artifact_update", update)
        if self.over or writer.state in TERMINAL:
            return self._drop(event, "the turn is over")
        if update.append and writer.has_last_chunk(artifact.artifact_id):
            return self._drop(event, f"artifact {artifact.artifact_id} had its last chunk")
        return self._append(event)

    def _reply(self, message: pb.Message) -> None:
        if message.task_id:
            raise InvalidAgentResponse(f"message: a direct answer belongs to no task, not to {message.task_id}")
        self._check_role(message)
        if not _sound_message(message):
            _check_schema("message", message)
        if self.over or not self._answers(message):
            raise InvalidAgentResponse("message: this interaction has a task, which must be answered with its status")
        message.ClearField("task_id")
        self.over = True

    def _answers(self, message: pb.Message) -> bool:
        """Answer a direct turn; False if there is a task already."""
        direct = self._live.direct
        return direct is not None and self._writer.number == 0 and direct.answer(message)

    def _check_address(self, update: pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent) -> None:
        """Refuse the ids of another task; fill in those of this one."""
        task_id, context_id = self._writer.task_id, self._writer.context_id
        if (given := update.task_id) and given != task_id:
            raise InvalidAgentResponse(f"the event is for task {given}, the turn is of {task_id}")
        if (given := update.context_id) and given != context_id:
            raise InvalidAgentResponse(f"the event is for context {given}, the turn is in {context_id}")
        update.task_id, update.context_id = task_id, context_id

    def _check_role(self, message: pb.Message) -> None:
        if message.role not in (pb.ROLE_UNSPECIFIED, pb.ROLE_AGENT):
            raise InvalidAgentResponse("message: an agent speaks with ROLE_AGENT")
        message.role = pb.ROLE_AGENT
        message.message_id = message.message_id or self._live.services.ids.new()
        message.context_id, message.task_id = self._writer.context_id, self._writer.task_id

    def _drop(self, event: pb.StreamResponse, why: str) -> None:
        self._dropped = True
        kind = event.WhichOneof("payload")
        logger.warning("agent.invalid_response", task_id=self._writer.task_id, event_kind=kind, dropped=True, why=why)

    # -- back-pressure and state

    async def room(self) -> None:
        writer = self._writer
        if self._dropped or writer.closed is not None:
            self._dropped = False
            await asyncio.sleep(0)  # an agent whose events are dropped would never wait, and block the event loop
        if writer.is_full:
            await writer.room()

    async def durable(self) -> None:
        await self._writer.settle()

    def save(self, state: bytes) -> None:
        if len(state) > self._most:
            raise InvalidAgentResponse(f"save: {len(state)} bytes are more than limits.bytes_per_task, {self._most}")
        if not self.over:
            self._live.save(state)

    def remember(self, changes: Mapping[str, bytes | None], size: int) -> None:
        if size > (most := self._live.services.limits.context_state):
            raise InvalidAgentResponse(
                f"context.state: {size} bytes of JSON are more than limits.context_state, {most}"
            )
        if not self.over and self._writer.state not in TERMINAL:
            self._live.remember(changes)

    def internal(self, kind: str, fields: Mapping[str, object]) -> None:
        services, task_id = self._live.services, self._writer.task_id
        name = kind if kind.startswith(_KIND_PREFIX) else _KIND_PREFIX + kind
        event = InternalEvent(name, task_id, services.clock.now_ms(), dict(fields))
        for observe in services.observers:
            try:
                observe(event)
            except Exception:  # an error in telemetry must not fail the task
                logger.exception("observer.failed", task_id=task_id, kind=name)

    async def next_message(self) -> pb.Message:
        live, waiting = self._live, self._live.waiting
        if not (live.exists or self.over):  # only an existing task gets further messages
            live.open()
        while not (waiting or self.over):
            await waiting.arrival()
        if self.over:
            raise InvalidAgentResponse("the turn is over and gets no further messages")
        message = waiting.take()
        message.after = self._writer.number
        self.taken.append(message.number)
        return message.request.message

    def refuse_cancel(self) -> None:
        self._live.refuse_cancel()

    @property
    def cancel_metadata(self) -> struct_pb2.Struct | None:
        return self._live.cancel_metadata


def _check_schema(where: str, message: Message) -> NoReturn:
    """Raise an error that lists what the schema demands and the message lacks."""
    faults = faults_of(message, f"{where}.")
    raise InvalidAgentResponse("; ".join(f"{fault.field}: {fault.description}" for fault in faults[:_MOST_FAULTS]))


def _name(state: int) -> str:
    return pb.TaskState.Name(state)


class DirectReply:
    """The answer of a direct turn, which the sender of the message waits for."""

    __slots__ = ("_keep", "_keeping", "_release", "message")

    def __init__(self, keep: KeepReply | None = None, release: Release | None = None) -> None:
        self.message: asyncio.Future[pb.Message | None] = asyncio.get_running_loop().create_future()
        """The agent's message; None if there is a task instead. A refusal is raised as its error."""
        self._keep = keep
        self._release = release
        self._keeping: asyncio.Task[None] | None = None

    @property
    def given(self) -> bool:
        return self.message.done()

    def answer(self, message: pb.Message) -> bool:
        """Answer with a message; False if there is an answer or a task already."""
        if self.given or self._keeping is not None:
            return False
        if self._keep is None:
            self.message.set_result(message)
        else:
            self._keeping = asyncio.get_running_loop().create_task(self._answer_kept(message, self._keep))
        return True

    async def _answer_kept(self, message: pb.Message, keep: KeepReply) -> None:
        """Store the answer before it is sent, so that a repeated send finds it."""
        try:
            await keep(message)
        except Exception as error:  # noqa: BLE001 - the sender gets the error instead
            self.fail(error)
        else:
            self.message.set_result(message)

    def refuse(self, refusal: Exception) -> None:
        """Give the sender the error with which the agent refused the message."""
        if self.given or self._keeping is not None:
            return
        if self._release is None:
            self.fail(refusal)
        else:
            self._keeping = asyncio.get_running_loop().create_task(self._refuse_released(refusal, self._release))

    async def _refuse_released(self, refusal: Exception, release: Release) -> None:
        with suppress(Exception):  # a receipt that stays has no result, and blocks nobody
            await release()
        self.fail(refusal)

    def become_task(self) -> None:
        if not self.given:
            self.message.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.given:
            self.message.set_exception(error)
            self.message.exception()  # the sender may have left; reading the error here avoids asyncio's warning

    async def settle(self) -> None:
        """Wait until the answer is stored, or its receipt removed."""
        if self._keeping is not None:
            await self._keeping
