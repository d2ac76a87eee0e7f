"""What an agent is told when its turn begins (spec: EXEC-01)."""

from __future__ import annotations

from collections.abc import Iterable

from a2a_server.operations.job import Job
from a2a_server.operations.writer import TaskWriter
from a2a_server.ports.agent import TurnRequest
from generated import a2a_pb2 as pb


def brief(job: Job, writer: TaskWriter, state: bytes, waiting: Iterable[Job]) -> TurnRequest:
    """Everything about the message and its task; the task is a copy that the agent owns."""
    call, request = job.call, job.request
    task = writer.image.copy()
    _put_last(task, request.message, waiting)
    return TurnRequest(
        task_id=writer.task_id,
        context_id=writer.context_id,
        number=max(job.number, 1),
        message=request.message,
        metadata=request.metadata,
        task=task,
        references=job.references,
        state=state,
        rerun=job.rerun,
        caller=call.caller,
        tenant=call.scope.tenant,
        version=call.version,
        extensions=call.extensions,
        accepted_output_modes=tuple(request.configuration.accepted_output_modes),
    )


def _put_last(task: pb.Task, message: pb.Message, waiting: Iterable[Job]) -> None:
    """A message joins the history when it arrives. In its turn it comes last, and those that still wait come later."""
    if task.history and task.history[-1] == message:
        return
    for other in (*(job.request.message for job in waiting), message):
        places = (index for index in reversed(range(len(task.history))) if task.history[index] == other)
        if (place := next(places, None)) is not None:
            del task.history[place]
    task.history.append(message)
