"""Removes old data from the store, in small steps with pauses in between (spec: KEPT-01, CTX-13, SECR-07)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass

import structlog

from a2a_server.ports.clock import Clock
from a2a_server.ports.retention import Deadlines, Removed
from a2a_server.ports.store import Store, StoreUnavailable
from a2a_server.protocol.options import Age

logger = structlog.get_logger()

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_TIDY = 5.0
"""Seconds without a write after which the store gives space back."""
_SHARE = 4
"""After a step comes a pause this many times as long, so that sweeping takes at most a fifth of the store's time."""
_SHORTEST_STEP_PAUSE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """How long things are kept: seconds, or a number with s, m, h, d, w or y, such as "30d". 0 = for ever."""

    tasks: Age = 0.0
    """How long finished tasks are kept, with their logs, push configs and receipts. A task whose webhooks are still to
    be delivered is kept until they are delivered or parked."""
    events: Age = 0.0
    """How long the logs of finished tasks are kept, where that is to be shorter. The tasks stay, and cannot be replayed
    any more."""
    receipts: Age = 0.0
    """The longest that receipts of idempotent sends are kept, whatever `limits.idempotency_window` and
    `limits.idempotency_key_window` say; 0 = as long as they say."""
    webhooks: Age = 0.0
    """How long parked push configs are kept, with the webhooks that could not be delivered."""
    contexts: Age = 0.0
    """How long the state of a context is kept after its last task has finished."""

    def deadlines(self, now_ms: int, steady_ms: int, *, owed: bool = True) -> Deadlines:
        before_ms = min(now_ms, steady_ms)  # nothing is removed too early because the clock was set
        ages = {name: age for name, age in asdict(self).items() if age and name != "receipts"}
        times = {name: before_ms - int(age * 1000) for name, age in ages.items()}
        return Deadlines(**times, receipts=steady_ms, owed=owed)


class Sweeper:
    """One per process."""

    def __init__(self, store: Store, clock: Clock, ages: Ages, *, owed: bool) -> None:
        """`owed`: whether webhooks are delivered, so that a task is kept until its webhooks are."""
        self._store = store
        self._clock = clock
        self._ages = ages
        self._owed = owed
        shortest = min((age for age in asdict(ages).values() if age), default=_LONGEST_PAUSE * 10)
        self._pause = min(max(shortest / 10, _SHORTEST_PAUSE), _LONGEST_PAUSE)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        due = time.monotonic() + self._pause
        while True:
            await asyncio.sleep(min(_TIDY, max(due - time.monotonic(), _SHORTEST_PAUSE)))
            try:
                if time.monotonic() >= due:
                    due = time.monotonic() + max(self._pause, _SHARE * await self._round())
                await self._tidy()
            except StoreUnavailable:
                logger.warning("store.unavailable", during="retention")
            except Exception:
                logger.exception("retention.failed")  # the next round may succeed

    async def _round(self) -> float:
        """Sweep everything once. Return the seconds that took, without the pauses."""
        clock, spent, removed = self._clock, 0.0, Removed()
        deadlines = self._ages.deadlines(clock.now_ms(), clock.steady_ms(), owed=self._owed)
        while True:
            begun = time.monotonic()
            step = await self._store.sweep(deadlines)
            took = time.monotonic() - begun
            spent += took
            if step is None:
                break
            removed = removed.plus(step)
            await asyncio.sleep(max(_SHORTEST_STEP_PAUSE, _SHARE * took))
        if any(removed):
            logger.info(
                "retention.removed",
                **{name: count for name, count in removed._asdict().items() if count},
                seconds=round(spent, 3),
            )
        return spent

    async def _tidy(self) -> None:
        more = True
        while more:
            more = await self._store.tidy()
            await asyncio.sleep(_SHORTEST_STEP_PAUSE)
