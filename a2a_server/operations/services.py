"""What all operations and turns share: the agents, the store, the log, bounds, and the sources of time and ids."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import agent_message, text_part
from a2a_server.domain.scope import Scope
from a2a_server.domain.validation import may_exist
from a2a_server.operations.limits import Limits
from a2a_server.operations.log.readers import EventLog
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.operations.push.configs import ConfigIntake
from a2a_server.operations.push.relay import PushRelay
from a2a_server.operations.turns.slots import Slots
from a2a_server.ports.agent import AgentPort, Observer
from a2a_server.ports.clock import Clock
from a2a_server.ports.records import Lease
from a2a_server.ports.store import Store, StoredTask
from a2a_server.protocol.errors import task_not_found

Details = Mapping[str, str | float]
"""What goes into the metadata of a status message."""

_LEASE_MS = 30_000
_SHARED_MS = 1_000

_RANDOM_DIGITS = 18
"""Hexadecimal digits of an id that are random."""
_BLOCK = 256 * _RANDOM_DIGITS


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
        """A fresh UUID."""
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
        """A lease that begins now."""
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
        """A writer that continues the log of this task."""
        writer = TaskWriter(self.store, self.log, scope, record, self.limits.pending_events)
        if self.relay is not None:
            writer.on_owed = self.relay.wake
        return writer

    def explain(self, writer: TaskWriter, text: str, details: Details) -> pb.Message:
        """A status message of the server's own; its metadata name a reason that programs can read (TIMO-02)."""
        message = agent_message(self.ids.new(), writer.context_id, writer.task_id, [text_part(text)])
        for name, value in details.items():
            message.metadata[name] = value
        return message
