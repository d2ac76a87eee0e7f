"""The objects that all operations share (spec: CAPA, CTX-07, DOOR-06).

1. `ServedAgents` finds the agent of a tenant. A server with one agent has it for all tenants.
2. `Services` has the agents, the store, the log, limits, clock and ids of a server.
3. `Capabilities` refuses calls that the agent card does not offer, before they have any effect.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Protocol, TypeVar

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.media_types import check_content_types
from a2a_server.domain.scope import Scope
from a2a_server.domain.slots import place_of
from a2a_server.domain.validation import check_send, is_plain, may_exist
from a2a_server.domain.webhooks import choose_scheme
from a2a_server.operations.call import Call
from a2a_server.operations.limits import Limits
from a2a_server.operations.log.readers import EventLog
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.operations.push.configs import INLINE, ConfigIntake
from a2a_server.operations.push.relay import PushRelay
from a2a_server.operations.quotas import StorageQuotas
from a2a_server.operations.replicas.session import Session
from a2a_server.operations.turns.registry import Slots
from a2a_server.ports.agent import SKILL_KEY, AgentPort, Observer, Plan, never_run
from a2a_server.ports.clock import Clock
from a2a_server.ports.journal import Audit, AuditEvent, AuditKind
from a2a_server.ports.replicas import Replicas
from a2a_server.ports.store import Store, StoredTask
from a2a_server.protocol.errors import A2AError, Reason, refuse, task_not_found
from a2a_server.protocol.names import TEXT

logger = structlog.get_logger()

Details = Mapping[str, str | float]
"""The metadata of a status message."""

_Answer = TypeVar("_Answer")
_NEVER_RUN = (CoroutineType, GeneratorType, AsyncGeneratorType)

_RANDOM_DIGITS = 18
"""Hexadecimal digits of an id that are random."""
_BLOCK = 256 * _RANDOM_DIGITS
_VARIANTS = dict(zip("0123456789abcdef", 4 * "89ab", strict=True))
"""The digit of a UUID with two fixed bits, for each random digit."""


def ask_agent(hook: Callable[..., _Answer], *arguments: object) -> _Answer:
    """Call a hook of the agent. `SystemExit` and the like fail only this call, instead of ending the server."""
    try:
        answer = hook(*arguments)
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"the agent raised {type(error).__name__}") from error
    if isinstance(answer, _NEVER_RUN):
        raise TypeError(f"a hook of the agent must be a plain function: {never_run(answer)}")
    return answer


def plan_of(agent: AgentPort, request: pb.SendMessageRequest, saved: bytes) -> Plan:
    """Return the agent's plan for a turn of an existing task. If the agent raises, only this turn fails."""
    try:
        return ask_agent(agent.plan, request, saved)
    except Exception:
        logger.exception("agent.plan_failed")
        return Plan()


class AgentCards(Protocol):
    """Makes the cards of one agent."""

    def public(self, tenant: str = "") -> pb.AgentCard: ...

    def extended(self, call: Call, tenant: str = "") -> pb.AgentCard | None: ...


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ServedAgent:
    """An agent with what its card declares, and with its limits."""

    agent: AgentPort
    cards: AgentCards
    card: pb.AgentCard
    """The public card for clients that name no tenant."""
    input_requests: bool
    """Whether the card declares input requests, so that the agent may use them."""
    modes: Mapping[str | None, Sequence[str]]
    """The kinds of content that each skill reads."""
    limits: Limits
    slots: Slots
    """Where its turns wait for their right to run. Agents may share them."""
    listed: bool = True
    """Whether everybody may read its public card."""


class ServedAgents:
    """The agents of a server, by their tenants. They never change."""

    __slots__ = ("_by_tenant", "_otherwise", "root")

    def __init__(self, root: ServedAgent, by_tenant: Mapping[str, ServedAgent] | None = None) -> None:
        """`root` serves whoever names no tenant. Without `by_tenant` it serves all tenants."""
        self.root = root
        self._by_tenant = {} if by_tenant is None else {"": root, **by_tenant}
        self._otherwise = root if by_tenant is None else None

    def __iter__(self) -> Iterator[ServedAgent]:
        return iter(self._by_tenant.values() if self._by_tenant else (self.root,))

    def find(self, tenant: str) -> ServedAgent | None:
        return self._by_tenant.get(tenant, self._otherwise)

    def of(self, tenant: str) -> ServedAgent:
        """Return the agent of a tenant, which exists if the call was let into it."""
        if (found := self._by_tenant.get(tenant, self._otherwise)) is None:
            raise no_such_agent()
        return found


def no_such_agent() -> A2AError:
    return A2AError(Reason.PATH_NOT_FOUND, "There is no such agent.")


class Ids:
    """Makes UUIDs. They grow with time, so that new ids are next to each other in an index (CTX-07).

    A task's is of version 8, and the 12 bits behind the version are its slot. All others are of version 7.
    """

    __slots__ = ("_at", "_block", "_head", "_ms")

    def __init__(self) -> None:
        self._block = ""
        """Random digits for the next 256 ids, from one system call."""
        self._at = 0
        self._ms = 0
        self._head = ""
        """The beginning of all ids of this millisecond."""

    def new(self) -> str:
        random = self._random()
        return f"{self._head}7{random[:3]}-8{random[3:6]}-{random[6:]}"

    def new_task(self, scope: Scope) -> str:
        """The id of a new task. 62 bits of it are random."""
        random = self._random()
        return f"{self._head}8{place_of(scope).slot:03x}-{_VARIANTS[random[0]]}{random[3:6]}-{random[6:]}"

    def _random(self) -> str:
        """Random digits for one id. `_head` is that of this millisecond then."""
        block, at = self._block, self._at
        if at == len(block):
            block, at = os.urandom(_BLOCK // 2).hex(), 0
            self._block = block
        self._at = at + _RANDOM_DIGITS
        now = time.time_ns() // 1_000_000
        if now != self._ms:
            stamp = f"{now:012x}"
            self._ms, self._head = now, f"{stamp[:8]}-{stamp[8:]}-"
        return block[at : self._at]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The shared objects of a server."""

    agents: ServedAgents
    store: Store
    log: EventLog
    clock: Clock
    ids: Ids
    limits: Limits
    quotas: StorageQuotas
    session: Session
    replicas: Replicas | None = None
    """The store, if other servers use it, too."""
    observers: Sequence[Observer] = ()
    config_intake: ConfigIntake | None = None
    """Accepts push configs; None if the server does not deliver webhooks."""
    relay: PushRelay | None = None
    """Delivers webhooks; None if the server does not deliver them."""
    answer_by_reference: bool = False
    """Whether a tool result may name its task only in `referenceTaskIds` (XTRA-03)."""
    audit: Audit | None = None
    audits_creations: bool = False
    """Whether the audit records every new task."""

    def audit_change(self, kind: AuditKind, call: Call, task_id: str, config_id: str = "") -> None:
        """Record in the audit what a call has changed (SECR-01)."""
        if self.audit is not None:
            tenant, owner = call.scope
            told = AuditEvent(kind, owner, tenant, call.peer, call.door, task_id=task_id, config_id=config_id)
            self.audit.tell(told)

    def audit_creation(self, call: Call, task_id: str) -> None:
        """Record a new task in the audit, if the audit records them."""
        if self.audits_creations:
            self.audit_change(AuditKind.TASK_CREATED, call, task_id)

    def audit_config(self, call: Call, task_id: str, request: pb.SendMessageRequest) -> None:
        """Record in the audit a push config that came with a message."""
        if self.audit is None or not request.HasField("configuration"):
            return
        if request.configuration.HasField("task_push_notification_config"):
            config_id = request.configuration.task_push_notification_config.id
            self.audit_change(AuditKind.CONFIG_CREATED, call, task_id, config_id)

    async def find(self, scope: Scope, task_id: str) -> StoredTask:
        """Return the stored task. The error is the same for missing tasks and for tasks of others (AUTZ-02)."""
        record = await self.store.load(scope, task_id) if may_exist(task_id) else None
        if record is None:
            raise task_not_found(task_id)
        return record

    def writer(self, scope: Scope, record: StoredTask) -> TaskWriter:
        writer = TaskWriter(self.store, self.log, scope, record, self.limits.pending_events)
        if self.relay is not None:
            writer.on_deliveries = self.relay.wake
        return writer

    def status_message(self, writer: TaskWriter, text: str, details: Details) -> pb.Message:
        """Make a status message of the server. Its metadata have a reason for programs (TIMO-02)."""
        message = pb.Message(
            message_id=self.ids.new(),
            context_id=writer.context_id,
            task_id=writer.task_id,
            role=pb.ROLE_AGENT,
            parts=[pb.Part(text=text)],
        )
        for name, value in details.items():
            message.metadata[name] = value
        return message


class Capabilities:
    """Checks calls against what the agent's card declares, before they have any effect."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._agents = services.agents

    def require_streaming(self, call: Call) -> None:
        if not self._agents.of(call.scope.tenant).card.capabilities.streaming:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "This agent does not stream.")

    def require_push(self, call: Call) -> ConfigIntake:
        intake = self._services.config_intake
        if intake is None or not self._agents.of(call.scope.tenant).card.capabilities.push_notifications:
            who = "server" if intake is None else "agent"
            text = f"This {who} does not deliver push notifications."
            raise A2AError(Reason.PUSH_NOTIFICATION_NOT_SUPPORTED, text)
        return intake

    def require_extended_card(self, call: Call) -> None:
        if not self._agents.of(call.scope.tenant).card.capabilities.extended_agent_card:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "This agent has no extended card.")

    def check_send(self, call: Call, request: pb.SendMessageRequest) -> Plan:
        """Check a message, and report all faults at once (GEN-03). Return the agent's plan for a new task."""
        if not (plain := is_plain(request)):
            check_send(request, tenant=call.scope.tenant)
        served = self._agents.of(call.scope.tenant)
        agent = served.agent
        plan = ask_agent(agent.plan, request, b"")
        if plan.scopes and not self._may_continue(request.message):
            call.caller.require(plan.scopes, plan.subject)
        if (call.extensions or not plan.sound) and (faults := ask_agent(agent.check, request, call.extensions)):
            refuse(faults)
        if not plain and request.configuration.HasField("task_push_notification_config"):
            config_intake, config = self.require_push(call), request.configuration.task_push_notification_config
            choose_scheme(config, call.schemes, INLINE)
            config_intake.check(config, INLINE)
        skill = request.metadata.fields.get(SKILL_KEY)
        modes = served.modes.get(None if skill is None else skill.string_value, served.modes[""])
        if not plain or TEXT not in modes:
            check_content_types(request, modes, results=served.input_requests)
        return plan

    def _may_continue(self, message: pb.Message) -> bool:
        """Whether the message may be for an existing task, which keeps the skill that it began with."""
        return bool(message.task_id or (self._services.answer_by_reference and message.reference_task_ids))
