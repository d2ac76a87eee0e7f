"""SendMessage: give a message to the agent and answer with the task or a direct message (spec: SEND, BLK)."""

from __future__ import annotations

from typing import ClassVar

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import wrap
from a2a_server.domain.reducer import trim
from a2a_server.operations.call import Call
from a2a_server.operations.gates import Gates
from a2a_server.operations.services import Workshop
from a2a_server.operations.turns.idempotency import OnceOnly
from a2a_server.operations.turns.ticket import Ticket
from a2a_server.protocol.errors import task_not_found

_TASK = pb.SendMessageResponse.TASK_FIELD_NUMBER
_MESSAGE = pb.SendMessageResponse.MESSAGE_FIELD_NUMBER


class SendMessage:
    """Waits until the task stops, unless the client wants the task as soon as it exists (BLK-01, BLK-04)."""

    answers: ClassVar = pb.SendMessageResponse

    def __init__(self, shop: Workshop, gates: Gates, once: OnceOnly) -> None:
        self.shop = shop
        self.gates = gates
        self.once = once

    async def __call__(self, call: Call, request: pb.SendMessageRequest, /) -> pb.SendMessageResponse:
        return pb.SendMessageResponse.FromString(await self.wire(call, request))

    async def wire(self, call: Call, request: pb.SendMessageRequest, /) -> bytes:
        plan = self.gates.send(call, request)
        with await self.once.start(call, request, plan) as ticket:
            at_once, history = False, None
            if request.HasField("configuration"):
                at_once, history = request.configuration.return_immediately, history_length(request.configuration)
            if at_once or not ticket.stopped_already:
                if (reply := await ticket.reply()) is not None:
                    return wrap(_MESSAGE, reply.SerializeToString())
                await (ticket.exists() if at_once else ticket.stopped())
            cap = self.shop.limits.history_cap
            image = ticket.image
            if image is not None and image.messages <= (cap if history is None else history):
                return wrap(_TASK, image.wire())
            return wrap(_TASK, await self._load(call, ticket, history))

    async def _load(self, call: Call, ticket: Ticket, history: int | None) -> bytes:
        record = await self.shop.store.load(call.scope, ticket.task_id)
        if record is None:  # purged between its end and this line
            raise task_not_found(ticket.task_id)
        return trim(record.task, history, cap=self.shop.limits.history_cap).SerializeToString()


def history_length(request: pb.SendMessageConfiguration | pb.GetTaskRequest | pb.ListTasksRequest) -> int | None:
    """The limit that the client sets, if it sets one (HIST-01)."""
    return request.history_length if request.HasField("history_length") else None
