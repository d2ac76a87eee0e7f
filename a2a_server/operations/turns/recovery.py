"""Settles what a dead process left behind, before the doors open (spec: DURA-02)."""

from __future__ import annotations

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.input_requests import request_in
from a2a_server.domain.lifecycle import ACTIVE, AUTH, INTERRUPTED
from a2a_server.operations.services import Services, restartable
from a2a_server.operations.turns.exchange import TurnInput, recovered
from a2a_server.operations.turns.idle_tasks import IdleTask
from a2a_server.operations.turns.live_task import LiveTask
from a2a_server.operations.turns.registry import LiveTurns
from a2a_server.operations.turns.sending import visible_references
from a2a_server.ports.store import Claimed, StoredTask

logger = structlog.get_logger()

_MOST = 1_000_000
_EVER = 1 << 62
_AT_WORK = ACTIVE | {AUTH}
"""Where a turn may be under way: one that waits for a credential from elsewhere does so in AUTH_REQUIRED (INTR-07)."""
_TEXT = "The server was interrupted while the agent was working on this task. Send the message again to start over."


class Recovery:
    """Runs restartable turns again from their checkpoint, and marks every other active task FAILED.

    A turn that was given what is not kept is not run again: its task asks anew (XTRA-04).
    """

    def __init__(self, services: Services, live_turns: LiveTurns) -> None:
        self._services = services
        self._live_turns = live_turns

    async def settle(self) -> None:
        """Take over every turn: whoever holds a lease is dead, however fresh it is, since nobody shares a store."""
        services = self._services
        for claimed in await services.store.claim(services.leases.new(), _EVER, _MOST):
            record = await services.store.load(claimed.scope, claimed.task_id)
            if record is not None:
                await self._settle(claimed, record)

    async def _settle(self, claimed: Claimed, record: StoredTask) -> None:
        messages = [recovered(claimed.scope, turn) for turn in claimed.turns]
        first, waiting = messages[0], messages[1:]
        for message in waiting:
            message.rerun, message.after = False, None
        state, agent = record.task.status.state, self._services.agent_for(claimed.scope.tenant)
        if state in _AT_WORK and restartable(agent, first.request, record.state):
            await self._rerun(claimed, record, messages)
        elif state in INTERRUPTED and waiting:
            await self._go_on(claimed, record, waiting)
        elif state in ACTIVE:
            await self._fail(claimed, record, first)
        else:
            await IdleTask(self._services, claimed.scope, record).end(claimed.turns)

    async def _go_on(self, claimed: Claimed, record: StoredTask, messages: list[TurnInput]) -> None:
        """The turn that asked was as good as over; the message behind it is the answer, and nobody has begun on it."""
        await IdleTask(self._services, claimed.scope, record).end(claimed.turns[:1])
        if (ended := await self._services.store.load(claimed.scope, claimed.task_id)) is not None:
            await self._rerun(claimed, ended, messages)

    async def _rerun(self, claimed: Claimed, record: StoredTask, messages: list[TurnInput]) -> None:
        if messages[0].kept is not None:
            return await self._ask_again(claimed, record, messages[0])
        if lost := {message.number for message in messages if message.kept is not None}:
            # The turn that asked for them asks again.
            ends = [turn for turn in claimed.turns if turn.number in lost]
            await IdleTask(self._services, claimed.scope, record).end(ends)
            record = await self._services.store.load(claimed.scope, claimed.task_id) or record
        logger.info("task.rerun", task_id=claimed.task_id)
        first, *waiting = [message for message in messages if message.number not in lost]
        live = LiveTask(self._services, self._services.writer(claimed.scope, record), first, saved=record.state)
        for message in (first, *waiting):
            message.references = await visible_references(self._services, message.call, message.request.message)
        for message in waiting:
            live.waiting.put(message)
        return self._live_turns.start(live)

    async def _ask_again(self, claimed: Claimed, record: StoredTask, message: TurnInput) -> None:
        """The answer to a sensitive request was not kept, so no turn can go on with it: its client is asked anew."""
        status = record.task.status
        if status.state in INTERRUPTED and status.HasField("message"):  # the agent has asked for something else since
            return await IdleTask(self._services, claimed.scope, record).end(claimed.turns)
        question = next((said for said in reversed(record.task.history) if request_in(said)), None)
        if question is None:
            return await self._fail(claimed, record, message)
        logger.info("task.asked_again", task_id=claimed.task_id)
        task = IdleTask(self._services, claimed.scope, record, message.call.trace)
        return await task.ask_again(question, ends=claimed.turns)

    async def _fail(self, claimed: Claimed, record: StoredTask, message: TurnInput) -> None:
        logger.warning("task.interrupted", task_id=claimed.task_id)
        task = IdleTask(self._services, claimed.scope, record, message.call.trace)
        await task.move(pb.TASK_STATE_FAILED, _TEXT, {"reason": "SERVER_INTERRUPTED"}, ends=claimed.turns)
