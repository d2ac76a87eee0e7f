"""What an agent's events must look like before they enter the log (spec: SEND-14, STAT-02, ARTF-03, EXEC-02, EXEC-03).

Gaps that the server can fill are filled; what the protocol forbids is the agent's error; a move that the task's
lifecycle forbids is dropped and logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NoReturn

import structlog
from google.protobuf import struct_pb2
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.checkers import checker_of
from a2a_server.domain.demands import faults_of
from a2a_server.domain.events import millis, next_status_ms, set_time
from a2a_server.domain.free_form import readable
from a2a_server.domain.input_requests import UNDECLARED
from a2a_server.domain.lifecycle import MOVES, TERMINAL, may_move
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
"""Stores an answer before anybody is told, for sends that may be repeated."""

_KIND_PREFIX = "internal:"
_MOST_FAULTS = 5


class TurnEvents:
    """What one turn emits. When the turn is over, whatever still comes is dropped and logged."""

    __slots__ = ("_dropped", "_live", "_writer", "over", "taken")

    def __init__(self, live: LiveTask, writer: TaskWriter) -> None:
        self._live = live
        self._writer = writer
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
                raise InvalidAgentResponse("a turn emits status, artifact and message events; the task is the server's")
            case _:
                raise InvalidAgentResponse("an event needs one of status_update, artifact_update, message")

    def _status(self, event: pb.StreamResponse) -> None:
        update, writer = event.status_update, self._writer
        status = update.status
        state = status.state
        self._check_address(update)
        self._check_status(update, status)
        if self.over or not may_move(writer.state, state):
            return self._drop(event, f"{_name(writer.state)} → {_name(state)} is not allowed")
        given = millis(status.timestamp) if status.HasField("timestamp") else self._live.services.clock.now_ms()
        set_time(status.timestamp, next_status_ms(writer.status_ms, given))
        if state == pb.TASK_STATE_COMPLETED and self._live.waiting:
            # Somebody has added a message meanwhile: the task goes on with it instead of ending unread.
            status.state = pb.TASK_STATE_WORKING
            self.over = True
        return self._append(event)

    def _append(self, event: pb.StreamResponse) -> None:
        if self._live.exists:
            self._writer.append(event)
        else:
            self._live.record(event)

    def _check_status(self, update: pb.TaskStatusUpdateEvent, status: pb.TaskStatus) -> None:
        if status.HasField("message"):
            self._voice(status.message)
            if INPUT_REQUEST_URI in status.message.extensions and not self._live.services.input_requests:
                raise InvalidAgentResponse(UNDECLARED)
        elif status.state in MOVES and not update.HasField("metadata"):
            return  # as most: nothing in it can be wrong
        if not _sound_status(update):
            _complain("status_update", update)

    def _artifact(self, event: pb.StreamResponse) -> None:
        update, writer = event.artifact_update, self._writer
        artifact = update.artifact  # held, or every access below would make it anew
        self._check_address(update)
        if not _sound_artifact(artifact) or (update.HasField("metadata") and not readable(update.metadata)):
            _complain("artifact_update", update)
        if self.over or writer.state in TERMINAL:
            return self._drop(event, "the turn is over")
        if update.append and writer.has_last_chunk(artifact.artifact_id):
            return self._drop(event, f"artifact {artifact.artifact_id} had its last chunk")
        return self._append(event)

    def _reply(self, message: pb.Message) -> None:
        if message.task_id:
            raise InvalidAgentResponse(f"message: a direct answer belongs to no task, not to {message.task_id}")
        self._voice(message)
        if not _sound_message(message):
            _complain("message", message)
        if self.over or not self._answers(message):
            raise InvalidAgentResponse("message: this interaction has a task, which must be answered with its status")
        message.ClearField("task_id")
        self.over = True

    def _answers(self, message: pb.Message) -> bool:
        """Answer a direct turn; False when there is a task already."""
        direct = self._live.direct
        return direct is not None and direct.answer(message)

    def _check_address(self, update: pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent) -> None:
        """Refuse the ids of another task; fill in those of this one."""
        task_id, context_id = self._writer.task_id, self._writer.context_id
        if (given := update.task_id) and given != task_id:
            raise InvalidAgentResponse(f"the event is for task {given}, the turn is of {task_id}")
        if (given := update.context_id) and given != context_id:
            raise InvalidAgentResponse(f"the event is for context {given}, the turn is in {context_id}")
        update.task_id, update.context_id = task_id, context_id

    def _voice(self, message: pb.Message) -> None:
        if message.role not in (pb.ROLE_UNSPECIFIED, pb.ROLE_AGENT):
            raise InvalidAgentResponse("message: an agent speaks with ROLE_AGENT")
        message.role = pb.ROLE_AGENT
        message.message_id = message.message_id or self._live.services.ids.new()
        message.context_id, message.task_id = self._writer.context_id, self._writer.task_id

    def _drop(self, event: pb.StreamResponse, why: str) -> None:
        self._dropped = True
        kind = event.WhichOneof("payload")
        logger.warning("agent.invalid_response", task_id=self._writer.task_id, event_kind=kind, dropped=True, why=why)

    # -- flow and state

    async def room(self) -> None:
        writer = self._writer
        if self._dropped or writer.closed is not None:
            self._dropped = False
            await asyncio.sleep(0)  # an agent whose events lead nowhere would find room for ever, and stop the loop
        if writer.pressed:
            await writer.room()

    async def durable(self) -> None:
        await self._writer.settle()

    def save(self, state: bytes) -> None:
        if not self.over:
            self._live.save(state)

    def internal(self, kind: str, fields: Mapping[str, object]) -> None:
        services, task_id = self._live.services, self._writer.task_id
        name = kind if kind.startswith(_KIND_PREFIX) else _KIND_PREFIX + kind
        event = InternalEvent(name, task_id, services.clock.now_ms(), dict(fields))
        for observe in services.observers:
            try:
                observe(event)
            except Exception:  # telemetry that is out of order is no reason to fail the task
                logger.exception("observer.failed", task_id=task_id, kind=name)

    async def next_message(self) -> pb.Message:
        waiting = self._live.waiting
        while not (waiting or self.over):
            await waiting.arrival()
        if self.over:
            raise InvalidAgentResponse("the turn is over and hears no further messages")
        message = waiting.take()
        message.after = self._writer.number
        self.taken.append(message.number)
        return message.request.message

    @property
    def cancel_metadata(self) -> struct_pb2.Struct | None:
        return self._live.cancel_metadata


def _complain(where: str, message: Message) -> NoReturn:
    """What the server would refuse from a client it does not accept from an agent either."""
    faults = faults_of(message, f"{where}.")
    raise InvalidAgentResponse("; ".join(f"{fault.field}: {fault.description}" for fault in faults[:_MOST_FAULTS]))


def _name(state: int) -> str:
    return pb.TaskState.Name(state)


class DirectReply:
    """Made with the turn; whoever sent the message waits for it."""

    __slots__ = ("_keep", "_keeping", "message")

    def __init__(self, keep: KeepReply | None = None) -> None:
        self.message: asyncio.Future[pb.Message | None] = asyncio.get_running_loop().create_future()
        """The message that answered, or None for a task instead."""
        self._keep = keep
        self._keeping: asyncio.Task[None] | None = None

    @property
    def given(self) -> bool:
        return self.message.done()

    def answer(self, message: pb.Message) -> bool:
        """Answer by a message; False when there is an answer, or a task, already."""
        if self.given or self._keeping is not None:
            return False
        if self._keep is None:
            self.message.set_result(message)
        else:
            self._keeping = asyncio.get_running_loop().create_task(self._answer_kept(message, self._keep))
        return True

    async def _answer_kept(self, message: pb.Message, keep: KeepReply) -> None:
        """What a repeated send will find must be durable before anybody hears it."""
        try:
            await keep(message)
        except Exception as error:  # noqa: BLE001 - the sender is told instead
            self.fail(error)
        else:
            self.message.set_result(message)

    def become_task(self) -> None:
        if not self.given:
            self.message.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.given:
            self.message.set_exception(error)
            self.message.exception()  # the sender may be gone; an unread error is no news then

    async def settle(self) -> None:
        """Wait for an answer that is being kept."""
        if self._keeping is not None:
            await self._keeping
