"""What a store is asked to change (spec: DURA-01, DURA-05)."""

from __future__ import annotations

from collections.abc import Sequence

from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.ports.entry import Entry
from a2a_server.ports.hooks import Hook
from a2a_server.ports.kept import Head, Lease, Once, Turn


class Write:
    """Everything one transaction changes about one task."""

    # A class by hand: there is one per commit, and what a dataclass writes would not be compiled.
    __slots__ = (
        "artifacts",
        "begin",
        "claim",
        "configs",
        "end",
        "entries",
        "epoch",
        "expected",
        "head",
        "now_ms",
        "once",
        "owe",
        "scope",
        "state",
        "task_id",
        "traces",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - a transaction may change as much; keywords would double the price
        self,
        scope: Scope,
        task_id: str,
        expected: int,
        epoch: int,
        entries: Sequence[Entry] = (),
        head: Head | None = None,
        artifacts: bytes | None = None,
        claim: Lease | None = None,
        begin: Sequence[Turn] = (),
        end: Sequence[int] = (),
        state: bytes | None = None,
        configs: Sequence[Hook] = (),
        owe: bool = False,  # noqa: FBT001, FBT002 - as above
        traces: Sequence[tuple[int, Trace | None]] = (),
        once: Once | None = None,
        now_ms: int = 0,
    ) -> None:
        if entries and entries[-1].number != expected + len(entries):
            raise ValueError(f"entries end at {entries[-1].number}, not at {expected} + {len(entries)}")
        if expected == 0 and not (entries and head):
            raise ValueError(f"task {task_id!r} cannot be created without a first entry and a head")
        self.scope = scope
        self.task_id = task_id
        self.expected = expected
        """The number of the last entry the writer knows; 0 creates the task."""
        self.epoch = epoch
        """Must be the stored epoch, or with `claim` the one after it. A task that is to be created has epoch 0."""
        self.entries = entries
        """Numbered `expected + 1`, `expected + 2` …"""
        self.head = head
        """The new head; present whenever an entry changes the status or the history, and on creation."""
        self.artifacts = artifacts
        """A Task holding only artifacts, up to and including the last of `entries`."""
        self.claim = claim
        self.begin = begin
        self.end = end
        """Numbers of turns that are over."""
        self.state = state
        """What the agent saved; None leaves it as it is."""
        self.configs = configs
        """Push configs registered by the same request, in time for its first entry (SEND-07)."""
        self.owe = owe
        """Every config of the task is owed a webhook for each status, artifact and task entry (PAID-01)."""
        self.traces = traces
        """From which entry on which trace goes with what is owed (TRAC-01); before the first of them, none."""
        self.once = once
        """The receipt to leave; a living one under the same key turns the write into `Repeated`.

        A receipt that names the very task which is being created was reserved for it, and is no repetition.
        """
        self.now_ms = now_ms
        """When receipts are judged; without it every receipt is a living one."""

    def trace_of(self, number: int) -> Trace | None:
        """The trace that an entry belongs to."""
        return next((trace for first, trace in reversed(self.traces) if first <= number), None)
