"""A task as it will stand after the next commit, and what that commit will hold (design 6; spec: DURA-01, DURA-05)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import millis, reason_of
from a2a_server.domain.lifecycle import INTERRUPTED, STOPPING
from a2a_server.domain.reducer import ArtifactShelf, add_message, apply_status
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import Entry, Lease, Receipt, StoredTurn, TaskHead, Write

_TAIL_BYTES = 64 * 1024
"""A read folds at most this much tail, or as much again as the artifacts already hold: amortised, a chunk is O(1)."""


class Snapshot:
    """Folds events as they are queued, in the two halves that the store keeps: the head and the artifacts."""

    __slots__ = (
        "_head",
        "_head_wire",
        "_newest",
        "_shelf",
        "_shelf_wire",
        "_stopping",
        "_tail",
        "state",
        "status_ms",
        "stop",
    )

    def __init__(self, task: pb.Task) -> None:
        """Take over the task; its artifacts go to the shelf."""
        self._shelf = ArtifactShelf(_take_artifacts(task) if task.artifacts else None)
        self._head = task
        self._newest: pb.TaskStatus | None = None
        """The status that the head is to have; of those that follow each other quickly only the last is put there."""
        status = task.status
        self.state: int = status.state
        self.status_ms = millis(status.timestamp)
        self.stop: str | None = None
        """Why the server itself stopped the turn, "" if the agent did; None when it has not been seen to stop."""
        self._head_wire: bytes | None = b""
        """The head as last taken; None when it has changed since."""
        self._shelf_wire: bytes | None = None
        self._tail = 0
        """Bytes of artifact events that the stored artifacts lack."""
        self._stopping = False

    @property
    def head(self) -> pb.Task:
        if self._newest is not None:
            apply_status(self._head, self._newest)
            self._newest = None
        return self._head

    def copy(self) -> pb.Task:
        """The whole task, for the caller to own."""
        task = pb.Task()
        task.CopyFrom(self.head)
        task.MergeFrom(self._shelf.task)
        return task

    def wire(self) -> bytes:
        """The whole task, serialised: the halves of a message, concatenated, are the message."""
        head = self._head_wire or self.head.SerializeToString()
        shelf = self._shelf_wire
        return head + (self._shelf.task.SerializeToString() if shelf is None else shelf)

    @property
    def is_streaming(self) -> bool:
        """Whether the last chunk of an artifact is still to come."""
        return self._shelf.unfinished

    def has_last_chunk(self, artifact_id: str) -> bool:
        """Whether the artifact is complete, so that nothing may be appended to it (ARTF-03)."""
        return self._shelf.closed(artifact_id)

    def fold(self, event: pb.StreamResponse, size: int) -> None:
        """Take an event in; `size` is its length on the wire."""
        kind = event.WhichOneof("payload")
        if kind == "artifact_update":
            self._shelf.apply(event.artifact_update, size)
            self._shelf_wire = None
            self._tail += size
            return
        self._head_wire = None
        if kind == "status_update":
            self._fold_status(event.status_update.status)
        elif kind == "message":
            add_message(self.head, event.message)

    def _fold_status(self, status: pb.TaskStatus) -> None:
        if self.state in INTERRUPTED and self._newest is not None:  # its question is to join the history
            apply_status(self._head, self._newest)
        self._newest = status
        self.state = status.state
        self.status_ms = millis(status.timestamp)
        self._stopping = self.state in STOPPING
        if self._stopping and self.stop is None:
            self.stop = reason_of(status)

    def take_head(self) -> TaskHead | None:
        """The head, if it has changed since it was last taken."""
        if self._head_wire is not None:
            return None
        wire = self._head_wire = self.head.SerializeToString()
        return TaskHead(wire, self.head.context_id, self.state, self.status_ms)

    def take_artifacts(self) -> bytes | None:
        """The artifacts, if they are due. At a stop they always are: reading a resting task is reading one row."""
        stopping, self._stopping = self._stopping, False
        if not self._tail or not (stopping or self._tail > max(_TAIL_BYTES, self._shelf.size - self._tail)):
            return None
        self._tail = 0
        wire = self._shelf_wire = self._shelf.task.SerializeToString()
        return wire


def _take_artifacts(task: pb.Task) -> pb.Task:
    shelf = pb.Task()
    shelf.artifacts.MergeFrom(task.artifacts)
    del task.artifacts[:]
    return shelf


class BeginningTurn(Protocol):
    """A turn that begins with the next commit; stored only if it is not over by then."""

    number: int

    def stored(self) -> StoredTurn: ...


class Batch:
    """What the next commit of a task will hold; empty again whenever it has been taken."""

    # What most commits never hold has its default here: setting it for each would cost more than a status.
    claim: Lease | None = None
    """The right to write, where it is to be taken."""
    state: bytes | None = None
    """What the agent saved."""
    once: Receipt | None = None
    now_ms = 0
    _beginning: Sequence[BeginningTurn] = ()
    _ended: Sequence[int] = ()
    _configs: Sequence[PushConfig] = ()
    _trace: Trace | None = None
    _traces: Sequence[tuple[int, Trace | None]] = ()

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit for; a receipt or a claim alone is not worth it."""
        return not (self.entries or self._ended or self._beginning or self._configs or self.state is not None)

    def begin(self, turn: BeginningTurn) -> None:
        self._beginning = [*self._beginning, turn]

    def end(self, numbers: Iterable[int]) -> None:
        """End turns; those that began in the same commit leave no trace."""
        for number in numbers:
            kept = [turn for turn in self._beginning if turn.number != number]
            if len(kept) == len(self._beginning):
                self._ended = [*self._ended, number]
            self._beginning = kept

    def register(self, hook: PushConfig) -> None:
        self._configs = [*self._configs, hook]

    def caused_by(self, trace: Trace | None, number: int) -> None:
        if trace != self._trace:
            self._trace = trace
            self._traces = [*self._traces, (number, trace)]

    def drop(self) -> None:
        self.entries.clear()
        self._beginning = self._ended = ()
        self.state = None

    def take(self, scope: Scope, task_id: str, expected: int, epoch: int, snapshot: Snapshot) -> Write:
        """All of it, with what has changed of the task's snapshot."""
        entries, self.entries = self.entries, []
        head, artifacts = snapshot.take_head(), snapshot.take_artifacts()
        write = Write(scope, task_id, expected, epoch, entries, head, artifacts, self.claim)
        write.state, write.receipt, write.now_ms = self.state, self.once, self.now_ms
        self.claim = self.once = self.state = None
        if self._beginning:
            write.begin, self._beginning = tuple([turn.stored() for turn in self._beginning]), ()
        if self._ended:
            write.end, self._ended = tuple(self._ended), ()
        if self._configs:
            write.configs, self._configs = tuple(self._configs), ()
        if self._traces and entries:
            write.traces = tuple(self._traces)
            self._traces = () if self._trace is None else ((entries[-1].number + 1, self._trace),)
        return write
