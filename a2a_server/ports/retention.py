"""How much a store keeps, and what is removed from it because it is old (spec: KEPT-01, LIMT-02, SECR-07, CTX-13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from a2a_server.domain.scope import Scope


class Deadlines(NamedTuple):
    """Times in milliseconds. What has been over since before its time is removed; None keeps all of it."""

    tasks: int | None = None
    """Finished tasks, with all that belongs to them."""
    events: int | None = None
    """The logs of finished tasks. The tasks stay, with their artifacts."""
    webhooks: int | None = None
    """Parked configs, with their pending deliveries."""
    contexts: int | None = None
    """The states of contexts in which nothing has happened since, and no task is unfinished."""
    receipts: int | None = None
    """Receipts that expired then, or before."""
    owed: bool = True
    """Whether a finished task is kept until its webhooks are delivered or parked."""


class Removed(NamedTuple):
    """How much was removed, or would be."""

    tasks: int = 0
    events: int = 0
    configs: int = 0
    webhooks: int = 0
    receipts: int = 0
    context_values: int = 0
    """Named values in the states of contexts."""
    keys: int = 0
    """API keys that operators have made for an owner."""

    def plus(self, other: Removed) -> Removed:
        return Removed(*map(sum, zip(self, other, strict=True)))


class Holdings(NamedTuple):
    """How much of an owner is stored."""

    tasks: int
    bytes: int
    """Of tasks, their logs, artifacts, push configs and saved states, and of the states of contexts."""


class Chosen(NamedTuple):
    """Whose data is meant. All that is given must fit."""

    owner: str | None = None
    tenant: str | None = None
    task: str | None = None
    context: str | None = None

    @property
    def whole(self) -> bool:
        """Whether it is everything of an owner or a tenant."""
        return self.task is None and self.context is None


class KeptAdmin(Protocol):
    """Counts and removes data for an operator, whether or not a server uses the store (KEPT-02).

    Methods raise `StoreRefused` or `StoreUnavailable`. What they remove is overwritten in the file.
    """

    def remove(
        self, wanted: Chosen | Deadlines, agree: Callable[[Removed, int], bool], tell: Callable[[Removed], None]
    ) -> Removed:
        """Remove what is old, or what was chosen, if `agree` says so.

        `agree` is told how much that is, and how many tasks stay because a server works on them. `tell` is told now and
        then how much is gone.
        """
        ...

    def usage(self, owner: str | None, limit: int) -> Sequence[tuple[Scope, Holdings]]:
        """How much is stored of everybody, or of one owner, in each tenant. Those with the most bytes come first."""
        ...

    def rebuild(self) -> None:
        """Make the file as small as can be. Refuses while a server uses it."""
        ...
