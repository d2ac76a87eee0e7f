"""What an agent is told when its turn begins (spec: EXEC-01)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.reducer import fold
from a2a_server.operations.turns.job import Job
from a2a_server.operations.turns.writer import TaskWriter
from a2a_server.ports.entry import Entry
from a2a_server.ports.plan import Plan
from a2a_server.ports.turn_request import TurnRequest

_BEGINNING = 2
"""The task and WORKING; a message that came in between would be a third."""


def brief(job: Job, writer: TaskWriter, state: bytes, waiting: Iterable[Job], plan: Plan | None) -> TurnRequest:
    """Everything about the message and its task."""
    call, request = job.call, job.request
    accepted = request.configuration.accepted_output_modes if request.HasField("configuration") else ()
    message = request.message
    return TurnRequest(
        writer.task_id,
        writer.context_id,
        job.number or 1,
        message,
        request.metadata,
        _view(writer, job, waiting),
        call.caller,
        job.references,
        state,
        job.rerun,
        call.scope.tenant,
        call.version,
        call.extensions,
        tuple(accepted) if accepted else (),
        plan,
        call.trace,
    )


def _view(writer: TaskWriter, job: Job, waiting: Iterable[Job]) -> Callable[[], pb.Task]:
    if writer.number == _BEGINNING and (entries := writer.unwritten):
        return partial(_replay, tuple(entries))
    task = writer.image.copy()
    _put_last(task, job, waiting)
    return partial(_itself, task)


def _replay(entries: Sequence[Entry]) -> pb.Task:
    """A new task, whose only message is the one of this turn."""
    task = pb.Task()
    fold(task, (entry.event for entry in entries))
    return task


def _itself(task: pb.Task) -> pb.Task:
    return task


def _put_last(task: pb.Task, job: Job, waiting: Iterable[Job]) -> None:
    """A message joins the history when it arrives. In its turn it comes last, and those that still wait come later.

    What the history withholds from everybody else the agent sees as it came (XTRA-04).
    """
    message = job.request.message
    if task.history and task.history[-1] == message:
        return
    for other in (*(one.kept or one.request.message for one in waiting), job.kept or message):
        places = (index for index in reversed(range(len(task.history))) if task.history[index] == other)
        if (place := next(places, None)) is not None:
            del task.history[place]
    task.history.append(message)
