"""Events as they are made, what waiting readers make of them, and the table of states."""

from itertools import product
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import (
    closes_stream,
    millis,
    next_status_ms,
    reason_of,
    set_time,
    state_of,
    status_update,
    stops_turn,
)
from a2a_server.domain.lifecycle import ACTIVE, INTERRUPTED, MOVES, STOPPING, TERMINAL, may_move
from tests.support.events import agent_message, artifact_event, status_event

SUBMITTED, WORKING = pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING
INPUT, AUTH = pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED
COMPLETED, FAILED = pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED
CANCELED, REJECTED = pb.TASK_STATE_CANCELED, pb.TASK_STATE_REJECTED


def status(state: int, metadata: dict[str, Any] | None = None) -> pb.StreamResponse:
    return status_event("t", "c", state, 1, metadata=metadata)


def artifact() -> pb.StreamResponse:
    return artifact_event("t", "c", pb.Artifact(artifact_id="a", parts=[pb.Part(text="x")]))


def test_a_status_update_is_complete() -> None:
    message = agent_message("m", "c", "t", [pb.Part(text="Which one?")])
    event, status = status_update("t", "c", INPUT, 1_700_000_000_123, message)
    update = event.status_update
    assert (update.task_id, update.context_id, update.status) == ("t", "c", status)
    assert status.state == INPUT
    assert status.timestamp.ToJsonString() == "2023-11-14T22:13:20.123Z"
    assert status.message == message


def test_what_is_not_given_is_absent() -> None:
    event, status = status_update("t", "c", WORKING, 1)
    assert not status.HasField("message")
    assert not event.status_update.HasField("metadata")


@pytest.mark.parametrize("at_ms", [0, 1, 999, 1_000, 1_700_000_000_123, -1, -1_500])
def test_times_survive(at_ms: int) -> None:
    stamp = Timestamp()
    set_time(stamp, at_ms)
    assert 0 <= stamp.nanos < 1_000_000_000
    assert millis(stamp) == at_ms


@pytest.mark.parametrize(("previous", "now", "time"), [(5, 9, 9), (9, 5, 9), (7, 7, 7)])
def test_status_times_never_go_back(previous: int, now: int, time: int) -> None:
    assert next_status_ms(previous, now) == time


@pytest.mark.parametrize(
    ("event", "state", "stops", "closes"),
    [
        pytest.param(status(SUBMITTED), SUBMITTED, False, False, id="submitted"),
        pytest.param(status(WORKING), WORKING, False, False, id="working"),
        pytest.param(status(INPUT), INPUT, True, True, id="question"),
        pytest.param(status(AUTH), AUTH, True, False, id="credential-out-of-band"),
        pytest.param(status(AUTH, {"inBand": True}), AUTH, True, True, id="credential-in-band"),
        pytest.param(status(AUTH, {"inBand": False}), AUTH, True, False, id="in-band-denied"),
        pytest.param(status(AUTH, {"inBand": "yes"}), AUTH, True, False, id="in-band-is-a-boolean"),
        pytest.param(status(AUTH, {"other": True}), AUTH, True, False, id="other-metadata"),
        pytest.param(status(COMPLETED), COMPLETED, True, True, id="completed"),
        pytest.param(status(FAILED), FAILED, True, True, id="failed"),
        pytest.param(status(CANCELED), CANCELED, True, True, id="canceled"),
        pytest.param(status(REJECTED), REJECTED, True, True, id="rejected"),
        pytest.param(artifact(), 0, False, False, id="artifact"),
        pytest.param(pb.StreamResponse(message=pb.Message()), 0, False, False, id="message"),
        pytest.param(pb.StreamResponse(), 0, False, False, id="nothing"),
        pytest.param(pb.StreamResponse(task=pb.Task(status={"state": SUBMITTED})), SUBMITTED, False, False, id="task"),
        pytest.param(pb.StreamResponse(task=pb.Task(status={"state": FAILED})), FAILED, True, True, id="failed-task"),
    ],
)
def test_what_an_event_ends(event: pb.StreamResponse, state: int, stops: bool, closes: bool) -> None:  # noqa: FBT001
    before = event.SerializeToString()
    assert state_of(event) == state
    assert stops_turn(event) is stops
    assert closes_stream(event) is closes
    assert event.SerializeToString() == before  # reading changes nothing


@pytest.mark.parametrize(("state", "closes"), [(INPUT, False), (AUTH, False), (COMPLETED, True), (WORKING, False)])
def test_streams_may_stay_open_on_a_question(state: int, closes: bool) -> None:  # noqa: FBT001
    assert closes_stream(status(state), keep_open_on_input=True) is closes


def test_the_reason_of_a_failure() -> None:
    status = pb.TaskStatus(message=agent_message("m", "c", "t", [pb.Part(text="It took too long.")]))
    assert not reason_of(status)
    status.message.metadata["reason"] = "TURN_TIMEOUT"
    assert reason_of(status) == "TURN_TIMEOUT"
    status.message.metadata["reason"] = 7
    assert not reason_of(status)
    assert not reason_of(pb.TaskStatus())


STATES = [int(number) for number in pb.TaskState.values() if number]
OVER = {pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED, pb.TASK_STATE_REJECTED}


def test_every_state_has_its_row_and_its_kind() -> None:
    assert set(MOVES) == {None, *STATES}
    assert sorted([*ACTIVE, *INTERRUPTED, *TERMINAL]) == STATES
    assert {pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED} == INTERRUPTED
    assert OVER == TERMINAL


@pytest.mark.req("STAT-01")
@pytest.mark.parametrize(("old", "new"), list(product(sorted(OVER), [0, *STATES])))
def test_nothing_leaves_a_terminal_state(old: int, new: int) -> None:
    assert not may_move(old, new)


@pytest.mark.req("STAT-02")
@pytest.mark.parametrize(("old", "new"), list(product([None, *STATES], STATES)))
def test_every_pair(old: int | None, new: int) -> None:
    forbidden = (
        old in OVER
        or (new == pb.TASK_STATE_SUBMITTED and old is not None)
        or (new == pb.TASK_STATE_CANCELED and old is None)
    )
    assert may_move(old, new) is not forbidden


@pytest.mark.parametrize("old", [None, 0, 99, *STATES])
@pytest.mark.parametrize("new", [0, 99])
def test_states_without_a_name_are_never_reached(old: int | None, new: int) -> None:
    assert not may_move(old, new)


@pytest.mark.parametrize("state", STATES)
def test_stopping_is_terminal_or_interrupted(state: int) -> None:
    assert (state in TERMINAL) is (state in OVER)
    assert (state in STOPPING) is (state in OVER or state in INTERRUPTED)
