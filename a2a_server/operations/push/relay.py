"""Delivers webhooks: claims what is due, attempts it, waits, gives up (spec: DELV, PAID-01, PAID-02, PAID-03).

The store hands out one delivery per config at a time, the earliest. So each config gets its events in the order of the
log, and no config waits for another. A claim that is never finished ends by itself, and the delivery is due again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

import structlog

from a2a_server.operations.push.attempts import Attempt, Counters
from a2a_server.operations.push.bodies import Bodies
from a2a_server.operations.push.delivery import PushOptions
from a2a_server.operations.push.hosts import Hosts
from a2a_server.operations.push.verdicts import failure_of, reached
from a2a_server.ports.clock import Clock
from a2a_server.ports.push import Delivery, FailedAttempt, Outcome, Unsealable
from a2a_server.ports.store import Store, StoreUnavailable

logger = structlog.get_logger()

_POLL = 1.0
"""Seconds after which the relay looks by itself: for what other processes, or operators, have made due."""
_BREATH = 0.02
"""Seconds between two looks at deliveries for which there is no room; a place that gets free ends them early."""
_STORE_PAUSE = 0.5
_NOTHING_TO_TELL = Outcome(delivered=True, why="event gone")
_BROKEN = Outcome(delivered=False, why="internal error")
_SEALED = Outcome(delivered=False, why="sealed secret", final=True)

_Key = tuple[str, str]
"""Task and config."""


class PushRelay:
    """One per process. Several processes may pay the deliveries of one store."""

    def __init__(
        self, store: Store, clock: Clock, options: PushOptions, *, history_cap: int, keep_open_on_input: bool = False
    ) -> None:
        self.counters = Counters()
        self._store = store
        self._clock = clock
        self._sender = options.sender
        self._patience = options.patience
        self._bodies = Bodies(store, options, history_cap, keep_open_on_input=keep_open_on_input)
        self._hosts = Hosts(options.patience)
        self._attempts: dict[_Key, Attempt] = {}
        self._woken, self._freed = asyncio.Event(), asyncio.Event()
        self._stuck = False
        """Whether something is due for which there was no room; every further delivery would only show the same."""
        self._forgotten: set[_Key] | None = None
        """Configs deleted while a claim is under way, which may bring them all the same."""
        self._loop: asyncio.Task[None] | None = None
        self._stopping = False

    # -- life

    async def start(self) -> None:
        await self._sender.open()
        self._loop = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        """Something has become due."""
        self._woken.set()

    async def drain(self, grace: float) -> None:
        """Claim nothing more, let attempts end for a while, then leave what they were about for the next process."""
        if self._loop is None:
            return
        self._stopping = True
        self._woken.set()
        end = asyncio.get_running_loop().time() + grace
        await asyncio.wait([self._loop], timeout=grace)  # a claim under way is better begun than forgotten
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
        now_ms = self._clock.now_ms()
        try:
            await asyncio.gather(
                *(
                    self._store.finish_attempt(delivery, FailedAttempt(now_ms, now_ms, tried=False))
                    for delivery in deliveries
                )
            )
        except StoreUnavailable:
            logger.warning("store.unavailable", during="the end of webhooks")  # the claims lapse

    async def forget(self, task_id: str, config_id: str) -> None:
        """A config was deleted: what is under way for it ends here and now (PUSH-09)."""
        key = task_id, config_id
        if self._forgotten is not None:
            self._forgotten.add(key)
        if (attempt := self._attempts.get(key)) is not None:
            await attempt.cancel()

    # -- claims

    async def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            try:
                pause = await self._claim()
            except StoreUnavailable:
                logger.warning("store.unavailable", during="webhooks")
                pause = _POLL
            except Exception:
                logger.exception("push.relay_failed")  # the next round may succeed
                pause = _POLL
            if self._stuck:
                await _happens(self._freed, _BREATH)
            await _happens(self._woken, pause)

    async def _claim(self) -> float:
        """Begin everything that is due and has room; how long there will be nothing to do, as far as is known."""
        lease_ms = int(self._longest * 1000)
        self._stuck = False
        while not self._stopping and (free := self._hosts.free):
            now_ms = self._clock.now_ms()
            due_ms = await self._store.next_due()
            if due_ms is None:
                return _POLL
            if due_ms > now_ms:
                return min(_POLL, (due_ms - now_ms) / 1000)
            self._freed.clear()
            rooms = self._hosts.rooms(asyncio.get_running_loop().time())
            self._forgotten = set()
            deliveries = await self._store.claim_deliveries(now_ms, now_ms + lease_ms, free, rooms)
            forgotten, self._forgotten = self._forgotten, None
            if not deliveries:
                self._stuck = True
                return _POLL
            for delivery in deliveries:
                if (delivery.task_id, delivery.hook.config.id) not in forgotten:
                    self._begin(delivery)
        return _POLL

    @property
    def _longest(self) -> float:
        """Seconds that a claim holds: longer than any attempt, whatever the sender does."""
        return 2 * self._patience.timeout + 10

    # -- attempts

    def _begin(self, delivery: Delivery) -> None:
        key = delivery.task_id, delivery.hook.config.id
        attempt = Attempt(delivery, self._hosts.enter(delivery.host, self._free), self._attempts.get(key))
        self._attempts[key] = attempt
        self.counters.under_way += 1
        attempt.task = asyncio.get_running_loop().create_task(self._attempt(attempt))
        attempt.task.add_done_callback(partial(self._ended, key, attempt))

    async def _attempt(self, attempt: Attempt) -> None:
        if attempt.before is not None:
            await attempt.before.cancel()
            attempt.before = None
        outcome = await self._outcome(attempt.delivery)
        attempt.reached = reached(outcome)
        await self._settle(attempt.delivery, outcome)

    def _ended(self, key: _Key, attempt: Attempt, task: asyncio.Task[None]) -> None:
        """Also when it was canceled before it began."""
        self.counters.under_way -= 1
        if self._attempts.get(key) is attempt:
            del self._attempts[key]
        attempt.place.leave(reached=attempt.reached)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("push.relay_failed", exc_info=error)  # the claim lapses

    def _free(self) -> None:
        self._freed.set()
        self._woken.set()

    async def _outcome(self, delivery: Delivery) -> Outcome:
        try:
            async with asyncio.timeout(self._longest):
                notice = await self._bodies.notice(delivery)
                return _NOTHING_TO_TELL if notice is None else await self._sender.send(notice)
        except Unsealable as error:
            place = {"task_id": delivery.task_id, "config_id": delivery.hook.config.id}
            logger.error("push.unsealable", **place, why=str(error))  # noqa: TRY400 - it says all there is to say
            return _SEALED
        except TimeoutError:
            return Outcome(delivered=False, why="timeout")
        except Exception:
            logger.exception(
                "push.broken", task_id=delivery.task_id, config_id=delivery.hook.config.id, number=delivery.number
            )
            return _BROKEN

    async def _settle(self, delivery: Delivery, outcome: Outcome) -> None:
        """What has been delivered must be struck out, or it is delivered again: a store that is away is waited for."""
        failure = None if outcome.delivered else failure_of(delivery, outcome, self._clock.now_ms(), self._patience)
        while self._clock.now_ms() < delivery.until_ms:
            try:
                ours = await self._store.finish_attempt(delivery, failure)
            except StoreUnavailable:
                logger.warning("store.unavailable", during="webhooks")
                await asyncio.sleep(_STORE_PAUSE)
            else:
                return self._count(delivery, outcome, failure) if ours else None
        return None

    def _count(self, delivery: Delivery, outcome: Outcome, failure: FailedAttempt | None) -> None:
        told = {
            "task_id": delivery.task_id,
            "config_id": delivery.hook.config.id,
            "number": delivery.number,
            "host": delivery.host,
        }
        if failure is None:
            self.counters.delivered += 1
            logger.debug("push.delivered", **told, attempt=delivery.attempts + 1)
            return
        self.counters.failed += 1
        wait = None if failure.retry_ms is None else (failure.retry_ms - failure.now_ms) / 1000
        logger.info("push.failed", **told, attempt=delivery.attempts + 1, why=outcome.why, retry_in=wait)
        if failure.retry_ms is None:
            self.counters.parked += 1
            logger.warning("push.parked", **told, attempts=delivery.attempts + 1, why=outcome.why)


async def _happens(event: asyncio.Event, within: float) -> None:
    try:
        async with asyncio.timeout(within):
            await event.wait()
    except TimeoutError:
        pass
