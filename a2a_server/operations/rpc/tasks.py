"""GetTask, ListTasks, CancelTask (spec: GET, LIST, CANC, CANX)."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import millis
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.domain.paging import Position, TaskFilter, seal, unseal
from a2a_server.domain.reducer import trim
from a2a_server.domain.validation import check_get, check_list, check_request
from a2a_server.operations.call import Call
from a2a_server.operations.rpc.send import history_length
from a2a_server.operations.services import Services
from a2a_server.operations.turns.idle_tasks import IdleTask
from a2a_server.operations.turns.registry import LiveTurns
from a2a_server.operations.turns.sending import MOST_RETRIES, Sending, changing_too_fast
from a2a_server.ports.journal import AuditKind
from a2a_server.ports.store import StaleWrite, StoredTask, TaskQuery
from a2a_server.protocol.errors import A2AError, Reason

_DEFAULT_PAGE = 50


@dataclass(frozen=True, slots=True)
class GetTask:
    """Returns the task as it is now."""

    services: Services

    async def __call__(self, call: Call, request: pb.GetTaskRequest, /) -> pb.Task:
        check_get(request)
        record = await self.services.find(call.scope, request.id)
        return trim(record.task, history_length(request), cap=self.services.limits.history_cap)


@dataclass(frozen=True, slots=True)
class ListTasks:
    """Returns a page of the caller's tasks, newest status first."""

    services: Services

    async def __call__(self, call: Call, request: pb.ListTasksRequest, /) -> pb.ListTasksResponse:
        check_list(request)
        store = self.services.store
        secret, wanted = await store.secret(), _filter(request)
        after = unseal(secret, call.scope, wanted, request.page_token) if request.page_token else None
        size = request.page_size or _DEFAULT_PAGE
        history, limits, artifacts = history_length(request), self.services.limits, request.include_artifacts
        page = await store.page(TaskQuery(call.scope, wanted, after, size, artifacts, limits.page_bytes))
        token = ""
        if page.more:
            last = page.tasks[-1]
            token = seal(secret, call.scope, wanted, Position(millis(last.status.timestamp), last.id))
        cap = limits.history_cap
        tasks = [trim(task, history, include_artifacts=artifacts, cap=cap) for task in page.tasks]
        return pb.ListTasksResponse(tasks=tasks, next_page_token=token, page_size=size, total_size=page.total)


def _filter(request: pb.ListTasksRequest) -> TaskFilter:
    since = _millis_up(request.status_timestamp_after) if request.HasField("status_timestamp_after") else None
    return TaskFilter(request.context_id, request.status, since)


def _millis_up(stamp: Timestamp) -> int:
    """Round up to milliseconds, so that no status before the wanted time is included (LIST-03)."""
    return millis(stamp) + (1 if stamp.nanos % 1_000_000 else 0)


@dataclass(frozen=True, slots=True)
class CancelTask:
    """Signals a running agent, or cancels a task that waits. Returns the task after the attempt."""

    services: Services
    live_turns: LiveTurns
    sending: Sending

    async def __call__(self, call: Call, request: pb.CancelTaskRequest, /) -> pb.Task:
        check_request(request, request.tenant)
        record = await self._cancel(call, request)
        self.services.audit_change(AuditKind.TASK_CANCELED, call, request.id)
        return trim(record.task, None, cap=self.services.limits.history_cap)

    async def _cancel(self, call: Call, request: pb.CancelTaskRequest) -> StoredTask:
        """Cancel the task. The terminal state that was recorded first stays (CANX-02)."""
        signalled = False
        for _ in range(MOST_RETRIES):
            record = await self.services.find(call.scope, request.id)
            state = record.task.status.state
            if signalled and state == pb.TASK_STATE_CANCELED:
                return record
            if state in TERMINAL:
                name = pb.TaskState.Name(state)
                raise _not_cancelable(request.id, f"The task is {name}; nothing is left to cancel.")
            try:
                if (stopped := await self._stop_turns(call, record, request.metadata)) is not None:
                    signalled = True
                    if not stopped:
                        raise _not_cancelable(request.id, "The agent did not stop, and works on.")
                    continue
                await IdleTask(self.services, call.scope, record, call.trace).move(pb.TASK_STATE_CANCELED)
            except StaleWrite:
                continue
            return await self.services.find(call.scope, request.id)
        raise changing_too_fast()

    async def _stop_turns(self, call: Call, record: StoredTask, metadata: Struct) -> bool | None:
        """Signal the agent, wherever it runs, and wait for it. None if it does not run."""
        if (live := self.live_turns.find(record.task.id)) is not None:
            return await live.cancel(metadata)
        elsewhere = self.sending.elsewhere
        if elsewhere is not None and record.session not in {"", self.services.session.id}:
            return await elsewhere.cancel(call.scope, record, metadata)
        return None


def _not_cancelable(task_id: str, text: str) -> A2AError:
    return A2AError(Reason.TASK_NOT_CANCELABLE, text, metadata={"taskId": task_id})
