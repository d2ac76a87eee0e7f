"""The core put together: operations by the names of their RPCs, over one agent and one store."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence

from a2a_server.operations.call import Operation
from a2a_server.operations.gates import Gates
from a2a_server.operations.ids import Ids
from a2a_server.operations.limits import Limits
from a2a_server.operations.log.log import EventLog
from a2a_server.operations.log.replay import Replay
from a2a_server.operations.push.configs import ConfigIntake
from a2a_server.operations.push.options import PushOptions
from a2a_server.operations.push.relay import PushRelay
from a2a_server.operations.rpc.cards import CardBook, GetAgentCard, GetExtendedAgentCard
from a2a_server.operations.rpc.push_configs import (
    CreateTaskPushNotificationConfig,
    DeleteTaskPushNotificationConfig,
    GetTaskPushNotificationConfig,
    ListTaskPushNotificationConfigs,
)
from a2a_server.operations.rpc.send import SendMessage
from a2a_server.operations.rpc.stream import Relay, SendStreamingMessage
from a2a_server.operations.rpc.subscribe import SubscribeToTask
from a2a_server.operations.rpc.tasks import CancelTask, GetTask, ListTasks
from a2a_server.operations.services import Workshop
from a2a_server.operations.turns.cancels import Cancels
from a2a_server.operations.turns.idempotency import OnceOnly
from a2a_server.operations.turns.receipts import Receipts
from a2a_server.operations.turns.recovery import settle_interrupted
from a2a_server.operations.turns.runs import Runs
from a2a_server.operations.turns.slots import Slots
from a2a_server.operations.turns.timeouts import InputTimeouts
from a2a_server.ports.agent import AgentPort, Observer
from a2a_server.ports.clock import Clock
from a2a_server.ports.store import Store
from a2a_server.protocol.names import INPUT_REQUEST_URI


class Core:
    """What a door needs: `operations`, and the three steps of a server's life."""

    def __init__(  # noqa: PLR0913 - everything that varies, by keyword
        self,
        *,
        agent: AgentPort,
        store: Store,
        clock: Clock,
        cards: CardBook,
        limits: Limits | None = None,
        observers: Sequence[Observer] = (),
        keep_open_on_input: bool = False,
        answer_by_reference: bool = False,
        delivery: PushOptions | None = None,
    ) -> None:
        limits = limits or Limits()
        self.card = cards.public()
        if self.card.capabilities.push_notifications != (delivery is not None):
            raise ValueError("the card must declare push notifications exactly when they are delivered (CAPA-02)")
        history = limits.history_cap
        self.shop = Workshop(
            agent=agent,
            store=store,
            log=EventLog(store, lag=limits.stream_lag),
            clock=clock,
            ids=Ids(),
            limits=limits,
            slots=Slots(limits),
            observers=observers,
            replica=uuid.uuid4().hex,
            desk=ConfigIntake(delivery) if delivery is not None else None,
            relay=(
                PushRelay(store, clock, delivery, history_cap=history, keep_open_on_input=keep_open_on_input)
                if delivery is not None
                else None
            ),
            input_requests=any(extension.uri == INPUT_REQUEST_URI for extension in self.card.capabilities.extensions),
            answer_by_reference=answer_by_reference,
        )
        receipts = Receipts(store, clock, limits)
        self.runs = Runs(self.shop, receipts)
        self._timeouts = InputTimeouts(self.runs, limits.input_timeout)
        relay = Relay(self.shop, keep_open_on_input)
        self.operations: Mapping[str, Operation] = self._operations(cards, relay, OnceOnly(self.runs, receipts))

    def _operations(self, cards: CardBook, relay: Relay, once: OnceOnly) -> Mapping[str, Operation]:
        shop, gates = self.shop, Gates(self.shop.agent, self.card, self.shop.desk)
        operations: Sequence[Operation] = (
            SendMessage(shop, gates, once),
            SendStreamingMessage(relay, gates, once),
            GetTask(self.runs),
            ListTasks(shop),
            CancelTask(Cancels(self.runs), shop),
            SubscribeToTask(relay, gates, self.runs, Replay(relay)),
            CreateTaskPushNotificationConfig(gates, shop),
            GetTaskPushNotificationConfig(gates, shop),
            ListTaskPushNotificationConfigs(gates, shop),
            DeleteTaskPushNotificationConfig(gates, shop),
            GetExtendedAgentCard(gates, cards),
            GetAgentCard(cards, self.card),
        )
        return {type(operation).__name__: operation for operation in operations}

    async def start(self) -> None:
        """Settle what an earlier process left behind; only then may doors open."""
        await settle_interrupted(self.runs)
        self._timeouts.start()
        if self.shop.relay is not None:
            await self.shop.relay.start()

    async def drain(self) -> None:
        """Take no new work, let what runs come to an end, then end the streams (DURA-08)."""
        await self._timeouts.stop()
        relay, grace = self.shop.relay, self.shop.limits.drain_grace
        await asyncio.gather(self.runs.drain(), *([relay.drain(grace)] if relay is not None else []))
