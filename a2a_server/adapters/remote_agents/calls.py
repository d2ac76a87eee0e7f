"""Makes the calls of turns with the client library, and follows tasks until they stop (spec: AGNT-03, TRAC-01)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final, cast

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.remote_agents.connections import RemoteConnections
from a2a_server.client import CallError, CallTimeoutError, Remote, UnreachableError
from a2a_server.domain.lifecycle import STOPPING
from a2a_server.ports.calling import AgentCall, CallFailed
from a2a_server.protocol.errors import Reason
from a2a_server.protocol.names import CURRENT

log = structlog.get_logger(__name__)

_CANCEL_SECONDS: Final = 10.0
_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0
_ATTEMPTS: Final = 6
"""How often in a row a task may fail to be read while it is followed."""


@dataclass(slots=True, eq=False)
class RemoteAgents:
    """The port `OtherAgents` over the network."""

    connections: RemoteConnections
    _cancels: set[asyncio.Task[None]] = field(default_factory=set)

    def send(self, call: AgentCall, request: pb.SendMessageRequest) -> AsyncGenerator[pb.StreamResponse, None]:
        return _bounded(call, self._send(call, request))

    def follow(self, call: AgentCall, task_id: str) -> AsyncGenerator[pb.StreamResponse, None]:
        return _bounded(call, self._follow(call, task_id))

    def cancel(self, call: AgentCall, task_id: str) -> None:
        task = asyncio.get_running_loop().create_task(self._cancel(call, task_id))
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    async def close(self) -> None:
        """Wait for cancels that are on their way, which are bounded, and close the connections."""
        if self._cancels:
            await asyncio.wait(self._cancels)
        await self.connections.close()

    # -- calls

    async def _send(self, call: AgentCall, request: pb.SendMessageRequest) -> AsyncGenerator[pb.StreamResponse, None]:
        task_id = ""
        async with self.connections.to(call) as remote:
            try:
                async with aclosing(_begin(remote, call, request)) as events:
                    async for event in events:
                        task_id = task_id or _task_in(event)
                        yield event
                        if event.HasField("message") or _state_in(event) in STOPPING:
                            return
            except UnreachableError:
                if not task_id:
                    raise
        if not task_id:
            raise CallFailed(f"{call.agent} has answered with nothing.", reason=Reason.INVALID_AGENT_RESPONSE)
        async with aclosing(self._follow(call, task_id)) as rest:
            async for event in rest:
                yield event

    async def _follow(self, call: AgentCall, task_id: str) -> AsyncGenerator[pb.StreamResponse, None]:
        pauses = _pauses()
        async with self.connections.to(call) as remote:
            while True:
                task = await _task(remote, call, task_id)
                yield pb.StreamResponse(task=task)
                if task.status.state in STOPPING:
                    return
                if remote.card.capabilities.streaming:
                    with suppress(CallError):  # the task may have stopped; what else it is, reading the task will tell
                        async with aclosing(_subscribed(remote, call, task_id)) as events:
                            async for event in events:
                                yield event
                                if _state_in(event) in STOPPING and remote.version == CURRENT:
                                    return  # 0.3 does not begin with the task, so that something may be missing
                await asyncio.sleep(next(pauses))

    async def _cancel(self, call: AgentCall, task_id: str) -> None:
        try:
            async with asyncio.timeout(_CANCEL_SECONDS), self.connections.to(call) as remote:
                await remote.call("CancelTask", pb.CancelTaskRequest(id=task_id), headers=_headers(call))
        except (CallError, CallFailed, TimeoutError) as error:
            log.info("call.cancel_failed", agent=call.agent, remote_task_id=task_id, why=str(error)[:200])


async def _bounded(
    call: AgentCall, events: AsyncGenerator[pb.StreamResponse, None]
) -> AsyncGenerator[pb.StreamResponse, None]:
    """Yield the events until the caller's time is over, and turn errors into those of the port."""
    end = None if call.timeout is None else asyncio.get_running_loop().time() + call.timeout
    async with aclosing(events):
        while True:
            try:
                async with asyncio.timeout_at(end):
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError:
                text = f"{call.agent} has not answered within {call.timeout:g} seconds."
                raise CallFailed(text, reason=Reason.DEADLINE_EXCEEDED) from None
            except UnreachableError as error:  # its text names addresses, which are not for clients
                log.info("call.unreachable", agent=call.agent, why=error.message[:200])
                raise CallFailed(f"{call.agent} cannot be reached.", reason=Reason.UNAVAILABLE) from None
            except CallError as error:
                raise CallFailed(f"{call.agent}: {error.message}", reason=error.reason) from None
            yield event


async def _begin(
    remote: Remote, call: AgentCall, request: pb.SendMessageRequest
) -> AsyncGenerator[pb.StreamResponse, None]:
    if remote.card.capabilities.streaming:
        stream = remote.call_stream("SendStreamingMessage", request, headers=_headers(call))
        async with aclosing(stream):
            async for event in stream:
                yield event
        return
    asked = pb.SendMessageRequest()
    asked.CopyFrom(request)
    asked.configuration.return_immediately = True
    answer = cast("pb.SendMessageResponse", await remote.call("SendMessage", asked, headers=_headers(call)))
    if answer.HasField("message"):
        yield pb.StreamResponse(message=answer.message)
    elif answer.HasField("task"):
        yield pb.StreamResponse(task=answer.task)


async def _subscribed(remote: Remote, call: AgentCall, task_id: str) -> AsyncGenerator[pb.StreamResponse, None]:
    request = pb.SubscribeToTaskRequest(id=task_id)
    stream = remote.call_stream("SubscribeToTask", request, headers=_headers(call))
    async with aclosing(stream):
        async for event in stream:
            yield event


async def _task(remote: Remote, call: AgentCall, task_id: str) -> pb.Task:
    """Read a task; try again if the agent does not answer."""
    pauses = _pauses()
    for attempt in range(_ATTEMPTS):
        try:
            request = pb.GetTaskRequest(id=task_id)
            return cast("pb.Task", await remote.call("GetTask", request, headers=_headers(call)))
        except (UnreachableError, CallTimeoutError):
            if attempt == _ATTEMPTS - 1:
                raise
        await asyncio.sleep(next(pauses))
    raise AssertionError  # the last attempt raises or returns


def _pauses() -> Iterator[float]:
    pause = _PAUSE
    while True:
        yield pause
        pause = min(pause * 2, _LONGEST_PAUSE)


def _headers(call: AgentCall) -> tuple[tuple[str, str], ...]:
    return tuple(call.trace.items())


def _task_in(event: pb.StreamResponse) -> str:
    return event.task.id or event.status_update.task_id or event.artifact_update.task_id


def _state_in(event: pb.StreamResponse) -> int:
    return event.task.status.state or event.status_update.status.state
