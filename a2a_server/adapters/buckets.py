"""Token buckets: in this process, and shared by the servers of one store (spec: LIMT-03, GATE-05).

How servers share a bucket:

1. Each has a view of it, and decides by that. What it has spent goes to the store in the background, many buckets in
   one statement: soon after the first call, or at once when half of its allowance is used.
2. The store adds up what all have spent, and answers how full the bucket really is. The view is corrected by that.
3. A server that has used its allowance, an eighth of the bucket, has the next call wait for the store's answer. So n
   servers together let at most n - 1 eighths through that the bucket does not have, and it is in debt until it has
   filled again. An allowance is at least one call.
4. While the store does not answer, each server goes on by its own view.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import Final

import structlog

from a2a_server.ports.access import Bucket, BucketStore, Taken

MOST_BUCKETS: Final = 100_000
"""How many buckets are kept; of more, the one that nobody has used for longest counts as full."""

_ALLOWANCE: Final = 1 / 8
"""The part of a bucket that a server may spend before the store has answered what others spent."""
_EVERY: Final = 0.25
"""Seconds until the store hears of the first call. It hears of more at once."""
_PATIENCE: Final = 1.0
"""Seconds that a call waits for the store's answer, before all go on without."""
_AGAIN: Final = 0.5
"""Seconds until the next attempt at a store that has not answered."""
_FORGET_EVERY: Final = 60.0
_SAY_EVERY: Final = 60.0
_BATCH: Final = 1_000

log = structlog.get_logger(__name__)


class TokenBuckets:
    """Token buckets in this process: each replica has its own.

    A bucket is one number, the time at which it will be full. That says how many tokens it lacks, and nothing needs to
    be done while nobody calls.
    """

    reach = "replica"

    def __init__(self, now: Callable[[], float] = time.monotonic, *, most: int = MOST_BUCKETS) -> None:
        self._now = now
        self._most = most
        self._full_at: dict[str, float] = {}
        """By key; the one that was used last stands last."""

    def take(self, key: str, bucket: Bucket, cost: float) -> Taken:
        now, rate, full_at = self._now(), bucket.rate, self._full_at
        before = max(full_at.pop(key, now), now)
        after = before + cost / rate
        allowed = after - now <= bucket.burst / rate + 1e-9  # seconds; sums of fractions are not exact
        full_at[key] = kept = after if allowed else before
        if len(full_at) > self._most:
            del full_at[next(iter(full_at))]
        return allowed, kept - now

    def until_full(self, key: str) -> float:
        """Seconds until a bucket will be full."""
        now = self._now()
        return max(self._full_at.get(key, now) - now, 0.0)

    def correct(self, key: str, earliest: float, latest: float) -> None:
        """Correct a bucket: it will be full between these times from now, in seconds."""
        now = self._now()
        self._full_at[key] = min(max(self._full_at.get(key, now), now + earliest), now + latest)


class _Share:
    """What this server has spent of a shared bucket, and the store has not yet confirmed."""

    __slots__ = ("allowance", "bucket", "name", "new", "told")

    def __init__(self, key: str, bucket: Bucket) -> None:
        # Another rate is another bucket, so that a change of the settings counts at once.
        self.name = blake2b(f"{bucket.rate!r} {bucket.burst} {key}".encode(), digest_size=16).digest()
        self.bucket = bucket
        self.allowance = bucket.burst * _ALLOWANCE
        self.new = 0.0
        """Tokens of which the store has not been told,"""
        self.told = 0.0
        """and those of which it is being told now."""

    def allows(self, cost: float) -> bool:
        unconfirmed = self.new + self.told
        return not unconfirmed or unconfirmed + cost <= self.allowance

    def is_half_used(self) -> bool:
        return 2 * (self.new + self.told) >= self.allowance


class SharedBuckets:
    """Token buckets that all servers of a store share."""

    reach = "cluster"

    def __init__(self, store: BucketStore, now: Callable[[], float] = time.monotonic, *, whose: str, most: int) -> None:
        """At most `most` buckets are shared at a time. Further ones count for this server alone."""
        self._whose = whose
        self._store = store
        self._now = now
        self._most = most
        self._views = TokenBuckets(now, most=max(MOST_BUCKETS, 2 * most))
        self._shares: dict[str, _Share] = {}
        self._due: dict[str, _Share] = {}
        self._wake = asyncio.Event()
        self._answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._alone = False
        self._said = False
        self._say_at = now()
        self._forget_at = now() + _FORGET_EVERY
        self._alarm = asyncio.get_running_loop().call_later(_FORGET_EVERY, self._wake.set)
        self._reporter = asyncio.create_task(self._report_all(), name="rates")

    async def close(self) -> None:
        """Tell the store what it does not know yet, if it answers."""
        self._alarm.cancel()
        self._reporter.cancel()
        await asyncio.wait((self._reporter,))
        rest = asyncio.create_task(self._report_rest())
        await asyncio.wait((rest,), timeout=_PATIENCE)
        rest.cancel()
        await asyncio.wait((rest,))

    def take(self, key: str, bucket: Bucket, cost: float) -> Taken | Awaitable[Taken]:
        share = self._shares.get(key)
        if share is None:
            share = self._begin(key, bucket)
            if share is None:
                return self._views.take(key, bucket, cost)
        if self._alone or share.allows(cost):
            return self._take(key, share, cost)
        return self._take_later(key, share, cost)

    def _begin(self, key: str, bucket: Bucket) -> _Share | None:
        """Share one more bucket, if there is room. Of the oldest two, those that are full again make room."""
        for _ in range(min(2, len(self._shares))):
            oldest = next(iter(self._shares))
            share = self._shares.pop(oldest)
            if share.new or share.told or self._views.until_full(oldest):
                self._shares[oldest] = share
        if len(self._shares) >= self._most:
            return None
        begun = self._shares[key] = _Share(key, bucket)
        return begun

    def _take(self, key: str, share: _Share, cost: float) -> Taken:
        taken = self._views.take(key, share.bucket, cost)
        if taken[0]:
            share.new += cost
            if not self._due:
                asyncio.get_running_loop().call_later(_EVERY, self._wake.set)
            self._due[key] = share
            if share.is_half_used():
                self._wake.set()
        return taken

    async def _take_later(self, key: str, share: _Share, cost: float) -> Taken:
        """Wait until the store has confirmed enough."""
        end = self._now() + _PATIENCE
        while not self._alone and not share.allows(cost):
            left = end - self._now()
            if left <= 0:
                self._go_alone("no answer in time")
                break
            self._wake.set()
            await asyncio.wait((self._answered,), timeout=left)
        return self._take(key, share, cost)

    async def _report_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._due and not await self._report():
                await asyncio.sleep(_AGAIN)
            if self._now() >= self._forget_at:
                await self._forget()
            if len(self._due) >= _BATCH or self._alone:
                self._wake.set()

    async def _report_rest(self) -> None:
        while self._due and not self._alone and await self._report():
            pass

    async def _report(self) -> bool:
        """Tell the store what was spent, and correct the views by its answer."""
        keys = list(self._due)[:_BATCH]
        shares = {key: self._due.pop(key) for key in keys}
        spent: dict[bytes, float] = {}
        for key, share in shares.items():
            share.told, share.new = share.new, 0.0
            # What has come back since then is not owed.
            spent[share.name] = min(share.told / share.bucket.rate, self._views.until_full(key))
        began, answer, why = self._now(), None, ""
        try:
            answer = await self._store.spend(spent)
        except Exception as error:  # noqa: BLE001 - whatever it is, callers are served
            why = str(error) or type(error).__name__
        if answer is None:
            self._take_back(shares)
            self._go_alone(why)
        else:
            self._learn(shares, answer, self._now() - began)
        answered, self._answered = self._answered, asyncio.get_running_loop().create_future()
        answered.set_result(None)
        return answer is not None

    def _take_back(self, shares: Mapping[str, _Share]) -> None:
        for key, share in shares.items():
            share.new += share.told
            share.told = 0.0
            self._due[key] = share

    def _learn(self, shares: Mapping[str, _Share], answer: Mapping[bytes, float], took: float) -> None:
        """Between asking and hearing, `took` seconds, the store has looked; nobody knows when."""
        for key, share in shares.items():
            share.told = 0.0
            until_full = answer[share.name] + share.new / share.bucket.rate
            self._views.correct(key, until_full - took, until_full)
        if self._alone and self._said:
            log.info("rates.shared", of=self._whose)
        self._alone = self._said = False

    def _go_alone(self, why: str) -> None:
        """Decide by the own views until the store answers. The log has at most one line a minute about it."""
        if not self._alone and self._now() >= self._say_at:
            self._said, self._say_at = True, self._now() + _SAY_EVERY
            log.warning("rates.alone", of=self._whose, why=why)
        self._alone = True

    async def _forget(self) -> None:
        """Remove buckets from the store that are full again."""
        self._forget_at = self._now() + _FORGET_EVERY
        self._alarm = asyncio.get_running_loop().call_later(_FORGET_EVERY, self._wake.set)
        try:
            await self._store.forget_full()
        except Exception as error:  # noqa: BLE001 - the next time, then
            log.warning("rates.not_swept", why=str(error) or type(error).__name__)
