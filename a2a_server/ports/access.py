"""Whether a known caller may call now: the operator's policy, and rates (spec: AUTZ-01, LIMT-03, GATE-05)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable


class AccessQuestion(NamedTuple):
    """A call, as far as it is known before anything is looked up. Nothing in it is content."""

    operation: str
    """The RPC, by its name in 1.0."""
    skill: str
    """The skill that a message without a task goes to; empty for all others."""
    owner: str
    tenant: str
    scopes: tuple[str, ...] | None
    """What the caller may do, roles replaced; None = everything."""
    peer: str
    task: str
    """The task that the request names."""
    version: str
    door: str


class AccessVerdict(NamedTuple):
    """What was decided."""

    allowed: bool
    reason: str = ""
    """Told to a caller who is refused."""


class AccessPolicy(Protocol):
    """The operator's own decision, beyond scopes. Look-ups stay within owner and tenant, whatever it allows."""

    async def decide(self, question: AccessQuestion) -> AccessVerdict:
        """Say whether the call is allowed. Raises UNAVAILABLE when nobody can say so now."""
        ...


class Bucket(NamedTuple):
    """Holds at most `burst` tokens, and is given `rate` of them per second."""

    rate: float
    burst: int

    def wait(self, until_full: float, cost: float) -> float:
        """In how many seconds it will have so many tokens."""
        return max(until_full - (self.burst - cost) / self.rate, 0.0)


Taken = tuple[bool, float]
"""Whether tokens were taken, and in how many seconds the bucket will be full."""


class Limiter(Protocol):
    """Keeps the buckets. One that is not known is full."""

    @property
    def reach(self) -> str:
        """Where the buckets count: `replica` = each server process has its own, `cluster` = all share them."""
        ...

    def take(self, key: str, bucket: Bucket, cost: float) -> Taken | Awaitable[Taken]:
        """Take `cost` tokens out of a bucket, or none if it has fewer; a negative cost gives them back.

        A limiter that has to wait returns an awaitable.
        """
        ...


@runtime_checkable
class BucketStore(Protocol):
    """A store that keeps buckets for several servers, by its own clock. One that it does not have is full."""

    async def spend(self, spent: Mapping[bytes, float]) -> Mapping[bytes, float]:
        """Take out of buckets what takes so many seconds to come back; return the seconds until each will be full.

        A bucket goes into debt if more is taken than it has. Its name has 16 bytes, which are a hash.
        """
        ...

    async def forget_full(self) -> None:
        """Remove buckets that are full again."""
        ...
