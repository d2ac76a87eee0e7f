"""Calling other agents from a turn (spec: AGNT-03, SUBA-01, TRAC-01)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import AgentPort
from a2a_server.protocol.errors import Reason


class CallFailed(Exception):  # noqa: N818 - what became of a call
    """Another agent could not be called, or has failed. The message is for the author, and holds no secrets."""

    def __init__(self, message: str, *, reason: Reason | None = None, task: pb.Task | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        """The row of the error catalogue; None if the other agent has not answered with an error."""
        self.task = task
        """The task of the other agent, if it has ended without success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCall:
    """Which agent is called, and how."""

    agent: str
    """The URL of its host or of its card."""
    trace: Mapping[str, str] = field(default_factory=dict)
    """Headers that let the call join the trace of the turn."""
    timeout: float | None = None
    """Seconds until the answer must be complete."""
    signed: bool = False
    """Whether its card must have a valid signature."""


class OtherAgents(Protocol):
    """Makes the calls. All of them raise `CallFailed`.

    It discovers and remembers cards, chooses a door that both speak, and has the credentials of this server. Those of
    the caller of the turn are never used.
    """

    def send(self, call: AgentCall, request: pb.SendMessageRequest) -> AsyncGenerator[pb.StreamResponse, None]:
        """Send a message, and yield what comes of it until the task stops, or the message that answers it."""
        ...

    def follow(self, call: AgentCall, task_id: str) -> AsyncGenerator[pb.StreamResponse, None]:
        """Yield a task as it is, and then its events until it stops."""
        ...

    def cancel(self, call: AgentCall, task_id: str) -> None:
        """Have a task canceled. Does not wait, takes a bounded time, and never raises."""
        ...


@runtime_checkable
class CallsOthers(Protocol):
    """An agent whose turns can call other agents."""

    def with_others(self, others: OtherAgents) -> AgentPort | Self:
        """The same agent, whose turns call by `others`."""
        ...
