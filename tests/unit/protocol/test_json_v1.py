"""1.0 reads states in every spelling, and tells clients of 0.3 where what they say belongs (CONF-26, CONF-54)."""

from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from tests.unit.protocol.spelling import KIND, KIND_REST, PROTO, V1, Spelling, faults, read, written

OLDER = "is A2A 0.3's; 1.0 has "
OF_0_3 = "is A2A 0.3's and says {}, which this is not; 1.0 has no such member"


@pytest.mark.req("JSON-02", "JSON-03")
@pytest.mark.parametrize(
    ("number", "spelt"),
    [
        (0, ["unknown", "unspecified", "TASK_STATE_UNSPECIFIED", 0, "0"]),
        (1, ["submitted", "started", "TASK_STATE_SUBMITTED", 1, "1"]),
        (5, ["canceled", "cancelled", "CANCELLED", "TASK_STATE_CANCELLED", "TASK_STATE_CANCELED", 5, "5", 5.0]),
        (6, ["input-required", "INPUT_REQUIRED", "TASK_STATE_INPUT_REQUIRED"]),
        (77, [77, "77"]),
    ],
)
def test_states_are_read_in_all_spellings_and_written_in_one(number: Any, spelt: list[Any]) -> None:
    status = pb.TaskStatus(state=number)
    assert written(V1, status) == {"state": number if number == 77 else pb.TaskState.Name(number)}
    for word in spelt:
        assert read(V1, {"state": word}, pb.TaskStatus) == status


@pytest.mark.req("JSON-13")
@pytest.mark.parametrize("wrong", ["Working", "TASK_STATE_DONE", "", True])
def test_other_words_are_told_those_of_1_0(wrong: Any) -> None:
    (said,) = faults(V1, {"status": wrong}, pb.ListTasksRequest).values()
    assert said.startswith("must be one of TASK_STATE_SUBMITTED, ")
    assert "TASK_STATE_CANCELED, " in said
    assert "CANCELLED" not in said


@pytest.mark.req("ERRS-05", "LMAP-03")
@pytest.mark.parametrize(
    ("told", "kind", "right"),
    [
        ({"request": {}}, pb.SendMessageRequest, {"request": '"message"'}),
        (
            {"pushNotificationConfig": {}, "push_notification": {}},
            pb.SendMessageConfiguration,
            {
                "pushNotificationConfig": '"taskPushNotificationConfig"',
                "push_notification": '"taskPushNotificationConfig"',
            },
        ),
        (
            {"content": [{"text": "x"}], "inputRequest": {}},
            pb.Message,
            {"content": '"parts"', "inputRequest": "the extension urn:a2a-server:input-request:v1, in metadata"},
        ),
        (
            {"text": "x", "file": {"uri": "u:x"}},
            pb.Part,
            {"file": '"url" or "raw", with "mediaType" and "filename" beside it'},
        ),
        (
            {"kind": "file", "file": {"bytes": ""}},
            pb.Part,
            {"file": '"url" or "raw", with "mediaType" and "filename" beside it'},
        ),
        ({"schemes": ["Bearer"]}, pb.AuthenticationInfo, {"schemes": '"scheme", a single one'}),
        ({"id": "t", "name": "tasks/u"}, pb.GetTaskRequest, {"name": '"id"'}),
        ({"id": "t", "name": "tasks/u"}, pb.CancelTaskRequest, {"name": '"id"'}),
        ({"id": "t", "name": "tasks/u"}, pb.SubscribeToTaskRequest, {"name": '"id"'}),
        (
            {"taskId": "t", "configId": "c", "pushNotificationConfig": {"url": "u:x"}},
            pb.TaskPushNotificationConfig,
            {"configId": '"id"', "pushNotificationConfig": "its members here"},
        ),
        (
            {"parent": "tasks/t", "config_id": "c", "config": {}, "name": "n"},
            pb.TaskPushNotificationConfig,
            {"parent": '"taskId"', "config_id": '"id"', "config": "its members here", "name": '"taskId" and "id"'},
        ),
        (
            {"id": "t", "pushNotificationConfigId": "c"},
            pb.GetTaskPushNotificationConfigRequest,
            {"pushNotificationConfigId": '"id", and "taskId" for the task'},
        ),
        ({"name": "n"}, pb.DeleteTaskPushNotificationConfigRequest, {"name": '"taskId" and "id"'}),
        (
            {"id": "t", "parent": "tasks/t"},
            pb.ListTaskPushNotificationConfigsRequest,
            {"id": '"taskId"', "parent": '"taskId"'},
        ),
    ],
)
def test_members_of_0_3_are_refused_because_what_they_say_would_be_lost(told: Any, kind: Any, right: Any) -> None:
    assert faults(V1, told, kind) == {name: OLDER + text for name, text in right.items()}
    assert read(V1, dict.fromkeys(told), kind) == kind()


@pytest.mark.req("ERRS-05")
def test_so_is_the_draft_s_filter() -> None:
    said = 'is the draft\'s; 1.0 has "statusTimestampAfter", such as 2026-02-03T04:05:06Z'
    assert faults(V1, {"lastUpdatedAfter": 1}, pb.ListTasksRequest) == {"lastUpdatedAfter": said}


@pytest.mark.req("GEN-06")
@pytest.mark.parametrize(
    ("told", "part"),
    [
        ({"kind": "text", "text": "x"}, pb.Part(text="x")),
        ({"kind": "file", "url": "u:x"}, pb.Part(url="u:x")),
        ({"kind": "file", "raw": "eA=="}, pb.Part(raw=b"x")),
        ({"kind": "data", "data": None}, pb.Part(data={"null_value": 0})),
        ({"kind": None, "text": "x"}, pb.Part(text="x")),
        ({"type": "file", "text": "x"}, pb.Part(text="x")),
    ],
)
def test_a_kind_that_is_right_loses_nothing(told: Any, part: pb.Part) -> None:
    message = {"kind": "message", "messageId": "m", "parts": [told]}
    assert read(V1, message, pb.Message) == pb.Message(message_id="m", parts=[part])


@pytest.mark.req("ERRS-05")
@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"kind": "data", "text": "x"}, '"data"'),
        ({"kind": "text"}, '"text"'),
        ({"kind": "tool-result", "toolUseId": "t"}, '"tool-result"'),
        ({"kind": ["text"], "text": "x"}, "a list"),
    ],
)
def test_a_kind_that_is_wrong_is_refused(told: Any, said: str) -> None:
    assert faults(V1, {"parts": [told]}, pb.Message) == {"parts[0].kind": OF_0_3.format(said)}
    assert faults(V1, {"kind": "task"}, pb.Message) == {"kind": OF_0_3.format('"task"')}


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
