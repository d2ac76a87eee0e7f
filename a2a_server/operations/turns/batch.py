"""What the next commit of a task will hold (spec: DURA-01, ONCE-01, SEND-07, TRAC-01)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.operations.turns.image import TaskImage
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import Entry, Lease, Receipt, StoredTurn, Write


class Begun(Protocol):
    """A turn that begins with the next commit; packed only if it is not over by then."""

    number: int

    def turn(self) -> StoredTurn: ...


class Batch:
    """One per writer, and empty again whenever it has been taken."""

    # What most commits never come to hold stands here: setting it for each would cost more than a status.
    claim: Lease | None = None
    """The right to write, where it is to be taken."""
    state: bytes | None = None
    """What the agent saved."""
    _once: Receipt | None = None
    _now_ms = 0
    _begun: Sequence[Begun] = ()
    _ended: Sequence[int] = ()
    _configs: Sequence[PushConfig] = ()
    _trace: Trace | None = None
    _traces: Sequence[tuple[int, Trace | None]] = ()

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit for; a receipt or a claim alone is not worth it."""
        return not (self.entries or self._ended or self._begun or self._configs or self.state is not None)

    def begin(self, job: Begun) -> None:
        self._begun = [*self._begun, job]

    def end(self, numbers: Iterable[int]) -> None:
        """Turns are over; those that began in the same commit leave no trace."""
        for number in numbers:
            kept = [job for job in self._begun if job.number != number]
            if len(kept) == len(self._begun):
                self._ended = [*self._ended, number]
            self._begun = kept

    def register(self, hook: PushConfig) -> None:
        """A push config that must be there before the next event (SEND-07)."""
        self._configs = [*self._configs, hook]

    def caused_by(self, trace: Trace | None, number: int) -> None:
        """Say to which trace the events belong from this number on (TRAC-01)."""
        if trace != self._trace:
            self._trace = trace
            self._traces = [*self._traces, (number, trace)]

    def leave_receipt(self, once: Receipt, now_ms: int) -> None:
        """The commit succeeds only if nobody has sent this before (ONCE-01). It has room for one receipt."""
        self._once, self._now_ms = once, now_ms

    @property
    def has_receipt(self) -> bool:
        return self._once is not None

    def drop(self) -> None:
        """Forget what waits."""
        self.entries.clear()
        self._begun = self._ended = ()
        self.state = None

    def take(self, scope: Scope, task_id: str, expected: int, epoch: int, image: TaskImage) -> Write:
        """All of it, with what has changed of the task's image."""
        entries, self.entries = self.entries, []
        head, artifacts = image.take_head(), image.take_shelf()
        write = Write(scope, task_id, expected, epoch, entries, head, artifacts, self.claim)
        write.state, write.receipt, write.now_ms = self.state, self._once, self._now_ms
        self.claim = self._once = self.state = None
        if self._begun:
            write.begin, self._begun = tuple([job.turn() for job in self._begun]), ()
        if self._ended:
            write.end, self._ended = tuple(self._ended), ()
        if self._configs:
            write.configs, self._configs = tuple(self._configs), ()
        if self._traces and entries:
            write.traces = tuple(self._traces)
            self._traces = () if self._trace is None else ((entries[-1].number + 1, self._trace),)
        return write
