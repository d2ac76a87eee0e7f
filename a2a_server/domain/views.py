"""What of a task an answer shows (spec: HIST-01 to HIST-04, LIST-12)."""

from __future__ import annotations

from a2a_proto import a2a_pb2 as pb


def trim(task: pb.Task, history_length: int | None, *, include_artifacts: bool = True, cap: int) -> pb.Task:
    """Cut the caller's own task to the last `history_length` messages, or the last `cap` when there is no wish."""
    keep = cap if history_length is None else history_length
    surplus = len(task.history) - keep
    if surplus > 0:
        del task.history[:surplus]
    if not include_artifacts:
        task.ClearField("artifacts")
    return task
