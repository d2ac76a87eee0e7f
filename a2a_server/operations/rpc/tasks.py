"""GetTask, ListTasks, CancelTask (spec: GET, LIST, CANC)."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.timestamp_pb2 import Timestamp

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import millis
from a2a_server.domain.paging import Position, TaskFilter, seal, unseal
from a2a_server.domain.reducer import trim
from a2a_server.domain.validation import check_cancel, check_get, check_list
from a2a_server.operations.call import Call
from a2a_server.operations.rpc.send import history_length
from a2a_server.operations.services import Workshop
from a2a_server.operations.turns.cancels import Cancels
from a2a_server.operations.turns.runs import Runs
from a2a_server.ports.store import TaskQuery

_DEFAULT_PAGE = 50


@dataclass(frozen=True, slots=True)
class GetTask:
    """The task as it is now."""

    runs: Runs

    async def __call__(self, call: Call, request: pb.GetTaskRequest, /) -> pb.Task:
        check_get(request)
        record = await self.runs.find(call.scope, request.id)
        return trim(record.task, history_length(request), cap=self.runs.shop.limits.history_cap)


@dataclass(frozen=True, slots=True)
class ListTasks:
    """One page of the caller's tasks, newest status first."""

    shop: Workshop

    async def __call__(self, call: Call, request: pb.ListTasksRequest, /) -> pb.ListTasksResponse:
        check_list(request)
        secret, wanted = await self.shop.store.secret(), _filter(request)
        after = unseal(secret, call.scope, wanted, request.page_token) if request.page_token else None
        size = request.page_size if request.HasField("page_size") else _DEFAULT_PAGE
        query = TaskQuery(call.scope, wanted, after, size + 1, request.include_artifacts)
        page = await self.shop.store.page(query)
        token = seal(secret, call.scope, wanted, _position(page.tasks[size - 1])) if len(page.tasks) > size else ""
        history, cap = history_length(request), self.shop.limits.history_cap
        artifacts = request.include_artifacts
        tasks = [trim(task, history, include_artifacts=artifacts, cap=cap) for task in page.tasks[:size]]
        return pb.ListTasksResponse(tasks=tasks, next_page_token=token, page_size=size, total_size=page.total)


@dataclass(frozen=True, slots=True)
class CancelTask:
    """The task after the attempt."""

    cancels: Cancels
    shop: Workshop

    async def __call__(self, call: Call, request: pb.CancelTaskRequest, /) -> pb.Task:
        check_cancel(request)
        record = await self.cancels.cancel(call, request.id, request.metadata)
        return trim(record.task, None, cap=self.shop.limits.history_cap)


def _filter(request: pb.ListTasksRequest) -> TaskFilter:
    since = _millis_up(request.status_timestamp_after) if request.HasField("status_timestamp_after") else None
    return TaskFilter(request.context_id, request.status, since)


def _millis_up(stamp: Timestamp) -> int:
    """Statuses are kept to the millisecond; one that lies before the wanted instant must not slip in (LIST-03)."""
    return millis(stamp) + (1 if stamp.nanos % 1_000_000 else 0)


def _position(task: pb.Task) -> Position:
    return Position(millis(task.status.timestamp), task.id)
