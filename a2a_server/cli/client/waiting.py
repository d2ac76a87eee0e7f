"""Waits for the outcome of a task: by its stream, and by asking again and again (spec: CLI-24, -28 to -30, CLI-55)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.connected_agent import ConnectedAgent
from a2a_server.cli.client.output import state_name, tell
from a2a_server.client import AgentError, CallError, RemoteStream, UnreachableError
from a2a_server.domain.lifecycle import STOPPING
from a2a_server.protocol.errors import Reason

_GROWTH: Final = 1.5
_LONGEST: Final = 30.0
_MOST_LOSSES: Final = 5


@dataclass(slots=True)
class SendOutcome:
    """What a send has led to so far."""

    task_id: str = ""
    state: int = -1
    message: pb.Message | None = None

    @property
    def is_final(self) -> bool:
        return self.message is not None or self.state in STOPPING

    def note(self, event: pb.StreamResponse) -> None:
        match event.WhichOneof("payload"):
            case "task":
                self.task_id, self.state = event.task.id, event.task.status.state
            case "message":
                self.message = event.message
            case "status_update":
                self.task_id, self.state = event.status_update.task_id, event.status_update.status.state
            case "artifact_update":
                self.task_id = event.artifact_update.task_id


async def send(agent: ConnectedAgent, request: pb.SendMessageRequest) -> AsyncIterator[pb.StreamResponse]:
    """Send, and yield events up to the outcome; without streams, the task whenever it has changed."""
    if not agent.remote.card.capabilities.streaming:
        if agent.settings.stream or agent.settings.interactive:
            tell("Warning: the card offers no streaming; the task is asked for instead")
        request.configuration.return_immediately = True
        answer = await agent.remote.send(request)
        outcome = SendOutcome()
        event = pb.StreamResponse(**{"task": answer.task} if answer.HasField("task") else {"message": answer.message})
        outcome.note(event)
        agent.knows(outcome.task_id)
        yield event
        if not outcome.is_final:
            async for event in polled(agent, outcome.task_id, answer.task):
                yield event
        return
    async for event in followed(agent, agent.remote.stream(request), ""):
        yield event


async def followed(agent: ConnectedAgent, stream: RemoteStream, task_id: str) -> AsyncIterator[pb.StreamResponse]:
    """Yield the events of a stream up to the outcome. If it breaks, subscribe again, and at last ask."""
    outcome, losses = SendOutcome(task_id), 0
    while losses <= _MOST_LOSSES:
        try:
            async with aclosing(stream):
                async for event in stream:
                    outcome.note(event)
                    agent.knows(outcome.task_id)
                    yield event
                    if outcome.is_final:
                        return
        except CallError as error:
            if losses and error.reason is Reason.UNSUPPORTED_OPERATION:  # the task has ended meanwhile
                break
            if not outcome.task_id or not _is_lost(error):
                raise
            agent.debug(f"the stream broke: {error.message}")
        if not outcome.task_id:
            text = "The stream ended without a task or a message."
            raise AgentError(text, reason=Reason.INVALID_AGENT_RESPONSE)
        losses += 1
        tell("Warning: the stream ended before the outcome; subscribing again")
        if losses > 1:
            await asyncio.sleep(agent.settings.poll_interval)
        stream = agent.remote.subscribe(outcome.task_id, after=stream.number or None)
    agent.debug("asks for the task instead")
    async for event in polled(agent, outcome.task_id):
        yield event


def _is_lost(error: CallError) -> bool:
    return isinstance(error, UnreachableError) or (error.reason is not None and not error.reason.is_a2a)


async def polled(agent: ConnectedAgent, task_id: str, known: pb.Task | None = None) -> AsyncIterator[pb.StreamResponse]:
    """Ask for the task until it stops, less and less often; yield it whenever it has changed."""
    pause, losses = agent.settings.poll_interval, 0
    longest = max(_LONGEST, pause)
    while True:
        if known is not None or losses:
            await asyncio.sleep(pause)
            pause = min(pause * _GROWTH, longest)
        try:
            task = await agent.remote.get_task(task_id, history_length=agent.settings.history)
        except UnreachableError as error:
            losses += 1
            agent.debug(f"loss {losses}: {error.message}")
            if losses > _MOST_LOSSES:
                raise
            continue
        losses = 0
        agent.debug(f"the task is {state_name(task.status.state)}")
        if task != known:
            yield pb.StreamResponse(task=task)
        known = task
        if task.status.state in STOPPING:
            return


async def final_task(agent: ConnectedAgent, last: pb.StreamResponse) -> pb.Task:
    """Return the whole task after its last event."""
    if last.HasField("task"):
        return last.task
    return await agent.remote.get_task(last.status_update.task_id)
