"""States are read in every spelling that was ever in use; one is written."""

from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from tests.unit.protocol.spelling import KIND, KIND_REST, PROTO, Spelling, faults, read, written

KEBAB = {
    0: "unknown",
    1: "submitted",
    2: "working",
    3: "completed",
    4: "failed",
    5: "canceled",
    6: "input-required",
    7: "rejected",
    8: "auth-required",
}


@pytest.mark.req("LOLD-04")
@pytest.mark.parametrize("number", KEBAB)
def test_one_spelling_is_written(number: Any) -> None:
    status = pb.TaskStatus(state=number)
    assert written(KIND, status) == written(KIND_REST, status) == {"state": KEBAB[number]}
    assert written(PROTO, status) == {"state": v03.TaskState.Name(number)}


@pytest.mark.parametrize("spelling", [KIND, KIND_REST, PROTO])
@pytest.mark.parametrize(
    ("number", "spelt"),
    [
        (0, "unknown UNKNOWN unspecified UNSPECIFIED TASK_STATE_UNSPECIFIED TASK_STATE_UNKNOWN task_state_unspecified"),
        (1, "submitted SUBMITTED started STARTED TASK_STATE_SUBMITTED"),
        (2, "working WORKING TASK_STATE_WORKING task_state_working"),
        (5, "canceled cancelled CANCELED CANCELLED TASK_STATE_CANCELED TASK_STATE_CANCELLED"),
        (6, "input-required INPUT-REQUIRED input_required INPUT_REQUIRED TASK_STATE_INPUT_REQUIRED"),
        (8, "auth-required auth_required TASK_STATE_AUTH_REQUIRED"),
    ],
)
def test_all_spellings_are_read(spelling: Spelling, number: int, spelt: str) -> None:
    for word in spelt.split():
        assert read(spelling, {"status": word}, pb.ListTasksRequest).status == number


def test_a_number_without_a_name_is_unknown() -> None:
    status, message = pb.TaskStatus(state=77), pb.Message(role=77)  # type: ignore[arg-type]
    assert (written(KIND, status), written(PROTO, status)) == (
        {"state": "unknown"},
        {"state": "TASK_STATE_UNSPECIFIED"},
    )
    assert (written(KIND, message)["role"], written(PROTO, message)["role"]) == ("unspecified", "ROLE_UNSPECIFIED")


@pytest.mark.parametrize("wrong", ["Working", "inputRequired", "", "done", " working", 2, "2", True, [], {}])
def test_what_is_no_state_is_told_all_that_are(wrong: Any) -> None:
    (said,) = faults(KIND, {"status": wrong}, pb.ListTasksRequest).values()
    states = "submitted, working, completed, failed, canceled, input-required, rejected, auth-required, unknown"
    assert said.startswith(f"must be one of {states}, got ")


def test_the_proto_has_numbers_as_protojson_has() -> None:
    for told in (2, "2", 2.0):
        assert read(PROTO, {"status": told}, pb.ListTasksRequest).status == pb.TASK_STATE_WORKING
    assert read(PROTO, {"role": 1}, pb.Message).role == pb.ROLE_USER
    (said,) = faults(PROTO, {"status": "done"}, pb.ListTasksRequest).values()
    assert said.startswith("must be one of TASK_STATE_SUBMITTED, TASK_STATE_WORKING, ")
    assert "TASK_STATE_CANCELLED" in said


@pytest.mark.req("LRES-05")
@pytest.mark.parametrize(
    ("spelling", "right", "wrong", "expected"),
    [
        (KIND, ["user", "agent", "unspecified"], ["ROLE_USER", "USER", "assistant", 1, None], "user or agent"),
        (PROTO, ["ROLE_USER", "ROLE_AGENT", "ROLE_UNSPECIFIED"], ["user", "role_user", []], "ROLE_USER or ROLE_AGENT"),
    ],
)
def test_roles_are_those_of_the_spelling(spelling: Spelling, right: Any, wrong: Any, expected: str) -> None:
    assert [read(spelling, {"role": role}, pb.Message).role for role in right] == [
        pb.Role.Value(f"ROLE_{role.removeprefix('ROLE_').upper()}") for role in right
    ]
    for role in wrong:
        if role is not None:
            assert faults(spelling, {"role": role}, pb.Message)["role"].startswith(f"must be {expected}, got ")
