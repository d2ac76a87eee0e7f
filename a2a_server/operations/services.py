"""What all operations share (spec: CAPA, CTX-07).

1. `Services` holds what a server is made of: the agent of each tenant, the store, the log, limits, clock, ids.
2. `Capabilities` refuses calls that the agent card does not offer, before they have any effect.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TypeVar

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.media_types import check_content_types, input_modes
from a2a_server.domain.scope import Scope
from a2a_server.domain.validation import check_send, is_plain, may_exist
from a2a_server.domain.webhooks import choose_scheme
from a2a_server.operations.call import Call
from a2a_server.operations.limits import Limits
from a2a_server.operations.log.readers import EventLog
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.operations.push.configs import INLINE, ConfigIntake
from a2a_server.operations.push.relay import PushRelay
from a2a_server.operations.turns.registry import Slots
from a2a_server.ports.agent import SKILL_KEY, AgentPort, Observer, Plan, never_run
from a2a_server.ports.clock import Clock
from a2a_server.ports.records import Lease
from a2a_server.ports.store import Store, StoredTask
from a2a_server.protocol.errors import A2AError, Reason, refuse, task_not_found
from a2a_server.protocol.names import INPUT_REQUEST_URI, TEXT

logger = structlog.get_logger()

Details = Mapping[str, str | float]
"""What goes into the metadata of a status message."""

_Answer = TypeVar("_Answer")
_NEVER_RUN = (CoroutineType, GeneratorType, AsyncGeneratorType)

_LEASE_MS = 30_000
_SHARED_MS = 1_000

_RANDOM_DIGITS = 18
"""Hexadecimal digits of an id that are random."""
_BLOCK = 256 * _RANDOM_DIGITS


def ask_agent(hook: Callable[..., _Answer], *arguments: object) -> _Answer:
    """Call a hook of the agent. `SystemExit` and the like fail this call alone; they would end the server."""
    try:
        answer = hook(*arguments)
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"the agent raised {type(error).__name__}") from error
    if isinstance(answer, _NEVER_RUN):
        raise TypeError(f"a hook of the agent must be a plain function: {never_run(answer)}")
    return answer


def restartable(agent: AgentPort, request: pb.SendMessageRequest, saved: bytes) -> bool:
    """Whether the turn may run again in another process. An agent that fails to say so holds up nobody else."""
    try:
        return ask_agent(agent.plan, request, saved).restartable
    except Exception:
        logger.exception("agent.plan_failed")
        return False


class Ids:
    """Makes UUIDs of version 7: ids that are made one after another are neighbours in an index (CTX-07)."""

    __slots__ = ("_at", "_block", "_head", "_ms")

    def __init__(self) -> None:
        self._block = ""
        """Random digits for the next 256 ids: one call of the operating system serves them all."""
        self._at = 0
        self._ms = 0
        self._head = ""
        """What all ids of this millisecond begin with."""

    def new(self) -> str:
        block, at = self._block, self._at
        if at == len(block):
            block, at = os.urandom(_BLOCK // 2).hex(), 0
            self._block = block
        self._at = at + _RANDOM_DIGITS
        now = time.time_ns() // 1_000_000
        if now != self._ms:
            stamp = f"{now:012x}"
            self._ms, self._head = now, f"{stamp[:8]}-{stamp[8:]}-7"
        return f"{self._head}{block[at : at + 3]}-8{block[at + 3 : at + 6]}-{block[at + 6 : at + 18]}"


class Leases:
    """Makes the right to write a task. Turns that begin within the same second share one lease."""

    def __init__(self, clock: Clock, replica: str) -> None:
        self._clock = clock
        self._newest = Lease(replica, 0)

    def new(self) -> Lease:
        until_ms = self._clock.now_ms() + _LEASE_MS
        if not until_ms - _SHARED_MS < self._newest.until_ms <= until_ms:
            self._newest = Lease(self._newest.replica, until_ms)
        return self._newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One per server."""

    agent: AgentPort
    """To be asked for by `agent_for`."""
    store: Store
    log: EventLog
    clock: Clock
    ids: Ids
    limits: Limits
    slots: Slots
    leases: Leases
    observers: Sequence[Observer] = ()
    desk: ConfigIntake | None = None
    """Accepts push configs; None when no webhooks are delivered, and then the card says so."""
    relay: PushRelay | None = None
    """Delivers webhooks; None together with `desk`."""
    input_requests: bool = False
    """Whether the card declares input requests, so that agents may make some."""
    answer_by_reference: bool = False
    """Whether a tool result may name its task by a reference only (XTRA-03)."""

    def agent_for(self, tenant: str) -> AgentPort:
        """The agent that serves the calls of a tenant. Today one agent serves them all."""
        del tenant
        return self.agent

    async def find(self, scope: Scope, task_id: str) -> StoredTask:
        """The stored task. Raises the same error for all tasks that the caller may not see (AUTZ-02)."""
        record = await self.store.load(scope, task_id) if may_exist(task_id) else None
        if record is None:
            raise task_not_found(task_id)
        return record

    def writer(self, scope: Scope, record: StoredTask) -> TaskWriter:
        writer = TaskWriter(self.store, self.log, scope, record, self.limits.pending_events)
        if self.relay is not None:
            writer.on_owed = self.relay.wake
        return writer

    def explain(self, writer: TaskWriter, text: str, details: Details) -> pb.Message:
        """A status message of the server's own; its metadata name a reason that programs can read (TIMO-02)."""
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
    """What the card declares. Its checks come before a call has any effect."""

    def __init__(self, services: Services, card: pb.AgentCard, own: pb.AgentCard) -> None:
        """`own` is the part of the card that the author wrote."""
        self._services = services
        self._declared = card.capabilities
        self._results = any(extension.uri == INPUT_REQUEST_URI for extension in card.capabilities.extensions)
        self._modes = input_modes(own)

    def require_streaming(self) -> None:
        if not self._declared.streaming:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "This agent does not stream.")

    def require_push(self) -> ConfigIntake:
        if self._services.desk is None:
            text = "This server does not deliver push notifications."
            raise A2AError(Reason.PUSH_NOTIFICATION_NOT_SUPPORTED, text)
        return self._services.desk

    def require_extended_card(self) -> None:
        if not self._declared.extended_agent_card:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "This agent has no extended card.")

    def check_send(self, call: Call, request: pb.SendMessageRequest) -> Plan:
        """Refuse whatever can be wrong with a message (GEN-03). Returns the agent's plan for a new task."""
        if not (plain := is_plain(request)):
            check_send(request, tenant=call.scope.tenant)
        agent = self._services.agent_for(call.scope.tenant)
        plan = ask_agent(agent.plan, request, b"")
        if (call.extensions or not plan.sound) and (faults := ask_agent(agent.check, request, call.extensions)):
            refuse(faults)
        if not plain and request.configuration.HasField("task_push_notification_config"):
            desk, config = self.require_push(), request.configuration.task_push_notification_config
            choose_scheme(config, call.schemes, INLINE)
            desk.check(config, INLINE)
        skill = request.metadata.fields.get(SKILL_KEY)
        modes = self._modes.get(None if skill is None else skill.string_value, self._modes[""])
        if not plain or TEXT not in modes:
            check_content_types(request, modes, results=self._results)
        return plan
