"""Calls other agents with the client library, within the operator's bounds (spec: AGNT-03, SSRF-04, TRAC-01).

1. The card is found, and remembered as long as HTTP allows. The operator's policy must allow its URL, and that of the
   chosen interface; every address is checked again when a connection is opened.
2. Connections are kept while they are in use, and a while longer.
3. A task is followed until it stops: by a stream where the agent has streams, and otherwise by asking again and again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, cast

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.client import (
    CallerCredentials,
    CallError,
    CallTimeoutError,
    Discovery,
    FoundCard,
    Network,
    Remote,
    UnreachableError,
    connect,
)
from a2a_server.client.discovery import card_url
from a2a_server.client.grpc_binding import target_of as grpc_target_of
from a2a_server.client.interfaces import choose
from a2a_server.domain.hosts import Host, HostList, host_of
from a2a_server.domain.lifecycle import STOPPING
from a2a_server.domain.webhooks import Policy, Target, target_of
from a2a_server.ports.calling import AgentCall, CallFailed
from a2a_server.protocol.errors import Reason
from a2a_server.protocol.names import CURRENT

log = structlog.get_logger(__name__)

Verify = Callable[[Network, FoundCard], Awaitable[str]]
"""Says why the signatures of a card are not to be trusted; empty = one of them is valid."""

_KEPT_SECONDS: Final = 300.0
"""How long a connection is used before the card is looked at again."""
_MOST_CONNECTIONS: Final = 256
_CANCEL_SECONDS: Final = 10.0
_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0
_ATTEMPTS: Final = 6
"""How often in a row a task may fail to be read while it is followed."""


@dataclass(frozen=True, slots=True)
class HostCredentials:
    """What this server shows to agents on some hosts."""

    hosts: HostList
    credentials: CallerCredentials


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRules:
    """The operator's choices."""

    policy: Policy
    credentials: Sequence[HostCredentials] = ()
    versions: Sequence[str] = ("1.0", "0.3")
    transports: Sequence[str] = ()
    signed: bool = False
    """Whether every card must have a valid signature."""
    timeout: float = 60.0
    """Seconds for an answer to begin. A task may take longer."""
    trust: str = ""


@dataclass(slots=True, eq=False)
class _Kept:
    """A connection, and who uses it."""

    remote: Remote
    stack: AsyncExitStack
    until: float
    users: int = 0


@dataclass(slots=True, eq=False)
class RemoteAgents:
    """The port `OtherAgents` over the network."""

    rules: OutgoingRules
    verify: Verify
    _discovery: Discovery = field(init=False)
    _kept: dict[tuple[str, bool], _Kept] = field(default_factory=dict)
    _cancels: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._discovery = Discovery(timeout=self.rules.timeout, network=self._network, redirects=0)

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
        for kept in [*self._kept.values()]:
            await kept.stack.aclose()
        self._kept.clear()
        await self._discovery.close()

    # -- calls

    async def _send(self, call: AgentCall, request: pb.SendMessageRequest) -> AsyncGenerator[pb.StreamResponse, None]:
        task_id = ""
        async with self._connected(call) as remote:
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
        async with self._connected(call) as remote:
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
            async with asyncio.timeout(_CANCEL_SECONDS), self._connected(call) as remote:
                await remote.call("CancelTask", pb.CancelTaskRequest(id=task_id), headers=_headers(call))
        except (CallError, CallFailed, TimeoutError) as error:
            log.info("call.cancel_failed", agent=call.agent, remote_task_id=task_id, why=str(error)[:200])

    # -- connections

    @asynccontextmanager
    async def _connected(self, call: AgentCall) -> AsyncIterator[Remote]:
        key = call.agent, call.signed
        kept = self._kept.get(key)
        if kept is None or time.monotonic() > kept.until:
            kept = await self._open(call)
            await self._retire(self._kept.pop(key, None))
            self._kept[key] = kept
            if len(self._kept) > _MOST_CONNECTIONS:
                await self._retire(self._kept.pop(next(iter(self._kept))))
        kept.users += 1
        try:
            yield kept.remote
        finally:
            kept.users -= 1
            if self._kept.get(key) is not kept:
                await self._retire(kept)

    @staticmethod
    async def _retire(kept: _Kept | None) -> None:
        """Close a connection that nobody uses; the last user closes one that is still in use."""
        if kept is not None and not kept.users:
            await kept.stack.aclose()

    async def _open(self, call: AgentCall) -> _Kept:
        url = card_url(call.agent)
        self._check(call.agent, _target_of(url))
        found = await self._discovery.find(url)
        if (call.signed or self.rules.signed) and (fault := await self.verify(self._network, found)):
            raise CallFailed(f"The card of {call.agent} cannot be trusted: {fault}")
        interface = choose(found.card, self.rules.transports, self.rules.versions)
        target = _called(interface, found)
        self._check(call.agent, target)
        stack = AsyncExitStack()
        remote = await stack.enter_async_context(
            connect(
                found,
                credentials=self._credentials(_target_of(url).host, target.host),
                transports=self.rules.transports,
                version=self.rules.versions,
                timeout=self.rules.timeout,
                network=self._network,
            )
        )
        return _Kept(remote, stack, time.monotonic() + _KEPT_SECONDS)

    @property
    def _network(self) -> Network:
        return Network(trust=self.rules.trust, refusal=self._refusal)

    def _refusal(self, address: str) -> str:
        try:
            return self.rules.policy.addresses.refusal(ip_address(address))
        except ValueError:  # not an address in its normal spelling
            return "an unknown"

    def _check(self, agent: str, target: Target) -> None:
        if refusal := self.rules.policy.refusal(target):
            raise CallFailed(f"{agent} may not be called: its URL {refusal}. The settings of [calls] decide.")

    def _credentials(self, *hosts: Host) -> CallerCredentials | None:
        """Return what is meant for the host of the card and for the host that is called, so that no card lends it."""
        known = self.rules.credentials
        return next((one.credentials for one in known if all(host in one.hosts for host in hosts)), None)


def _target_of(url: str) -> Target:
    try:
        return target_of(url)
    except ValueError as error:
        raise CallFailed(f"The URL of an agent {error}.") from None


def _called(interface: pb.AgentInterface, found: FoundCard) -> Target:
    if interface.protocol_binding != "GRPC":
        return _target_of(interface.url)
    target = grpc_target_of(interface.url, found.url)
    try:
        return Target("https" if target.is_secure else "http", host_of(target.named_host), target.port, "/")
    except ValueError as error:
        raise CallFailed(f"The card's gRPC interface {error}.") from None


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
