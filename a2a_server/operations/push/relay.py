"""Delivers webhooks: claims due deliveries, attempts them, and records the outcome (DELV, PAID-01, PAID-02, PAID-03).

The store gives out one delivery per config at a time, the earliest. So each config gets its events in the order of the
log, and no config waits for another. A claim that is not finished expires, and then the delivery is due again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import structlog

from a2a_server.operations.push.configs import WebhookBodies
from a2a_server.operations.push.push_options import PushOptions
from a2a_server.operations.push.schedule import AttemptSlot, AttemptSlots, failure_of, reached
from a2a_server.ports.clock import Clock
from a2a_server.ports.push import Delivery, FailedAttempt, Outcome, Unsealable
from a2a_server.ports.store import Store, StoreUnavailable

logger = structlog.get_logger()

_POLL = 1.0
"""How often the relay checks without being woken, in seconds. Other processes and operators make deliveries due too."""
_PAUSE = 0.02
"""Seconds between two checks while no slot is free for a due delivery. A slot that becomes free ends the pause."""
_STORE_PAUSE = 0.5
_EVENT_GONE = Outcome(delivered=True, why="event gone")
_BROKEN = Outcome(delivered=False, why="internal error")
_SEALED = Outcome(delivered=False, why="sealed secret", final=True)

_ConfigKey = tuple[str, str]
"""Task and config."""


@dataclass(slots=True, eq=False)
class DeliveryAttempt:
    delivery: Delivery
    slot: AttemptSlot
    before: DeliveryAttempt | None
    """An earlier attempt for the same config, which has lost its claim because the config was replaced."""
    reached: bool | None = None
    """Whether the host has answered; None until that is known."""
    task: asyncio.Task[None] | None = None

    async def cancel(self) -> None:
        """Return when the attempt has ended."""
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])


class PushRelay:
    """One per process. Several processes may deliver from one store."""

    def __init__(
        self, store: Store, clock: Clock, options: PushOptions, *, history_cap: int, keep_open_on_input: bool = False
    ) -> None:
        self._store = store
        self._clock = clock
        self._sender = options.sender
        self._patience = options.patience
        self._longest = 2 * options.patience.timeout + 10
        """How many seconds a claim lasts: longer than any attempt."""
        self._bodies = WebhookBodies(store, options, history_cap, keep_open_on_input=keep_open_on_input)
        self._slots = AttemptSlots(options.patience, self._free)
        self._attempts: dict[_ConfigKey, DeliveryAttempt] = {}
        self._woken, self._freed = asyncio.Event(), asyncio.Event()
        self._out_of_slots = False
        """Whether a delivery is due and no slot is free for it."""
        self._forgotten: set[_ConfigKey] | None = None
        """Configs that were deleted during a claim. The claim may still return them."""
        self._loop: asyncio.Task[None] | None = None
        self._stopping = False

    # -- start and stop

    async def start(self) -> None:
        await self._sender.open()
        self._loop = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        """Call this when a delivery has become due."""
        self._woken.set()

    async def drain(self, grace: float) -> None:
        """Claim nothing more, give running attempts time to end, then give their claims back."""
        if self._loop is None:
            return
        self._stopping = True
        self._woken.set()
        end = asyncio.get_running_loop().time() + grace
        await asyncio.wait([self._loop], timeout=grace)  # wait for a running claim, to know its deliveries
        self._loop.cancel()
        await asyncio.gather(self._loop, return_exceptions=True)
        if tasks := [attempt.task for attempt in self._attempts.values() if attempt.task is not None]:
            await asyncio.wait(tasks, timeout=max(0.0, end - asyncio.get_running_loop().time()))
        left = list(self._attempts.values())
        await asyncio.gather(*(attempt.cancel() for attempt in left))
        await self._give_back(attempt.delivery for attempt in left)
        self._loop = None
        await self._sender.close()

    async def _give_back(self, deliveries: Iterable[Delivery]) -> None:
        now_ms = self._clock.steady_ms()
        untried = FailedAttempt(now_ms, now_ms, tried=False)
        try:
            await asyncio.gather(*(self._store.finish_attempt(delivery, untried) for delivery in deliveries))
        except StoreUnavailable:
            logger.warning("store.unavailable", during="the end of webhooks")  # the claims end by themselves

    async def forget(self, task_id: str, config_id: str) -> None:
        """End the running attempt for a config that was deleted (PUSH-09)."""
        key = task_id, config_id
        if self._forgotten is not None:
            self._forgotten.add(key)
        if (attempt := self._attempts.get(key)) is not None:
            await attempt.cancel()

    # -- claims

    async def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            pause = _POLL
            try:
                pause = await self._claim()
            except StoreUnavailable:
                logger.warning("store.unavailable", during="webhooks")
            except Exception:
                logger.exception("push.relay_failed")  # the next round may succeed
            if self._out_of_slots:
                await _occurs(self._freed, _PAUSE)
            await _occurs(self._woken, pause)

    async def _claim(self) -> float:
        """Start attempts for due deliveries that have a slot. Return the seconds until the next may be due."""
        lease_ms, most = int(self._longest * 1000), self._patience.concurrency
        self._out_of_slots = False
        while not self._stopping:
            now_ms = self._clock.steady_ms()
            due_ms = await self._store.next_due()
            if due_ms is None:
                return _POLL
            if due_ms > now_ms:
                return min(_POLL, (due_ms - now_ms) / 1000)
            self._freed.clear()
            self._forgotten = set()
            try:
                deliveries = await self._store.claim_deliveries(now_ms, now_ms + lease_ms, most, self._slots)
                forgotten, self._forgotten = self._forgotten, None
                for delivery in deliveries:
                    if (delivery.task_id, delivery.hook.config.id) not in forgotten:
                        self._begin(delivery)
            finally:
                self._slots.end_claim()
            if not deliveries:
                self._out_of_slots = True
                return _POLL
        return _POLL

    # -- attempts

    def _begin(self, delivery: Delivery) -> None:
        key = delivery.task_id, delivery.hook.config.id
        slot = self._slots.enter(delivery.scope.owner, delivery.host)
        attempt = DeliveryAttempt(delivery, slot, self._attempts.get(key))
        self._attempts[key] = attempt
        attempt.task = asyncio.get_running_loop().create_task(self._attempt(attempt))
        attempt.task.add_done_callback(partial(self._ended, key, attempt))

    async def _attempt(self, attempt: DeliveryAttempt) -> None:
        if attempt.before is not None:
            await attempt.before.cancel()
            attempt.before = None
        outcome = await self._outcome(attempt.delivery)
        attempt.reached = reached(outcome)
        await self._finish(attempt.delivery, outcome)

    def _ended(self, key: _ConfigKey, attempt: DeliveryAttempt, task: asyncio.Task[None]) -> None:
        """Clean up after an attempt, even if its task was canceled before it began."""
        if self._attempts.get(key) is attempt:
            del self._attempts[key]
        self._slots.leave(attempt.slot, reached=attempt.reached)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("push.relay_failed", exc_info=error)  # the claim ends by itself

    def _free(self) -> None:
        self._freed.set()
        self._woken.set()

    async def _outcome(self, delivery: Delivery) -> Outcome:
        try:
            async with asyncio.timeout(self._longest):
                notice = await self._bodies.notice(delivery)
                return _EVENT_GONE if notice is None else await self._sender.send(notice)
        except Unsealable as error:
            logger.error("push.unsealable", **_log_fields(delivery), why=str(error))  # noqa: TRY400 - a traceback adds nothing
            return _SEALED
        except TimeoutError:
            return Outcome(delivered=False, why="timeout")
        except Exception:
            logger.exception("push.broken", **_log_fields(delivery), number=delivery.number)
            return _BROKEN

    async def _finish(self, delivery: Delivery, outcome: Outcome) -> None:
        """Record the outcome. If the store is away, wait for it: otherwise the webhook would be delivered again."""
        failure = None if outcome.delivered else failure_of(delivery, outcome, self._clock.steady_ms(), self._patience)
        while self._clock.steady_ms() < delivery.until_ms:
            try:
                ours = await self._store.finish_attempt(delivery, failure)
            except StoreUnavailable:
                logger.warning("store.unavailable", during="webhooks")
                await asyncio.sleep(_STORE_PAUSE)
            else:
                if ours:
                    self._log(delivery, outcome, failure)
                return

    def _log(self, delivery: Delivery, outcome: Outcome, failure: FailedAttempt | None) -> None:
        told, attempt = (
            {**_log_fields(delivery), "number": delivery.number, "host": delivery.host},
            delivery.attempts + 1,
        )
        if failure is None:
            logger.debug("push.delivered", **told, attempt=attempt)
            return
        wait = None if failure.retry_ms is None else (failure.retry_ms - failure.now_ms) / 1000
        logger.info("push.failed", **told, attempt=attempt, why=outcome.why, retry_in=wait)
        if failure.retry_ms is None:
            event = "push.skipped" if failure.skips else "push.parked"
            logger.warning(event, **told, attempts=attempt, why=outcome.why)


def _log_fields(delivery: Delivery) -> dict[str, str]:
    return {"task_id": delivery.task_id, "config_id": delivery.hook.config.id}


async def _occurs(event: asyncio.Event, within: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await event.wait()
