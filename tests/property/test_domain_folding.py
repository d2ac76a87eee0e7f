"""However a log is cut into head, artifacts and tail, the same task comes out; and it is the one clients assemble."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import agent_message, artifact_event, status_event, text_part
from a2a_server.domain.reducer import ArtifactShelf, add_message, apply_status, fold
from tests.property.messages import STRUCTS

STATES = st.sampled_from([int(state) for state in pb.TaskState.values() if state])
WORDS = st.sampled_from(["a", "b", "c"])
PARTS = st.lists(WORDS.map(text_part), min_size=1, max_size=2)
SAYINGS = st.none() | st.builds(agent_message, WORDS, st.just("c"), st.just("t"), PARTS)
ARTIFACTS = st.builds(
    pb.Artifact,
    artifact_id=WORDS,
    name=st.sampled_from(["", "n", "m"]),
    description=st.sampled_from(["", "d"]),
    extensions=st.lists(WORDS, max_size=2),
    metadata=st.none() | STRUCTS,
    parts=PARTS,
)
CHUNKS = st.tuples(ARTIFACTS, st.booleans(), st.booleans()).map(
    lambda chunk: artifact_event("t", "c", chunk[0], append=chunk[1], last_chunk=chunk[2])
)
STATUSES = st.tuples(STATES, SAYINGS).map(lambda status: status_event("t", "c", status[0], 1, status[1]))
ANSWERS = st.builds(pb.Message, message_id=WORDS, parts=PARTS).map(lambda message: pb.StreamResponse(message=message))
LOGS = st.lists(st.one_of(CHUNKS, STATUSES, ANSWERS), max_size=12)


def whole(log: list[pb.StreamResponse]) -> pb.Task:
    task = pb.Task(id="t", context_id="c")
    fold(task, log)
    return task


def one_by_one(log: list[pb.StreamResponse]) -> tuple[pb.Task, ArtifactShelf]:
    """As a running turn does it: the head and the artifacts apart."""
    head, shelf = pb.Task(id="t", context_id="c"), ArtifactShelf()
    for event in log:
        if event.HasField("artifact_update"):
            shelf.apply(event.artifact_update)
        elif event.HasField("status_update"):
            apply_status(head, event.status_update.status)
        else:
            add_message(head, event.message)
    return head, shelf


@given(LOGS)
def test_folding_is_applying_one_by_one(log: list[pb.StreamResponse]) -> None:
    head, shelf = one_by_one(log)
    head.artifacts.extend(shelf.task.artifacts)
    assert head == whole(log)


@given(LOGS)
def test_head_and_artifacts_parse_as_the_task(log: list[pb.StreamResponse]) -> None:
    head, shelf = one_by_one(log)
    assert pb.Task.FromString(head.SerializeToString() + shelf.task.SerializeToString()) == whole(log)


@given(LOGS, st.data())
def test_a_newer_head_over_older_artifacts_and_a_tail(log: list[pb.StreamResponse], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))
    head, _ = one_by_one(log)
    _, shelf = one_by_one(log[:cut])
    task = pb.Task.FromString(head.SerializeToString() + shelf.task.SerializeToString())
    fold(task, (event for event in log[cut:] if event.HasField("artifact_update")))
    assert task == whole(log)


@given(LOGS, st.data())
def test_a_log_may_be_folded_in_two(log: list[pb.StreamResponse], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))
    task = whole(log[:cut])
    fold(task, log[cut:])
    assert task == whole(log)


@given(LOGS, LOGS)
def test_a_task_event_starts_anew(before: list[pb.StreamResponse], after: list[pb.StreamResponse]) -> None:
    restart = pb.StreamResponse(task=pb.Task(id="t", context_id="c"))
    assert whole([*before, restart, *after]) == whole(after)


@given(LOGS)
def test_events_are_left_as_they_were(log: list[pb.StreamResponse]) -> None:
    before = [event.SerializeToString(deterministic=True) for event in log]
    whole(log)
    assert [event.SerializeToString(deterministic=True) for event in log] == before


@pytest.mark.req("ARTF-04")
@given(st.lists(CHUNKS, max_size=12))
def test_clients_assemble_what_is_stored(log: list[pb.StreamResponse]) -> None:
    assembled: dict[str, list[str]] = {}
    for event in log:
        update = event.artifact_update
        texts = [part.text for part in update.artifact.parts]
        known = assembled.get(update.artifact.artifact_id, [])
        assembled[update.artifact.artifact_id] = [*known, *texts] if update.append else texts
    stored = [(artifact.artifact_id, [part.text for part in artifact.parts]) for artifact in whole(log).artifacts]
    assert stored == list(assembled.items())


@given(st.lists(CHUNKS, max_size=12))
def test_the_shelf_knows_what_is_closed(log: list[pb.StreamResponse]) -> None:
    _, shelf = one_by_one(log)
    for artifact_id in "abc":
        updates = [e.artifact_update for e in log if e.artifact_update.artifact.artifact_id == artifact_id]
        starts = [index for index, update in enumerate(updates) if not update.append]
        current = updates[starts[-1] :] if starts else updates
        assert shelf.closed(artifact_id) is any(update.last_chunk for update in current)
