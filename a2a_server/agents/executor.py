"""Serves an `AgentExecutor` of the official SDK, unchanged (spec: AGNT-02). It needs the extra `sdk`.

1. A message that starts a task is a direct turn, because the executor may answer it without one.
2. `execute` runs in a task of its own. Its events go to the outlet as they come.
3. A cancel calls `cancel` of the executor first, and then stops `execute`. If `cancel` raises, the task goes on and the
   client is told that it cannot be canceled.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import structlog
from a2a.auth.user import User
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.utils import errors as sdk

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.foreign import made_card
from a2a_server.domain.lifecycle import INTERRUPTED, TERMINAL
from a2a_server.ports.agent import Outlet, Plan, Refusal, TurnRequest
from a2a_server.ports.authenticator import Caller
from a2a_server.protocol.errors import Reason, Violation

logger = structlog.get_logger()

# The SDK's messages are of the very classes that ours are, because both come from the same proto. A type checker cannot
# know that, so they are `Any` where they pass from one to the other.

_BEGINS, _CONTINUES = Plan(direct=True, may_refuse=True, sound=True), Plan(sound=True)
_REASONS: dict[type[sdk.A2AError], Reason] = {
    sdk.ContentTypeNotSupportedError: Reason.CONTENT_TYPE_NOT_SUPPORTED,
    sdk.ExtensionSupportRequiredError: Reason.EXTENSION_SUPPORT_REQUIRED,
    sdk.InvalidAgentResponseError: Reason.INVALID_AGENT_RESPONSE,
    sdk.InvalidParamsError: Reason.INVALID_PARAMS,
    sdk.InvalidRequestError: Reason.INVALID_REQUEST,
    sdk.TaskNotFoundError: Reason.TASK_NOT_FOUND,
    sdk.UnsupportedOperationError: Reason.UNSUPPORTED_OPERATION,
}
"""What executors may refuse a message with. Other errors are faults of the agent."""


class ExecutorAgent:
    """An executor with its card, as an agent of this server."""

    def __init__(self, executor: AgentExecutor, card: pb.AgentCard) -> None:
        self._executor = executor
        self._card = card

    @property
    def card(self) -> pb.AgentCard:
        card = pb.AgentCard()
        card.CopyFrom(self._card)
        card.ClearField("supported_interfaces")  # the server knows where it is
        return card

    def extended_card(self, caller: Caller) -> pb.AgentCard | None:
        del caller
        return None

    def check(self, request: pb.SendMessageRequest, extensions: Collection[str]) -> Sequence[Violation]:
        del request, extensions
        return ()

    def plan(self, request: pb.SendMessageRequest, state: bytes) -> Plan:
        del state
        return _CONTINUES if request.message.task_id else _BEGINS

    async def run(self, request: TurnRequest, outlet: Outlet) -> None:
        begun = request.number > 1
        context, events = _context(request, _waiting(request) if begun else None), Events(request, outlet, begun=begun)
        work = asyncio.create_task(self._executor.execute(context, events))
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                if outlet.cancel_metadata is not None and not await self._cancel(context, events):
                    outlet.refuse_cancel()
                    continue
                work.cancel()
                await asyncio.wait([work])
                raise
        try:
            work.result()
        except sdk.A2AError as error:
            raise _refusal(error) from error

    async def _cancel(self, context: RequestContext, events: Events) -> bool:
        """Let the executor end the task; False if it does not want to."""
        context.current_task = events.task
        try:
            await self._executor.cancel(context, events)
        except Exception as error:  # noqa: BLE001 - many say with one that they cannot be canceled
            logger.info("agent.cancel_refused", task_id=context.task_id, why=repr(error))
            return False
        return True


class Events(EventQueue):
    """Where an executor puts its events."""

    def __init__(self, request: TurnRequest, outlet: Outlet, *, begun: bool) -> None:
        self._request = request
        self._outlet = outlet
        self._working = begun
        """Whether the server has said WORKING on behalf of the executor, which is about to say so itself."""
        self._has_task = begun

    @property
    def task(self) -> Any:  # noqa: ANN401 - as above
        return self._request.task

    async def enqueue_event(self, event: Any) -> None:  # noqa: ANN401 - as above
        """Send a copy, because the executor may go on with its own."""
        match event:
            case pb.Task():
                self._begin(event)
            case pb.Message():
                said = pb.StreamResponse(message=event)
                said.message.ClearField("task_id")  # executors name the task that there might have been
                self._outlet.emit(said)
            case pb.TaskArtifactUpdateEvent():
                self._emit(pb.StreamResponse(artifact_update=event))
            case _:
                self._status(event)
        await self._outlet.room()

    async def close(self, immediate: bool = False) -> None:  # noqa: FBT001, FBT002 - the SDK's signature
        """Executors written for earlier versions of the SDK close their queue. The turn ends when they return."""

    def _begin(self, task: pb.Task) -> None:
        if self._has_task:
            logger.warning("agent.task_ignored", task_id=self._request.task_id, why="the task has begun before")
            return
        self._has_task = True
        self._outlet.emit(pb.StreamResponse(task=pb.Task(id=task.id, context_id=task.context_id)))
        for artifact in task.artifacts:
            self._emit(pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(artifact=artifact)))
        if task.status.state not in {pb.TASK_STATE_UNSPECIFIED, pb.TASK_STATE_SUBMITTED}:
            self._status(pb.TaskStatusUpdateEvent(status=task.status))

    def _status(self, event: pb.TaskStatusUpdateEvent) -> None:
        working, self._working = self._working, False
        status = event.status
        if status.state in INTERRUPTED:
            self._outlet.save(pb.TaskStatus(state=status.state).SerializeToString())
        elif self._request.state and status.state in TERMINAL:
            self._outlet.save(b"")
        bare = not status.HasField("message") and not event.HasField("metadata")
        if not (working and bare and status.state == pb.TASK_STATE_WORKING):
            self._emit(pb.StreamResponse(status_update=event))

    def _emit(self, event: pb.StreamResponse) -> None:
        self._has_task = True
        self._outlet.emit(event)


class _Caller(User):
    """Who calls, as executors of the SDK ask for it."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def is_authenticated(self) -> bool:
        return self._caller.authenticated

    @property
    def user_name(self) -> str:
        return self._caller.owner if self._caller.authenticated else ""


def _waiting(request: TurnRequest) -> pb.Task:
    """The task as it waited for this message: executors look at its state to know what they have asked."""
    task = pb.Task()
    task.CopyFrom(request.task)
    task.history.pop()
    if request.state:
        task.status.MergeFromString(request.state)
        if task.history and task.history[-1].role == pb.ROLE_AGENT:
            task.status.message.CopyFrom(task.history.pop())
    return task


def _context(request: TurnRequest, task: Any) -> RequestContext:  # noqa: ANN401 - as above
    params: Any = pb.SendMessageRequest(
        tenant=request.tenant,
        message=request.message,
        configuration=request.configuration,
        metadata=request.metadata,
    )
    call = ServerCallContext(
        user=_Caller(request.caller), tenant=request.tenant, requested_extensions=set(request.extensions)
    )
    return RequestContext(
        call,
        params,
        task_id=request.task_id,
        context_id=request.context_id,
        task=task,
        related_tasks=cast("Any", list(request.references)),
    )


def _refusal(error: sdk.A2AError) -> Exception:
    """What the client is told of an error of the SDK; the error itself if it is a fault of the agent."""
    reason = next((reason for kind, reason in _REASONS.items() if isinstance(error, kind)), None)
    return error if reason is None else Refusal(reason, str(error))


def card_of(executor: AgentExecutor, beside: Mapping[str, object]) -> pb.AgentCard:
    """The card that the executor has, the only one in its module, or one that is made from its name and docstring."""
    own = [getattr(executor, name, None) for name in ("agent_card", "card")]
    for cards in (own, list(beside.values())):
        if len(found := [card for card in cards if isinstance(card, pb.AgentCard)]) == 1:
            return found[0]
    kind = type(executor)
    name = kind.__name__.removesuffix("Executor").removesuffix("Agent") or kind.__name__
    return made_card(name, inspect.getdoc(kind) if kind.__doc__ else None)
