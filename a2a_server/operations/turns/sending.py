"""Gives a message its turn: in a new task, in one that waits, or in the queue of one that runs (spec: SEND, CTX)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import set_time
from a2a_server.domain.input_requests import check_answer, open_request, results_in, sensitive_request
from a2a_server.domain.lifecycle import INPUT, TERMINAL
from a2a_server.domain.validation import may_exist
from a2a_server.operations.call import Call
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.operations.push.configs import INLINE
from a2a_server.operations.services import Services
from a2a_server.operations.turns.exchange import PendingSend, TurnInput
from a2a_server.operations.turns.idempotency import SECRET, Receipts, RepeatableSends
from a2a_server.operations.turns.live_task import LiveTask
from a2a_server.operations.turns.registry import LiveTurns, shutting_down
from a2a_server.operations.turns.turn_events import DirectReply
from a2a_server.ports.agent import Plan
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import Receipt
from a2a_server.ports.store import Repeated, StaleWrite, StoredTask
from a2a_server.protocol.errors import A2AError, Reason, Violation, refuse

RACES = 20
"""How often a write that lost a race is tried again before the caller is asked to do so."""


class Sending:
    """The way of every message to the agent."""

    def __init__(self, services: Services, live_turns: LiveTurns) -> None:
        self._services = services
        self._live_turns = live_turns
        self._receipts = Receipts(services.store, services.clock, services.limits)
        self._repeatable = RepeatableSends(services, live_turns, self._receipts, self._begin)

    def start(self, call: Call, request: pb.SendMessageRequest, plan: Plan) -> Coroutine[Any, Any, PendingSend]:
        """Give a checked message its turn, or find that an earlier send has done so. The caller closes the result."""
        if call.idempotency_key or self._services.limits.idempotency_window:
            return self._repeatable.start(call, request, plan)
        return self._begin(call, request, plan, None)

    async def _begin(self, call: Call, request: pb.SendMessageRequest, plan: Plan, once: Receipt | None) -> PendingSend:
        """Raises `Repeated` when somebody was faster with the same receipt."""
        if call.large:
            await asyncio.sleep(0)
        if self._live_turns.draining:
            raise shutting_down()
        if self._services.desk is not None and _brings_config(request):
            config = request.configuration.task_push_notification_config
            if not request.message.task_id:
                await self._services.desk.find_replaced(self._services.store, call.scope, "", config, INLINE)
            await self._services.desk.challenge(config, call, INLINE)
        message, said = TurnInput(call, request), request.message
        if said.reference_task_ids:
            message.references = await self._references(call, said)
        if once is not None:
            message.key = once.key
        for _ in range(RACES):
            try:
                if said.task_id:
                    return await self._continue(message, once)
                return await self._create(message, plan, once)
            except StaleWrite:
                message.after = None  # the attempt has left a mark
            await asyncio.sleep(0)
        raise changing_too_fast()

    async def _references(self, call: Call, message: pb.Message) -> Sequence[pb.Task]:
        """What the message refers to; with the setting it may thereby name the task that it is for (XTRA-03)."""
        references = await visible_references(self._services, call, message)
        if not message.task_id and self._services.answer_by_reference:
            message.task_id = _addressee(message, references)
        if not message.task_id:
            _check_new(message, references)
        return references

    # -- a new task

    async def _create(self, message: TurnInput, plan: Plan, once: Receipt | None) -> PendingSend:
        services, call, said = self._services, message.call, message.request.message
        services.slots.check(call.caller)
        accepted = services.limits.accept_unknown_contexts or not said.context_id
        if not (accepted or await services.store.has_context(call.scope, said.context_id)):
            refuse([Violation("message.context_id", f"{said.context_id[:200]!r} is no context of yours; leave it out")])
        task_id = once.task_id if once else services.ids.new()
        writer = services.writer(call.scope, StoredTask(self._draft(task_id, said), 0, 0))
        if call.large:
            await asyncio.sleep(0)
        # A direct turn may never write a task, so that its receipt cannot go with it.
        if plan.direct and once and (holder := await self._receipts.reserve(call, once)) is not None:
            raise Repeated(holder)
        self._register(writer, message)
        if plan.direct:
            return self._start_direct(writer, message, once)
        message.plan = plan
        live = LiveTask(services, writer, message)
        if once is not None:
            return await self._start_once(live, message, once)
        # The first step of the turn comes before the first commit, so that a quick answer costs one commit.
        self._live_turns.start(live)
        live.open()
        return PendingSend(task_id, message, writer=writer)

    async def _start_once(self, live: LiveTask, message: TurnInput, once: Receipt) -> PendingSend:
        """The same send may arrive twice, and must start once: the commit comes before the turn (ONCE-01)."""
        self._leave_receipt(live.writer, once, message)
        self._live_turns.start(live, confirm=True)
        live.open()
        return await _confirmed(live, PendingSend(live.task_id, message, self._services.log.reader(live.task_id, 0)))

    def _start_direct(self, writer: TaskWriter, message: TurnInput, once: Receipt | None) -> PendingSend:
        """No task exists before the agent shows that it needs one."""
        keep = None if once is None else partial(self._receipts.answer, message.call, once)
        direct = DirectReply(keep)
        self._live_turns.start(LiveTask(self._services, writer, message, direct=direct))
        reader = self._services.log.reader(writer.task_id, 0)
        return PendingSend(writer.task_id, message, reader, reply=direct.message)

    def _draft(self, task_id: str, message: pb.Message) -> pb.Task:
        task = pb.Task()
        task.id = message.task_id = task_id
        task.context_id = message.context_id = message.context_id or self._services.ids.new()
        status = task.status
        status.state = pb.TASK_STATE_SUBMITTED
        set_time(status.timestamp, self._services.clock.now_ms())
        task.history.add().CopyFrom(message)
        return task

    # -- an existing task

    async def _continue(self, message: TurnInput, once: Receipt | None) -> PendingSend:
        call, request = message.call, message.request
        task_id = request.message.task_id
        record = await self._services.find(call.scope, task_id)
        if self._services.desk is not None and _brings_config(request):
            store, config = self._services.store, request.configuration.task_push_notification_config
            message.replaces = await self._services.desk.find_replaced(store, call.scope, task_id, config, INLINE)
        if (context_id := request.message.context_id) not in ("", record.task.context_id):
            text = f"{context_id[:200]!r} is not the context of task {task_id}; leave it out or use the task's own"
            refuse([Violation("message.context_id", text)])
        if (live := self._live_turns.find(task_id)) is not None:
            return await self._join(live, message, once)
        if record.task.status.state in TERMINAL:
            raise _terminal(record.task)
        return await self._resume(record, message, once)

    async def _resume(self, record: StoredTask, message: TurnInput, once: Receipt | None) -> PendingSend:
        services = self._services
        services.slots.check(message.call.caller)
        check_answer(record.task.status, message.request.message)
        writer = services.writer(message.call.scope, record)
        live = LiveTask(services, writer, message, saved=record.state)
        writer.claim(services.leases.new())
        self._register(writer, message)
        live.join(message)
        self._leave_receipt(writer, once, message)
        message.after = message.number
        live.move(pb.TASK_STATE_WORKING)
        self._live_turns.start(live, confirm=True)
        return await _confirmed(live, self._pending(writer, message))

    async def _join(self, live: LiveTask, message: TurnInput, once: Receipt | None) -> PendingSend:
        """A message to a task that is being worked on waits for its turn (SEND-13)."""
        writer = live.writer
        if writer.state in TERMINAL:
            await writer.settle()
            raise _terminal(writer.head)
        while once is not None and writer.has_receipt:  # one commit carries one receipt
            await writer.settle()
        if live.over or writer.state in TERMINAL:
            raise StaleWrite(live.task_id)
        check_answer(writer.head.status, message.request.message)
        live.enqueue(message)
        self._leave_receipt(writer, once, message)
        self._register(writer, message)
        pending = self._pending(writer, message)
        try:
            await writer.settle()
        except BaseException:
            pending.close()
            raise
        return pending

    def _pending(self, writer: TaskWriter, message: TurnInput) -> PendingSend:
        reader = self._services.log.reader(writer.task_id, writer.number)
        return PendingSend(writer.task_id, message, reader, snapshot=writer.copy())

    # -- what comes along with a message

    def _register(self, writer: TaskWriter, message: TurnInput) -> None:
        """A push config that came with the message is there before the first event (SEND-07)."""
        request, call = message.request, message.call
        if _brings_config(request):
            config = pb.TaskPushNotificationConfig()
            config.CopyFrom(request.configuration.task_push_notification_config)
            config.task_id, config.id = writer.task_id, config.id or self._services.ids.new()
            config.tenant = writer.scope.tenant
            if self._services.desk is not None:
                self._services.desk.seal(config, message.replaces)
            writer.register(PushConfig(config, call.version, call.schemes))

    def _leave_receipt(self, writer: TaskWriter, once: Receipt | None, message: TurnInput) -> None:
        if once is not None:
            fingerprint = once.fingerprint if message.kept is None else SECRET
            receipt = replace(once, task_id=writer.task_id, fingerprint=fingerprint)
            writer.leave_receipt(receipt, self._services.clock.steady_ms())


async def visible_references(services: Services, call: Call, message: pb.Message) -> Sequence[pb.Task]:
    """The tasks that a message refers to. Those that its caller may not see are left out without a word (CTX-11)."""
    load, most = services.store.load, services.limits.reference_tasks
    named = [task_id for task_id in message.reference_task_ids[:most] if may_exist(task_id)]
    return [record.task for task_id in named if (record := await load(call.scope, task_id))]


async def _confirmed(live: LiveTask, pending: PendingSend) -> PendingSend:
    """Return when the message is durably accepted."""
    if live.confirmed is not None:
        try:
            await asyncio.shield(live.confirmed)
        except BaseException:
            pending.close()
            raise
    return pending


def _brings_config(request: pb.SendMessageRequest) -> bool:
    return request.HasField("configuration") and request.configuration.HasField("task_push_notification_config")


def _addressee(message: pb.Message, references: Sequence[pb.Task]) -> str:
    """The task that a message without one is for: its only reference, if that waits for what the message holds.

    `references` are the tasks that the caller may see; whatever else a message names makes no difference to it.
    """
    if len(message.reference_task_ids) != 1 or not references:
        return ""
    task = references[0]
    request = open_request(task.status) if task.status.state == INPUT else None
    if request is None or not request.request_id:
        return ""
    return task.id if any(result.tool_use_id == request.request_id for result in results_in(message)) else ""


def _check_new(message: pb.Message, references: Iterable[pb.Task]) -> None:
    """Refuse to begin a task with what answers a sensitive request of another: its history would tell it (XTRA-04)."""
    for task in references:
        if sensitive_request([task.status.message, *task.history], message) is not None:
            text = (
                f"must be {task.id}: the message answers a sensitive request of that task, and a new task would keep it"
            )
            refuse([Violation("message.task_id", text)])


def _terminal(task: pb.Task) -> A2AError:
    state = pb.TaskState.Name(task.status.state)
    text = f"The task is {state} and takes no further messages. Start a new one in the same context."
    return A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"taskId": task.id, "state": state})


def changing_too_fast() -> A2AError:
    """The answer to a caller that lost every race."""
    return A2AError(Reason.UNAVAILABLE, "The task is changing too fast. Try again.", retry_after=1)
