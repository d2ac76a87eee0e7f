"""The store: tasks and their logs, turns, receipts, push configs (spec: RECV-01, DURA-01, DURA-05).

1. A task is a log of events numbered 1, 2, 3 … and a snapshot in two halves: the head and the artifacts.
2. The *head* is the Task without artifacts. It is rewritten with every status and message, so it is always current.
3. The *artifacts* are rewritten only now and then. A read applies the artifact events that came later.
4. So a streamed chunk costs one appended entry and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.paging import Position, TaskFilter
from a2a_server.domain.scope import Scope
from a2a_server.ports.agent import ContextMemory
from a2a_server.ports.push import ClaimLimits, Delivery, FailedAttempt, PushConfig
from a2a_server.ports.records import Entry, Receipt, StoredTurn, Write
from a2a_server.ports.retention import Deadlines, Holdings, Removed


def store_name(url: str) -> str:
    """The store as logs and errors name it: its URL without user, password and options."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{url.partition(':')[0]}:…"
    if not (parts.query or "@" in parts.netloc):
        return url
    user, _, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{'…@' if user else ''}{host}{parts.path}{'?…' if parts.query else ''}"


class StaleWrite(Exception):  # noqa: N818 - a verdict, not a malfunction
    """Somebody else has written to the task, or has taken it over. Nothing of this write was stored."""


class StoreUnavailable(Exception):  # noqa: N818 - a state, not a malfunction
    """The store cannot answer now (disk full, database away). The same call may succeed later."""


class StoreGone(StoreUnavailable):
    """What the store writes to was deleted, moved or replaced. The message is also for clients."""


class StoreRefused(Exception):  # noqa: N818 - a verdict, not a malfunction
    """The store cannot be used as configured. The message is for the operator."""


class StoreDamaged(Exception):  # noqa: N818 - a state, not a malfunction
    """Something in the store was changed from outside, or moved: it cannot be opened. The message is for operators."""


class Repeated(Exception):  # noqa: N818 - a verdict, not a malfunction
    """The idempotency key is taken. Nothing was written; `receipt` belongs to the first send."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__(receipt.key)
        self.receipt = receipt


class StoredTask(NamedTuple):
    """A task with everything that is stored of it. The caller may change `task`."""

    task: pb.Task
    number: int
    epoch: int
    state: bytes = b""
    log_bytes: int = 0
    """How long its log is, on the wire."""
    session: str = ""
    """The session that has the task's open turns, whether or not it is over by now. Empty if there are none.

    A store that one server has for itself may leave it empty always.
    """


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """A request for one page of a list, in the order of `Position`."""

    scope: Scope
    filter: TaskFilter
    after: Position | None
    limit: int
    include_artifacts: bool
    max_bytes: int = 2**62
    """How much may be stored of the page's tasks together. A first task that is larger is a page of its own."""


@dataclass(frozen=True, slots=True)
class TaskPage:
    """The tasks of one page, how many there are on all pages (LIST-11), and whether any come after these."""

    tasks: Sequence[pb.Task]
    total: int
    more: bool


class ContextQuery(NamedTuple):
    """A request for what one caller's context holds."""

    scope: Scope
    context_id: str
    without: str
    """The id of the task whose turn asks. It is not among the tasks."""
    limit: int
    max_bytes: int
    """How much may be stored of the tasks, or of the messages. A newest task that is larger is there alone."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A task that a session has taken over. `epoch` is the new one."""

    scope: Scope
    task_id: str
    epoch: int
    turns: Sequence[StoredTurn]


class Store(Protocol):
    """What every store promises; `tests/conformance` proves it.

    Methods raise `StoreUnavailable` when the engine cannot serve. A write is visible to every reader when `commit`
    returns, and never before it is durable. Lookups take a `Scope`: tasks outside of it are treated as absent.
    """

    async def open(self) -> None:
        """Connect and migrate. Refuses a database that a newer version has written (DURA-09)."""
        ...

    async def close(self) -> None:
        """Finish all accepted calls, then disconnect."""
        ...

    async def ping(self) -> None:
        """Read something. Raises `StoreUnavailable` when that fails."""
        ...

    async def secret(self) -> bytes:
        """32 random bytes, made once per database: the key that signs page cursors."""
        ...

    # -- tasks

    async def commit(self, write: Write) -> bool:
        """Store all of it or nothing. Raises `StaleWrite` or `Repeated` when a precondition fails.

        True when the write made a webhook due, so that the relay can be woken.
        """
        ...

    async def load(self, scope: Scope, task_id: str) -> StoredTask | None:
        """The task with everything committed so far."""
        ...

    async def entries(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        """At most `limit` entries numbered above `after`, in order. The caller has already checked the scope."""
        ...

    async def page(self, query: TaskQuery) -> TaskPage:
        """One page. Without `include_artifacts`, artifacts are neither returned nor read.

        The artifacts of a task that the page has no room for are not read either.
        """
        ...

    async def has_context(self, scope: Scope, context_id: str) -> bool:
        """Whether the caller has a task in this context."""
        ...

    async def context(self, query: ContextQuery) -> ContextMemory:
        """A caller's context. What it holds is read now, or better when somebody asks for it, as few turns do."""
        ...

    async def holdings(self, owner: str, tenant: str = "") -> Holdings:
        """How much of an owner is stored: in a tenant, or without one in all.

        Chunks may be counted late: when their task gets its next status or message.
        """
        ...

    async def waiting_since(self, state: int, before_ms: int, limit: int) -> Sequence[tuple[Scope, str]]:
        """Tasks in an interrupted `state` since before a time and without a running turn, oldest first."""
        ...

    # -- sessions (DURA-02 to DURA-04); stores that servers share have more of them in `ports.replicas`

    async def claim(self, session: str, limit: int) -> Sequence[Claimed]:
        """Take over tasks with open turns whose session is over. Each gets the next epoch.

        A store that one server has for itself knows that every other session is over.
        """
        ...

    # -- receipts (ONCE-01)

    async def recall(self, scope: Scope, key: str, now_ms: int) -> Receipt | None:
        """The receipt with this key, unless it has expired."""
        ...

    async def reserve(self, scope: Scope, receipt: Receipt, now_ms: int, *, instead_of: str = "") -> Receipt:
        """Store a receipt unless the key has one that has not expired. Returns the receipt that now has the key.

        A receipt for the task id `instead_of` (a send that died before it had a result) is replaced, unless it has a
        result by now: a reply, or the task.
        """
        ...

    async def answer(self, scope: Scope, key: str, reply: bytes) -> None:
        """Add the direct message that answered to a reserved receipt. The first answer stays."""
        ...

    # -- push configs and deliveries

    async def put_config(self, scope: Scope, hook: PushConfig) -> bool:
        """Create a config, or replace the one with the same task and id. False when the task is absent.

        A replaced config keeps its pending deliveries and is no longer parked. A running attempt loses its claim.
        """
        ...

    async def get_config(self, scope: Scope, task_id: str, config_id: str) -> PushConfig | None:
        """One config."""
        ...

    async def configs(self, scope: Scope, task_id: str, after: str, limit: int) -> Sequence[PushConfig] | None:
        """Configs with ids above `after`, by id. None when the task is absent."""
        ...

    async def count_configs(self, owner: str, host: str | None, limit: int) -> int:
        """How many configs of an owner, for a host or (None) for all, may still have something to send.

        They are neither parked nor of finished tasks without deliveries.
        """
        ...

    async def count_hosts(self, owner: str, limit: int) -> int:
        """To how many hosts such configs lead."""
        ...

    async def delete_config(self, scope: Scope, task_id: str, config_id: str) -> bool:
        """Delete it with its pending deliveries. False when the task is absent; a missing config is fine (PUSH-10)."""
        ...

    async def next_due(self) -> int | None:
        """When the earliest delivery is due, or its claim ends. None when nothing is pending."""
        ...

    async def claim_deliveries(self, now_ms: int, until_ms: int, limit: int, limits: ClaimLimits) -> Sequence[Delivery]:
        """Claim due deliveries until a time; of each config only the earliest, so that the order is kept (PAID-02).

        Returns fewer than `limit` when `limits` allow no more. Each owner's hosts take turns, and within a host the
        owner's configs that have waited longest come first.
        """
        ...

    async def finish_attempt(self, delivery: Delivery, failure: FailedAttempt | None) -> bool:
        """Remove a delivery that was made (None) or is skipped, put it off, or park its config.

        False when the claim is lost.
        """
        ...

    # -- retention (KEPT-01)

    async def sweep(self, deadlines: Deadlines) -> Removed | None:
        """Remove a little of what is old, in about a millisecond. None at the end of each round through everything.

        A task is removed whole or not at all, as far as anybody can see. None is removed that is unfinished. One whose
        log is gone has no entries, and is otherwise as before.
        """
        ...

    async def tidy(self) -> bool:
        """Give space back that removed things have left, if nobody has written since the last call. True = more."""
        ...
