"""Recognises sends that are repeated (spec: IDEM-02, ONCE-01, ONCE-02, CONF-67).

1. A send with a key stores a receipt in the same commit as its effect. A direct turn stores one before it starts.
2. A send whose key has a receipt gets the result of the first send, or waits for it too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
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
"""The fingerprint of a message with a secret, because a hash would allow guessing the secret (XTRA-04)."""

_LOOK = 0.1
"""Seconds between two looks for the result of a send that another server works on."""

StartSend = Callable[[Call, pb.SendMessageRequest, Plan, Receipt | None], Awaitable[PendingSend]]
"""Starts a send. Raises `Repeated` if the receipt exists already."""


class RepeatableSends:
    """Starts a send with a key, or finds the send that was started before."""

    def __init__(self, services: Services, live_turns: LiveTurns, receipts: Receipts, begin: StartSend) -> None:
        self._services = services
        self._live_turns = live_turns
        self._receipts = receipts
        self._begin = begin
        self._starting: dict[tuple[Scope, str], asyncio.Future[None]] = {}

    async def start(self, call: Call, request: pb.SendMessageRequest, plan: Plan) -> PendingSend:
        """Return the first send with this key, which may be this one. The caller closes the result."""
        once = self._receipts.make(call, request, self._services.ids.new_task, self._services.session.id)
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
            if earlier is not None and await self._is_elsewhere(earlier):
                await asyncio.sleep(_LOOK)
                earlier = await self._receipts.find(call, once)
                continue
            if earlier is not None:  # it ended without a result
                earlier = await self._receipts.reserve(call, once, instead_of=earlier.task_id)
            if earlier is None:
                try:
                    return await self._begin(call, request, plan, once)
                except Repeated as repeated:  # on another replica
                    earlier = self._receipts.check_same(repeated.receipt, once)

    async def _is_elsewhere(self, earlier: Receipt) -> bool:
        """Whether another server works on the send, and has no result yet."""
        replicas, session = self._services.replicas, earlier.session
        if replicas is None or session in {"", self._services.session.id}:
            return False
        return await replicas.lives(session)

    async def _repeat(self, call: Call, request: pb.SendMessageRequest, earlier: Receipt) -> PendingSend | None:
        """Return the first send's result, or an object that waits for it; None if there will be no result."""
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
        """Wait for the task of the first send. The reader is opened before the task is read, so no event is lost."""
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
        # While the first message waits for its turn, another turn's stop is not its answer.
        shared = (live and live.with_receipt(earlier.key)) or message
        return PendingSend(earlier.task_id, shared, reader, snapshot=record.task, repeated=shared.after is not None)


class Receipts:
    """Finds and stores the receipts of sends with a key."""

    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits

    def make(self, call: Call, request: pb.SendMessageRequest, new_id: Callable[[Scope], str], session: str) -> Receipt:
        limits = self._limits
        if call.idempotency_key:
            key, window = f"key:{call.idempotency_key}", limits.idempotency_key_window
        else:
            key, window = f"message:{request.message.message_id}", limits.idempotency_window
        expires_ms = self._clock.steady_ms() + int(window * 1000)
        return Receipt(key, fingerprint(request), new_id(call.scope), expires_ms, session=session)

    async def find(self, call: Call, once: Receipt) -> Receipt | None:
        """Return the receipt of an earlier send with the same key. Another message with that key is an error."""
        earlier = await self._store.recall(call.scope, once.key, self._clock.steady_ms())
        return None if earlier is None else self.check_same(earlier, once)

    @staticmethod
    def check_same(earlier: Receipt, once: Receipt) -> Receipt:
        """Return the earlier receipt; raise an error if it is for another message (ONCE-02)."""
        if earlier.fingerprint in {once.fingerprint, SECRET}:
            return earlier
        kind, _, key = once.key.partition(":")
        field = IDEMPOTENCY_KEY if kind == "key" else "message.message_id"
        return refuse([Violation(field, f"{key!r} was used for another message; use a fresh one for each message")])

    async def reserve(self, call: Call, once: Receipt, *, instead_of: str = "") -> Receipt | None:
        """Store the receipt of a direct turn before it starts. Return the earlier receipt if there is one."""
        holder = await self._store.reserve(call.scope, once, self._clock.steady_ms(), instead_of=instead_of)
        return None if holder.task_id == once.task_id else self.check_same(holder, once)

    async def release(self, call: Call, once: Receipt) -> None:
        """Remove a reserved receipt, because its send was refused and may be repeated (AGNT-12)."""
        gone = replace(once, expires_ms=0)
        await self._store.reserve(call.scope, gone, self._clock.steady_ms(), instead_of=once.task_id)

    async def answer(self, call: Call, once: Receipt, reply: pb.Message) -> None:
        await self._store.answer(call.scope, once.key, reply.SerializeToString())


def fingerprint(request: pb.SendMessageRequest) -> bytes:
    """Return a hash of everything in a send, except how its answer should be returned."""
    essence = pb.SendMessageRequest(message=request.message, metadata=request.metadata)
    return sha256(essence.SerializeToString(deterministic=True)).digest()
