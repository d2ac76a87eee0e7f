"""A task as it will stand once everything queued is durable, in the two halves that the store keeps (design 6)."""

from __future__ import annotations

from a2a_server.domain.events import millis
from a2a_server.domain.lifecycle import INTERRUPTED, STOPPING
from a2a_server.domain.reducer import ArtifactShelf, add_message, apply_status
from a2a_server.ports.store import Head, new_head
from generated import a2a_pb2 as pb

_TAIL_BYTES = 64 * 1024
"""A read folds at most this much tail, or as much again as the artifacts already hold: amortised, a chunk is O(1)."""


class TaskImage:
    """Folds events as they are queued, and says which halves of the snapshot a commit has to renew."""

    __slots__ = (
        "_context_id",
        "_head",
        "_head_wire",
        "_newest",
        "_shelf_wire",
        "_stopping",
        "_tail",
        "messages",
        "shelf",
        "state",
        "status_ms",
        "stop",
    )

    def __init__(self, task: pb.Task, context_id: str, new: bool = False) -> None:  # noqa: FBT001, FBT002 - as it says
        """Take the task over; its artifacts go to the shelf. A new one has none, and one message."""
        self.shelf = ArtifactShelf(None if new or not task.artifacts else _take_artifacts(task))
        self._head = task
        self._context_id = context_id
        self._newest: pb.TaskStatus | None = None
        """The status, when the head has yet to take it over: of several in one commit, only the last is looked at."""
        status = task.status
        self.state: int = status.state
        self.status_ms = millis(status.timestamp)
        self.messages = 1 if new else len(task.history)
        """How long the history is at most."""
        self.stop: pb.StreamResponse | None = None
        """The first event seen here with which a turn stops."""
        self._head_wire: bytes | None = b""
        """The head as last taken; None when it has changed since."""
        self._shelf_wire: bytes | None = None
        self._tail = 0
        """Bytes of artifact events that the stored artifacts lack."""
        self._stopping = False

    @property
    def head(self) -> pb.Task:
        """The task without its artifacts."""
        if self._newest is not None:
            apply_status(self._head, self._newest)
            self._newest = None
        return self._head

    def changed(self) -> None:
        """The head has to be written as it is: the task is new."""
        self._head_wire = None

    def copy(self) -> pb.Task:
        """The whole task, for somebody else to own."""
        task = pb.Task()
        task.CopyFrom(self.head)
        task.MergeFrom(self.shelf.task)
        return task

    def wire(self) -> bytes:
        """The whole task, serialised: halves of a message, concatenated, are the message."""
        head = self._head_wire or self.head.SerializeToString()
        shelf = self._shelf_wire
        return head + (self.shelf.task.SerializeToString() if shelf is None else shelf)

    def fold(self, event: pb.StreamResponse, size: int) -> None:
        """Take an event in; `size` is its length on the wire."""
        kind = event.WhichOneof("payload")
        if kind == "artifact_update":
            self.fold_artifact(event.artifact_update, size)
        elif kind == "status_update":
            status = event.status_update.status
            self.fold_status(event, status, millis(status.timestamp))
        else:  # a message, or the task itself
            self._head_wire = None
            if kind == "message":
                add_message(self.head, event.message)
                self.messages += 2  # it, and perhaps the question that it answers

    def fold_artifact(self, update: pb.TaskArtifactUpdateEvent, size: int) -> None:
        self.shelf.apply(update, size)
        self._shelf_wire = None
        self._tail += size

    def fold_status(self, event: pb.StreamResponse, status: pb.TaskStatus, at_ms: int) -> None:
        if self.state in INTERRUPTED:
            apply_status(self.head, status)  # a question joins the history
            self.messages += 1
        else:
            self._newest = status
        self._head_wire = None
        state = self.state = status.state
        self.status_ms = at_ms
        self._stopping = state in STOPPING
        if self._stopping and self.stop is None:
            self.stop = event

    def take_head(self) -> Head | None:
        """The head, if it has changed since it was last taken."""
        if self._head_wire is not None:
            return None
        wire = self._head_wire = self.head.SerializeToString()
        return new_head((wire, self._context_id, self.state, self.status_ms))

    def take_shelf(self) -> bytes | None:
        """The artifacts, if they are due. At a stop they always are: reading a resting task is reading one row."""
        stopping, self._stopping = self._stopping, False
        if not self._tail or not (stopping or self._tail > max(_TAIL_BYTES, self.shelf.size - self._tail)):
            return None
        self._tail = 0
        wire = self._shelf_wire = self.shelf.task.SerializeToString()
        return wire


def _take_artifacts(task: pb.Task) -> pb.Task:
    shelf = pb.Task()
    shelf.artifacts.MergeFrom(task.artifacts)
    del task.artifacts[:]
    return shelf
