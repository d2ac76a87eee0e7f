"""The table of states, against the same rules said in other words."""

from itertools import product

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.lifecycle import ACTIVE, INTERRUPTED, MOVES, TERMINAL, is_stopping, is_terminal, may_move

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
    assert is_terminal(state) is (state in OVER)
    assert is_stopping(state) is (state in OVER or state in INTERRUPTED)
