"""Connects the parts of the core: operations by the names of their RPCs, for some agents and one store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from a2a_server.operations.call import Operation
from a2a_server.operations.limits import Limits
from a2a_server.operations.log.readers import EventLog
from a2a_server.operations.log.task_stream import TaskStreams
from a2a_server.operations.push.configs import ConfigIntake
from a2a_server.operations.push.push_options import PushOptions
from a2a_server.operations.push.relay import PushRelay
from a2a_server.operations.quotas import StorageQuotas
from a2a_server.operations.replicas.cluster import Cluster
from a2a_server.operations.replicas.session import Session
from a2a_server.operations.retention import Ages, Sweeper
from a2a_server.operations.rpc.cards import GetAgentCard, GetExtendedAgentCard
from a2a_server.operations.rpc.push_configs import (
    CreateTaskPushNotificationConfig,
    DeleteTaskPushNotificationConfig,
    GetTaskPushNotificationConfig,
    ListTaskPushNotificationConfigs,
)
from a2a_server.operations.rpc.send import SendMessage, SendStreamingMessage
from a2a_server.operations.rpc.subscribe import SubscribeToTask
from a2a_server.operations.rpc.tasks import CancelTask, GetTask, ListTasks
from a2a_server.operations.services import Capabilities, Ids, ServedAgents, Services
from a2a_server.operations.turns.idle_tasks import InputTimeouts
from a2a_server.operations.turns.recovery import Recovery
from a2a_server.operations.turns.registry import LiveTurns
from a2a_server.operations.turns.sending import Sending
from a2a_server.ports.agent import Observer
from a2a_server.ports.clock import Clock
from a2a_server.ports.journal import Audit
from a2a_server.ports.replicas import Replicas
from a2a_server.ports.store import Store
from a2a_server.ports.wakeups import Wakeups


class Core:
    """The operations for the doors, and the start and stop of all that runs in the background."""

    def __init__(  # noqa: PLR0913 - everything that varies, by keyword
        self,
        *,
        agents: ServedAgents,
        store: Store,
        wakeups: Wakeups,
        clock: Clock,
        limits: Limits | None = None,
        observers: Sequence[Observer] = (),
        keep_open_on_input: bool = False,
        answer_by_reference: bool = False,
        delivery: PushOptions | None = None,
        ages: Ages | None = None,
        audit: Audit | None = None,
        replicas: Replicas | None = None,
        session_seconds: float = 10.0,
    ) -> None:
        """`replicas` is the store, if other servers use it, too."""
        limits, ages = limits or Limits(), ages or Ages()
        self.card = agents.root.card
        """The card for clients that name no tenant."""
        if any(served.card.capabilities.push_notifications for served in agents) != (delivery is not None):
            raise ValueError("a card must declare push notifications exactly when they are delivered (CAPA-02)")
        history = limits.history_cap
        self.services = Services(
            agents=agents,
            store=store,
            log=EventLog(store, wakeups, lag=limits.stream_lag, shared=replicas is not None),
            clock=clock,
            ids=Ids(),
            limits=limits,
            quotas=StorageQuotas(store, clock, limits, ages.tasks),
            observers=observers,
            session=Session(replicas, session_seconds, wakeups.address),
            replicas=replicas,
            config_intake=ConfigIntake(delivery) if delivery is not None else None,
            relay=(
                PushRelay(store, clock, delivery, history_cap=history, keep_open_on_input=keep_open_on_input)
                if delivery is not None
                else None
            ),
            answer_by_reference=answer_by_reference,
            audit=audit,
            audits_creations=audit is not None and audit.wants_creations,
        )
        self.live_turns = LiveTurns(limits, self.services.log)
        self._recovery = Recovery(self.services, self.live_turns)
        self._sending = Sending(self.services, self.live_turns)
        self._cluster = (
            Cluster(replicas, self.services, self.live_turns, self._recovery, self._sending)
            if replicas is not None
            else None
        )
        self._timeouts = InputTimeouts(self.services, self.live_turns, limits.input_timeout)
        self._sweeper = Sweeper(store, clock, ages, owed=delivery is not None)
        streams = TaskStreams(history_cap=history, keep_open_on_input=keep_open_on_input)
        self.operations = self._operations(streams)

    def _operations(self, streams: TaskStreams) -> Mapping[str, Operation]:
        services, live_turns, sending = self.services, self.live_turns, self._sending
        capabilities = Capabilities(services)
        operations: Sequence[Operation] = (
            SendMessage(services, capabilities, sending),
            SendStreamingMessage(streams, capabilities, sending),
            GetTask(services),
            ListTasks(services),
            CancelTask(services, live_turns, sending),
            SubscribeToTask(services, streams, capabilities, live_turns),
            CreateTaskPushNotificationConfig(capabilities, services),
            GetTaskPushNotificationConfig(capabilities, services),
            ListTaskPushNotificationConfigs(capabilities, services),
            DeleteTaskPushNotificationConfig(capabilities, services),
            GetExtendedAgentCard(capabilities, services.agents),
            GetAgentCard(services.agents),
        )
        return {type(operation).__name__: operation for operation in operations}

    async def start(self) -> None:
        """Recover the turns that an earlier process left behind. Doors may open only after this."""
        if self._cluster is not None:
            await self._cluster.start()
        await self._recovery.settle()
        self._timeouts.start()
        self._sweeper.start()
        if self.services.relay is not None:
            await self.services.relay.start()

    async def drain(self) -> None:
        """Refuse new work, let running turns finish, then end the streams (DURA-08)."""
        cluster = self._cluster
        await asyncio.gather(
            self._timeouts.stop(), self._sweeper.stop(), *([cluster.stop_looking()] if cluster is not None else [])
        )
        relay, grace = self.services.relay, self.services.limits.drain_grace
        await asyncio.gather(self.live_turns.drain(), *([relay.drain(grace)] if relay is not None else []))
        if cluster is not None:
            await cluster.leave()
