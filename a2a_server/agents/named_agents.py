"""Other agents in the tests of an author: found by name, run in memory, without a port (spec: AGNT-03)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.parts import from_struct
from a2a_server.ports.agent import SKILL_KEY, AgentPort
from a2a_server.ports.calling import AgentCall, CallFailed, CallsOthers
from a2a_server.protocol.errors import A2AError

if TYPE_CHECKING:
    from a2a_server.agents.testing import Record


class RunTurn(Protocol):
    """`run_turn`, as far as it is needed here."""

    def __call__(
        self,
        agent: AgentPort,
        content: pb.Message,
        *,
        skill: str | None,
        after: Record | None,
        trace: Mapping[str, str],
    ) -> Awaitable[Record]: ...


@dataclass(slots=True)
class NamedAgents:
    """The port `OtherAgents` for tests: a turn of another agent runs to its end before its events are seen."""

    agents: Mapping[str, AgentPort]
    run: RunTurn
    messages: list[tuple[str, pb.Message]] = field(default_factory=list)
    """What was sent, and to whom."""
    canceled: list[str] = field(default_factory=list)
    """The ids of tasks that were to be canceled."""
    _records: dict[str, Record] = field(default_factory=dict)

    async def send(self, call: AgentCall, request: pb.SendMessageRequest) -> AsyncGenerator[pb.StreamResponse, None]:
        message = request.message
        self.messages.append((call.agent, message))
        record = await self._run(call, request)
        if record.message is not None:
            yield pb.StreamResponse(message=record.message)
            return
        task_id = message.task_id or f"{call.agent}#{len(self._records) + 1}"
        context_id = message.context_id or f"{call.agent}#context"
        self._records[task_id] = record
        begun = pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED)
        yield pb.StreamResponse(task=pb.Task(id=task_id, context_id=context_id, status=begun))
        for event in record.events:
            yield _named(event, task_id, context_id)

    async def follow(self, call: AgentCall, task_id: str) -> AsyncGenerator[pb.StreamResponse, None]:
        if (record := self._records.get(task_id)) is None:
            raise CallFailed(f"{call.agent} has no task {task_id}.")
        task = pb.Task()
        task.CopyFrom(record.task)
        task.id = task_id
        yield pb.StreamResponse(task=task)

    def cancel(self, call: AgentCall, task_id: str) -> None:
        self.canceled.append(task_id)

    async def _run(self, call: AgentCall, request: pb.SendMessageRequest) -> Record:
        agent = self.agents.get(call.agent)
        if agent is None:
            raise CallFailed(f"No agent is called {call.agent}; there are: {', '.join(self.agents) or 'none'}.")
        if isinstance(agent, CallsOthers):
            agent = agent.with_others(self)
        skill = from_struct(request.metadata).get(SKILL_KEY)
        try:
            after = self._records.get(request.message.task_id)
            return await self.run(
                agent, request.message, skill=None if skill is None else str(skill), after=after, trace=call.trace
            )
        except A2AError as error:
            raise CallFailed(f"{call.agent}: {error.message}", reason=error.reason) from None


def _named(event: pb.StreamResponse, task_id: str, context_id: str) -> pb.StreamResponse:
    named = pb.StreamResponse()
    named.CopyFrom(event)
    update = named.status_update if named.HasField("status_update") else named.artifact_update
    update.task_id, update.context_id = task_id, context_id
    return named
