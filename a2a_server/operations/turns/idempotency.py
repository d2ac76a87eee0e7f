"""Sends that are recognised when they are repeated (spec: IDEM-02, ONCE-01, ONCE-02, CONF-67).

1. A send with a key leaves a receipt in the same commit as its effect; a direct turn reserves one before it starts.
2. A send whose key has a receipt already gets the first one's result, or a share in waiting for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.scope import Scope
from a2a_server.operations.call import Call
from a2a_server.operations.limits import Limits
from a2a_server.operations.services import Services
from a2a_server.operations.turns.exchange import PendingSend, TurnInput
from a2a_server.operations.turns.registry import LiveTurns
from a2a_server.ports.agent import Plan
from a2a_server.ports.clock import Clock
from a2a_server.ports.records import Receipt
from a2a_server.ports.store import Repeated, Store
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.names import IDEMPOTENCY_KEY

SECRET = b""
"""The fingerprint of what nobody may guess at: it is like any other, and a hash of it is not kept (XTRA-04)."""

StartSend = Callable[[Call, pb.SendMessageRequest, Plan, Receipt | None], Awaitable[PendingSend]]
"""Starts a send. Raises `Repeated` when somebody was faster with the same receipt."""


class RepeatableSends:
    """Starts a send with a key, or finds that it was started before."""

    def __init__(self, services: Services, live_turns: LiveTurns, receipts: Receipts, begin: StartSend) -> None:
        self._services = services
        self._live_turns = live_turns
        self._receipts = receipts
        self._begin = begin
        self._starting: dict[tuple[Scope, str], asyncio.Future[None]] = {}

    async def start(self, call: Call, request: pb.SendMessageRequest, plan: Plan) -> PendingSend:
        """The first send with this key, whichever that was. The caller closes the result."""
        once = self._receipts.make(call, request, self._services.ids.new)
        key = (call.scope, once.key)
        while (other := self._starting.get(key)) is not None:
            await asyncio.shield(other)
        self._starting[key] = asyncio.get_running_loop().create_future()
        try:
            return await self._start(call, request, plan, once)
        finally:
            self._starting.pop(key).set_result(None)

    async def _start(self, call: Call, request: pb.SendMessageRequest, plan: Plan, once: Receipt) -> PendingSend:
        earlier = await self._receipts.find(call, once)
        while True:
            if earlier is not None and (pending := await self._repeat(call, request, earlier)) is not None:
                return pending
            if earlier is not None:  # it died before it had a result
                earlier = await self._receipts.reserve(call, once, instead_of=earlier.task_id)
            if earlier is None:
                try:
                    return await self._begin(call, request, plan, once)
                except Repeated as repeated:  # on another replica
                    earlier = self._receipts.same(repeated.receipt, once)

    async def _repeat(self, call: Call, request: pb.SendMessageRequest, earlier: Receipt) -> PendingSend | None:
        """The first result, or a share in waiting for it; None when there is nothing to wait for."""
        message = TurnInput(call, request)
        message.number, message.after = 1, 0
        log, live = self._services.log, self._live_turns.find(earlier.task_id)
        if live is not None and live.direct is not None and not live.writer.committed:
            return PendingSend(live.task_id, message, log.reader(live.task_id, 0), reply=live.direct.message)
        if not earlier.reply and (pending := await self._follow(call, message, earlier)) is not None:
            return pending
        if not earlier.reply:
            return None
        reply = asyncio.get_running_loop().create_future()
        reply.set_result(pb.Message.FromString(earlier.reply))
        return PendingSend(earlier.task_id, message, log.reader(earlier.task_id, 0), reply=reply)

    async def _follow(self, call: Call, message: TurnInput, earlier: Receipt) -> PendingSend | None:
        """A share in the task; its reader is opened first, so that nothing is written behind our back."""
        reader = self._services.log.reader(earlier.task_id, 0)
        try:
            record = await self._services.store.load(call.scope, earlier.task_id)
        except BaseException:
            reader.close()
            raise
        if record is None:
            reader.close()
            return None
        reader.position = record.number
        live = self._live_turns.find(earlier.task_id)
        # While the first message waits for its turn, its repetition must not take another turn's stop for its own.
        shared = (live and live.with_receipt(earlier.key)) or message
        return PendingSend(earlier.task_id, shared, reader, snapshot=record.task, repeated=shared.after is not None)


class Receipts:
    """Finds and leaves the receipts of sends that carry a key."""

    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits

    def make(self, call: Call, request: pb.SendMessageRequest, new_id: Callable[[], str]) -> Receipt:
        limits = self._limits
        if call.idempotency_key:
            key, window = f"key:{call.idempotency_key}", limits.idempotency_key_window
        else:
            key, window = f"message:{request.message.message_id}", limits.idempotency_window
        return Receipt(key, fingerprint(request), new_id(), self._clock.steady_ms() + int(window * 1000))

    async def find(self, call: Call, once: Receipt) -> Receipt | None:
        """The receipt of an earlier send with the same key; another content under it is an error."""
        earlier = await self._store.recall(call.scope, once.key, self._clock.steady_ms())
        return None if earlier is None else self.same(earlier, once)

    @staticmethod
    def same(earlier: Receipt, once: Receipt) -> Receipt:
        """The earlier receipt, provided it is for the same content (ONCE-02)."""
        if earlier.fingerprint in {once.fingerprint, SECRET}:
            return earlier
        kind, _, key = once.key.partition(":")
        field = IDEMPOTENCY_KEY if kind == "key" else "message.message_id"
        return refuse([Violation(field, f"{key!r} was used for another message; use a fresh one for each message")])

    async def reserve(self, call: Call, once: Receipt, *, instead_of: str = "") -> Receipt | None:
        """Leave the receipt of a direct turn before it starts; None when the key is now ours."""
        holder = await self._store.reserve(call.scope, once, self._clock.steady_ms(), instead_of=instead_of)
        return None if holder.task_id == once.task_id else self.same(holder, once)

    async def answer(self, call: Call, once: Receipt, reply: pb.Message) -> None:
        await self._store.answer(call.scope, once.key, reply.SerializeToString())


def fingerprint(request: pb.SendMessageRequest) -> bytes:
    """What two sends must share to be the same send: everything but how the answer is wanted."""
    essence = pb.SendMessageRequest(message=request.message, metadata=request.metadata)
    return sha256(essence.SerializeToString(deterministic=True)).digest()
