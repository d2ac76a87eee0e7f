"""The agent as the server sees it: what a turn is given, and where its events go (spec: EXEC-01, EXEC-03).

1. The server asks `AgentPort.plan` how to treat the turn that a message starts, and `check` whether it may start.
2. `AgentPort.run` gets a `TurnRequest` and an `Outlet`.
3. The agent sends its events to the outlet until the turn ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import NamedTuple, Protocol, runtime_checkable

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.trace import Trace
from a2a_server.ports.authenticator import Caller
from a2a_server.protocol.errors import A2AError, Reason, Violation, summary

SKILL_KEY = "skill"
"""The optional key of `SendMessageRequest.metadata` that names the skill to run (SEND-15)."""


class InvalidAgentResponse(Exception):  # noqa: N818 - the protocol's own word for it
    """The agent did something that the protocol forbids. The message says what, for the log and the task."""


class Refusal(A2AError):  # noqa: N818 - as above
    """The agent does not take the message; raised before the turn's first event, the caller gets this error (AGNT-12).

    It has to be planned for (`Plan.may_refuse`). Once the task has the message, the task fails with the error's text.
    """


class ContentTypeNotSupported(Refusal):
    """The message has a part of a kind that the skill does not read."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.CONTENT_TYPE_NOT_SUPPORTED, text)


class UnsupportedOperation(Refusal):
    """The skill does not do what the message asks for."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.UNSUPPORTED_OPERATION, text)


class InvalidParams(Refusal):
    """Fields of the request are wrong: `InvalidParams({"metadata.size": "must be at most 10"})`."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        if not fields:
            raise ValueError("InvalidParams names at least one field.")
        violations = [Violation(field, description) for field, description in fields.items()]
        super().__init__(Reason.INVALID_PARAMS, summary(violations), violations=violations)


def never_run(value: object) -> str:
    """Say what to write instead of a coroutine, which is closed, or a generator; "" for anything else."""
    if isinstance(value, CoroutineType):
        value.close()
        return f"the coroutine {value.__qualname__}() was not awaited; write `await` in front of the call"
    if isinstance(value, GeneratorType | AsyncGeneratorType):
        return f"{value.__qualname__}() is a generator, which is no value; yield its items, or make a list of them"
    return ""


@dataclass(frozen=True, slots=True)
class Plan:
    """How the server treats the turn that a message starts (DURA-02, SEND-09)."""

    restartable: bool = False
    """Run the turn again after a crash, from its last checkpoint. Otherwise the task becomes FAILED (DURA-02)."""
    direct: bool = False
    """The turn may answer with a bare Message: the task is created with its first other event (SEND-09)."""
    may_refuse: bool = False
    """The turn may raise `Refusal`: nothing of its message is stored before its first event (AGNT-12)."""
    sound: bool = field(default=False, compare=False)
    """`check` would find no fault, unless an extension finds one; so it need not be called without extensions."""
    skill: str = field(default="", compare=False)
    """The skill that the agent chose. It comes back in `TurnRequest.plan`."""
    scopes: frozenset[str] = field(default=frozenset(), compare=False)
    """What a caller needs to have this skill run (GATE-07)."""

    @property
    def subject(self) -> str:
        """What an error says to need the scopes."""
        return f'The skill "{self.skill}"'


class ContextMemory(NamedTuple):
    """What one caller's context holds, without the task whose turn it is. Nothing need be read before (AGNT-06)."""

    history: Callable[[], Sequence[pb.Message]]
    """What was said in its tasks, newest last. The tasks are in the order of their last change of state."""
    tasks: Callable[[], Awaitable[Sequence[pb.Task]]]
    """The tasks with their artifacts, in the same order."""
    state: Callable[[], Mapping[str, bytes]]
    """The values that tasks of the context have saved, by their names."""


@dataclass(slots=True, eq=False, repr=False)  # a message may hold a secret, and logs must not (XTRA-04)
class TurnRequest:
    """Everything an agent may know about the message it answers."""

    task_id: str
    context_id: str
    number: int
    """The message's number in the task's log. It identifies the turn, and is 1 in a task's first turn."""
    message: pb.Message
    metadata: struct_pb2.Struct
    view: Callable[[], pb.Task]
    """Makes the copy that `task` returns."""
    caller: Caller
    references: Sequence[pb.Task] = ()
    """The tasks of `referenceTaskIds` that the caller may see (CTX-11)."""
    state: bytes = b""
    """What an earlier turn, or an earlier run of this turn, has saved."""
    rerun: bool = False
    """Whether a restart interrupted this turn and it runs again."""
    tenant: str = ""
    version: str = "1.0"
    extensions: frozenset[str] = frozenset()
    accepted_output_modes: tuple[str, ...] = ()
    plan: Plan | None = None
    """The plan that the agent made for this turn; None when the turn runs again."""
    trace: Trace | None = None
    """The caller's trace, to be passed on by whatever the agent calls (TRAC-01)."""
    memory: ContextMemory | None = None
    """What the context holds; None when it began with this message."""
    configuration: pb.SendMessageConfiguration | None = None
    """What the client asked for beside; None if it said nothing, or the turn runs again."""
    _task: pb.Task | None = field(default=None, init=False)

    @property
    def task(self) -> pb.Task:
        """The task when the turn began, its history ending with `message`. The copy belongs to the agent.

        It is made on first use, because most agents never look at it.
        """
        if self._task is None:
            self._task = self.view()
        return self._task


class Outlet(Protocol):
    """Where a turn's events go. `emit` only queues: readers see an event after it is durable."""

    def emit(self, event: pb.StreamResponse) -> None:
        """Queue a status update, an artifact update, or (direct turns only) a message, or the task that begins.

        The event belongs to the server from now on, which fills in task and context id. Raises `InvalidAgentResponse`
        for what the protocol forbids: no parts, a foreign task id, several payloads. A change of state that the task's
        lifecycle forbids is dropped and logged (STAT-02).
        """
        ...

    async def room(self) -> None:
        """Return when there is room for more events. Agents that emit many events await this in between."""
        ...

    async def durable(self) -> None:
        """Return when everything emitted and saved so far is on disk."""
        ...

    def save(self, state: bytes) -> None:
        """Keep this for the next turn, or for the next run of this one. Written with the next event or `durable`."""
        ...

    def remember(self, changes: Mapping[str, bytes | None], size: int) -> None:
        """Save values for all tasks of the context, by their names, and with None remove them (AGNT-06).

        They are written with the next event or `durable`, and not before there is a task. `size` is how many bytes all
        values of the context then have. Raises `InvalidAgentResponse` when that is too much.
        """
        ...

    def internal(self, kind: str, fields: Mapping[str, object]) -> None:
        """Tell the server's observers, and no client, what happens inside the turn (INTL-01)."""
        ...

    async def next_message(self) -> pb.Message:
        """Wait for a further message to this task while the turn runs, and take it (SEND-13)."""
        ...

    def refuse_cancel(self) -> None:
        """Refuse the cancel that is being carried out: the turn goes on (CANC-06)."""
        ...

    @property
    def cancel_metadata(self) -> struct_pb2.Struct | None:
        """The `metadata` of the cancel that is being carried out (CANC-07); None when nobody asked to cancel."""
        ...


class AgentPort(Protocol):
    """One agent: its card, and the coroutine that answers a message."""

    @property
    def card(self) -> pb.AgentCard:
        """The agent's own part of the card. The server adds interfaces and security."""
        ...

    def extended_card(self, caller: Caller) -> pb.AgentCard | None:
        """The card for this authenticated caller; None when the agent has no extended card."""
        ...

    def check(self, request: pb.SendMessageRequest, extensions: Collection[str]) -> Sequence[Violation]:
        """Faults of the request that only the agent and its extensions can find (EXTN-06)."""
        ...

    def plan(self, request: pb.SendMessageRequest, state: bytes) -> Plan:
        """How to treat the turn. `state` is what an earlier turn saved. May be called before `check`."""
        ...

    async def run(self, request: TurnRequest, outlet: Outlet) -> None:
        """Answer the message. Cancellation arrives as `asyncio.CancelledError`."""
        ...


@runtime_checkable
class HasLifespan(Protocol):
    """An agent that opens something at the start, and closes it at the end (AGNT-07)."""

    def living(self) -> AbstractAsyncContextManager[AgentPort]:
        """Opens it, and returns the agent that has it; closes it in the end."""
        ...


@runtime_checkable
class HasScopedSkills(Protocol):
    """An agent with skills that not every caller may use (GATE-07)."""

    @property
    def skill_scopes(self) -> Mapping[str, frozenset[str]]:
        """What callers need for each such skill, for the card; `plan` says it for a message."""
        ...


@dataclass(frozen=True, slots=True)
class InternalEvent:
    """Something that an agent does inside a turn. It never reaches clients, the history or the store (INTL-01)."""

    kind: str
    task_id: str
    at_ms: int
    fields: Mapping[str, object]


Observer = Callable[[InternalEvent], None]
"""Called with every internal event, for logs, metrics or traces (INTL-02)."""
