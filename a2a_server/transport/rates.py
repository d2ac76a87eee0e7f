"""How often callers may call: a step of the pipeline that takes tokens for each call (spec: LIMT-03, LIMT-04).

1. The first class that a caller is in decides which quotas it has; who is in none has the common ones.
2. Operations with a rate of their own have a bucket of their own. All others share one, each at its weight.
3. Callers are counted by tenant and owner, anonymous ones by their address. An IPv6 address counts as its /64 network,
   because who has one has them all.
4. Whatever the answer is, it tells what the caller has left.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import NamedTuple

from a2a_server.domain.hosts import network_of_client
from a2a_server.ports.access import Bucket, Limiter, Taken
from a2a_server.ports.authenticator import Caller
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import (
    RATE_HEADER,
    RATE_LIMIT_HEADER,
    RATE_POLICY_HEADER,
    RATE_REMAINING_HEADER,
    RATE_RESET_HEADER,
)
from a2a_server.transport.pipeline import Admission, ReplyMetadata


class Quota(NamedTuple):
    """The bucket that an operation is paid from, and how much it costs."""

    name: str
    bucket: Bucket
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of a class of callers: of operations, and of all other operations; None = without limit."""

    others: Quota | None = None
    operations: Mapping[str, Quota] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallerClass:
    """Callers by their owners, or by what they may do."""

    owners: frozenset[str]
    scopes: frozenset[str]
    quotas: Quotas

    def has(self, caller: Caller) -> bool:
        if not caller.authenticated:
            return False
        return caller.owner in self.owners or not self.scopes.isdisjoint(caller.scopes or ())


class Rates:
    """Takes tokens for each call, and refuses calls for which there are none."""

    def __init__(
        self, callers: Limiter, addresses: Limiter, quotas: Quotas, classes: Sequence[CallerClass] = ()
    ) -> None:
        """Anonymous callers have a limiter of their own, so that many addresses take no known caller's room."""
        self._callers = callers
        self._addresses = addresses
        self._quotas = quotas
        self._classes = tuple(classes)
        self._told: dict[str, _Told] = {}
        """What was told last, by the quota's name."""

    def __call__(self, call: Admission) -> Awaitable[None] | None:
        caller = call.caller
        quotas = self._quotas
        if self._classes:
            quotas = next((known.quotas for known in self._classes if known.has(caller)), quotas)
        quota = quotas.operations.get(call.rpc, quotas.others)
        if quota is None:
            return None
        limiter = self._callers if caller.authenticated else self._addresses
        taken = limiter.take(f"{quota.name}\n{_who(call)}", quota.bucket, quota.weight)
        if not isinstance(taken, tuple):
            return self._settle_later(call, quota, taken)
        self._settle(call, quota, taken)
        return None

    async def _settle_later(self, call: Admission, quota: Quota, taken: Awaitable[Taken]) -> None:
        self._settle(call, quota, await taken)

    def _settle(self, call: Admission, quota: Quota, taken: Taken) -> None:
        allowed, until_full = taken
        rate, burst = quota.bucket
        left = max(int(burst - until_full * rate + 1e-6), 0)
        seconds, full_at = ceil(until_full), ceil(time.time() + until_full)
        last = self._told.get(quota.name)
        if last is None or last.full_at != full_at or last.left != left or last.seconds != seconds:
            last = self._told[quota.name] = _Told(left, seconds, full_at, quota)
        call.allowance = last.headers
        if not allowed:
            raise _refusal(call.rpc, quota, until_full)


class _Told:
    """What is left, as headers. All callers who are far from their limits are told the same within a second."""

    __slots__ = ("full_at", "headers", "left", "seconds")

    def __init__(self, left: int, seconds: int, full_at: int, quota: Quota) -> None:
        self.left = left
        self.seconds = seconds
        self.full_at = full_at
        name, (rate, burst), _ = quota
        self.headers: ReplyMetadata = (
            (RATE_LIMIT_HEADER, str(burst)),
            (RATE_REMAINING_HEADER, str(left)),
            (RATE_RESET_HEADER, str(full_at)),
            (RATE_HEADER, f'"{name}";r={left};t={seconds}'),
            (RATE_POLICY_HEADER, f'"{name}";q={burst};w={ceil(burst / rate)}'),
        )


class CallsUnderWay:
    """Counts the unary calls of each caller that are not answered yet, and refuses one too many (spec: LIMT-02)."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._callers: Counter[str] = Counter()

    def __call__(self, call: Admission) -> None:
        caller, callers = _who(call), self._callers
        if callers[caller] >= self._most:
            text = f"This caller has {self._most} calls under way, the most one may have."
            raise A2AError(Reason.OVERLOADED, text, retry_after=1, metadata={"limit": "rates.calls_per_caller"})
        callers[caller] += 1
        call.leave = partial(self._leave, caller)

    def _leave(self, caller: str) -> None:
        self._callers[caller] -= 1
        if not self._callers[caller]:
            del self._callers[caller]


def _who(call: Admission) -> str:
    caller = call.caller
    return f"{caller.tenant}\n{caller.owner}" if caller.authenticated else network_of_client(call.credentials.peer)


def _refusal(rpc: str, quota: Quota, until_full: float) -> A2AError:
    rate, burst = quota.bucket
    text = f"This caller calls too often: its calls may cost {rate:.6g} per second, and {burst} at once."
    metadata = {"limit": quota.name, "operation": rpc}
    retry_after = quota.bucket.wait(until_full, quota.weight)
    return A2AError(Reason.OVERLOADED, text, metadata=metadata, retry_after=retry_after)
