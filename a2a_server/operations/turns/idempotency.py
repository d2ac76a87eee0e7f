"""Starts a send, or finds that it was started before (spec: IDEM-02, ONCE-01, ONCE-02)."""

from __future__ import annotations

import asyncio

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.scope import Scope
from a2a_server.operations.call import Call
from a2a_server.operations.turns.job import Job
from a2a_server.operations.turns.receipts import Receipts
from a2a_server.operations.turns.runs import Runs
from a2a_server.operations.turns.ticket import Ticket
from a2a_server.ports.agent import Plan
from a2a_server.ports.records import Receipt
from a2a_server.ports.store import Repeated
from a2a_server.protocol.errors import A2AError, Reason

_REPLICA_WAIT = 60.0


class OnceOnly:
    """The way of every send into `Runs`; without a key it adds nothing."""

    def __init__(self, runs: Runs, receipts: Receipts) -> None:
        self._runs = runs
        self._shop = runs.shop
        self._receipts = receipts
        self._starting: dict[tuple[Scope, str], asyncio.Future[None]] = {}

    async def start(self, call: Call, request: pb.SendMessageRequest, plan: Plan) -> Ticket:
        """A ticket for the first send with this key, whichever that was. The caller closes it."""
        once = self._receipts.make(call, request, self._shop.ids.new)
        if once is None:
            return await self._runs.start(call, request, plan)
        key = (call.scope, once.key)
        while (twin := self._starting.get(key)) is not None:
            await asyncio.shield(twin)
        self._starting[key] = asyncio.get_running_loop().create_future()
        try:
            return await self._start(call, request, plan, once)
        finally:
            self._starting.pop(key).set_result(None)

    async def _start(self, call: Call, request: pb.SendMessageRequest, plan: Plan, once: Receipt) -> Ticket:
        earlier = await self._receipts.find(call, once)
        while True:
            if earlier is not None and (ticket := await self._repeat(call, request, earlier)) is not None:
                return ticket
            if earlier is not None:  # it died before it had a result
                earlier = await self._receipts.reserve(call, once, instead_of=earlier.task_id)
            if earlier is None:
                try:
                    return await self._runs.start(call, request, plan, once)
                except Repeated as repeated:  # on another replica
                    earlier = self._receipts.same(repeated.receipt, once)

    async def _repeat(self, call: Call, request: pb.SendMessageRequest, earlier: Receipt) -> Ticket | None:
        """The first result, or a share in waiting for it; None when there is nothing to wait for."""
        job = Job(call, request, number=1, after=0)
        log, run = self._shop.log, self._runs.live.get(earlier.task_id)
        if run is not None and (direct := run.subject.direct) is not None and not run.writer.committed:
            return Ticket(run.task_id, job, log.reader(run.task_id, 0), reply=direct.message)
        if not earlier.reply and (ticket := await self._follow(call, job, earlier)) is not None:
            return ticket
        if not earlier.reply and self._shop.store.shared:
            earlier = await self._wait_for_replica(call, earlier)
        if not earlier.reply:
            return None
        reply = asyncio.get_running_loop().create_future()
        reply.set_result(pb.Message.FromString(earlier.reply))
        return Ticket(earlier.task_id, job, log.reader(earlier.task_id, 0), reply=reply)

    async def _follow(self, call: Call, job: Job, earlier: Receipt) -> Ticket | None:
        """A share in the task; its reader is opened first, so that nothing is written behind our back."""
        reader = self._shop.log.reader(earlier.task_id, 0)
        try:
            record = await self._shop.store.load(call.scope, earlier.task_id)
        except BaseException:
            reader.close()
            raise
        if record is None:
            reader.close()
            return None
        reader.position = record.number
        run = self._runs.live.get(earlier.task_id)
        # While the first message waits for its turn, its repetition must not take another turn's stop for its own.
        shared = (run and run.answering(earlier.key)) or job
        return Ticket(earlier.task_id, shared, reader, snapshot=record.task, repeated=shared.after is not None)

    async def _wait_for_replica(self, call: Call, earlier: Receipt) -> Receipt:
        """A direct turn that runs elsewhere leaves its answer in the store."""
        found = await self._receipts.wait(call, earlier, _REPLICA_WAIT)
        if found is None:
            raise A2AError(Reason.UNAVAILABLE, "The first send with this key has no result yet.", retry_after=1)
        return found
