"""What a task's writer shows and commits comes to the same as folding the log."""

from __future__ import annotations

import asyncio

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.defaults import LocalWakeups
from a2a_server.adapters.memory import MemoryStore
from a2a_server.domain.events import millis, reason_of
from a2a_server.domain.lifecycle import STOPPING
from a2a_server.domain.reducer import fold
from a2a_server.domain.scope import Scope
from a2a_server.operations.log.readers import EventLog
from a2a_server.operations.log.writer import TaskWriter
from a2a_server.ports.records import Write
from a2a_server.ports.store import StoredTask
from tests.support.events import status_event
from tests.unit.domain.test_reducer import ANSWERS, CHUNKS, SAYINGS, STATES

TIMES = st.integers(0, 253_402_300_799_999)
STATUSES = st.tuples(STATES, TIMES, SAYINGS).map(lambda told: status_event("t", "c", *told))
LOGS = st.lists(st.one_of(CHUNKS, STATUSES, ANSWERS), max_size=12)
MESSAGE = pb.Message(message_id="m", task_id="t", context_id="c", role=pb.ROLE_USER, parts=[pb.Part(text="hello")])
SUBMITTED = pb.Task(
    id="t",
    context_id="c",
    status=pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED, timestamp=Timestamp(nanos=7_000_000)),
    history=[MESSAGE],
)
SCOPE = Scope("", "ann")


class Keeping(MemoryStore):
    """Remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[Write] = []

    async def commit(self, write: Write) -> bool:
        self.writes.append(write)
        return await super().commit(write)


def copied(task: pb.Task) -> pb.Task:
    copy = pb.Task()
    copy.CopyFrom(task)
    return copy


def log_of(store: MemoryStore) -> EventLog:
    return EventLog(store, LocalWakeups(), lag=1_000)


def begun(store: MemoryStore) -> TaskWriter:
    writer = TaskWriter(
        store,
        log_of(store),
        SCOPE,
        StoredTask(copied(SUBMITTED), 0, 0),
        pending_limit=1_000,
    )
    writer.append(pb.StreamResponse(task=SUBMITTED))
    return writer


@given(log=LOGS, commits=st.sets(st.integers(0, 11)), again=st.booleans())
@settings(deadline=None)
def test_a_task_is_its_log_folded(log: list[pb.StreamResponse], commits: set[int], again: bool) -> None:  # noqa: FBT001 - drawn
    async def write() -> tuple[TaskWriter, pb.Task | None]:
        store = MemoryStore()
        writer = begun(store)
        for number, event in enumerate(log):
            writer.append(event)
            if number in commits:
                await writer.settle()
                if again and (record := await store.load(SCOPE, "t")) is not None:
                    writer = TaskWriter(store, log_of(store), SCOPE, record, pending_limit=1_000)
        assert writer.view()() == writer.copy()
        await writer.settle()
        record = await store.load(SCOPE, "t")
        return writer, None if record is None else record.task

    writer, stored = asyncio.run(write())
    task = copied(SUBMITTED)
    fold(task, log)
    assert stored == task
    assert pb.Task.FromString(writer.wire()) == task
    assert writer.copy() == task
    assert (writer.state, writer.status_ms) == (task.status.state, millis(task.status.timestamp))
    del task.artifacts[:]
    assert writer.head == task


@given(LOGS)
@settings(deadline=None)
def test_a_commit_holds_the_head_when_it_has_changed(log: list[pb.StreamResponse]) -> None:
    async def write() -> list[Write]:
        store = Keeping()
        writer = begun(store)
        await writer.settle()
        for event in log:
            writer.append(event)
            await writer.settle()
        return store.writes

    task = copied(SUBMITTED)
    for event, made in zip([None, *log], asyncio.run(write()), strict=True):
        if event is not None:
            fold(task, [event])
            del task.artifacts[:]
        assert (made.head is None) == (event is not None and event.HasField("artifact_update"))
        if made.head is not None:
            assert pb.Task.FromString(made.head.task) == task
            assert made.head[1:] == ("c", task.status.state, millis(task.status.timestamp))


@given(LOGS)
@settings(deadline=None)
def test_why_the_first_stop_came(log: list[pb.StreamResponse]) -> None:
    async def write() -> TaskWriter:
        writer = begun(MemoryStore())
        for event in log:
            writer.append(event)
        return writer

    stops = [event.status_update.status for event in log if event.status_update.status.state in STOPPING]
    assert asyncio.run(write()).stop == (reason_of(stops[0]) if stops else None)
