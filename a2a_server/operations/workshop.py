"""What all runs share: the agent, the store, the log of readers, bounds and sources of time and ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from a2a_server.operations.ids import Ids
from a2a_server.operations.limits import Limits
from a2a_server.operations.log import EventLog
from a2a_server.operations.slots import Slots
from a2a_server.ports.agent import Agent, Observer
from a2a_server.ports.clock import Clock
from a2a_server.ports.store import Lease, Store

_LEASE_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """One per server."""

    agent: Agent
    store: Store
    log: EventLog
    clock: Clock
    ids: Ids
    limits: Limits
    slots: Slots
    observers: Sequence[Observer]
    replica: str

    def lease(self) -> Lease:
        """The right to write, from now on."""
        return Lease(self.replica, self.clock.now_ms() + _LEASE_MS)
