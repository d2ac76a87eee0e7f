"""What the store keeps of webhooks: configs, what is owed to them, and what became of it (spec: PAID-01 to PAID-03)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace


class Hook(NamedTuple):
    """A push config, and what it cannot say of the client that made it."""

    config: pb.TaskPushNotificationConfig
    """`id` and `task_id` are set; `authentication.scheme` is the one that webhooks are sent with."""
    version: str = "1.0"
    """The version that the client spoke: its webhooks have that version's form (CONF-36)."""
    schemes: Sequence[str] = ()
    """All schemes that the client offered, in its order, where its version has room for several (CONF-34)."""

    def __repr__(self) -> str:
        """Say which config it is, and none of its secrets (SECR-03)."""
        return f"Hook(task_id={self.config.task_id!r}, id={self.config.id!r}, version={self.version!r})"


@dataclass(frozen=True, slots=True)
class Debt:
    """A webhook that is owed and was claimed for one attempt."""

    scope: Scope
    task_id: str
    number: int
    hook: Hook
    attempts: int
    """How many have failed before."""
    until_ms: int
    """The end of this claim; it also names it."""
    host: str = field(default="", compare=False)
    """Where it goes to: `host:port`."""
    failing_ms: int | None = field(default=None, compare=False)
    """When the first attempt failed since one last succeeded."""
    trace: Trace | None = None
    """Of the call that caused the event."""


class Setback(NamedTuple):
    """Why a debt was not paid, and when to try again."""

    now_ms: int
    retry_ms: int | None
    """None parks the config: nothing is claimed of it until it is retried, or put anew."""
    why: str = ""
    tried: bool = True
    """Whether an attempt was made; only these count."""


class Rooms(NamedTuple):
    """How many debts may be claimed for each host."""

    default: int
    known: Mapping[str, int] = {}

    def of(self, host: str) -> int:
        return self.known.get(host, self.default)


ANY_ROOM = Rooms(1 << 30)


class Which(NamedTuple):
    """Which configs an operator speaks of; without a task all that are owed something or parked."""

    task_id: str = ""
    config_id: str = ""
    """One config of the task."""
    parked: bool = False
    """Of these only the parked ones."""


class Account(NamedTuple):
    """A config as an operator sees it; it holds no secrets."""

    scope: Scope
    task_id: str
    config_id: str
    url: str
    version: str
    owed: int
    """How many webhooks it is owed."""
    first: int | None
    """The number of the event that comes next."""
    delivered: int
    failed: int
    """Attempts that failed, ever."""
    attempts: int
    """Attempts at the next webhook that failed."""
    due_ms: int | None
    """When the next attempt may begin; None while nothing is owed, or the config is parked."""
    claimed: bool
    """Whether an attempt is under way."""
    failing_ms: int | None
    parked_ms: int | None
    why: str
    """Why the last attempt failed; empty after one that succeeded."""


class Books(Protocol):
    """A store's accounts, for a visitor that is not the server; a server may be at work on the same store.

    As `Store.accounts`, `retry_debts` and `drop_debts`; raises what a store does.
    """

    def accounts(self, which: Which, limit: int) -> Sequence[Account]: ...
    def retry(self, which: Which) -> int: ...
    def drop(self, which: Which) -> int: ...
