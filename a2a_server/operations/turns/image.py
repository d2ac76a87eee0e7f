"""A task as it will stand once everything queued is durable, in the two halves that the store keeps (design 6)."""

from __future__ import annotations

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain import pieces
from a2a_server.domain.events import millis, reason_of
from a2a_server.domain.lifecycle import INTERRUPTED, STOPPING, SUBMITTED
from a2a_server.domain.pieces import Draft
from a2a_server.domain.reducer import ArtifactShelf, add_message, apply_status
from a2a_server.ports.records import TaskHead

_TAIL_BYTES = 64 * 1024
"""A read folds at most this much tail, or as much again as the artifacts already hold: amortised, a chunk is O(1)."""


class TaskImage:
    """Folds events as they are queued, and says which halves of the snapshot a commit has to renew."""

    __slots__ = (
        "_context_id",
        "_head",
        "_head_wire",
        "_history",
        "_newest",
        "_shelf_wire",
        "_status",
        "_stopping",
        "_tail",
        "ids",
        "messages",
        "shelf",
        "state",
        "status_ms",
        "stop",
    )

    def __init__(self, task: pb.Task | Draft) -> None:
        """Take the task over; its artifacts go to the shelf. A new one stays in pieces for as long as it can."""
        self.shelf: ArtifactShelf
        self._head: pb.Task | None
        self._newest: pb.TaskStatus | bytes | None = None
        """The status, when the head has yet to take it over: of several in one commit, only the last is looked at."""
        if isinstance(task, Draft):
            self._begin(task)
        else:
            self._go_on(task)
        self.stop: str | None = None
        """Why the server itself stopped the turn, "" if the agent did; None when it has not been seen to stop."""
        self._head_wire: bytes | None = b""
        """The head as last taken; None when it has changed since."""
        self._shelf_wire: bytes | None = None
        self._tail = 0
        """Bytes of artifact events that the stored artifacts lack."""
        self._stopping = False

    def _begin(self, draft: Draft) -> None:
        self.shelf = ArtifactShelf()
        self._head = None
        self._context_id = draft.context_id
        self.ids = pieces.address(draft.task_id, draft.context_id)
        self._history = pieces.history_of(draft.message)
        self.state: int = SUBMITTED
        self.status_ms = draft.at_ms
        self._status = pieces.plain_status(SUBMITTED, draft.at_ms)
        self.messages = 1
        """How long the history is at most."""

    def _go_on(self, task: pb.Task) -> None:
        self.shelf = ArtifactShelf(_take_artifacts(task) if task.artifacts else None)
        self._head = task
        self._context_id = task.context_id
        self.ids = pieces.address(task.id, task.context_id)
        """The task's, as they stand in its events."""
        self._history = self._status = b""
        status = task.status
        self.state = status.state
        self.status_ms = millis(status.timestamp)
        self.messages = len(task.history)

    @property
    def head(self) -> pb.Task:
        """The task without its artifacts."""
        if self._head is None:
            self._head = pb.Task.FromString(self._written())
        elif self._newest is not None:
            apply_status(self._head, _read(self._newest))
        self._newest = None
        return self._head

    def _written(self) -> bytes:
        """The head, serialised."""
        if self._head is not None:
            return self.head.SerializeToString()
        newest = self._newest
        status = self._status if newest is None else newest if isinstance(newest, bytes) else newest.SerializeToString()
        return pieces.task_of(self.ids, status, self._history)

    def created(self) -> bytes:
        """The task as it is told first, serialised; with the next commit its head has to be written."""
        self._head_wire = None
        return self._written()

    def copy(self) -> pb.Task:
        """The whole task, for somebody else to own."""
        task = pb.Task()
        task.CopyFrom(self.head)
        task.MergeFrom(self.shelf.task)
        return task

    def wire(self) -> bytes:
        """The whole task, serialised: halves of a message, concatenated, are the message."""
        head = self._head_wire or self._written()
        shelf = self._shelf_wire
        return head + (self.shelf.task.SerializeToString() if shelf is None else shelf)

    def fold(self, event: pb.StreamResponse, size: int) -> None:
        """Take an event in; `size` is its length on the wire."""
        kind = event.WhichOneof("payload")
        if kind == "artifact_update":
            self.fold_artifact(event.artifact_update, size)
        elif kind == "status_update":
            status = event.status_update.status
            self.fold_status(status, millis(status.timestamp))
        else:  # a message, or the task itself
            self._head_wire = None
            if kind == "message":
                add_message(self.head, event.message)
                self.messages += 2  # it, and perhaps the question that it answers

    def fold_artifact(self, update: pb.TaskArtifactUpdateEvent, size: int) -> None:
        self.shelf.apply(update, size)
        self._shelf_wire = None
        self._tail += size

    def fold_status(self, status: pb.TaskStatus, at_ms: int) -> None:
        self._move(status, status.state, at_ms)
        if self._stopping and self.stop is None:
            self.stop = reason_of(status)

    def fold_plain_status(self, state: int, at_ms: int) -> bytes:
        """Take in a status that says no more than this; returns it serialised."""
        status = pieces.plain_status(state, at_ms)
        self._move(status, state, at_ms)
        if self._stopping and self.stop is None:
            self.stop = ""
        return status

    def _move(self, status: pb.TaskStatus | bytes, state: int, at_ms: int) -> None:
        if self.state in INTERRUPTED:
            apply_status(self.head, _read(status))  # a question joins the history
            self.messages += 1
        else:
            self._newest = status
        self._head_wire = None
        self.state = state
        self.status_ms = at_ms
        self._stopping = state in STOPPING

    def take_head(self) -> TaskHead | None:
        """The head, if it has changed since it was last taken."""
        if self._head_wire is not None:
            return None
        wire = self._head_wire = self._written()
        return TaskHead(wire, self._context_id, self.state, self.status_ms)

    def take_shelf(self) -> bytes | None:
        """The artifacts, if they are due. At a stop they always are: reading a resting task is reading one row."""
        stopping, self._stopping = self._stopping, False
        if not self._tail or not (stopping or self._tail > max(_TAIL_BYTES, self.shelf.size - self._tail)):
            return None
        self._tail = 0
        wire = self._shelf_wire = self.shelf.task.SerializeToString()
        return wire


def _read(status: pb.TaskStatus | bytes) -> pb.TaskStatus:
    return pb.TaskStatus.FromString(status) if isinstance(status, bytes) else status


def _take_artifacts(task: pb.Task) -> pb.Task:
    shelf = pb.Task()
    shelf.artifacts.MergeFrom(task.artifacts)
    del task.artifacts[:]
    return shelf
