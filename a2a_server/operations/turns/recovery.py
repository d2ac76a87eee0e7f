"""Recovers the turns of servers that are gone (spec: DURA-02, DURA-04)."""

from __future__ import annotations

import asyncio
from collections import deque

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.input_requests import request_in
from a2a_server.domain.lifecycle import ACTIVE, AUTH, INTERRUPTED, TERMINAL
from a2a_server.operations.services import Services, plan_of
from a2a_server.operations.turns.exchange import TurnInput, recovered
from a2a_server.operations.turns.idle_tasks import IdleTask
from a2a_server.operations.turns.live_task import LiveTask
from a2a_server.operations.turns.registry import LiveTurns
from a2a_server.operations.turns.sending import visible_references
from a2a_server.ports.store import Claimed, StaleWrite, StoredTask, StoreUnavailable

logger = structlog.get_logger()

_AT_ONCE = 1000
"""Tasks that are taken over together."""
_AT_WORK = ACTIVE | {AUTH}
"""States in which a turn may run. In AUTH_REQUIRED a turn may wait for a credential from elsewhere (INTR-07)."""
_TEXT = "The server was interrupted while the agent was working on this task. Send the message again to start over."


class Recovery:
    """Runs restartable turns again from their checkpoint, and marks every other active task FAILED.

    A turn that got the answer to a sensitive request is not run again, because the answer was not stored. Its task asks
    the question again (XTRA-04).
    """

    def __init__(self, services: Services, live_turns: LiveTurns) -> None:
        self._services = services
        self._live_turns = live_turns
        self._claimed: deque[Claimed] = deque()
        self._door = asyncio.Lock()
        """The start may still be at it when the first look comes."""

    async def settle(self) -> None:
        """Take over all turns whose session is over."""
        async with self._door:
            await self._settle_all()

    async def _settle_all(self) -> None:
        services = self._services
        while True:
            while self._claimed:  # some may be left of the last time, when the store went away
                await self._settle_one(self._claimed[0])
                self._claimed.popleft()
            self._claimed.extend(await services.store.claim(services.session.id, _AT_ONCE))
            if not self._claimed:
                return

    async def _settle_one(self, claimed: Claimed) -> None:
        """Settle one task. Unless the store is away, the others have their turn, whatever is wrong with this one."""
        try:
            record = await self._services.store.load(claimed.scope, claimed.task_id)
            if record is not None:
                await self._settle(claimed, record)
        except StoreUnavailable:
            raise
        except StaleWrite:  # it has been taken from us in turn
            logger.warning("task.lost", task_id=claimed.task_id)
        except Exception:
            logger.exception("recovery.failed", task_id=claimed.task_id)

    async def _settle(self, claimed: Claimed, record: StoredTask) -> None:
        messages = [recovered(claimed.scope, turn) for turn in claimed.turns]
        first, waiting = messages[0], messages[1:]
        for message in waiting:
            message.rerun, message.after = False, None
        state, served = record.task.status.state, self._services.agents.find(claimed.scope.tenant)
        if served is None:
            await self._leave(claimed, record, first)
        elif state in _AT_WORK and plan_of(served.agent, first.request, record.state).restartable:
            await self._rerun(claimed, record, messages)
        elif state in INTERRUPTED and waiting:
            await self._go_on(claimed, record, waiting)
        elif state in ACTIVE:
            await self._fail(claimed, record, first)
        else:
            await IdleTask(self._services, claimed.scope, record).end(claimed.turns)

    async def _leave(self, claimed: Claimed, record: StoredTask, first: TurnInput) -> None:
        """Settle a task whose agent is not served any more. No other agent may go on with it."""
        logger.warning("recovery.no_agent", task_id=claimed.task_id, tenant=claimed.scope.tenant)
        if record.task.status.state in TERMINAL:
            await IdleTask(self._services, claimed.scope, record).end(claimed.turns)
        else:
            await self._fail(claimed, record, first)

    async def _go_on(self, claimed: Claimed, record: StoredTask, messages: list[TurnInput]) -> None:
        """Continue a task whose turn had asked a question. The next message is the answer; its turn has not begun."""
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
        live.require_scopes(plan_of(live.served.agent, first.request, record.state))
        for message in (first, *waiting):
            message.references = await visible_references(self._services, message.call, message.request.message)
        for message in waiting:
            live.waiting.put(message)
        return self._live_turns.start(live)

    async def _ask_again(self, claimed: Claimed, record: StoredTask, message: TurnInput) -> None:
        """Ask a sensitive question again, because its answer was not stored."""
        status = record.task.status
        if status.state in INTERRUPTED and status.HasField("message"):  # the agent has asked for something else since
            return await IdleTask(self._services, claimed.scope, record).end(claimed.turns)
        said = (one for one in reversed(record.task.history) if one.role == pb.ROLE_AGENT)
        question = next((one for one in said if request_in(one)), None)
        if question is None:
            return await self._fail(claimed, record, message)
        logger.info("task.asked_again", task_id=claimed.task_id)
        task = IdleTask(self._services, claimed.scope, record, message.call.trace)
        return await task.ask_again(question, ends=claimed.turns)

    async def _fail(self, claimed: Claimed, record: StoredTask, message: TurnInput) -> None:
        logger.warning("task.interrupted", task_id=claimed.task_id)
        task = IdleTask(self._services, claimed.scope, record, message.call.trace)
        await task.move(pb.TASK_STATE_FAILED, _TEXT, {"reason": "SERVER_INTERRUPTED"}, ends=claimed.turns)
