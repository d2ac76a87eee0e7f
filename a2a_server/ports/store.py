"""The store: numbered logs, snapshots, turns, debts and receipts (spec: RECV-01, DURA-01, DURA-05, design 6-7).

A task is a log of events numbered 1, 2, 3 … and a snapshot in two halves. The *head* is the Task without its artifacts;
it is rewritten with every status and message, so it never lags. The *artifacts* are rewritten only now and then; a read
folds the short tail of artifact events after them. A streamed chunk is therefore one appended entry and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.paging import Position, TaskFilter
from a2a_server.domain.scope import Scope
from a2a_server.ports.entry import Entry
from a2a_server.ports.hooks import ANY_ROOM, Account, Debt, Hook, Rooms, Setback, Which
from a2a_server.ports.kept import Lease, Once, Turn
from a2a_server.ports.write import Write


class StaleWrite(Exception):  # noqa: N818 - a verdict, not a malfunction
    """The log has moved on, or the epoch is no longer the writer's: nothing of the write happened."""


class StoreUnavailable(Exception):  # noqa: N818 - a state, not a malfunction
    """The store cannot do it now (disk full, database away); the same call may succeed later."""


class StoreRefused(Exception):  # noqa: N818 - a verdict, not a malfunction
    """The store cannot be used as it is configured; the message is for the operator."""


class Repeated(Exception):  # noqa: N818 - a verdict, not a malfunction
    """The idempotency key is taken: nothing was written; `once` is the first send's receipt."""

    def __init__(self, once: Once) -> None:
        super().__init__(once.key)
        self.once = once


class Record(NamedTuple):
    """A task as stored, tail folded in. The caller owns `task`."""

    task: pb.Task
    number: int
    epoch: int
    state: bytes = b""
    live: bool = False
    """Whether a turn is running or waiting, on whatever replica."""


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """One page of a list, in the order of `Position`."""

    scope: Scope
    filter: TaskFilter
    after: Position | None
    limit: int
    include_artifacts: bool


@dataclass(frozen=True, slots=True)
class TaskPage:
    """The tasks of one page, and how many there are on all pages (LIST-11)."""

    tasks: Sequence[pb.Task]
    total: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """A task whose turns a replica has taken over; `epoch` is already the new one."""

    scope: Scope
    task_id: str
    epoch: int
    turns: Sequence[Turn]


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a heartbeat brings back: epochs that are lost, and cancels asked for on other replicas.

    A cancel comes back with every heartbeat until no turn of its task is live, so that it outlives a takeover.
    """

    lost: frozenset[str] = frozenset()
    cancels: Mapping[str, bytes] = field(default_factory=dict)


class Store(Protocol):
    """The promises every adapter keeps; `tests/conformance` proves them.

    Methods raise `StoreUnavailable` when the engine cannot serve. A write is visible to every reader when `commit`
    returns, and never before it is durable. Lookups take a `Scope`, and what lies outside it is simply absent.
    """

    shared: bool
    """Whether other processes may use the same store at the same time."""

    async def open(self) -> None:
        """Connect, migrate, and refuse a database that a newer version has written (DURA-09)."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then let go."""
        ...

    async def ping(self) -> None:
        """Read something; raises `StoreUnavailable` when nothing can be read now."""
        ...

    async def secret(self) -> bytes:
        """32 random bytes, made once per database: the key that seals page cursors."""
        ...

    # -- tasks

    async def commit(self, write: Write) -> bool:
        """Do all of it or nothing. Raises `StaleWrite` or `Repeated` when a precondition fails.

        True when a webhook has become payable by it, so that somebody may see to it at once.
        """
        ...

    async def load(self, scope: Scope, task_id: str) -> Record | None:
        """The task with everything committed so far."""
        ...

    async def entries(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        """At most `limit` entries numbered above `after`, in order. The caller has already looked the task up."""
        ...

    async def page(self, query: TaskQuery) -> TaskPage:
        """One page. Without `include_artifacts` artifacts are neither returned nor read."""
        ...

    async def has_context(self, scope: Scope, context_id: str) -> bool:
        """Whether the caller has a task in this context."""
        ...

    async def waiting_since(self, state: int, before_ms: int, limit: int) -> Sequence[tuple[Scope, str]]:
        """Tasks without a live turn that have been in an interrupted `state` since before a time, oldest first."""
        ...

    # -- leases (DURA-02, DURA-03)

    async def claim(self, lease: Lease, lapsed_before_ms: int, limit: int) -> Sequence[Claimed]:
        """Take over tasks with turns whose lease ended before a time; each gets the next epoch."""
        ...

    async def renew(self, lease: Lease, held: Mapping[str, int]) -> Renewal:
        """Extend the leases of `held` (task id → epoch)."""
        ...

    async def request_cancel(self, scope: Scope, task_id: str, metadata: bytes) -> bool:
        """Leave a wish to cancel for the replica that holds the task; False when no turn is live."""
        ...

    # -- receipts (ONCE-01)

    async def recall(self, scope: Scope, key: str, now_ms: int) -> Once | None:
        """The living receipt under this key."""
        ...

    async def reserve(self, scope: Scope, once: Once, now_ms: int, *, instead_of: str = "") -> Once:
        """Leave a receipt unless a living one is there; return whichever now holds the key.

        A receipt of the task id `instead_of` (a send that died before it had a result) is replaced, unless it has
        come to a result after all: a reply, or the task.
        """
        ...

    async def answer(self, scope: Scope, key: str, reply: bytes) -> None:
        """Complete a reserved receipt with the direct message that answered; the first answer stays."""
        ...

    # -- push configs and debts

    async def put_config(self, scope: Scope, hook: Hook) -> bool:
        """Create or replace by (task, id), all of it; False when the task is not there.

        One that is replaced keeps what it is owed, is parked no more, and voids the claim of who tries the old one.
        """
        ...

    async def get_config(self, scope: Scope, task_id: str, config_id: str) -> Hook | None:
        """One config."""
        ...

    async def configs(self, scope: Scope, task_id: str, after: str, limit: int) -> Sequence[Hook] | None:
        """Configs with ids above `after`, by id; None when the task is not there."""
        ...

    async def delete_config(self, scope: Scope, task_id: str, config_id: str) -> bool:
        """Remove it and its debts; False when the task is not there. A missing config is no fault (PUSH-10)."""
        ...

    async def next_debt(self) -> int | None:
        """When the earliest debt is due, or its claim lapses; None when nothing is owed."""
        ...

    async def claim_debts(self, now_ms: int, until_ms: int, limit: int, rooms: Rooms = ANY_ROOM) -> Sequence[Debt]:
        """Due debts, claimed until a time; of each config only the lowest number, so that order holds (PAID-02).

        Fewer than `limit` when no others fit into `rooms`. Hosts take turns, and within a host the longest unserved
        configs go first, so that nobody starves.
        """
        ...

    async def settle(self, debt: Debt, setback: Setback | None) -> bool:
        """Strike a debt out (None), or put it off, or park its config; False when the claim is no longer ours."""
        ...

    async def accounts(self, which: Which, limit: int) -> Sequence[Account]:
        """Configs and what they are owed: those that are due first, then those that are parked."""
        ...

    async def retry_debts(self, which: Which) -> int:
        """Have these configs tried anew, as if nothing had failed yet; how many there are that are owed something."""
        ...

    async def drop_debts(self, which: Which) -> int:
        """Strike out all that these configs are owed; how many webhooks that was. The configs stay."""
        ...
