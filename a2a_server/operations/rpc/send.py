"""SendMessage and SendStreamingMessage: give a message its turn, and return the result (SEND, BLK, STRM, EXEC-02)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import wrap
from a2a_server.domain.reducer import trim
from a2a_server.operations.call import Call, Entries
from a2a_server.operations.log.task_stream import TaskStream, TaskStreams
from a2a_server.operations.services import Capabilities, Services
from a2a_server.operations.turns.sending import Sending
from a2a_server.ports.records import Entry
from a2a_server.protocol.errors import task_not_found

_TASK = pb.SendMessageResponse.TASK_FIELD_NUMBER
_MESSAGE = pb.SendMessageResponse.MESSAGE_FIELD_NUMBER


class SendMessage:
    """Waits until the task stops. Without blocking, it returns the task as soon as it exists (BLK-01, BLK-04)."""

    answers: ClassVar = pb.SendMessageResponse  # to mypyc's dataclasses this would be a field

    def __init__(self, services: Services, capabilities: Capabilities, sending: Sending) -> None:
        self.services = services
        self.capabilities = capabilities
        self.sending = sending

    async def __call__(self, call: Call, request: pb.SendMessageRequest, /) -> pb.SendMessageResponse:
        return pb.SendMessageResponse.FromString(await self.wire(call, request))

    async def wire(self, call: Call, request: pb.SendMessageRequest, /) -> bytes:
        plan = self.capabilities.check_send(call, request)
        at_once, history = False, None
        if request.HasField("configuration"):
            at_once, history = request.configuration.return_immediately, history_length(request.configuration)
        pending = await self.sending.start(call, request, plan)
        try:
            if (reply := await pending.reply()) is not None:
                return wrap(_MESSAGE, reply.SerializeToString())
            await (pending.exists() if at_once else pending.stopped())
            cap = self.services.limits.history_cap
            if pending.snapshot is not None and not at_once:
                return wrap(_TASK, trim(pending.snapshot, history, cap=cap).SerializeToString())
            task = pending.wire(cap if history is None else history)
            return wrap(_TASK, task if task is not None else await self._load(call, pending.task_id, history))
        finally:
            pending.close()

    async def _load(self, call: Call, task_id: str, history: int | None) -> bytes:
        record = await self.services.store.load(call.scope, task_id)
        if record is None:  # retention has removed it in the meantime
            raise task_not_found(task_id)
        return trim(record.task, history, cap=self.services.limits.history_cap).SerializeToString()


@dataclass(frozen=True, slots=True)
class SendStreamingMessage:
    """Starts a turn, then streams its durable events."""

    streams: TaskStreams
    capabilities: Capabilities
    sending: Sending

    def __call__(self, call: Call, request: pb.SendMessageRequest, /) -> TaskStream:
        return TaskStream(self.streams, partial(self._begin, call, request))

    async def _begin(self, call: Call, request: pb.SendMessageRequest, stream: TaskStream) -> Entries:
        self.capabilities.require_streaming(call)
        plan = self.capabilities.check_send(call, request)
        pending = await self.sending.start(call, request, plan)
        stream.follow(pending.reader, is_answer=pending.answered_by)
        history = history_length(request.configuration)
        if (reply := await pending.reply()) is not None:
            stream.end()
            return (Entry.of(0, pb.StreamResponse(message=reply)),)
        if pending.answered:
            stream.end()
        if pending.snapshot is not None:
            return self.streams.first(pending.snapshot, pending.reader.position, history)
        created = await pending.reader.created()
        return self.streams.first(created.event.task, created.number, history)


def history_length(request: pb.SendMessageConfiguration | pb.GetTaskRequest | pb.ListTasksRequest) -> int | None:
    """Return the client's limit, if it sets one (HIST-01)."""
    return request.history_length if request.HasField("history_length") else None
