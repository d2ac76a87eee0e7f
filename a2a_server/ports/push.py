"""Webhooks: what the store keeps of them, who sends them, and how secrets are sealed (spec: PAID-01 to PAID-03, HOOK).

1. A client registers a `PushConfig`. Its secrets are sealed by a `Sealer` before they are stored.
2. A write may queue deliveries: one per config and event. They are *pending* until they have been made.
3. The relay claims a `Delivery` per config, the earliest event first, and makes an *attempt*: it gives a `Notice` to
   the `PushSender`, which returns an `Outcome`.
4. After a `FailedAttempt` the delivery is due again later. After too many its config is *parked*: no further attempt is
   made until the config is replaced or an operator retries it. A delivery that its receiver has *rejected* too often is
   *skipped*, and the config's next one is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.protocol.errors import Violation


class PushConfig(NamedTuple):
    """A push config, and what the server must remember about the client that made it."""

    config: pb.TaskPushNotificationConfig
    """`id` and `task_id` are set. `authentication.scheme` is the scheme that webhooks are sent with."""
    version: str = "1.0"
    """The client's protocol version: webhooks are written in that version's form (CONF-36)."""
    schemes: Sequence[str] = ()
    """All schemes that the client offered, in its order, if its version can offer several (CONF-34)."""

    def __repr__(self) -> str:
        """Identify the config without its secrets (SECR-03)."""
        return f"PushConfig(task_id={self.config.task_id!r}, id={self.config.id!r}, version={self.version!r})"


# -- deliveries


@dataclass(frozen=True, slots=True)
class Delivery:
    """One pending webhook that was claimed for an attempt."""

    scope: Scope
    task_id: str
    number: int
    """The event's number in the task's log."""
    hook: PushConfig
    attempts: int
    """How many attempts have failed before this one."""
    until_ms: int
    """When the claim ends. The time also identifies the claim."""
    host: str = field(default="", compare=False)
    """The receiver's `host:port`."""
    failing_ms: int | None = field(default=None, compare=False)
    """When the first attempt failed since the last one that succeeded."""
    trace: Trace | None = None
    """The trace of the call that caused the event."""
    rejections: int = 0
    """How many of the failed attempts the receiver has rejected."""


class FailedAttempt(NamedTuple):
    """Why a delivery was not made, and when to try again."""

    now_ms: int
    retry_ms: int | None
    """None parks the config, or skips the delivery."""
    why: str = ""
    tried: bool = True
    """False when a claim is given back without an attempt; it does not count as a failure."""
    rejected: bool = False
    """The receiver has rejected this webhook (see `Outcome`)."""

    @property
    def skips(self) -> bool:
        """Whether the delivery is removed, and the config goes on with its next one as after a success."""
        return self.rejected and self.retry_ms is None


class ClaimLimits(Protocol):
    """Limits how many deliveries are claimed. A store asks it, and reports to it, while it chooses them."""

    def room(self, owner: str, host: str = "") -> int:
        """For an owner at one host; without a host, for all of the owner's hosts."""
        ...

    def take(self, owner: str, host: str) -> None:
        """One more is claimed."""
        ...


class ClaimOrder(NamedTuple):
    """The arguments of a claim."""

    now_ms: int
    until_ms: int
    limit: int
    limits: ClaimLimits


# -- what operators see


class ConfigFilter(NamedTuple):
    """Which configs an operator asks for. Without a task: all that have pending deliveries or are parked."""

    task_id: str = ""
    config_id: str = ""
    """One config of the task."""
    parked: bool = False
    """Only parked ones."""


class ConfigStatus(NamedTuple):
    """A config as an operator sees it, without secrets."""

    scope: Scope
    task_id: str
    config_id: str
    url: str
    version: str
    pending: int
    """How many deliveries are pending."""
    next_number: int | None
    """The number of the event to be delivered next."""
    delivered: int
    skipped: int
    """How many deliveries were given up because the receiver rejected them."""
    failed: int
    """How many attempts have failed in total."""
    attempts: int
    """How many attempts at the next delivery have failed."""
    due_ms: int | None
    """When the next attempt may begin; None when nothing is pending or the config is parked."""
    claimed: bool
    """Whether an attempt is running."""
    failing_ms: int | None
    parked_ms: int | None
    why: str
    """Why the last attempt failed; empty after a success."""


class PushAdmin(Protocol):
    """A store's push configs for the command line, also while a server uses the same store."""

    def status(self, wanted: ConfigFilter, limit: int) -> Sequence[ConfigStatus]:
        """The state of configs: first those that are due, by time, then those that are parked."""
        ...

    def retry(self, wanted: ConfigFilter) -> int:
        """Try these configs again as if nothing had failed. Returns how many of them have pending deliveries."""
        ...

    def drop(self, wanted: ConfigFilter) -> int:
        """Delete all pending deliveries of these configs. Returns how many. The configs stay."""
        ...


# -- sending


class Notice(NamedTuple):
    """One webhook, ready to be sent."""

    hook: PushConfig
    """With its secrets in clear text."""
    task_id: str
    number: int
    """The event's number in the task's log."""
    delivery_id: str
    """The same for every attempt, so that receivers recognise repetitions."""
    attempt: int
    """1, 2, 3 …"""
    content_type: str
    body: bytes
    trace: Trace | None = None
    """The trace of the call that caused the event."""
    owner: str = ""
    """Whose task it tells of."""

    def __repr__(self) -> str:
        """Identify the webhook without its body, which is for the receiver alone (SECR-03)."""
        return f"Notice({self.hook!r}, number={self.number}, delivery_id={self.delivery_id!r}, attempt={self.attempt})"


class Outcome(NamedTuple):
    """What became of an attempt."""

    delivered: bool
    why: str = ""
    """For logs and `a2ad push list`: "status 500", "timeout", "refused address", "connection", "certificate",
    "too slow". It never repeats anything else that the receiver sent."""
    retry_after: float | None = None
    """Seconds that the receiver asked to wait."""
    final: bool = False
    """No further attempt makes sense: the address is not allowed, or the receiver says that it is gone."""
    rejected: bool = False
    """The receiver finds fault with this very webhook, and may take the next one (CONF-81)."""


class PushSender(Protocol):
    """Makes single attempts. The relay decides when, in which order and how often."""

    async def open(self) -> None:
        """Get ready to send."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...

    async def send(self, notice: Notice) -> Outcome:
        """Make one attempt, within bounds of time and size. Raises nothing but `CancelledError`."""
        ...

    async def challenge(self, hook: PushConfig, owner: str) -> bool:
        """Ask the receiver once whether it wants these webhooks of an owner (SSRF-05)."""
        ...

    def faults(self, config: pb.TaskPushNotificationConfig, prefix: str = "") -> Sequence[Violation]:
        """What is wrong with a new config, by the same policy that `send` applies.

        `prefix` is the path of the config inside the request.
        """
        ...


# -- secrets at rest (PAID-06, SECR-03)


class Unsealable(Exception):  # noqa: N818 - a verdict, not a malfunction
    """A stored secret cannot be read with the configured keys. The message is for the operator."""


class Sealer(Protocol):
    """Encrypts short texts for storage. Texts that were stored before there were keys can still be opened."""

    def seal(self, text: str, place: str) -> str:
        """Encrypt a text for one `place`; it cannot be opened anywhere else. An empty text stays empty."""
        ...

    def open(self, sealed: str, place: str) -> str:
        """Return the text again. A text that was never sealed is returned as it is. Raises `Unsealable`."""
        ...
