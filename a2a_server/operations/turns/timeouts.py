"""Tasks that wait for input too long are failed; one sweep serves them all, so waiting costs nothing (spec: TIMO)."""

from __future__ import annotations

import asyncio

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.lifecycle import INTERRUPTED
from a2a_server.domain.scope import Scope
from a2a_server.operations.turns.moves import Details
from a2a_server.operations.turns.runs import Runs
from a2a_server.operations.turns.unattended import Unattended
from a2a_server.ports.store import StaleWrite, StoreUnavailable

logger = structlog.get_logger()

_BATCH = 100
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0


class InputTimeouts:
    """Looks now and then for tasks whose question was never answered."""

    def __init__(self, runs: Runs, seconds: float) -> None:
        self._runs = runs
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
        """Fail every task whose time is up."""
        shop = self._runs.shop
        before = shop.clock.now_ms() - int(self._seconds * 1000)
        for state in sorted(INTERRUPTED):
            while late := await shop.store.waiting_since(state, before, _BATCH):
                for scope, task_id in late:
                    await self._fail(scope, task_id, state)
                if len(late) < _BATCH:
                    break

    async def _fail(self, scope: Scope, task_id: str, state: int) -> None:
        record = await self._runs.shop.store.load(scope, task_id)
        if record is None or record.task.status.state != state or task_id in self._runs.live:
            return
        text = f"No input arrived within {self._seconds:g} seconds."
        details: Details = {"reason": "INPUT_TIMEOUT", "taskId": task_id, "timeoutSeconds": self._seconds}
        try:
            await Unattended(self._runs.shop, scope, record).move(pb.TASK_STATE_FAILED, text, details)
        except StaleWrite:
            return  # the answer came after all
        logger.info("task.input_timeout", task_id=task_id, seconds=self._seconds)
