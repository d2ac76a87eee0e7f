"""Gives a message its turn: in a new task, in one that waits for input, or after the running turn (spec: SEND, CTX)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import set_time
from a2a_server.domain.input_requests import check_answer, open_request, results_in, sensitive_request
from a2a_server.domain.lifecycle import INPUT, TERMINAL
from a2a_server.domain.validation import may_exist
from a2a_server.operations.call import Call
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.operations.push.configs import INLINE, ConfigIntake
from a2a_server.operations.replicas.session import lost_touch
from a2a_server.operations.services import Services, plan_of
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

if TYPE_CHECKING:
    from a2a_server.operations.replicas.elsewhere import TurnsElsewhere

MOST_RETRIES = 20
"""How often a write that lost a race is repeated before the caller gets an error."""


class Sending:
    """Starts the turns of messages."""

    def __init__(self, services: Services, live_turns: LiveTurns) -> None:
        self._services = services
        self._live_turns = live_turns
        self.elsewhere: TurnsElsewhere | None = None
        """Where turns are that other servers run, if there are others."""
        self._receipts = Receipts(services.store, services.clock, services.limits)
        self._repeatable = RepeatableSends(services, live_turns, self._receipts, self._begin)

    def start(self, call: Call, request: pb.SendMessageRequest, plan: Plan) -> Coroutine[Any, Any, PendingSend]:
        """Give a checked message its turn, or find the earlier send that has done so. The caller closes the result."""
        if call.idempotency_key or self._services.limits.idempotency_window:
            return self._repeatable.start(call, request, plan)
        return self._begin(call, request, plan, None)

    async def _begin(self, call: Call, request: pb.SendMessageRequest, plan: Plan, once: Receipt | None) -> PendingSend:
        """Start the turn. Raises `Repeated` if the receipt exists already."""
        if call.large:
            await asyncio.sleep(0)
        if self._live_turns.draining:
            raise shutting_down()
        if time.monotonic() >= self._services.session.until:
            raise lost_touch()
        if self._services.config_intake is not None and _brings_config(request):
            await self._check_config(self._services.config_intake, call, request)
        message, said = TurnInput(call, request), request.message
        if said.reference_task_ids:
            message.references = await self._references(call, said)
        if once is not None:
            message.key = once.key
        for _ in range(MOST_RETRIES):
            try:
                if said.task_id:
                    return await self._continue(message, once)
                return await self._create(message, plan, once)
            except StaleWrite:
                message.after = None  # the failed attempt has set it
            await asyncio.sleep(0)
        raise changing_too_fast()

    async def _check_config(self, intake: ConfigIntake, call: Call, request: pb.SendMessageRequest) -> None:
        config = request.configuration.task_push_notification_config
        if not request.message.task_id:
            await intake.find_replaced(self._services.store, call.scope, "", config, INLINE)
        await intake.challenge(config, call, INLINE)

    async def _references(self, call: Call, message: pb.Message) -> Sequence[pb.Task]:
        """Return the tasks that the message refers to. If configured, a reference may name its own task (XTRA-03)."""
        references = await visible_references(self._services, call, message)
        if not message.task_id and self._services.answer_by_reference:
            message.task_id = _task_referred_to(message, references)
        if not message.task_id:
            _check_new(message, references)
        return references

    # -- a new task

    async def _create(self, message: TurnInput, plan: Plan, once: Receipt | None) -> PendingSend:
        services, call, said = self._services, message.call, message.request.message
        if plan.scopes:  # checked before, unless the message might have been for an existing task
            call.caller.require(plan.scopes, plan.subject)
        services.agents.of(call.scope.tenant).slots.check(call.caller)
        tentative = plan.direct or plan.may_refuse
        await services.quotas.check_new(call, certain=not tentative)
        accepted = services.limits.accept_unknown_contexts or not said.context_id
        if not (accepted or await services.store.has_context(call.scope, said.context_id)):
            refuse([Violation("message.context_id", f"{said.context_id[:200]!r} is no context of yours; leave it out")])
        task_id = once.task_id if once else services.ids.new_task(call.scope)
        message.new = not said.context_id
        writer = services.writer(call.scope, StoredTask(self._draft(task_id, said), 0, 0))
        if call.large:
            await asyncio.sleep(0)
        # A direct turn may never write a task, so its receipt cannot be in the same commit.
        if tentative and once and (holder := await self._receipts.reserve(call, once)) is not None:
            raise Repeated(holder)
        self._register(writer, message)
        if tentative:
            return self._start_tentative(writer, message, once, plan)
        message.plan = plan
        live = LiveTask(services, writer, message)
        live.require_scopes(plan)
        if once is not None:
            return await self._start_once(live, message, once)
        # The first step of the turn comes before the first commit, so that a quick answer costs one commit.
        self._live_turns.start(live)
        live.open()
        return PendingSend(task_id, message, writer=writer)

    async def _start_once(self, live: LiveTask, message: TurnInput, once: Receipt) -> PendingSend:
        """Commit the task before its turn starts, so that a send that arrives twice starts once (ONCE-01)."""
        self._add_receipt(live.writer, once, message)
        self._live_turns.start(live, confirm=True)
        live.open()
        return await _confirmed(live, PendingSend(live.task_id, message, self._services.log.reader(live.task_id, 0)))

    def _start_tentative(self, writer: TaskWriter, message: TurnInput, once: Receipt | None, plan: Plan) -> PendingSend:
        """Start a turn without a task. The task is created when the agent needs one."""
        keep = None if once is None else partial(self._receipts.answer, message.call, once)
        release = None if once is None else partial(self._receipts.release, message.call, once)
        direct = DirectReply(keep, release)
        live = LiveTask(self._services, writer, message, direct=direct)
        live.require_scopes(plan)
        self._live_turns.start(live)
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
        if self._services.config_intake is not None and _brings_config(request):
            store, config = self._services.store, request.configuration.task_push_notification_config
            message.replaces = await self._services.config_intake.find_replaced(
                store, call.scope, task_id, config, INLINE
            )
        if (context_id := request.message.context_id) not in ("", record.task.context_id):
            text = f"{context_id[:200]!r} is not the context of task {task_id}; leave it out or use the task's own"
            refuse([Violation("message.context_id", text)])
        if record.task.status.state not in TERMINAL:
            await self._services.quotas.check_more(call, record)
        if (live := self._live_turns.find(task_id)) is not None:
            return await self.join(live, message, once)
        if record.task.status.state in TERMINAL:
            raise _terminal(record.task)
        if self.elsewhere is not None and record.session not in {"", self._services.session.id}:
            return await self.elsewhere.send(call.scope, record, message, once)
        return await self._resume(record, message, once)

    async def _resume(self, record: StoredTask, message: TurnInput, once: Receipt | None) -> PendingSend:
        services = self._services
        served = services.agents.of(message.call.scope.tenant)
        plan = plan_of(served.agent, message.request, record.state)
        if plan.scopes:
            message.call.caller.require(plan.scopes, plan.subject)
        served.slots.check(message.call.caller)
        check_answer(record.task.status, message.request.message)
        writer = services.writer(message.call.scope, record)
        if plan.may_refuse:
            return await self._start_refusable(writer, message, once, record.state, plan)
        live = LiveTask(services, writer, message, saved=record.state)
        live.require_scopes(plan)
        self._admit(live, message, once)
        self._live_turns.start(live, confirm=True)
        return await _confirmed(live, self._pending(writer, message))

    def _admit(self, live: LiveTask, message: TurnInput, once: Receipt | None) -> None:
        live.writer.claim(self._services.session.id)
        self._register(live.writer, message)
        self._services.audit_config(message.call, live.task_id, message.request)
        live.join(message)
        self._add_receipt(live.writer, once, message)
        message.after = message.number
        live.move(pb.TASK_STATE_WORKING)

    async def _start_refusable(
        self, writer: TaskWriter, message: TurnInput, once: Receipt | None, saved: bytes, plan: Plan
    ) -> PendingSend:
        """Start a turn that may refuse. Nothing is written before the agent's first event (AGNT-12)."""
        direct = DirectReply()
        live = LiveTask(self._services, writer, message, saved=saved, direct=direct)
        live.require_scopes(plan)
        pending = PendingSend(live.task_id, message, self._services.log.reader(live.task_id, writer.number))

        def admit() -> None:
            self._admit(live, message, once)
            pending.begin_at(writer)

        live.wait_for_admission(message, admit)
        self._live_turns.start(live)
        try:
            await asyncio.shield(direct.message)
            await writer.settle()
        except BaseException as error:
            pending.close()
            if isinstance(error, StaleWrite):  # the agent has begun, and must not begin twice
                raise changing_too_fast() from None
            raise
        return pending

    async def join(self, live: LiveTask, message: TurnInput, once: Receipt | None) -> PendingSend:
        """Queue a message for a task with a running turn (SEND-13)."""
        writer = live.writer
        if live.plan is not None:
            message.call.caller.require(live.plan.scopes, live.plan.subject)
        if not live.exists:
            await live.wait_until_admitted()
            raise StaleWrite(live.task_id)  # look again
        if writer.state in TERMINAL:
            await writer.settle()
            raise _terminal(writer.head)
        while once is not None and writer.has_receipt:  # one commit carries one receipt
            await writer.settle()
        if live.over or writer.state in TERMINAL:
            raise StaleWrite(live.task_id)
        check_answer(writer.head.status, message.request.message)
        live.enqueue(message)
        self._add_receipt(writer, once, message)
        self._register(writer, message)
        self._services.audit_config(message.call, live.task_id, message.request)
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

    # -- push configs and receipts of a message

    def _register(self, writer: TaskWriter, message: TurnInput) -> None:
        """Store the push config of a message, so that it gets the first event too (SEND-07)."""
        request, call = message.request, message.call
        if _brings_config(request):
            config = pb.TaskPushNotificationConfig()
            config.CopyFrom(request.configuration.task_push_notification_config)
            config.task_id, config.id = writer.task_id, config.id or self._services.ids.new()
            config.tenant = writer.scope.tenant
            if self._services.config_intake is not None:
                self._services.config_intake.seal(config, message.replaces)
            writer.register(PushConfig(config, call.version, call.schemes))

    def _add_receipt(self, writer: TaskWriter, once: Receipt | None, message: TurnInput) -> None:
        if once is not None:
            fingerprint = once.fingerprint if message.kept is None else SECRET
            receipt = replace(once, task_id=writer.task_id, fingerprint=fingerprint)
            writer.add_receipt(receipt, self._services.clock.steady_ms())


async def visible_references(services: Services, call: Call, message: pb.Message) -> Sequence[pb.Task]:
    """Return the tasks that a message refers to, without those that its caller may not see (CTX-11)."""
    load, most = services.store.load, services.limits.reference_tasks
    named = [task_id for task_id in message.reference_task_ids[:most] if may_exist(task_id)]
    return [record.task for task_id in named if (record := await load(call.scope, task_id))]


async def _confirmed(live: LiveTask, pending: PendingSend) -> PendingSend:
    """Wait until the message is durable."""
    if live.confirmed is not None:
        try:
            await asyncio.shield(live.confirmed)
        except BaseException:
            pending.close()
            raise
    return pending


def _brings_config(request: pb.SendMessageRequest) -> bool:
    return request.HasField("configuration") and request.configuration.HasField("task_push_notification_config")


def _task_referred_to(message: pb.Message, references: Sequence[pb.Task]) -> str:
    """Return the task of a message that names it only as its single reference, and answers that task's question.

    `references` are the tasks that the caller may see. Other references are ignored.
    """
    if len(message.reference_task_ids) != 1 or not references:
        return ""
    task = references[0]
    request = open_request(task.status) if task.status.state == INPUT else None
    if request is None or not request.request_id:
        return ""
    return task.id if any(result.tool_use_id == request.request_id for result in results_in(message)) else ""


def _check_new(message: pb.Message, references: Iterable[pb.Task]) -> None:
    """Refuse a new task for the answer to another task's sensitive request: its history would show it (XTRA-04)."""
    for task in references:
        if sensitive_request([task.status.message, *task.history], message) is not None:
            text = (
                f"must be {task.id}: the message answers a sensitive request of that task, and a new task would keep it"
            )
            refuse([Violation("message.task_id", text)])


def _terminal(task: pb.Task) -> A2AError:
    state = pb.TaskState.Name(task.status.state)
    text = (
        f"The task is {state} and takes no further messages. To go on with the conversation, send the message with the "
        f"context id {task.context_id!r} and without a task id; its reference task ids may name this task."
    )
    metadata = {"taskId": task.id, "contextId": task.context_id, "state": state}
    return A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata=metadata)


def changing_too_fast() -> A2AError:
    """Return the error for a write that lost every race."""
    return A2AError(Reason.UNAVAILABLE, "The task is changing too fast. Try again.", retry_after=1)
