"""Who carries webhooks to their receivers: one attempt at a time, and never where it may not (spec: HOOK, SSRF)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.trace import Trace
from a2a_server.ports.hooks import Hook
from a2a_server.protocol.errors import Violation


class Notice(NamedTuple):
    """One webhook, ready to be sent."""

    hook: Hook
    """Its secrets are in clear."""
    task_id: str
    number: int
    """Of the event in the task's log."""
    delivery_id: str
    """The same for every attempt at one debt, so that receivers know what they have had."""
    attempt: int
    """1, 2, 3 …"""
    content_type: str
    body: bytes
    trace: Trace | None = None
    """Of the call that caused the event."""

    def __repr__(self) -> str:
        """Which one it is: what it says belongs to its receiver (SECR-03)."""
        return f"Notice({self.hook!r}, number={self.number}, delivery_id={self.delivery_id!r}, attempt={self.attempt})"


class Outcome(NamedTuple):
    """What became of an attempt."""

    delivered: bool
    why: str = ""
    """For logs and `a2ad push list`: "status 500", "timeout", "refused address", "connection", "certificate",
    "too slow"; nothing else of what the address answered."""
    retry_after: float | None = None
    """Seconds, as the receiver asks for them."""
    final: bool = False
    """No further attempt makes sense: the address is not allowed, or the receiver says that it is gone."""


class PushSender(Protocol):
    """Makes attempts; when, in which order and how often is for others to decide."""

    async def open(self) -> None:
        """Make ready to send."""
        ...

    async def close(self) -> None:
        """Let connections go."""
        ...

    async def send(self, notice: Notice) -> Outcome:
        """Attempt it once, within bounds of time and size. Raises nothing but `CancelledError`."""
        ...

    async def challenge(self, hook: Hook) -> bool:
        """Ask the receiver once whether it wants these webhooks (SSRF-05)."""
        ...

    def faults(self, config: pb.TaskPushNotificationConfig, prefix: str = "") -> Sequence[Violation]:
        """What is wrong with a config that is being made, by the same policy as when it is sent.

        `prefix` says where the config stands in the request.
        """
        ...
