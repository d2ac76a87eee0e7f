"""Starts turns, hands further messages to those that run, and ends them (spec: SEND, CTX, DURA-08)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.input_requests import check_answer
from a2a_server.domain.lifecycle import is_terminal
from a2a_server.domain.pieces import Draft, new_draft
from a2a_server.domain.scope import Scope
from a2a_server.domain.validation import may_exist
from a2a_server.operations.call import Call
from a2a_server.operations.push.config_bound import find_twin
from a2a_server.operations.push.desk import INLINE
from a2a_server.operations.services import Workshop
from a2a_server.operations.turns.addressing import addressee, check_new
from a2a_server.operations.turns.direct import DirectReply
from a2a_server.operations.turns.job import Job
from a2a_server.operations.turns.receipts import SECRET, Receipts
from a2a_server.operations.turns.run import Run, shutting_down
from a2a_server.operations.turns.ticket import Ticket
from a2a_server.operations.turns.writer import TaskWriter
from a2a_server.ports.hooks import Hook
from a2a_server.ports.kept import Once
from a2a_server.ports.plan import Plan
from a2a_server.ports.store import Record, Repeated, StaleWrite
from a2a_server.protocol.errors import A2AError, Reason, Violation, refuse, task_not_found

RACES = 20
"""How often a write that lost a race is tried again before the caller is asked to do so."""

LAST_WORDS = 3.0
"""How long agents that were stopped may take to clean up."""

_LAST_STEPS = 0.5
"""How long runs may take that have nothing to wait for any more."""


class Runs:
    """All live turns of this process."""

    def __init__(self, shop: Workshop, receipts: Receipts) -> None:
        self.shop = shop
        self.live: dict[str, Run] = {}
        self.draining = False
        self._receipts = receipts

    # -- sending

    async def start(self, call: Call, request: pb.SendMessageRequest, plan: Plan, once: Once | None = None) -> Ticket:
        """Give a checked message its turn, or a place in the queue for one. The caller closes the ticket.

        Raises `Repeated` when somebody was faster with the same receipt.
        """
        if self.draining:
            raise shutting_down()
        if self.shop.desk is not None and _brings_config(request):
            await self.shop.desk.challenge(request.configuration.task_push_notification_config, call, INLINE)
        message = request.message
        references = await self._references(call, message) if message.reference_task_ids else ()
        job = Job(call, request, references)
        if once is not None:
            job.key = once.key
        for _ in range(RACES):
            try:
                if message.task_id:
                    return await self._continue(job, once)
                return await self._create(job, plan, once)
            except StaleWrite:
                job.after = None  # the attempt has left a mark
            await asyncio.sleep(0)
        raise changing_too_fast()

    async def _references(self, call: Call, message: pb.Message) -> Sequence[pb.Task]:
        """What the message refers to; with the setting it may thereby name the task that it is for (XTRA-03)."""
        references = await self.references(call, message)
        if not message.task_id and self.shop.answer_by_reference:
            message.task_id = addressee(message, references)
        if not message.task_id:
            check_new(message, references)
        return references

    async def references(self, call: Call, message: pb.Message) -> Sequence[pb.Task]:
        """Tasks the caller may see; others are treated as absent, without saying why (CTX-11)."""
        load, most = self.shop.store.load, self.shop.limits.reference_tasks
        named = [task_id for task_id in message.reference_task_ids[:most] if may_exist(task_id)]
        return [record.task for task_id in named if (record := await load(call.scope, task_id))]

    # -- a new task

    async def _create(self, job: Job, plan: Plan, once: Once | None) -> Ticket:
        self.shop.slots.check()
        call, request = job.call, job.request
        message = request.message
        if not self.shop.limits.accept_unknown_contexts and message.context_id:
            await self._check_context(call, message.context_id)
        task_id = once.task_id if once else self.shop.ids.new()
        writer = self.shop.writer(call.scope, self._draft(task_id, message))
        if plan.direct:
            await self._reserve(call, once)
        self._register(writer, job)
        if plan.direct:
            return self._launch_direct(writer, job, once)
        run = self.live[task_id] = Run(self.shop, writer, job)
        if once is not None:
            return await self._launch_once(run, job, once)
        # The agent takes its first steps before the commit, so that a quick answer costs one commit and not two.
        run.begin(plan, self._ended)
        return Ticket(task_id, job, None, run.subject)

    async def _launch_once(self, run: Run, job: Job, once: Once) -> Ticket:
        """A twin may have been faster, and then nothing may start: the commit comes first (ONCE-01)."""
        self._leave_receipt(run.writer, once, job)
        run.launch(confirm=True, on_end=self._ended)
        run.subject.open()
        return await _confirmed(run, Ticket(run.task_id, job, self.shop.log.reader(run.task_id, 0)))

    def _launch_direct(self, writer: TaskWriter, job: Job, once: Once | None) -> Ticket:
        """No task exists before the agent shows that it needs one."""
        direct = DirectReply(partial(self._receipts.answer, job.call, once) if once is not None else None)
        run = Run(self.shop, writer, job, direct=direct)
        self.live[run.task_id] = run
        run.launch(confirm=False, on_end=self._ended)
        return Ticket(run.task_id, job, self.shop.log.reader(run.task_id, 0), reply=direct.message)

    def _draft(self, task_id: str, message: pb.Message) -> Draft:
        context_id = message.context_id or self.shop.ids.new()
        message.task_id, message.context_id = task_id, context_id
        return new_draft((task_id, context_id, message.SerializeToString(), self.shop.clock.now_ms()))

    async def _check_context(self, call: Call, context_id: str) -> None:
        if not await self.shop.store.has_context(call.scope, context_id):
            refuse([Violation("message.context_id", f"{context_id[:200]!r} is no context of yours; leave it out")])

    # -- an existing task

    async def find(self, scope: Scope, task_id: str) -> Record:
        """The task, or the one answer for all that cannot be seen (AUTZ-02)."""
        record = await self.shop.store.load(scope, task_id) if may_exist(task_id) else None
        if record is None:
            raise task_not_found(task_id)
        return record

    async def _continue(self, job: Job, once: Once | None) -> Ticket:
        task_id = job.request.message.task_id
        record = await self.find(job.call.scope, task_id)
        if _brings_config(job.request):
            config = pb.TaskPushNotificationConfig(
                task_id=task_id, id=job.request.configuration.task_push_notification_config.id
            )
            job.twin = await find_twin(self.shop.store, job.call.scope, config)
        _check_same_context(record.task, job.request.message)
        run = self.live.get(task_id)
        if run is not None and not run.over:
            return await self._join(run, job, once)
        if is_terminal(record.task.status.state):
            raise _terminal(record.task)
        return await self._resume(record, job, once)

    async def _resume(self, record: Record, job: Job, once: Once | None) -> Ticket:
        """A message to a waiting task starts its next turn."""
        self.shop.slots.check()
        check_answer(record.task.status, job.request.message)
        writer = self.shop.writer(job.call.scope, record)
        run = Run(self.shop, writer, job, state=record.state)
        self.live[run.task_id] = run
        writer.claim(self.shop.lease())
        self._register(writer, job)
        run.join(job)
        self._leave_receipt(writer, once, job)
        job.after = job.number
        run.subject.move(pb.TASK_STATE_WORKING)
        run.launch(confirm=True, on_end=self._ended)
        return await _confirmed(run, self._snapshot(run, job))

    async def _join(self, run: Run, job: Job, once: Once | None) -> Ticket:
        """A message to a task that is being worked on waits for its turn (SEND-13)."""
        if is_terminal(run.writer.image.state):
            await run.writer.settle()
            raise _terminal(run.writer.image.head)
        while once is not None and run.writer.batch.has_receipt:  # one commit carries one receipt
            await run.writer.settle()
        if run.over or is_terminal(run.writer.image.state):
            raise StaleWrite(run.task_id)
        check_answer(run.writer.image.head.status, job.request.message)
        run.enqueue(job)
        self._leave_receipt(run.writer, once, job)
        self._register(run.writer, job)
        ticket = self._snapshot(run, job)
        try:
            await run.writer.settle()
        except BaseException:
            ticket.reader.close()
            raise
        return ticket

    def _snapshot(self, run: Run, job: Job) -> Ticket:
        reader = self.shop.log.reader(run.task_id, run.writer.number)
        return Ticket(run.task_id, job, reader, snapshot=run.writer.image.copy())

    # -- what comes along with a message

    def _register(self, writer: TaskWriter, job: Job) -> None:
        """A push config that came with the message is there before the first event (SEND-07)."""
        request, call = job.request, job.call
        if _brings_config(request):
            config = pb.TaskPushNotificationConfig()
            config.CopyFrom(request.configuration.task_push_notification_config)
            config.task_id, config.id = writer.task_id, config.id or self.shop.ids.new()
            config.tenant = writer.scope.tenant
            if self.shop.desk is not None:
                self.shop.desk.seal(config, job.twin)
            writer.batch.register(Hook(config, call.version, call.schemes))

    def _leave_receipt(self, writer: TaskWriter, once: Once | None, job: Job) -> None:
        if once is not None:
            fingerprint = once.fingerprint if job.kept is None else SECRET
            receipt = replace(once, task_id=writer.task_id, fingerprint=fingerprint)
            writer.batch.leave_receipt(receipt, self.shop.clock.now_ms())

    async def _reserve(self, call: Call, once: Once | None) -> None:
        """A direct turn may never write a task, so that its receipt cannot go with it."""
        if once is not None and (holder := await self._receipts.reserve(call, once)) is not None:
            raise Repeated(holder)

    # -- the life of the process

    def rerun(self, scope: Scope, record: Record, jobs: Sequence[Job]) -> None:
        """Run the turns of a dead process again."""
        run = Run(self.shop, self.shop.writer(scope, record), jobs[0], state=record.state)
        for job in jobs[1:]:
            run.inbox.put(job)
        self.live[run.task_id] = run
        run.launch(confirm=False, on_end=self._ended)

    def _ended(self, run: Run) -> None:
        if self.live.get(run.task_id) is run:
            del self.live[run.task_id]

    async def drain(self) -> None:
        """Let running turns finish for a while, then hand them over or record that they were stopped (DURA-08)."""
        self.draining = True
        await self._wait(self.shop.limits.drain_grace)
        for run in list(self.live.values()):
            run.shut_down()
        await self._wait(LAST_WORDS)
        for run in list(self.live.values()):
            run.writer.close(shutting_down())  # the store is away, or the agent does not stop
        await self._wait(_LAST_STEPS)
        self.shop.log.close(shutting_down())

    async def _wait(self, seconds: float) -> None:
        if tasks := [run.task for run in self.live.values() if run.task is not None]:
            await asyncio.wait(tasks, timeout=seconds)


async def _confirmed(run: Run, ticket: Ticket) -> Ticket:
    """Hand out the ticket when the message is durably accepted."""
    if run.confirmed is not None:
        try:
            await asyncio.shield(run.confirmed)
        except BaseException:
            ticket.reader.close()
            raise
    return ticket


def _brings_config(request: pb.SendMessageRequest) -> bool:
    """Whether a push config comes along."""
    return request.HasField("configuration") and request.configuration.HasField("task_push_notification_config")


def _check_same_context(task: pb.Task, message: pb.Message) -> None:
    if message.context_id not in ("", task.context_id):
        text = f"{message.context_id[:200]!r} is not the context of task {task.id}; leave it out or use the task's own"
        refuse([Violation("message.context_id", text)])


def _terminal(task: pb.Task) -> A2AError:
    state = pb.TaskState.Name(task.status.state)
    text = f"The task is {state} and takes no further messages. Start a new one in the same context."
    return A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"taskId": task.id, "state": state})


def changing_too_fast() -> A2AError:
    """The answer to a caller that lost every race."""
    return A2AError(Reason.UNAVAILABLE, "The task is changing too fast. Try again.", retry_after=1)
