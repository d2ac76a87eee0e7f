"""A task in pieces, and one that is whole from the beginning, come to the same as folding the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain import pieces
from a2a_server.domain.events import millis, reason_of, status_event, timestamp
from a2a_server.domain.lifecycle import STOPPING
from a2a_server.domain.pieces import Draft
from a2a_server.domain.reducer import fold
from a2a_server.operations.turns.image import TaskImage
from tests.property.messages import NAMES, messages
from tests.property.test_domain_folding import ANSWERS, CHUNKS, SAYINGS, STATES

TIMES = st.integers(0, 253_402_300_799_999)
STATUSES = st.tuples(STATES, TIMES, SAYINGS).map(lambda told: status_event("t", "c", *told))
LOGS = st.lists(st.one_of(CHUNKS, STATUSES, ANSWERS), max_size=12)
MESSAGE = pb.Message(message_id="m", task_id="t", context_id="c", role=pb.ROLE_USER, parts=[pb.Part(text="hello")])
DRAFT = Draft("t", "c", MESSAGE.SerializeToString(), 7)
SUBMITTED = pb.Task(
    id="t",
    context_id="c",
    status=pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED, timestamp=timestamp(7)),
    history=[MESSAGE],
)


def copied(task: pb.Task) -> pb.Task:
    copy = pb.Task()
    copy.CopyFrom(task)
    return copy


def take(image: TaskImage, event: pb.StreamResponse) -> None:
    """As the writer does it, which knows plain statuses by their state and time alone."""
    status = event.status_update.status
    if event.HasField("status_update") and not status.HasField("message"):
        image.fold_plain_status(status.state, millis(status.timestamp))
    else:
        image.fold(event, event.ByteSize())


@given(log=LOGS, begins=st.sampled_from([DRAFT, SUBMITTED]), commits=st.sets(st.integers(0, 11)), data=st.data())
def test_an_image_is_the_log_folded(
    log: list[pb.StreamResponse], begins: pb.Task | Draft, commits: set[int], data: st.DataObject
) -> None:
    image = TaskImage(begins if isinstance(begins, Draft) else copied(begins))
    if data.draw(st.booleans()):
        assert pb.Task.FromString(image.created()) == SUBMITTED
    for number, event in enumerate(log):
        take(image, event)
        if number in commits:
            image.take_head()
            image.take_shelf()
    task = copied(SUBMITTED)
    fold(task, log)
    assert pb.Task.FromString(image.wire()) == task
    assert image.copy() == task
    assert (image.state, image.status_ms) == (task.status.state, millis(task.status.timestamp))
    assert image.messages >= len(task.history)
    del task.artifacts[:]
    assert image.head == task


@given(LOGS)
def test_a_head_is_taken_when_it_has_changed(log: list[pb.StreamResponse]) -> None:
    image, task = TaskImage(DRAFT), copied(SUBMITTED)
    image.created()
    for event in (None, *log):
        if event is not None:
            take(image, event)
            fold(task, [event])
            del task.artifacts[:]
        head = image.take_head()
        assert (head is None) == (event is not None and event.HasField("artifact_update"))
        if head is not None:
            assert pb.Task.FromString(head.task) == task
            assert head[1:] == ("c", task.status.state, millis(task.status.timestamp))


@given(LOGS)
def test_why_the_first_stop_came(log: list[pb.StreamResponse]) -> None:
    image = TaskImage(DRAFT)
    for event in log:
        take(image, event)
    stops = [update.status_update.status for update in log if update.status_update.status.state in STOPPING]
    assert image.stop == (reason_of(stops[0]) if stops else None)


@given(messages(pb.Message), STATES, TIMES, NAMES.filter(bool), NAMES)
def test_pieces_are_what_protobuf_writes(
    message: pb.Message, state: int, at_ms: int, task_id: str, context_id: str
) -> None:
    ids, status = pieces.address(task_id, context_id), pieces.plain_status(state, at_ms)
    task = pb.Task(id=task_id, context_id=context_id, status=pb.TaskStatus.FromString(status), history=[message])
    assert status_event("t", "c", state, at_ms).status_update.status == task.status
    written = pieces.task_of(ids, status, pieces.history_of(message.SerializeToString()))
    assert pb.Task.FromString(written) == task
    assert pb.StreamResponse.FromString(pieces.creation(written)) == pb.StreamResponse(task=task)
    event = status_event(task_id, context_id, state, at_ms)
    assert pieces.update(ids, status) == event.SerializeToString()


@pytest.mark.parametrize("update", [pb.TaskStatusUpdateEvent, pb.TaskArtifactUpdateEvent])
def test_tasks_and_updates_number_their_ids_alike(
    update: type[pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent],
) -> None:
    fields, task = update.DESCRIPTOR.fields_by_name, pb.Task.DESCRIPTOR.fields_by_name
    assert fields["task_id"].number == task["id"].number
    assert fields["context_id"].number == task["context_id"].number
