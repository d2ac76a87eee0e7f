"""Answers that name their task by reference only, as clients in the style of older drafts send them (spec: XTRA-03)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.input_requests import open_request, results_in, sensitive_request
from a2a_server.domain.lifecycle import INPUT
from a2a_server.protocol.errors import Violation, refuse


def addressee(message: pb.Message, references: Sequence[pb.Task]) -> str:
    """The task that a message without one is for: its only reference, if that waits for what the message holds.

    `references` are the tasks that the caller may see; whatever else a message names makes no difference to it.
    """
    if len(message.reference_task_ids) != 1 or not references:
        return ""
    task = references[0]
    request = open_request(task.status) if task.status.state == INPUT else None
    if request is None or not request.request_id:
        return ""
    return task.id if any(result.tool_use_id == request.request_id for result in results_in(message)) else ""


def check_new(message: pb.Message, references: Iterable[pb.Task]) -> None:
    """Refuse to begin a task with what answers a sensitive request of another: its history would tell it (XTRA-04)."""
    for task in references:
        if sensitive_request([task.status.message, *task.history], message) is not None:
            text = (
                f"must be {task.id}: the message answers a sensitive request of that task, and a new task would keep it"
            )
            refuse([Violation("message.task_id", text)])
