"""Run an agent's turns in memory, for the tests of its author: no server, no store, no sockets (spec: AGNT-01)."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.agent import Agent, Saved
from a2a_server.agents.named_agents import NamedAgents
from a2a_server.agents.output import new_status
from a2a_server.agents.parts import Content, JsonValue, as_message, to_python, to_struct
from a2a_server.domain.events import last_messages
from a2a_server.domain.input_requests import UNDECLARED, InputRequest, open_request
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.domain.media_types import check_content_types, input_modes, modes_of
from a2a_server.domain.reducer import fold
from a2a_server.domain.trace import trace_of
from a2a_server.ports.agent import (
    SKILL_KEY,
    AgentPort,
    ContextMemory,
    HasLifespan,
    InvalidAgentResponse,
    Refusal,
    TurnRequest,
)
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.calling import CallsOthers
from a2a_server.protocol.errors import refuse
from a2a_server.protocol.names import INPUT_REQUEST_URI

_TASK, _CONTEXT = "task", "context"
_OPENED = object()
"""Stands for what the agent's own lifespan opens."""
_MOST, _ROOM = 100, 2**20
"""The server's bounds on what a turn sees of its context, unless its settings say otherwise."""


@dataclass(slots=True, kw_only=True)
class Recorder:
    """An outlet that keeps what it is given; ids and times that the server fills in stay empty."""

    blob: bytes = b""
    earlier: Sequence[pb.Task] = ()
    context: Mapping[str, bytes] = field(default_factory=dict)
    inbox: deque[pb.Message] = field(default_factory=deque)
    cancel_after: int | None = None
    cancel_with: struct_pb2.Struct = field(default_factory=struct_pb2.Struct)
    input_requests: bool = False
    """Whether the agent declares that it makes input requests."""
    cancel_metadata: struct_pb2.Struct | None = None
    turn: asyncio.Task[None] = field(init=False)
    events: list[pb.StreamResponse] = field(default_factory=list)
    internals: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)

    def emit(self, event: pb.StreamResponse) -> None:
        _check_parts(event)
        if INPUT_REQUEST_URI in event.status_update.status.message.extensions and not self.input_requests:
            raise InvalidAgentResponse(UNDECLARED)
        if event.HasField("task"):
            return  # it is made in any case
        self.events.append(event)
        if len(self.events) == self.cancel_after and event.status_update.status.state not in TERMINAL:
            self.cancel_metadata = self.cancel_with
            if asyncio.current_task() is self.turn:
                raise asyncio.CancelledError
            self.turn.cancel()  # a timer sends what was held back

    async def room(self) -> None:
        await asyncio.sleep(0)

    async def durable(self) -> None:
        await asyncio.sleep(0)

    def save(self, state: bytes) -> None:
        self.blob = state

    def remember(self, changes: Mapping[str, bytes | None], size: int) -> None:
        del size
        self.context = {name: value for name, value in {**self.context, **changes}.items() if value is not None}

    def internal(self, kind: str, fields: Mapping[str, object]) -> None:
        self.internals.append((kind, fields))

    def refuse_cancel(self) -> None:
        self.cancel_metadata = None

    async def next_message(self) -> pb.Message:
        if not self.inbox:
            raise AssertionError("the turn waits for a message; give it to run_turn as messages=[…]")
        return self.inbox.popleft()


@dataclass(frozen=True, slots=True)
class Record:
    """What a turn did, and what it left behind for the next one."""

    request: TurnRequest
    events: Sequence[pb.StreamResponse]
    internals: Sequence[tuple[str, Mapping[str, object]]]
    blob: bytes
    earlier: Sequence[pb.Task]
    """The other tasks of the context."""
    context: Mapping[str, bytes]
    """The state of the context, as the turn left it."""
    task: pb.Task
    """The task with everything folded in, as a client would get it."""
    canceled: bool
    others: NamedAgents | None = None
    """The agents that the turn could call: what they were sent, and which tasks of theirs were canceled."""

    @property
    def state(self) -> str:
        """The task's state without prefix, such as `COMPLETED`."""
        return pb.TaskState.Name(self.task.status.state).removeprefix("TASK_STATE_")

    @property
    def says(self) -> str:
        """The text of the direct message, or of the last status."""
        message = self.message or self.task.status.message
        return "".join(part.text for part in message.parts)

    @property
    def message(self) -> pb.Message | None:
        """The direct message, if that was the answer."""
        return next((event.message for event in self.events if event.HasField("message")), None)

    @property
    def asked(self) -> InputRequest | None:
        """The input request that the task waits with."""
        return open_request(self.task.status)

    @property
    def artifacts(self) -> Sequence[pb.Artifact]:
        return self.task.artifacts

    @property
    def text(self) -> str:
        """The text of all artifacts together."""
        return "".join(part.text for artifact in self.artifacts for part in artifact.parts)

    @property
    def data(self) -> list[Any]:
        """The values of all data parts of all artifacts."""
        parts = (part for artifact in self.artifacts for part in artifact.parts)
        return [to_python(part.data) for part in parts if part.HasField("data")]

    @property
    def saved(self) -> dict[str, Any]:
        """The author's state as the next turn will find it."""
        return Saved.load(self.blob).values

    @property
    def remembered(self) -> dict[str, Any]:
        """The context's state as the next turn will find it."""
        return {name: json.loads(value) for name, value in self.context.items()}


async def run_turn(  # noqa: PLR0913 - everything a turn may depend on
    agent: AgentPort,
    content: Content = "",
    *,
    skill: str | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
    after: Record | None = None,
    again: Record | None = None,
    context: Record | None = None,
    messages: Iterable[Content] = (),
    references: Sequence[pb.Task] = (),
    caller: Caller = Caller(),  # noqa: B008 - frozen
    tenant: str = "",
    extensions: Iterable[str] = (),
    accepted_output_modes: Sequence[str] = (),
    trace: Mapping[str, str] | None = None,
    cancel_after: int | None = None,
    cancel_metadata: Mapping[str, JsonValue] | None = None,
    resources: object = _OPENED,
    agents: Mapping[str, AgentPort] | None = None,
) -> Record:
    """Send one message to an agent and return what came of it.

    `after=record` continues that record's task. `again=record` runs its turn again, as after a crash. `context=record`
    goes on in that record's context, whose tasks the turn remembers. `messages` come while the turn runs. `trace` is
    what the client's headers say of its trace. `cancel_after=n` cancels the turn with its n-th event; a crash looks the
    same. A refused request raises `A2AError`; what the skill raises comes through, a refusal once the task has the
    message excepted: it fails the task. The agent's lifespan opens and closes for this turn; `resources` stand in for
    it. `agents` are those that it can call, by the names that it calls them by; records remember them.
    """
    fields = dict(metadata or {}) | ({} if skill is None else {SKILL_KEY: skill})
    message = as_message(content)
    message.role = pb.ROLE_USER
    request = pb.SendMessageRequest(message=message, metadata=to_struct(fields))
    active = frozenset(extensions)
    if faults := agent.check(request, active):
        refuse(faults)
    modes = input_modes(agent.card)
    named = request.metadata.fields.get(SKILL_KEY)
    check_content_types(request, modes.get(None if named is None else named.string_value, modes[""]))
    plan = agent.plan(request, after.blob if after else b"")
    caller.require(plan.scopes, plan.subject)
    latest = again or context or after
    earlier = latest.earlier if latest else ()
    if context is not None and not context.message:
        earlier = [task for task in (*earlier, context.task) if after is None or task.id != after.task.id]
    blobs = latest.context if latest else {}
    memory = _memory(earlier, blobs)
    task_id = after.task.id if after else f"{_TASK}-{len(earlier) + 1}" if earlier else _TASK
    turn = (
        replace(again.request, memory=memory, view=lambda: again.task, state=again.blob, rerun=True, plan=None)
        if again is not None
        else TurnRequest(
            task_id=task_id,
            context_id=_CONTEXT,
            number=after.request.number + len(after.events) + 1 if after else 1,
            message=message,
            metadata=request.metadata,
            view=partial(_task, task_id, after, message),
            memory=memory,
            references=references,
            state=after.blob if after else b"",
            caller=caller,
            tenant=tenant,
            extensions=active,
            accepted_output_modes=modes_of(accepted_output_modes),
            trace=trace_of({name: (value,) for name, value in (trace or {}).items()}),
        )
    )
    outlet = Recorder(
        blob=turn.state,
        earlier=earlier,
        context=blobs,
        inbox=deque(as_message(extra) for extra in messages),
        cancel_after=cancel_after,
        cancel_with=to_struct(cancel_metadata or {}),
        input_requests=any(extension.uri == INPUT_REQUEST_URI for extension in agent.card.capabilities.extensions),
    )
    kept = latest.others if latest is not None else None
    others = NamedAgents(agents or {}, run_turn) if kept is None else kept
    if isinstance(agent, CallsOthers):
        agent = agent.with_others(others)
    return replace(await _drive_open(agent, turn, outlet, resources), others=others)


async def _drive_open(agent: AgentPort, turn: TurnRequest, outlet: Recorder, resources: object) -> Record:
    """Run a turn within the agent's lifespan, which is told of no error, as in a server; or with given resources."""
    if isinstance(agent, Agent) and resources is not _OPENED:
        return await _drive(agent.with_resources(resources), turn, outlet)
    if not isinstance(agent, HasLifespan):
        return await _drive(agent, turn, outlet)
    failure: Exception | None = None
    async with agent.living() as living:
        try:
            return await _drive(living, turn, outlet)
        except Exception as error:  # noqa: BLE001 - raised below
            failure = error
    raise failure


async def _drive(agent: AgentPort, turn: TurnRequest, outlet: Recorder) -> Record:
    before = pb.Task()
    before.CopyFrom(turn.task)
    canceled = False
    outlet.turn = asyncio.create_task(agent.run(turn, outlet))  # so that no cancel can reach the test
    try:
        await outlet.turn
    except asyncio.CancelledError:
        if outlet.cancel_metadata is None:
            raise
        canceled = True
    except Refusal as refusal:
        plan = agent.plan(pb.SendMessageRequest(message=turn.message, metadata=turn.metadata), turn.state)
        may = plan.may_refuse or (plan.direct and turn.number == 1)
        if may and not (outlet.events or turn.rerun):
            raise
        canceled = outlet.cancel_metadata is not None
        if not canceled:
            outlet.events.append(new_status(pb.TASK_STATE_FAILED, refusal.message))
    direct = bool(outlet.events) and outlet.events[0].HasField("message")
    fold(before, () if direct else outlet.events)
    return Record(turn, outlet.events, outlet.internals, outlet.blob, outlet.earlier, outlet.context, before, canceled)


def _memory(earlier: Sequence[pb.Task], blobs: Mapping[str, bytes]) -> ContextMemory:
    async def tasks() -> Sequence[pb.Task]:
        return earlier

    return ContextMemory(partial(last_messages, earlier, _MOST, _ROOM), tasks, lambda: blobs)


def _task(task_id: str, after: Record | None, message: pb.Message) -> pb.Task:
    """The task as a turn finds it."""
    task = pb.Task(id=task_id, context_id=_CONTEXT)
    if after is not None:
        task.CopyFrom(after.task)
    fold(task, [pb.StreamResponse(message=message)])
    task.status.CopyFrom(pb.TaskStatus(state=pb.TASK_STATE_WORKING))
    return task


def _check_parts(event: pb.StreamResponse) -> None:
    """Refuse what the server would refuse (SEND-14)."""
    update = event.artifact_update
    if event.HasField("artifact_update") and not (update.artifact.artifact_id and update.artifact.parts):
        raise InvalidAgentResponse("an artifact needs an id and at least one part")
    message = event.message if event.HasField("message") else event.status_update.status.message
    if (event.HasField("message") or event.status_update.status.HasField("message")) and not message.parts:
        raise InvalidAgentResponse("a message needs at least one part")
