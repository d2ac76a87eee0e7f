"""Changes tasks without a live turn, and fails those that wait for input too long (CANX-02, DURA-02, TIMO, XTRA-04).

One sweep checks all waiting tasks, so a waiting task needs no memory and no timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import has_in_band
from a2a_server.domain.lifecycle import AUTH, INPUT, INTERRUPTED
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.operations.services import Details, Services
from a2a_server.operations.turns.registry import LiveTurns
from a2a_server.ports.records import StoredTurn
from a2a_server.ports.store import StaleWrite, StoredTask, StoreUnavailable

logger = structlog.get_logger()

_BATCH = 100
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0


class IdleTask:
    """A task without a live turn, as it was read. Every method raises `StaleWrite` if the task has changed since."""

    def __init__(self, services: Services, scope: Scope, record: StoredTask, trace: Trace | None = None) -> None:
        self._services = services
        self._writer = services.writer(scope, record)
        self._writer.caused_by(trace)

    async def move(
        self, state: int, text: str = "", details: Details | None = None, *, ends: Iterable[StoredTurn] = ()
    ) -> None:
        """Set another status, and end the given turns."""
        message = self._services.status_message(self._writer, text, details or {}) if text else None
        self._writer.move(state, self._services.clock.now_ms(), message)
        await self.end(ends)

    async def ask_again(self, question: pb.Message, *, ends: Iterable[StoredTurn]) -> None:
        """Ask a question again."""
        message = pb.Message()
        message.CopyFrom(question)
        message.message_id = self._services.ids.new()
        state = AUTH if has_in_band(question.metadata) else INPUT
        self._writer.move(state, self._services.clock.now_ms(), message)
        await self.end(ends)

    async def end(self, turns: Iterable[StoredTurn]) -> None:
        self._writer.end(turn.number for turn in turns)
        await self._writer.settle()


class InputTimeouts:
    """Looks regularly for tasks whose question was not answered in time."""

    def __init__(self, services: Services, live_turns: LiveTurns, seconds: float) -> None:
        self._services = services
        self._live_turns = live_turns
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._seconds:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        pause = min(max(self._seconds / 10, _SHORTEST_PAUSE), _LONGEST_PAUSE)
        while True:
            await asyncio.sleep(pause)
            try:
                await self.sweep()
            except StoreUnavailable:
                logger.warning("store.unavailable", during="input timeouts")
            except Exception:
                logger.exception("input_timeouts.failed")  # the next sweep may succeed

    async def sweep(self) -> None:
        """Fail every task that has waited too long."""
        clock = self._services.clock
        # A change of the system clock must not make a question expire early.
        before = min(clock.now_ms(), clock.steady_ms()) - int(self._seconds * 1000)
        for state in sorted(INTERRUPTED):
            while late := await self._services.store.waiting_since(state, before, _BATCH):
                for scope, task_id in late:
                    await self._fail(scope, task_id, state)
                if len(late) < _BATCH:
                    break

    async def _fail(self, scope: Scope, task_id: str, state: int) -> None:
        record = await self._services.store.load(scope, task_id)
        if record is None or record.task.status.state != state or self._live_turns.find(task_id):
            return
        text = f"No input arrived within {self._seconds:g} seconds."
        details: Details = {"reason": "INPUT_TIMEOUT", "taskId": task_id, "timeoutSeconds": self._seconds}
        try:
            await IdleTask(self._services, scope, record).move(pb.TASK_STATE_FAILED, text, details)
        except StaleWrite:
            return  # the answer came after all
        logger.info("task.input_timeout", task_id=task_id, seconds=self._seconds)
