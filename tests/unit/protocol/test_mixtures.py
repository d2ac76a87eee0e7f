"""One body, one spelling: what belongs to another is refused where it stands, and told what would be right."""

from typing import Any

import pytest

from a2a_gateway.older.v0_3.requests import spelling_of
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason
from tests.unit.protocol.spelling import KIND, KIND_REST, PROTO, Spelling, faults, read

PROTOS = "is the 0.3 proto's; its JSON schema, which the rest of this is spelt by, has "
SCHEMAS = "is the 0.3 JSON schema's; its proto, which the rest of this is spelt by, has "
NEWER = "is A2A 1.0's; 0.3 has "


@pytest.mark.req("LRES-05", "LRPC-04")
@pytest.mark.parametrize("spelling", [KIND, KIND_REST])
def test_other_spellings_in_the_schemas(spelling: Spelling) -> None:
    part = {"raw": "", "url": "", "mediaType": "a/b", "media_type": "a/b", "filename": "n"}
    message = {
        "kind": "message",
        "role": "ROLE_USER",
        "content": [{"text": "x"}],
        "parts": [part, {"kind": "file", "file": {"uri": "u:x", "mediaType": "a/b", "filename": "n"}}],
    }
    configuration = {
        "returnImmediately": True,
        "task_push_notification_config": {},
        "pushNotificationConfig": {"authentication": {"scheme": "Bearer"}},
    }
    told = {"message": message, "request": {}, "configuration": configuration}
    assert faults(spelling, told, pb.SendMessageRequest) == {
        "message.role": 'must be user or agent, got "ROLE_USER"',
        "message.content": f'{PROTOS}"parts"',
        "message.parts[0].raw": f'{NEWER}"file": {{"bytes": …}}',
        "message.parts[0].url": f'{NEWER}"file": {{"uri": …}}',
        "message.parts[0].mediaType": f'{NEWER}"mimeType" inside "file"',
        "message.parts[0].media_type": f'{NEWER}"mimeType" inside "file"',
        "message.parts[0].filename": f'{NEWER}"name" inside "file"',
        "message.parts[1].file.mediaType": f'{NEWER}"mimeType"',
        "message.parts[1].file.filename": f'{NEWER}"name"',
        "request": f'{PROTOS}"message"',
        "configuration.returnImmediately": f'{NEWER}"blocking", which is the opposite',
        "configuration.task_push_notification_config": f'{NEWER}"pushNotificationConfig"',
        "configuration.pushNotificationConfig.authentication.scheme": f'{NEWER}"schemes", a list',
    }


@pytest.mark.req("LRES-05")
def test_other_spellings_in_the_protos() -> None:
    content = [
        {"kind": "text", "text": "x"},
        {"raw": "", "mediaType": "a/b"},
        {"file": {"bytes": ""}},
        {"file": {"uri": "", "mediaType": "a/b"}},
    ]
    asks = {"kind": "input-request", "prompt": "Which?", "requestId": "r"}
    told = {"message": {"kind": "message", "role": "user", "content": content, "parts": [], "inputRequest": asks}}
    assert faults(PROTO, told, pb.SendMessageRequest) == {
        "message.role": 'must be ROLE_USER or ROLE_AGENT, got "user"',
        "message.kind": f"{SCHEMAS}no such member",
        "message.parts": f'{SCHEMAS}"content"',
        "message.inputRequest": f"{SCHEMAS}the extension urn:a2a-server:input-request:v1, in metadata",
        "message.content[0].kind": f"{SCHEMAS}no such member",
        "message.content[1].raw": f'{NEWER}"file": {{"fileWithBytes": …}}',
        "message.content[1].mediaType": f'{NEWER}"mimeType" inside "file"',
        "message.content[2].file.bytes": f'{SCHEMAS}"fileWithBytes"',
        "message.content[3].file.uri": f'{SCHEMAS}"fileWithUri"',
        "message.content[3].file.mediaType": f'{NEWER}"mimeType"',
    }


@pytest.mark.parametrize("spelling", [KIND, PROTO])
@pytest.mark.parametrize("kind", [pb.GetTaskPushNotificationConfigRequest, pb.DeleteTaskPushNotificationConfigRequest])
def test_requests_about_configs_as_in_1_0(spelling: Spelling, kind: Any) -> None:
    said = f'{NEWER}"id", and "pushNotificationConfigId" for a config'
    assert faults(spelling, {"taskId": "t", "id": "c"}, kind) == {"taskId": said}
    assert faults(spelling, {"task_id": "t"}, kind) == {"task_id": said}


def test_what_is_foreign_to_all_is_ignored() -> None:
    told = {
        "message": {"messageId": "m", "contents": [], "parts": [{"text": "x", "type": "text"}], "content": None},
        "configuration": {"return": True, "returnImmediately": None},
        "kind": "message",
    }
    expected = pb.SendMessageRequest(message={"message_id": "m", "parts": [{"text": "x"}]})
    assert read(KIND, told, pb.SendMessageRequest) == expected


# -- before a spelling is chosen


@pytest.mark.req("LRES-05")
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"message": {"parts": []}}, "kind"),
        ({"message": {"kind": "message"}}, "kind"),
        ({"message": {"role": "agent"}}, "kind"),
        ({"message": {"content": []}}, "proto"),
        ({"message": {"role": "ROLE_USER"}}, "proto"),
        ({"request": {"content": []}}, "proto"),
        ({"message": {"role": "ROLE_USER", "parts": None, "kind": None, "content": [{"kind": "text"}]}}, "proto"),
        ({"message": {"role": 5, "messageId": "m"}}, None),
        ({"message": {"role": ["user"]}}, None),
        ({"message": "content"}, None),
        ({"taskId": "t", "pushNotificationConfig": {}}, "kind"),
        ({"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": {}}, "proto"),
        ({"config": {"name": "tasks/t/pushNotificationConfigs/c"}}, "proto"),
        ({"config": {"taskId": "t"}, "parent": "tasks/t"}, "kind"),
        ({"config": []}, None),
        ({"pushNotificationConfig": {}}, None),
        ({}, None),
        ([], None),
        (None, None),
        ("kind", None),
    ],
)
def test_the_spelling_of_a_body(body: Any, told: str | None) -> None:
    assert spelling_of(body) == told


@pytest.mark.req("LRES-05")
@pytest.mark.parametrize(
    ("body", "first", "wrong", "own", "other"),
    [
        ({"parts": [], "content": []}, "message.parts", ["message.content"], "JSON schema", "proto"),
        ({"role": "ROLE_USER", "parts": []}, "message.parts", ["message.role"], "JSON schema", "proto"),
        ({"kind": "message", "role": "user", "content": []}, "message.content", ["message.kind", "message.role"],
         "proto", "JSON schema"),
        ({"kind": "message", "role": "ROLE_AGENT"}, "message.kind", ["message.role"], "JSON schema", "proto"),
    ],
)  # fmt: skip
def test_a_body_in_both_spellings_is_refused(body: Any, first: str, wrong: list[str], own: str, other: str) -> None:
    with pytest.raises(A2AError) as caught:
        spelling_of({"message": body})
    assert caught.value.reason is Reason.INVALID_PARAMS
    said = f"is spelt as in the {other} of 0.3, but {first} as in the {own}; a body must keep to one of them"
    assert [(fault.field, fault.description) for fault in caught.value.violations] == [(field, said) for field in wrong]
