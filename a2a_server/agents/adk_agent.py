"""Serves an agent of Google ADK through ADK's own executor (spec: AGNT-08). It needs the extra `adk`.

1. `ExecutorAgent` drives ADK's executor as any other of the official SDK.
2. What the executor would tell the client of a fault goes to the log instead.
"""

from __future__ import annotations

from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from google.adk.a2a.converters.request_converter import convert_a2a_request_to_agent_run_request
from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor
from google.adk.a2a.executor.config import A2aAgentExecutorConfig
from google.adk.agents import BaseAgent
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.runners import InMemoryRunner, Runner

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.executor import ExecutorAgent
from a2a_server.agents.foreign import READS, WRITES, made_card


class AdkFailed(Exception):  # noqa: N818 - a verdict on the agent
    """The agent has failed. The message is what ADK says of it, for the log."""


class AdkAgent(ExecutorAgent):
    """An agent, app or runner of ADK with its card. Without a runner of its own it gets one that works in memory."""

    def __init__(self, found: BaseAgent | App | Runner, card: pb.AgentCard | None = None) -> None:
        runner = _runner(found)
        root = runner.agent
        super().__init__(AdkExecutor(runner), card or made_card(root.name, root.description, READS, WRITES))


class AdkExecutor(AgentExecutor):
    """ADK's executor, which streams, keeps callers of different tenants apart, and tells clients nothing of faults."""

    def __init__(self, runner: Runner) -> None:
        config = A2aAgentExecutorConfig(request_converter=_run_request)
        # The new version is the one that streams into artifacts, and makes questions of long-running tools.
        self._own: Any = A2aAgentExecutor(runner=runner, config=config, force_new_version=True)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        events = WithoutFailure(event_queue)
        await self._own.execute(context, events)
        if events.failure is not None:
            raise AdkFailed(events.failure)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await self._own.cancel(context, event_queue)


class WithoutFailure(EventQueue):
    """Passes events on, but no failure, which has the text of an exception, and no message without parts."""

    def __init__(self, events: EventQueue) -> None:
        self.failure: str | None = None
        self._events = events

    async def enqueue_event(self, event: Any) -> None:  # noqa: ANN401 - their classes are ours, see `executor`
        if isinstance(event, pb.TaskStatusUpdateEvent):
            if event.status.state == pb.TASK_STATE_FAILED:
                self.failure = " ".join(part.text for part in event.status.message.parts)
                return
            if not event.status.message.parts:
                event.status.ClearField("message")
        await self._events.enqueue_event(event)

    async def close(self, immediate: bool = False) -> None:  # noqa: FBT001, FBT002 - the SDK's signature
        """The turn ends when the executor returns."""


def _runner(found: BaseAgent | App | Runner) -> Runner:
    if isinstance(found, Runner):
        return found
    if isinstance(found, App):
        return InMemoryRunner(app=found)
    return InMemoryRunner(found, app_name=found.name)


def _run_request(context: RequestContext, part_converter: Any) -> Any:  # noqa: ANN401 - of ADK
    """What ADK makes of a message; its sessions are those of a user, whom another tenant may have, too."""
    request = convert_a2a_request_to_agent_run_request(context, part_converter)
    if context.tenant:
        request.user_id = f"{context.tenant}/{request.user_id}"
    request.run_config.streaming_mode = StreamingMode.SSE
    return request
