"""Each object of the draft, exactly as it is written, and what is read beside (wire-0.3, section 9)."""

from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Value

from a2a_proto import a2a_pb2 as pb
from tests.unit.protocol.spelling import DRAFT, faults, read, written
from tests.unit.protocol.test_shapes import ARTIFACT_UPDATE, MESSAGE, STATUS_UPDATE, TASK

DRAFT_MESSAGE = {
    "messageId": "m",
    "contextId": "c",
    "taskId": "t",
    "role": "user",
    "parts": [{"text": "x"}],
    "metadata": {"a": 1},
    "extensions": ["urn:e"],
    "referenceTaskIds": ["r"],
}
DRAFT_TASK = {
    "id": "t",
    "contextId": "c",
    "status": {
        "state": "input-required",
        "message": {"messageId": "q", "role": "agent", "parts": []},
        "timestamp": "2025-01-02T03:04:05.678Z",
    },
    "artifacts": [
        {"artifactId": "a", "name": "n", "description": "d", "parts": [{"text": "x"}], "extensions": ["urn:e"]}
    ],
    "history": [DRAFT_MESSAGE],
    "metadata": {"b": None},
}
DRAFT_STATUS_UPDATE = {"final": False, "taskId": "t", "contextId": "c", "status": {"state": "cancelled"}}
DRAFT_ARTIFACT_UPDATE = {
    "taskId": "t",
    "contextId": "c",
    "artifact": {"artifactId": "a", "parts": [{"text": "x"}]},
    "append": True,
    "lastChunk": True,
}
HELD: list[Any] = [
    pytest.param("task", "task", TASK, DRAFT_TASK, id="task"),
    pytest.param("message", "message", MESSAGE, DRAFT_MESSAGE, id="message"),
    pytest.param("status_update", "statusUpdate", STATUS_UPDATE, DRAFT_STATUS_UPDATE, id="status update"),
    pytest.param("artifact_update", "artifactUpdate", ARTIFACT_UPDATE, DRAFT_ARTIFACT_UPDATE, id="artifact update"),
]
HOOK = {"id": "w", "url": "https://h.example", "token": "k", "authentication": {"schemes": ["Bearer"]}}


@pytest.mark.req("DRFT-02")
@pytest.mark.parametrize(("field", "member", "message", "told"), HELD)
def test_what_streams_carry(field: str, member: str, message: Any, told: Any) -> None:
    item = pb.StreamResponse(**{field: message})
    assert written(DRAFT, item) == {member: told}
    assert written(DRAFT, message) == told
    assert read(DRAFT, {member: told}, pb.StreamResponse) == item
    assert read(DRAFT, told, type(message)) == message


@pytest.mark.req("DRFT-02")
def test_final_is_on_every_status_update_and_true_on_the_one_that_ends_the_stream() -> None:
    for codec, final in zip(DRAFT[:2], (False, True), strict=True):
        assert written(codec, STATUS_UPDATE) == {**DRAFT_STATUS_UPDATE, "final": final}
        assert "final" not in written(codec, TASK)
        assert "final" not in written(codec, ARTIFACT_UPDATE)
    assert read(DRAFT, {**DRAFT_STATUS_UPDATE, "final": "whatever"}, type(STATUS_UPDATE)) == STATUS_UPDATE


STATES = {
    "unspecified": pb.TASK_STATE_UNSPECIFIED,
    "submitted": pb.TASK_STATE_SUBMITTED,
    "working": pb.TASK_STATE_WORKING,
    "completed": pb.TASK_STATE_COMPLETED,
    "failed": pb.TASK_STATE_FAILED,
    "cancelled": pb.TASK_STATE_CANCELED,
    "input-required": pb.TASK_STATE_INPUT_REQUIRED,
    "rejected": pb.TASK_STATE_REJECTED,
    "auth-required": pb.TASK_STATE_AUTH_REQUIRED,
}


@pytest.mark.req("DRFT-02")
@pytest.mark.parametrize(("word", "number"), STATES.items())
def test_states(word: str, number: Any) -> None:
    status = pb.TaskStatus(state=number)
    assert written(DRAFT, status) == {"state": word}
    for spelt in (word, pb.TaskState.Name(number)):
        assert read(DRAFT, {"state": spelt}, pb.TaskStatus) == status


def test_every_state_has_a_word() -> None:
    assert [*STATES.values()] == pb.TaskState.values()


@pytest.mark.req("DRFT-02")
@pytest.mark.parametrize(
    ("spelt", "number"),
    [("canceled", 5), ("TASK_STATE_CANCELLED", 5), ("unknown", 0), ("started", 1), ("INPUT_REQUIRED", 6)],
)
def test_states_of_other_versions_are_read(spelt: str, number: Any) -> None:
    assert read(DRAFT, {"state": spelt}, pb.TaskStatus) == pb.TaskStatus(state=number)


def test_a_state_that_nobody_has_is_refused() -> None:
    words = ", ".join([*[*STATES][1:], "unspecified"])
    assert faults(DRAFT, {"state": "done"}, pb.TaskStatus) == {"state": f'must be one of {words}, got "done"'}


@pytest.mark.req("DRFT-02")
@pytest.mark.parametrize("role", ["user", "ROLE_USER"])
def test_roles(role: str) -> None:
    message = read(DRAFT, {"role": role}, pb.Message)
    assert message.role == pb.ROLE_USER
    assert written(DRAFT, message)["role"] == "user"


PARTS: list[Any] = [
    ({"text": "x"}, pb.Part(text="x")),
    ({"text": "x", "metadata": {"a": 1}}, pb.Part(text="x", metadata={"a": 1})),
    (
        {"file": {"fileWithUri": "https://f.example", "name": "n", "mediaType": "a/b"}},
        pb.Part(url="https://f.example", filename="n", media_type="a/b"),
    ),
    ({"file": {"fileWithBytes": "AP8="}, "metadata": {"a": 1}}, pb.Part(raw=b"\0\xff", metadata={"a": 1})),
    ({"data": {"data": {"a": 1}}}, pb.Part(data=json_format.Parse('{"a": 1}', Value()))),
    (
        {"data": {"data": {"value": [1]}}, "metadata": {"data_part_compat": True}},
        pb.Part(data=json_format.Parse("[1]", Value())),
    ),
    (
        {"text": "x", "metadata": {"x-a2a-compat": {"mediaType": "text/markdown", "filename": "n"}}},
        pb.Part(text="x", media_type="text/markdown", filename="n"),
    ),
]


@pytest.mark.req("DRFT-02")
@pytest.mark.parametrize(("told", "part"), PARTS, ids=str)
def test_parts(told: Any, part: Any) -> None:
    assert written(DRAFT, part) == told
    assert read(DRAFT, told, pb.Part) == part


def test_a_file_may_be_typed_as_0_3_does_and_kind_is_ignored() -> None:
    file = {"fileWithUri": "u", "mimeType": "a/b"}
    assert read(DRAFT, {"kind": "file", "file": file}, pb.Part) == pb.Part(url="u", media_type="a/b")


@pytest.mark.parametrize(
    ("told", "field", "right"),
    [
        ({"raw": "eA=="}, "raw", 'is A2A 1.0\'s; the draft has "file": {"fileWithBytes": …}'),
        ({"url": "u"}, "url", 'is A2A 1.0\'s; the draft has "file": {"fileWithUri": …}'),
        ({"text": "x", "mediaType": "a/b"}, "mediaType", 'is A2A 1.0\'s; the draft has "mediaType" inside "file"'),
        ({"file": {"uri": "u"}}, "file.uri", 'is A2A 0.3\'s; the draft has "fileWithUri"'),
        ({"file": {"fileWithUri": "u", "filename": "n"}}, "file.filename", 'is A2A 1.0\'s; the draft has "name"'),
        (
            {"data": {"a": 1}},
            "data.data",
            "is required: data holds its object in a member of the same name",
        ),
    ],
)
def test_parts_of_other_versions_are_refused(told: Any, field: str, right: str) -> None:
    assert faults(DRAFT, told, pb.Part)[field] == right


@pytest.mark.req("DRFT-02", "BLK-04")
@pytest.mark.parametrize(
    ("configuration", "returns"), [(..., True), ({}, True), ({"blocking": False}, True), ({"blocking": True}, False)]
)
def test_a_send_waits_only_if_it_says_so(configuration: Any, *, returns: bool) -> None:
    told = {"message": {}} if configuration is ... else {"message": {}, "configuration": configuration}
    assert read(DRAFT, told, pb.SendMessageRequest).configuration.return_immediately is returns


@pytest.mark.req("DRFT-02")
def test_all_of_a_send() -> None:
    told = {
        "tenant": "north",
        "message": DRAFT_MESSAGE,
        "configuration": {
            "acceptedOutputModes": ["text/plain"],
            "pushNotificationConfig": HOOK,
            "historyLength": 0,
            "blocking": True,
        },
        "metadata": {"skill": "s"},
    }
    request = read(DRAFT, told, pb.SendMessageRequest)
    configuration = request.configuration
    assert (request.tenant, request.message, dict(request.metadata)) == ("north", MESSAGE, {"skill": "s"})
    assert (configuration.HasField("history_length"), configuration.history_length) == (True, 0)
    assert configuration.task_push_notification_config == pb.TaskPushNotificationConfig(
        id="w", url="https://h.example", token="k", authentication={"scheme": "Bearer"}
    )
    assert written(DRAFT, request) == told


@pytest.mark.req("DRFT-02", "XTRA-01")
def test_input_requests_are_carried_and_no_members() -> None:
    right = "is A2A 0.3's; the draft has the extension urn:a2a-server:input-request:v1, in metadata"
    assert faults(DRAFT, {"inputRequest": {"prompt": "x"}}, pb.Message) == {"inputRequest": right}


@pytest.mark.parametrize(
    ("configuration", "field", "right"),
    [
        ({"returnImmediately": True}, "returnImmediately", 'is A2A 1.0\'s; the draft has "blocking", which is the'),
        ({"taskPushNotificationConfig": {}}, "taskPushNotificationConfig", "is A2A 1.0's; the draft has \"pushNot"),
        ({"pushNotification": {}}, "pushNotification", 'is A2A 0.3\'s; the draft has "pushNotificationConfig"'),
    ],
)
def test_configurations_of_other_versions_are_refused(configuration: Any, field: str, right: str) -> None:
    found = faults(DRAFT, {"configuration": configuration}, pb.SendMessageRequest)
    assert found[f"configuration.{field}"].startswith(right)


@pytest.mark.req("DRFT-02")
@pytest.mark.parametrize("told", [1_700_000_000_123, "1700000000123", 1_700_000_000_123.0])
def test_lists_are_filtered_by_milliseconds(told: Any) -> None:
    request = read(DRAFT, {"lastUpdatedAfter": told, "status": "cancelled"}, pb.ListTasksRequest)
    assert request.status_timestamp_after.ToJsonString() == "2023-11-14T22:13:20.123Z"
    assert request.status == pb.TASK_STATE_CANCELED


@pytest.mark.parametrize("told", ["yesterday", 1.5, 10**18, -(10**18), True, "2023-11-14T22:13:20Z"])
def test_what_is_no_time_is_refused(told: Any) -> None:
    found = faults(DRAFT, {"lastUpdatedAfter": told}, pb.ListTasksRequest)
    assert found["lastUpdatedAfter"].startswith("must be milliseconds since 1970, such as 1767225600000, got ")


def test_the_filter_of_1_0_is_refused() -> None:
    found = faults(DRAFT, {"statusTimestampAfter": "2023-11-14T22:13:20Z"}, pb.ListTasksRequest)
    right = 'is A2A 1.0\'s; the draft has "lastUpdatedAfter", in milliseconds since 1970'
    assert found == {"statusTimestampAfter": right}


@pytest.mark.req("DRFT-02")
def test_lists_and_nothing() -> None:
    page = pb.ListTasksResponse(tasks=[TASK], next_page_token="p", page_size=1, total_size=2)
    assert written(DRAFT, page) == {"tasks": [DRAFT_TASK], "nextPageToken": "p", "pageSize": 1, "totalSize": 2}
    empty = {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0}
    assert written(DRAFT, pb.ListTasksResponse()) == empty
    assert written(DRAFT, Empty()) == {}
