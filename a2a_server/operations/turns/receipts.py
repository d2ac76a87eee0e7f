"""Sends that are recognised when they are repeated (spec: ONCE-01, ONCE-02, CONF-67)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256

from a2a_proto import a2a_pb2 as pb
from a2a_server.operations.call import Call
from a2a_server.operations.limits import Limits
from a2a_server.ports.clock import Clock
from a2a_server.ports.records import Receipt
from a2a_server.ports.store import Store
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.names import IDEMPOTENCY_KEY

_POLL = 0.05

SECRET = b""
"""The fingerprint of what nobody may guess at: it is like any other, and a hash of it is not kept (XTRA-04)."""


class Receipts:
    """Finds and leaves the receipts of sends that carry a key."""

    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits

    def make(self, call: Call, request: pb.SendMessageRequest, new_id: Callable[[], str]) -> Receipt | None:
        """The receipt of this send; None when nobody asked for one."""
        limits = self._limits
        if not (call.idempotency_key or limits.idempotency_window):
            return None
        if call.idempotency_key:
            key, window = f"key:{call.idempotency_key}", limits.idempotency_key_window
        else:
            key, window = f"message:{request.message.message_id}", limits.idempotency_window
        return Receipt(key, fingerprint(request), new_id(), self._clock.now_ms() + int(window * 1000))

    async def find(self, call: Call, once: Receipt) -> Receipt | None:
        """The receipt of an earlier send with the same key; another content under it is an error."""
        earlier = await self._store.recall(call.scope, once.key, self._clock.now_ms())
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
        holder = await self._store.reserve(call.scope, once, self._clock.now_ms(), instead_of=instead_of)
        return None if holder.task_id == once.task_id else self.same(holder, once)

    async def answer(self, call: Call, once: Receipt, reply: pb.Message) -> None:
        """Complete the receipt of a direct turn."""
        await self._store.answer(call.scope, once.key, reply.SerializeToString())

    async def wait(self, call: Call, once: Receipt, seconds: float) -> Receipt | None:
        """Wait for the result of a direct turn that another replica is running; None when none came."""
        for _ in range(int(seconds / _POLL)):
            await asyncio.sleep(_POLL)
            found = await self._store.recall(call.scope, once.key, self._clock.now_ms())
            if found is None or found.reply or await self._store.load(call.scope, found.task_id) is not None:
                return found
        return None


def fingerprint(request: pb.SendMessageRequest) -> bytes:
    """What two sends must share to be the same send: everything but how the answer is wanted."""
    essence = pb.SendMessageRequest(message=request.message, metadata=request.metadata)
    return sha256(essence.SerializeToString(deterministic=True)).digest()
