"""Every loss on the lists, shown; and the same lists in the documentation.

That there are no others is for tests/property to show: what `normal` and its like change there is what is listed here.
"""

from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import loads
from a2a_server.protocol.dialects import DRAFT, KIND, KIND_EXTRAS, KIND_REST, PROTO, Spelling, proto
from a2a_server.protocol.dialects.losses import FROM_1_0, FROM_OLDER, Loss
from a2a_server.protocol.errors import A2AError, Reason
from tests.unit.gateway.dialects.telling import read, written

Json = dict[str, Any]
Spellings = tuple[Spelling, ...]

DOCS = Path(__file__).parents[4] / "docs" / "protocol-0.3.md"
RAW = proto(raw_files=True)
OLD: Spellings = (KIND, KIND_REST, PROTO)
ALL: Spellings = (*OLD, DRAFT)
URI = "urn:a2a-server:input-request:v1"
ASKS = {URI: {"inputRequest": {"kind": "input-request", "requestId": "r", "prompt": "p"}}}
NAME = "tasks/t/pushNotificationConfigs/c"
REFUSED: Json = {"refused": True}


def _part(**part: object) -> Json:
    return {"messageId": "m", "parts": [part]}


def _send(**configuration: object) -> Json:
    return {"message": {}, "configuration": configuration}


# Beginning of the row, where it holds, type, and the message before and after: all as 1.0 has them in JSON.
SHOWN_FROM_1_0: list[tuple[str, Spellings, Any, Json, Json]] = [
    (
        "times",
        ALL,
        pb.TaskStatus,
        {"timestamp": "2026-02-03T04:05:06.123456Z"},
        {"timestamp": "2026-02-03T04:05:06.123Z"},
    ),
    ("absent objects", ALL, pb.Task, {"id": "t"}, {"id": "t", "status": {}}),
    ("`Part.mediaType`", ALL, pb.Part, {"data": {}, "mediaType": "application/json"}, {"data": {}}),
    ("`Part.raw`", (RAW,), pb.Part, {"raw": "QVAvKw=="}, {"raw": "AP/+"}),
    ("a part without", (KIND, KIND_REST), pb.Part, {}, {"text": ""}),
    (
        "empty `metadata`",
        ALL,
        pb.Part,
        {"text": "", "filename": "f", "metadata": {}},
        {"text": "", "filename": "f"},
    ),
    ("empty `metadata`", ALL, pb.Part, {"data": 1.0, "metadata": {}}, {"data": 1.0}),
    (
        "empty `metadata`",
        (PROTO,),
        pb.Message,
        {"referenceTaskIds": ["a"], "metadata": {}},
        {"referenceTaskIds": ["a"]},
    ),
    (
        "metadata named",
        ALL,
        pb.Part,
        {"text": "", "metadata": {"x-a2a-compat": {"filename": "f"}}},
        {"text": "", "filename": "f"},
    ),
    (
        "metadata named",
        ALL,
        pb.Part,
        {"data": {"value": 1.0}, "metadata": {"data_part_compat": True}},
        {"data": 1.0},
    ),
    (
        "metadata named",
        (PROTO,),
        pb.Message,
        {"referenceTaskIds": ["a"], "metadata": {"x-a2a-compat": "mine"}},
        {"referenceTaskIds": ["a"]},
    ),
    ("numbers of states", ALL, pb.Message, {"role": 9}, {}),
    ("numbers of states", ALL, pb.TaskStatus, {"state": 77}, {}),
    ("`tenant`", OLD, pb.GetTaskRequest, {"id": "t", "tenant": "n"}, {"id": "t"}),
    (
        "`tenant`",
        ALL,
        pb.TaskPushNotificationConfig,
        {"taskId": "t", "id": "c", "tenant": "n"},
        {"taskId": "t", "id": "c"},
    ),
    (
        "`tenant`",
        ALL,
        pb.SendMessageRequest,
        _send(returnImmediately=True, taskPushNotificationConfig={"taskId": "t", "url": "u:x"}),
        _send(returnImmediately=True, taskPushNotificationConfig={"url": "u:x"}),
    ),
    ("an empty `configuration`", ALL, pb.SendMessageRequest, _send(), {"message": {}}),
    (
        "a slash in",
        (PROTO, DRAFT),
        pb.SendMessageRequest,
        _send(taskPushNotificationConfig={"id": "a/b", "url": "u:x"}),
        REFUSED,
    ),
    ("a slash in", (PROTO, DRAFT), pb.TaskPushNotificationConfig, {"taskId": "t", "id": "a/b"}, REFUSED),
    (
        "`authentication` without",
        ALL,
        pb.TaskPushNotificationConfig,
        {"taskId": "t", "id": "c", "authentication": {}},
        {"taskId": "t", "id": "c"},
    ),
    (
        "the page token",
        (KIND,),
        pb.ListTaskPushNotificationConfigsResponse,
        {"configs": [{"taskId": "t", "id": "c", "url": "u:x"}], "nextPageToken": "n"},
        {"configs": [{"taskId": "t", "id": "c", "url": "u:x"}]},
    ),
    (
        "the page token",
        (KIND,),
        pb.ListTaskPushNotificationConfigsRequest,
        {"taskId": "t", "pageSize": 1, "pageToken": "n"},
        {"taskId": "t"},
    ),
    ("all of a list", OLD, pb.ListTasksResponse, {"nextPageToken": "n", "pageSize": 5, "totalSize": 7}, {}),
    (
        "the place of the extension",
        (KIND_EXTRAS,),
        pb.Message,
        {"parts": [{"text": "p"}], "extensions": [URI, "urn:x"], "metadata": ASKS},
        {"parts": [{"text": "p"}], "extensions": ["urn:x", URI], "metadata": ASKS},
    ),
]

CONFIG = {"url": "u:x", "id": "c"}


def _kind(**message: object) -> Json:
    return {"kind": "message", "messageId": "m", "role": "user", "parts": [], **message}


def _update(kind: Json, **members: object) -> Json:
    return {**kind, "final": False, "taskId": "t", "contextId": "c", "status": {"state": "working"}, **members}


STATUS = {"kind": "status-update"}

# Beginning of the row, where it holds, type, and JSON before and after.
SHOWN_FROM_OLDER: list[tuple[str, Spellings, Any, Json, Json]] = [
    ("`final`", (KIND, KIND_REST), pb.TaskStatusUpdateEvent, _update(STATUS, final=True), _update(STATUS)),
    ("`final`", (DRAFT,), pb.TaskStatusUpdateEvent, _update({}, final=True), _update({})),
    (
        "missing `kind`",
        (KIND, KIND_REST),
        pb.Message,
        {"message_id": "m", "role": "user", "parts": [{"text": "x"}]},
        _kind(parts=[{"kind": "text", "text": "x"}]),
    ),
    ("missing `kind`", (KIND, KIND_REST), pb.TaskStatus, {"state": "TASK_STATE_CANCELLED"}, {"state": "canceled"}),
    ("missing `kind`", (PROTO,), pb.TaskStatus, {"state": "started"}, {"state": "TASK_STATE_SUBMITTED"}),
    (
        "`fileWithBytes`",
        (PROTO,),
        pb.Part,
        {"file": {"fileWithBytes": "AP/+"}},
        {"file": {"fileWithBytes": "QVAvKw=="}},
    ),
    (
        "a configuration",
        (KIND, KIND_REST),
        pb.SendMessageRequest,
        {"message": _kind(), "configuration": {"blocking": True}},
        {"message": _kind()},
    ),
    (
        "a configuration",
        (PROTO,),
        pb.SendMessageRequest,
        {"message": {"messageId": "m", "role": "ROLE_USER", "content": []}, "configuration": {"blocking": True}},
        {"message": {"messageId": "m", "role": "ROLE_USER", "content": []}},
    ),
    (
        "`authentication.schemes`",
        (KIND, KIND_REST),
        pb.TaskPushNotificationConfig,
        {"taskId": "t", "pushNotificationConfig": {**CONFIG, "authentication": {"schemes": ["A", "B"]}}},
        {"taskId": "t", "pushNotificationConfig": {**CONFIG, "authentication": {"schemes": ["A"]}}},
    ),
    (
        "`authentication` without",
        (KIND, KIND_REST),
        pb.TaskPushNotificationConfig,
        {"taskId": "t", "pushNotificationConfig": {**CONFIG, "authentication": {}}},
        {"taskId": "t", "pushNotificationConfig": CONFIG},
    ),
    (
        "a push config's id",
        (PROTO, DRAFT),
        pb.TaskPushNotificationConfig,
        {"name": NAME, "pushNotificationConfig": {"url": "u:x"}},
        {"name": NAME, "pushNotificationConfig": CONFIG},
    ),
    (
        "a push config's id",
        (KIND, KIND_REST),
        pb.TaskPushNotificationConfig,
        {"taskId": "t", "pushNotificationConfigId": "c", "pushNotificationConfig": {"url": "u:x"}},
        {"taskId": "t", "pushNotificationConfig": CONFIG},
    ),
    ("`metadata` of get", OLD, pb.GetTaskRequest, {"id": "t", "metadata": {"a": 1}}, {"id": "t"}),
    ("`metadata` of get", OLD, pb.SubscribeToTaskRequest, {"id": "t", "metadata": {"a": 1}}, {"id": "t"}),
    (
        "members with",
        (KIND, KIND_REST),
        pb.Message,
        _kind(contextId="", extensions=[], taskId=None),
        _kind(),
    ),
    (
        "times without",
        (KIND, KIND_REST),
        pb.TaskStatus,
        {"state": "working", "timestamp": "2026-02-03T04:05:06"},
        {"state": "working", "timestamp": "2026-02-03T04:05:06.000Z"},
    ),
    (
        "times without",
        (KIND, KIND_REST),
        pb.TaskStatus,
        {"state": "working", "timestamp": "2026-02-03T04:05:06+01:00"},
        {"state": "working", "timestamp": "2026-02-03T03:05:06.000Z"},
    ),
]


def _row(losses: tuple[Loss, ...], start: str) -> Loss:
    [loss] = [loss for loss in losses if loss.what.startswith(start)]
    return loss


@pytest.mark.req("LMAP-02", "DRFT-02")
@pytest.mark.parametrize(
    ("start", "spellings", "kind", "before", "after"), SHOWN_FROM_1_0, ids=[row[0] for row in SHOWN_FROM_1_0]
)
def test_shown_from_1_0(start: str, spellings: Spellings, kind: Any, before: Json, after: Json) -> None:
    message = ParseDict(before, kind())
    for spelling in spellings:
        for codec in (spelling.codec, spelling.last):
            value = loads(codec.encode(message))
            if after is REFUSED:
                with pytest.raises(A2AError) as refused:
                    codec.decode(value, kind)
                assert refused.value.reason is Reason.INVALID_PARAMS
                assert _row(FROM_1_0, start).becomes.startswith("refused")
            else:
                result = codec.decode(value, kind)
                assert (result, result == message) == (ParseDict(after, kind()), False)


@pytest.mark.req("LMAP-02")
@pytest.mark.parametrize(
    ("start", "spellings", "kind", "before", "after"), SHOWN_FROM_OLDER, ids=[row[0] for row in SHOWN_FROM_OLDER]
)
def test_shown_from_older(start: str, spellings: Spellings, kind: Any, before: Json, after: Json) -> None:
    assert _row(FROM_OLDER, start)
    assert before != after
    for spelling in spellings:
        assert written(spelling, read(spelling, before, kind)) == after


def test_every_loss_is_shown() -> None:
    assert {_row(FROM_1_0, start) for start, *_ in SHOWN_FROM_1_0} == set(FROM_1_0)
    assert {_row(FROM_OLDER, start) for start, *_ in SHOWN_FROM_OLDER} == set(FROM_OLDER)


@pytest.mark.req("DRFT-02")
def test_what_the_draft_says_of_requests_and_lists_survives() -> None:
    for message in (
        pb.GetTaskRequest(id="t", tenant="n"),
        pb.ListTasksResponse(next_page_token="n", page_size=5, total_size=7),
        pb.ListTaskPushNotificationConfigsRequest(task_id="t", page_size=1, page_token="n", tenant="n"),
        pb.Part(),
    ):
        assert read(DRAFT, written(DRAFT, message), type(message)) == message


@pytest.mark.req("LMAP-02")
@pytest.mark.parametrize(
    ("losses", "head"), [(FROM_1_0, "From 1.0 and back:"), (FROM_OLDER, "And from 0.3 and back:")], ids=["1.0", "0.3"]
)
def test_the_documentation_has_the_same_list(losses: tuple[Loss, ...], head: str) -> None:
    rows = "".join(f"| {loss.what} | {loss.becomes} |\n" for loss in losses)
    text = DOCS.read_text(encoding="utf-8") + "\n"
    assert f"{head}\n\n| what | comes back |\n|---|---|\n{rows}\n" in text
