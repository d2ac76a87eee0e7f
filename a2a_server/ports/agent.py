"""The agent as the server sees it: what a turn is given, and where its events go (spec: EXEC-01, EXEC-03)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.plan import Plan
from a2a_server.ports.turn_request import TurnRequest
from a2a_server.protocol.errors import Violation

SKILL_KEY = "skill"
"""The optional key of `SendMessageRequest.metadata` that names the skill to run (SEND-15)."""


class InvalidAgentResponse(Exception):  # noqa: N818 - the protocol's own word for it
    """The agent asked for something the protocol forbids; the message says what, for the log and the task."""


class Outlet(Protocol):
    """Where a turn's events go. `emit` only queues: readers see an event after it is durable."""

    def emit(self, event: pb.StreamResponse) -> None:
        """Queue a status update, an artifact update or (direct turns only) a message.

        The event is the server's from now on; task and context id are filled in. Raises `InvalidAgentResponse` for what
        the protocol forbids: no parts, a foreign task id, several payloads. A move that the task's lifecycle forbids is
        dropped and logged (STAT-02).
        """
        ...

    async def room(self) -> None:
        """Return when there is room for more events; agents that emit a lot await this in between."""
        ...

    async def durable(self) -> None:
        """Return when everything emitted and saved so far is on disk."""
        ...

    def save(self, state: bytes) -> None:
        """Keep this for the next turn, or for the next run of this one; written with the next event or `durable`."""
        ...

    def internal(self, kind: str, fields: Mapping[str, object]) -> None:
        """Tell the hooks, and nobody else, what goes on inside (INTL-01)."""
        ...

    async def next_message(self) -> pb.Message:
        """Wait for a further message addressed to this task while the turn runs, and take it (SEND-13)."""
        ...

    @property
    def cancel_metadata(self) -> struct_pb2.Struct | None:
        """The `metadata` of the cancel that is being carried out (CANC-07); None when nobody asked."""
        ...


class Agent(Protocol):
    """One agent: its card, and the coroutine that answers a message."""

    @property
    def card(self) -> pb.AgentCard:
        """The agent's own part of the card: no interfaces and no security, which the server knows better."""
        ...

    def extended_card(self, caller: Caller) -> pb.AgentCard | None:
        """The card for this authenticated caller; None when the agent has no extended card."""
        ...

    def check(self, request: pb.SendMessageRequest, extensions: Collection[str]) -> Sequence[Violation]:
        """Faults of the request that only the agent and its extensions can see (EXTN-06)."""
        ...

    def plan(self, request: pb.SendMessageRequest, state: bytes) -> Plan:
        """How to treat the turn; `state` is what an earlier turn saved. It may be asked before `check`."""
        ...

    async def run(self, request: TurnRequest, outlet: Outlet) -> None:
        """Answer the message. Cancellation arrives as `asyncio.CancelledError`."""
        ...


@dataclass(frozen=True, slots=True)
class InternalEvent:
    """What an agent does inside a turn; never on the wire, in the history or in the store (INTL-01)."""

    kind: str
    task_id: str
    at_ms: int
    fields: Mapping[str, object]


Observer = Callable[[InternalEvent], None]
"""A hook for logging, metrics or tracing (INTL-02)."""
