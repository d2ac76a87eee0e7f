"""The database of a store as its operator sees it: what is in it, who uses it, and its schema (spec: SCAL-07, OPER-04).

A *migration* brings the schema from one version to the next. It first *expands*: servers of the version before do not
mind. What only they still use goes later, when none of them lives: it *contracts*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class Amount(NamedTuple):
    """How much there is of one kind of row."""

    kind: str
    rows: int
    bytes: int | None = None
    """With indexes; None where the database does not say."""
    estimated: bool = False
    """Whether the number of rows is the database's own guess, because counting them would take long."""


class LiveServer(NamedTuple):
    """A server that uses the database now."""

    session: str
    schema: int
    """The newest schema version that it knows."""
    program: str
    """The version of a2ad; empty if it does not say."""
    seconds: float | None
    """For how long its session has lasted; None if it does not say."""


class DatabaseStatus(NamedTuple):
    """What an operator wants to know first."""

    store: str
    """Its URL, without the password."""
    version: int
    """Of the schema; 0 if there are no tables yet."""
    newest: int
    """The version that this program brings."""
    oldest: int
    """Programs that know no newer version than this cannot use the database."""
    expand: Sequence[str]
    """Steps that are due, by version and name."""
    contract: Sequence[str]
    """Steps that wait until no older server is left."""
    bytes: int
    amounts: Sequence[Amount]
    servers: Sequence[LiveServer]
    wakeups: str
    """How servers tell each other of new events."""

    @property
    def too_new(self) -> bool:
        return self.oldest > self.newest


class Upgraded(NamedTuple):
    """What an upgrade has done."""

    before: int
    after: int
    waits_for: Sequence[str]
    """Who keeps the contracting steps waiting, in words."""


class DatabaseAdmin(Protocol):
    """Methods raise `StoreRefused` or `StoreUnavailable`. Calls block."""

    def status(self) -> DatabaseStatus:
        """Look, and change nothing. Also at a database without tables, and at one that is too new."""
        ...

    def upgrade(self, tell: Callable[[str], None]) -> Upgraded:
        """Bring the schema to the newest version, as a server does when it starts. `tell` is told each step before."""
        ...
