"""What all runs share: the agent, the store, the log of readers, bounds and sources of time and ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from a2a_server.domain.pieces import Draft
from a2a_server.domain.scope import Scope
from a2a_server.operations.ids import Ids
from a2a_server.operations.limits import Limits
from a2a_server.operations.log.log import EventLog
from a2a_server.operations.push.configs import ConfigIntake
from a2a_server.operations.push.relay import PushRelay
from a2a_server.operations.turns.slots import Slots
from a2a_server.operations.turns.writer import TaskWriter
from a2a_server.ports.agent import AgentPort, Observer
from a2a_server.ports.clock import Clock
from a2a_server.ports.records import Lease
from a2a_server.ports.store import Store, StoredTask

_LEASE_MS = 30_000
_SHARED_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """One per server."""

    agent: AgentPort
    store: Store
    log: EventLog
    clock: Clock
    ids: Ids
    limits: Limits
    slots: Slots
    observers: Sequence[Observer]
    replica: str
    desk: ConfigIntake | None = None
    """Where push configs come in; None when no webhooks are delivered, and the card says so."""
    relay: PushRelay | None = None
    """Who delivers; None together with `desk`."""
    input_requests: bool = False
    """Whether the card declares them, so that agents may make some."""
    answer_by_reference: bool = False
    """Whether a tool result finds its task by a reference (XTRA-03)."""
    _newest_lease: list[Lease] = field(default_factory=lambda: [Lease("", 0)], init=False, repr=False)

    def lease(self) -> Lease:
        """The right to write, from now on. All that begin in the same second share one: it is kept with every task."""
        until_ms = self.clock.now_ms() + _LEASE_MS
        (lease,) = self._newest_lease
        if not until_ms - _SHARED_MS < lease.until_ms <= until_ms:
            lease = self._newest_lease[0] = Lease(self.replica, until_ms)
        return lease

    def writer(self, scope: Scope, task: StoredTask | Draft) -> TaskWriter:
        """Whoever writes this task from here on."""
        writer = TaskWriter(self.store, self.log, scope, task, self.limits.pending_events)
        if self.relay is not None:
            writer.on_owed = self.relay.wake
        return writer
