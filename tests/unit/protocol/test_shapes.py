"""Each object of 0.3, exactly as it is written, in all spellings."""

from typing import Any

import orjson
import pytest
from google.protobuf.empty_pb2 import Empty

from a2a_proto import a2a_pb2 as pb
from tests.unit.protocol.spelling import KIND, KIND_REST, PROTO, V1, Spelling, faults, read, written

MESSAGE = pb.Message(
    message_id="m",
    context_id="c",
    task_id="t",
    role=pb.ROLE_USER,
    parts=[{"text": "x"}],
    metadata={"a": 1},
    extensions=["urn:e"],
    reference_task_ids=["r"],
)
STATUS = pb.TaskStatus(state=pb.TASK_STATE_INPUT_REQUIRED, message=pb.Message(message_id="q", role=pb.ROLE_AGENT))
STATUS.timestamp.FromJsonString("2025-01-02T03:04:05.678Z")
TASK = pb.Task(
    id="t",
    context_id="c",
    status=STATUS,
    artifacts=[
        {"artifact_id": "a", "name": "n", "description": "d", "parts": [{"text": "x"}], "extensions": ["urn:e"]}
    ],
    history=[MESSAGE],
    metadata={"b": None},
)
STATUS_UPDATE = pb.TaskStatusUpdateEvent(task_id="t", context_id="c", status={"state": pb.TASK_STATE_CANCELED})
ARTIFACT_UPDATE = pb.TaskArtifactUpdateEvent(
    task_id="t", context_id="c", artifact={"artifact_id": "a", "parts": [{"text": "x"}]}, append=True, last_chunk=True
)

KIND_MESSAGE = {
    "kind": "message",
    "messageId": "m",
    "contextId": "c",
    "taskId": "t",
    "role": "user",
    "parts": [{"kind": "text", "text": "x"}],
    "metadata": {"a": 1},
    "extensions": ["urn:e"],
    "referenceTaskIds": ["r"],
}
KIND_TASK = {
    "kind": "task",
    "id": "t",
    "contextId": "c",
    "status": {
        "state": "input-required",
        "message": {"kind": "message", "messageId": "q", "role": "agent", "parts": []},
        "timestamp": "2025-01-02T03:04:05.678Z",
    },
    "artifacts": [
        {
            "artifactId": "a",
            "name": "n",
            "description": "d",
            "parts": [{"kind": "text", "text": "x"}],
            "extensions": ["urn:e"],
        }
    ],
    "history": [KIND_MESSAGE],
    "metadata": {"b": None},
}
KIND_STATUS_UPDATE = {
    "kind": "status-update",
    "final": False,
    "taskId": "t",
    "contextId": "c",
    "status": {"state": "canceled"},
}
KIND_ARTIFACT_UPDATE = {
    "kind": "artifact-update",
    "taskId": "t",
    "contextId": "c",
    "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]},
    "append": True,
    "lastChunk": True,
}

PROTO_MESSAGE = {
    "messageId": "m",
    "contextId": "c",
    "taskId": "t",
    "role": "ROLE_USER",
    "content": [{"text": "x"}],
    "metadata": {"a": 1, "x-a2a-compat": {"referenceTaskIds": ["r"]}},
    "extensions": ["urn:e"],
}
PROTO_TASK = {
    "id": "t",
    "contextId": "c",
    "status": {
        "state": "TASK_STATE_INPUT_REQUIRED",
        "message": {"messageId": "q", "role": "ROLE_AGENT", "content": []},
        "timestamp": "2025-01-02T03:04:05.678Z",
    },
    "artifacts": [
        {"artifactId": "a", "name": "n", "description": "d", "parts": [{"text": "x"}], "extensions": ["urn:e"]}
    ],
    "history": [PROTO_MESSAGE],
    "metadata": {"b": None},
}
PROTO_STATUS_UPDATE = {
    "final": False,
    "taskId": "t",
    "contextId": "c",
    "status": {"state": "TASK_STATE_CANCELLED"},
}
PROTO_ARTIFACT_UPDATE = {
    "taskId": "t",
    "contextId": "c",
    "artifact": {"artifactId": "a", "parts": [{"text": "x"}]},
    "append": True,
    "lastChunk": True,
}

AFTER = "statusTimestampAfter"
HELD: list[Any] = [
    pytest.param("task", TASK, KIND_TASK, PROTO_TASK, id="task"),
    pytest.param("message", MESSAGE, KIND_MESSAGE, PROTO_MESSAGE, id="message"),
    pytest.param("status_update", STATUS_UPDATE, KIND_STATUS_UPDATE, PROTO_STATUS_UPDATE, id="status update"),
    pytest.param("artifact_update", ARTIFACT_UPDATE, KIND_ARTIFACT_UPDATE, PROTO_ARTIFACT_UPDATE, id="artifact update"),
]


@pytest.mark.req("LRPC-02", "LRPC-03", "LRPC-08", "LRES-04", "LRES-05")
@pytest.mark.parametrize(("member", "message", "kind", "proto"), HELD)
def test_what_streams_carry(member: str, message: Any, kind: Any, proto: Any) -> None:
    item = pb.StreamResponse(**{member: message})
    wrapper = next(iter(written(V1, item)))
    for spelling, bare, wrapped in (
        (KIND, kind, kind),
        (KIND_REST, kind, {wrapper: kind}),
        (PROTO, proto, {wrapper: proto}),
    ):
        assert written(spelling, item) == wrapped
        assert written(spelling, message) == bare
    assert next(iter(written(KIND, item))) == "kind"


@pytest.mark.req("LRPC-02", "LRES-04")
@pytest.mark.parametrize(("member", "message", "kind", "proto"), HELD[:2])
def test_what_sends_are_answered(member: str, message: Any, kind: Any, proto: Any) -> None:
    answer = pb.SendMessageResponse(**{member: message})
    for spelling, told in ((KIND, kind), (KIND_REST, {member: kind}), (PROTO, {member: proto})):
        assert written(spelling, answer) == told


def test_names_of_the_proto_that_json_does_not_have_are_read_too() -> None:
    message = pb.Message(message_id="m")
    said = {"message_id": "m"}
    assert read(PROTO, {"request": said}, pb.SendMessageRequest) == pb.SendMessageRequest(message=message)


@pytest.mark.req("LRPC-05")
@pytest.mark.parametrize("spelling", [KIND, KIND_REST, PROTO])
def test_final_is_on_every_status_update_and_true_on_the_one_that_ends_the_stream(spelling: Spelling) -> None:
    wire = pb.StreamResponse(status_update=STATUS_UPDATE).SerializeToString()
    for codec, final in zip(spelling[:2], (b'"final":false', b'"final":true'), strict=True):
        assert final in codec.encode_wire(pb.StreamResponse, wire)
    assert b"final" not in spelling.last.encode(TASK)


@pytest.mark.req("LRPC-03")
def test_what_0_3_requires_is_there_whatever_is_missing() -> None:
    assert written(KIND, pb.Task()) == {"kind": "task", "id": "", "contextId": "", "status": {"state": "unknown"}}
    assert written(KIND, pb.Message(role=pb.ROLE_AGENT)) == {
        "kind": "message",
        "messageId": "",
        "role": "agent",
        "parts": [],
    }
    assert written(KIND, pb.Artifact()) == {"artifactId": "", "parts": []}
    assert written(PROTO, pb.Task()) == {"id": "", "contextId": "", "status": {"state": "TASK_STATE_UNSPECIFIED"}}
    assert written(PROTO, pb.TaskStatusUpdateEvent()) == {
        "final": False,
        "taskId": "",
        "contextId": "",
        "status": {"state": "TASK_STATE_UNSPECIFIED"},
    }


@pytest.mark.req("LRPC-04")
def test_a_missing_kind_of_a_message_is_inferred() -> None:
    bare = {name: item for name, item in KIND_MESSAGE.items() if name != "kind"}
    for told in (KIND_MESSAGE, bare, {**bare, "kind": None}):
        assert read(KIND, told, pb.Message) == MESSAGE
    assert read(PROTO, PROTO_MESSAGE, pb.Message) == MESSAGE


@pytest.mark.req("LRPC-04")
@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        ({"kind": "task"}, pb.Message, 'must be "message", got "task"'),
        ({"kind": "Message"}, pb.Message, 'must be "message", got "Message"'),
        ({"kind": ""}, pb.Message, 'must be "message", got ""'),
        ({"kind": 1}, pb.Message, 'must be "message", got 1'),
    ],
)
def test_a_wrong_kind_is_refused_and_told_what_would_be_right(value: Any, kind: Any, said: str) -> None:
    assert faults(KIND, value, kind) == {"kind": said}


def test_an_answer_of_nothing_is_an_empty_object() -> None:
    for spelling in (KIND, KIND_REST, PROTO):
        assert written(spelling, pb.SendMessageResponse()) == {}


@pytest.mark.req("LRES-08")
def test_lists_of_tasks_are_arrays() -> None:
    listed = pb.ListTasksResponse(tasks=[pb.Task(id="a"), pb.Task(id="b")], total_size=9, next_page_token="more")
    told = written(KIND_REST, listed)
    assert [(task["kind"], task["id"]) for task in told] == [("task", "a"), ("task", "b")]
    assert [task["id"] for task in written(PROTO, listed)] == ["a", "b"]


def test_nothing_is_null_where_there_are_no_wrappers() -> None:
    assert [spelling.codec.encode(Empty()) for spelling in (KIND, KIND_REST, PROTO)] == [b"null", b"{}", b"{}"]


@pytest.mark.parametrize(
    ("record", "ids"),
    [
        ({"referenceTaskIds": ["a", "b"]}, ["a", "b"]),
        ({"referenceTaskIds": []}, []),
        ({"referenceTaskIds": "a"}, []),
        ({"referenceTaskIds": ["a", None]}, []),
        ({"referenceTaskIds": ["a"], "more": 1}, []),
        ([], []),
    ],
)
def test_the_proto_has_references_in_metadata(record: Any, ids: list[str]) -> None:
    told: dict[str, Any] = {"messageId": "m", "metadata": {"x-a2a-compat": record}}
    message = read(PROTO, told, pb.Message)
    assert message.reference_task_ids == ids
    assert message.HasField("metadata") is not bool(ids)
    more = read(PROTO, {**told, "metadata": {**told["metadata"], "own": 1}}, pb.Message)
    assert {*more.metadata.fields} == {"own", *([] if ids else ["x-a2a-compat"])}


def test_references_in_metadata_may_be_wrong() -> None:
    told = {"metadata": {"x-a2a-compat": {"referenceTaskIds": ["\ud800"]}}}
    said = "must hold no lone surrogates"
    assert faults(PROTO, told, pb.Message) == {'metadata["x-a2a-compat"]["referenceTaskIds"][0]': said}
    assert faults(PROTO, 5, pb.Message) == {"": "must be an object, got 5"}


@pytest.mark.parametrize("time", ["2025-01-02T03:04:05", "2025-01-02T03:04:05.000", "2025-01-02T04:04:05+01:00"])
def test_times_without_a_zone_are_utc(time: str) -> None:
    for spelling in (KIND, PROTO):
        asked = read(spelling, {AFTER: time}, pb.ListTasksRequest)
        assert asked.status_timestamp_after.seconds == 1735787045
        said = 'must be a time such as "2026-02-03T04:05:06.789Z"'
        assert faults(spelling, {AFTER: f"{time}x"}, pb.ListTasksRequest) == {AFTER: f'{said}, got "{time}x"'}
        assert faults(spelling, {AFTER: 17}, pb.ListTasksRequest) == {AFTER: f"{said}, got 17"}


def test_what_webhooks_of_0_3_will_be_sent_is_the_task_itself() -> None:
    assert orjson.loads(KIND.codec.encode(TASK)) == KIND_TASK
