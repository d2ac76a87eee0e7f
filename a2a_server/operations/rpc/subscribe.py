"""SubscribeToTask: first the task, or the events after a cursor; then all further events (spec: SUBS, RPLY)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.domain.validation import check_request
from a2a_server.operations.call import Call, Entries
from a2a_server.operations.log.task_stream import TaskStream, TaskStreams
from a2a_server.operations.services import Capabilities, Services
from a2a_server.operations.turns.registry import LiveTurns, shutting_down
from a2a_server.protocol.errors import A2AError, Reason, Violation, refuse
from a2a_server.protocol.names import CURSOR

_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class SubscribeToTask:
    """Streams a task. The reader is opened before the task is read, so that no event in between is lost (SUBS-02)."""

    services: Services
    streams: TaskStreams
    capabilities: Capabilities
    live_turns: LiveTurns

    def __call__(self, call: Call, request: pb.SubscribeToTaskRequest, /) -> TaskStream:
        return TaskStream(self.streams, partial(self._begin, call, request))

    async def _begin(self, call: Call, request: pb.SubscribeToTaskRequest, stream: TaskStream) -> Entries:
        self.capabilities.require_streaming(call)
        check_request(request, request.tenant)
        cursor = cursor_of(call.cursor)
        if self.live_turns.draining:
            raise shutting_down()
        reader = self.services.log.reader(request.id, 0)
        stream.follow(reader)
        if self.live_turns.find(request.id) is None:
            self.services.log.ask_others(request.id)
        record = await self.services.find(call.scope, request.id)
        over = record.task.status.state in TERMINAL
        if cursor is not None:
            return await stream.replay(cursor, record.number, over=over)
        if over:
            raise TaskOverError(record.task)
        reader.position = record.number
        return self.streams.first(record.task, record.number, None)


def cursor_of(values: Sequence[str]) -> int | None:
    """Read `1*18DIGIT`; None without a cursor. An event source that has seen nothing sends an empty value."""
    given = {value for value in values if value}
    if not given:
        return None
    text = given.pop()
    if given or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        refuse([Violation(CURSOR, "must be the number of an event that a stream has shown, such as 17, or 0")])
    return int(text)


class TaskOverError(A2AError):
    """The task is finished, so nobody can subscribe to it (SUBS-03). In 0.3 this is no error (LGRP-03)."""

    def __init__(self, task: pb.Task) -> None:
        self.task_id = task.id
        state = pb.TaskState.Name(task.status.state)
        text = f"The task is {state} and will not change any more. Get it instead."
        super().__init__(Reason.UNSUPPORTED_OPERATION, text, metadata={"taskId": task.id, "state": state})
