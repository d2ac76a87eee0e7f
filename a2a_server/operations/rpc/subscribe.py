"""SubscribeToTask: the task as it is, or what a cursor has not seen; then all that follows (spec: SUBS, RPLY)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.validation import check_subscribe
from a2a_server.operations.call import Call, Entries
from a2a_server.operations.capabilities import Capabilities
from a2a_server.operations.log.task_stream import Replay, cursor_of, standing_of
from a2a_server.operations.rpc.stream import Relay
from a2a_server.operations.turns.registry import LiveTurns, shutting_down
from a2a_server.protocol.errors import A2AError, Reason


@dataclass(frozen=True, slots=True)
class SubscribeToTask:
    """The reader is opened before the snapshot is taken: what is written in between waits for it (SUBS-02)."""

    relay: Relay
    capabilities: Capabilities
    live_turns: LiveTurns
    replay: Replay

    async def __call__(self, call: Call, request: pb.SubscribeToTaskRequest, /) -> AsyncIterator[Entries]:
        self.capabilities.require_streaming()
        check_subscribe(request)
        cursor = cursor_of(call.cursor)
        if self.live_turns.draining:
            raise shutting_down()
        with self.relay.services.log.reader(request.id, 0) as reader:
            record = await self.relay.services.find(call.scope, request.id)
            standing = standing_of(record)
            if cursor is not None:
                del record  # here and below: it may take long until the task ends, and be much
                async for entries in self.replay(reader, standing, cursor, call.take):
                    yield entries
                return
            if standing.over:
                raise TaskOverError(record.task)
            reader.position = standing.number
            first = self.relay.first(record.task, standing.number, None)
            del record, standing
            yield first
            del first
            async for entries in self.relay.follow(reader, call.take):
                yield entries


class TaskOverError(A2AError):
    """There is nothing to subscribe to: the task is finished (SUBS-03). In 0.3 that is no error (LGRP-03)."""

    def __init__(self, task: pb.Task) -> None:
        self.task_id = task.id
        state = pb.TaskState.Name(task.status.state)
        text = f"The task is {state} and will not change any more. Get it instead."
        super().__init__(Reason.UNSUPPORTED_OPERATION, text, metadata={"taskId": task.id, "state": state})
