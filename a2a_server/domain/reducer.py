"""Applies events to a task, and trims tasks for answers (spec: ARTF-01 to ARTF-04, GEN-08, GEN-09, HIST-01 to HIST-04).

The head (status, history) and the artifacts are kept apart, so that a chunk costs the same however long the history is.
Protobuf lets serialised messages be joined: the bytes of both, one after the other, parse as the whole task.
"""

from __future__ import annotations

from collections.abc import Iterable

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.lifecycle import INTERRUPTED


def apply_status(head: pb.Task, status: pb.TaskStatus) -> None:
    """Set the status. A question that was waiting joins the history; a progress message does not (GEN-09)."""
    current = head.status
    if current.state in INTERRUPTED:
        _keep_question(head, current)
    current.CopyFrom(status)


def add_message(head: pb.Task, message: pb.Message) -> None:
    """Add a message to the history, after the question that it may answer."""
    current = head.status
    if _keep_question(head, current):
        current.ClearField("message")  # otherwise the next status would add the question again, after its answer
    head.history.add().CopyFrom(message)


def _keep_question(head: pb.Task, current: pb.TaskStatus) -> bool:
    if current.state not in INTERRUPTED or not current.HasField("message"):
        return False
    head.history.add().CopyFrom(current.message)
    return True


class TaskArtifacts:
    """The artifacts of one task, found by id, so that each chunk costs the same however many there are."""

    __slots__ = ("_artifacts", "_closed", "_task", "size")

    def __init__(self, task: pb.Task | None = None) -> None:
        """Take over a task. It may hold more than artifacts."""
        self._task = pb.Task() if task is None else task
        self._artifacts = {} if task is None else {artifact.artifact_id: artifact for artifact in task.artifacts[:]}
        self._closed: set[str] = set()
        self.size = 0
        """Bytes of the updates applied so far. A reader would save as much if the artifacts were rewritten now."""

    @property
    def task(self) -> pb.Task:
        return self._task

    @property
    def unfinished(self) -> bool:
        """Whether the last chunk of an artifact is still to come."""
        return len(self._closed) < len(self._artifacts)

    def closed(self, artifact_id: str) -> bool:
        """Whether the artifact's last chunk was applied, so that nothing may be appended (ARTF-03)."""
        return artifact_id in self._closed

    def apply(self, update: pb.TaskArtifactUpdateEvent, size: int = 0) -> None:
        """Create, replace or extend one artifact (ARTF-01, ARTF-02). `size` is that of the update, if known."""
        chunk = update.artifact
        artifact_id = chunk.artifact_id
        artifact = self._artifacts.get(artifact_id)
        if artifact is None:
            artifact = self._artifacts[artifact_id] = self._task.artifacts.add()
            artifact.CopyFrom(chunk)
        elif update.append:
            _extend(artifact, chunk)
        else:
            artifact.CopyFrom(chunk)
        if update.last_chunk:
            self._closed.add(artifact_id)
        elif not update.append:
            self._closed.discard(artifact_id)  # a replacement may be appended to again
        self.size += size or update.ByteSize()


def _extend(artifact: pb.Artifact, chunk: pb.Artifact) -> None:
    # Merging appends parts, replaces what is set and joins metadata. It would list extensions twice.
    if chunk.extensions:
        del artifact.extensions[:]
    artifact.MergeFrom(chunk)


def fold(task: pb.Task, events: Iterable[pb.StreamResponse]) -> None:
    """Apply events from the log to the task, in place."""
    artifacts: TaskArtifacts | None = None
    for event in events:
        match event.WhichOneof("payload"):
            case "artifact_update":
                artifacts = artifacts or TaskArtifacts(task)
                artifacts.apply(event.artifact_update)
            case "status_update":
                apply_status(task, event.status_update.status)
            case "message":
                add_message(task, event.message)
            case "task":
                task.CopyFrom(event.task)
                artifacts = None


def trim(task: pb.Task, history_length: int | None, *, include_artifacts: bool = True, cap: int) -> pb.Task:
    """Keep the last `history_length` messages, or the last `cap` if None. Changes the task that is passed in."""
    keep = cap if history_length is None else history_length
    surplus = len(task.history) - keep
    if surplus > 0:
        del task.history[:surplus]
    if not include_artifacts:
        task.ClearField("artifacts")
    return task
