"""A task as it will stand once everything queued is durable, in the two halves that the store keeps (design 6)."""

from __future__ import annotations

from a2a_server.domain.events import millis
from a2a_server.domain.lifecycle import STOPPING
from a2a_server.domain.reducer import ArtifactShelf, add_message, apply_status
from a2a_server.ports.store import Head
from generated import a2a_pb2 as pb

_TAIL_BYTES = 64 * 1024
"""A read folds at most this much tail, or as much again as the artifacts already hold: amortised, a chunk is O(1)."""


class TaskImage:
    """Folds events as they are queued, and says which halves of the snapshot a commit has to renew."""

    __slots__ = ("_head_changed", "_stopping", "_tail", "head", "shelf", "state", "status_ms")

    def __init__(self, task: pb.Task) -> None:
        """Take the task over; its artifacts go to the shelf."""
        self.shelf = ArtifactShelf(_take_artifacts(task))
        self.head = task
        self.state: int = task.status.state
        self.status_ms = millis(task.status.timestamp)
        self._head_changed = False
        self._tail = 0
        """Bytes of artifact events that the stored artifacts lack."""
        self._stopping = False

    def copy(self) -> pb.Task:
        """The whole task, for somebody else to own."""
        task = pb.Task()
        task.CopyFrom(self.head)
        task.MergeFrom(self.shelf.task)
        return task

    def fold(self, event: pb.StreamResponse, size: int) -> None:
        if event.HasField("artifact_update"):
            self.shelf.apply(event.artifact_update)
            self._tail += size
            return
        self._head_changed = True
        if event.HasField("status_update"):
            status = event.status_update.status
            apply_status(self.head, status)
            self.state, self.status_ms = status.state, millis(status.timestamp)
            self._stopping = self.state in STOPPING
        elif event.HasField("message"):
            add_message(self.head, event.message)

    def take_head(self) -> Head | None:
        """The head, if it has changed since it was last taken."""
        if not self._head_changed:
            return None
        self._head_changed = False
        return Head(self.head.SerializeToString(), self.head.context_id, self.state, self.status_ms)

    def take_shelf(self) -> bytes | None:
        """The artifacts, if they are due. At a stop they always are: reading a resting task is reading one row."""
        stopping, self._stopping = self._stopping, False
        if not self._tail or not (stopping or self._tail > max(_TAIL_BYTES, self.shelf.size - self._tail)):
            return None
        self._tail = 0
        return self.shelf.task.SerializeToString()


def _take_artifacts(task: pb.Task) -> pb.Task:
    shelf = pb.Task()
    if task.artifacts:
        shelf.artifacts.MergeFrom(task.artifacts)
        del task.artifacts[:]
    return shelf
