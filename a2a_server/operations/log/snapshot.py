"""The task as the next commit will leave it, and the contents of that commit (design 6; spec: DURA-01, DURA-05)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import millis, reason_of
from a2a_server.domain.lifecycle import INTERRUPTED, STOPPING
from a2a_server.domain.reducer import TaskArtifacts, add_message, apply_status
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import Entry, Receipt, StoredTurn, TaskHead, Write

_TAIL_BYTES = 64 * 1024
"""A read applies at most this many bytes of events, or as many as the stored artifacts have. So a chunk costs O(1)."""


class Snapshot:
    """Applies events to the task, in the two parts that the store keeps: the head and the artifacts."""

    __slots__ = (
        "_artifacts_wire",
        "_head",
        "_head_wire",
        "_newest",
        "_stopping",
        "_tail",
        "_task_artifacts",
        "state",
        "status_ms",
        "stop",
    )

    def __init__(self, task: pb.Task) -> None:
        """Take over the task; its artifacts are moved to `_task_artifacts`."""
        self._task_artifacts = TaskArtifacts(_take_artifacts(task) if task.artifacts else None)
        self._head = task
        self._newest: pb.TaskStatus | None = None
        """The status that the head will get. Of several quick changes only the last is applied."""
        status = task.status
        self.state: int = status.state
        self.status_ms = millis(status.timestamp)
        self.stop: str | None = None
        """Why the server stopped the turn; "" if the agent did; None if the turn has not stopped."""
        self._head_wire: bytes | None = b""
        """The head as it was last taken; None if it has changed since."""
        self._artifacts_wire: bytes | None = None
        self._tail = 0
        """How many bytes of artifact events are not in the stored artifacts yet."""
        self._stopping = False

    @property
    def head(self) -> pb.Task:
        if self._newest is not None:
            apply_status(self._head, self._newest)
            self._newest = None
        return self._head

    def copy(self) -> pb.Task:
        """Return a copy of the whole task."""
        task = pb.Task()
        task.CopyFrom(self.head)
        task.MergeFrom(self._task_artifacts.task)
        return task

    def wire(self) -> bytes:
        """Return the whole task, serialised. Concatenating the bytes of both parts gives the bytes of the task."""
        head = self._head_wire or self.head.SerializeToString()
        shelf = self._artifacts_wire
        return head + (self._task_artifacts.task.SerializeToString() if shelf is None else shelf)

    @property
    def is_streaming(self) -> bool:
        """Whether an artifact has not had its last chunk yet."""
        return self._task_artifacts.unfinished

    def has_last_chunk(self, artifact_id: str) -> bool:
        """Whether the artifact is complete, so that nothing may be appended to it (ARTF-03)."""
        return self._task_artifacts.closed(artifact_id)

    def fold(self, event: pb.StreamResponse, size: int) -> None:
        """Apply an event. `size` is its length on the wire."""
        kind = event.WhichOneof("payload")
        if kind == "artifact_update":
            self._task_artifacts.apply(event.artifact_update, size)
            self._artifacts_wire = None
            self._tail += size
            return
        self._head_wire = None
        if kind == "status_update":
            self._fold_status(event.status_update.status)
        elif kind == "message":
            add_message(self.head, event.message)

    def _fold_status(self, status: pb.TaskStatus) -> None:
        if self.state in INTERRUPTED and self._newest is not None:  # its question must go to the history first
            apply_status(self._head, self._newest)
        self._newest = status
        self.state = status.state
        self.status_ms = millis(status.timestamp)
        self._stopping = self.state in STOPPING
        if self._stopping and self.stop is None:
            self.stop = reason_of(status)

    def take_head(self) -> TaskHead | None:
        """Return the head, if it has changed since it was last taken."""
        if self._head_wire is not None:
            return None
        wire = self._head_wire = self.head.SerializeToString()
        return TaskHead(wire, self.head.context_id, self.state, self.status_ms)

    def take_artifacts(self) -> bytes | None:
        """Return the artifacts, if they should be stored now. At a stop they always are: then a read needs one row."""
        stopping, self._stopping = self._stopping, False
        if not self._tail or not (stopping or self._tail > max(_TAIL_BYTES, self._task_artifacts.size - self._tail)):
            return None
        self._tail = 0
        wire = self._artifacts_wire = self._task_artifacts.task.SerializeToString()
        return wire


def _take_artifacts(task: pb.Task) -> pb.Task:
    shelf = pb.Task()
    shelf.artifacts.MergeFrom(task.artifacts)
    del task.artifacts[:]
    return shelf


class BeginningTurn(Protocol):
    """A turn that begins with the next commit. It is stored only if it has not ended by then."""

    number: int

    def stored(self) -> StoredTurn: ...


class Batch:
    """The contents of the next commit of a task. `take` empties it."""

    # Defaults of rarely used attributes are on the class, because setting them for every commit costs time.
    claim: str | None = None
    """The session that takes the right to write, if the commit takes it."""
    state: bytes | None = None
    """The state that the agent saved."""
    remember: Mapping[str, bytes | None] | None = None
    """The values that the agent saved for the context, by name."""
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
        """Whether no commit is needed. A receipt or a lease alone needs none."""
        saved = self.state is not None or self.remember is not None
        return not (self.entries or self._ended or self._beginning or self._configs or saved)

    def begin(self, turn: BeginningTurn) -> None:
        self._beginning = [*self._beginning, turn]

    def end(self, numbers: Iterable[int]) -> None:
        """End turns. A turn that began in the same commit is not stored at all."""
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
        self.state = self.remember = None

    def take(self, scope: Scope, task_id: str, expected: int, epoch: int, snapshot: Snapshot) -> Write:
        """Return the commit, with the changes of the task's snapshot, and become empty."""
        entries, self.entries = self.entries, []
        head, artifacts = snapshot.take_head(), snapshot.take_artifacts()
        write = Write(scope, task_id, expected, epoch, entries, head, artifacts, self.claim)
        write.state, write.receipt, write.now_ms = self.state, self.once, self.now_ms
        self.claim = self.once = self.state = None
        if self.remember is not None:
            write.remember, self.remember = self.remember, None
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
