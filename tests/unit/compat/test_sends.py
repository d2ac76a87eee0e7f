"""What a send asks for, in both versions."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.v0_3 import sends
from a2a_server.protocol.v0_3.options import Options

Json = dict[str, Any]


def up(request: Json, options: Options | None = None) -> Json:
    legacy = ParseDict(request, v03.SendMessageRequest())
    return MessageToDict(sends.upgrade(legacy, options) if options else sends.upgrade(legacy))


def down(request: Json) -> Json:
    return MessageToDict(sends.downgrade(ParseDict(request, pb.SendMessageRequest())))


@pytest.mark.parametrize(
    ("legacy", "request_"),
    [
        pytest.param({"configuration": {"blocking": True}}, {}, id="to-wait-is-1.0's-default"),
        pytest.param({}, {"configuration": {"returnImmediately": True}}, id="not-to-wait-is-0.3's"),
        pytest.param(
            {"configuration": {"blocking": True, "historyLength": 2}},
            {"configuration": {"historyLength": 2}},
            id="some-history",
        ),
        pytest.param(
            {"configuration": {"blocking": True, "historyLength": -1}},
            {"configuration": {"historyLength": -1}},
            id="nonsense-is-for-the-core-to-refuse",
        ),
        pytest.param(
            {"configuration": {"acceptedOutputModes": ["text/plain"]}, "metadata": {"skill": "x"}},
            {
                "configuration": {"acceptedOutputModes": ["text/plain"], "returnImmediately": True},
                "metadata": {"skill": "x"},
            },
            id="modes-and-metadata",
        ),
        pytest.param(
            {
                "message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}], "extensions": ["x:y"]},
                "configuration": {
                    "blocking": True,
                    "pushNotification": {
                        "id": "c",
                        "url": "https://x.example",
                        "token": "t",
                        "authentication": {"schemes": ["Bearer"], "credentials": "s"},
                    },
                },
            },
            {
                "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], "extensions": ["x:y"]},
                "configuration": {
                    "taskPushNotificationConfig": {
                        "id": "c",
                        "url": "https://x.example",
                        "token": "t",
                        "authentication": {"scheme": "Bearer", "credentials": "s"},
                    },
                },
            },
            id="a-webhook",
        ),
        pytest.param(
            {
                "message": {
                    "messageId": "m",
                    "metadata": {"own": 1.0, "x-a2a-compat": {"referenceTaskIds": ["a", "b"]}},
                },
                "configuration": {"blocking": True},
            },
            {"message": {"messageId": "m", "metadata": {"own": 1.0}, "referenceTaskIds": ["a", "b"]}},
            id="references-to-tasks",
        ),
    ],
)
@pytest.mark.req("LMAP-02", "LGRP-04")
def test_the_same_in_both(legacy: Json, request_: Json) -> None:
    assert up(legacy) == request_
    assert down(request_) == legacy


@pytest.mark.parametrize(
    "record",
    [
        pytest.param({"referenceTaskIds": []}, id="empty"),
        pytest.param({"referenceTaskIds": "a"}, id="no-list"),
        pytest.param({"referenceTaskIds": ["a", 1.0]}, id="not-only-ids"),
        pytest.param({"referenceTaskIds": ["a"], "more": "x"}, id="more-than-we-write"),
        pytest.param("mine", id="no-object"),
    ],
)
def test_what_only_looks_like_references_stays(record: object) -> None:
    message = {"messageId": "m", "metadata": {"x-a2a-compat": record}}
    assert up({"message": message, "configuration": {"blocking": True}}) == {"message": message}


def test_whether_a_send_that_says_nothing_waits_is_for_the_operator_to_say() -> None:
    waits = Options(wait_unasked=True)
    assert up({}, waits) == {}
    assert up({"configuration": {}}, waits) == {"configuration": {"returnImmediately": True}}


@pytest.mark.parametrize(
    ("schemes", "chosen"),
    [
        pytest.param(["Negotiate", "bearer", "Basic"], "bearer", id="the-first-that-can-be-served"),
        pytest.param(["Basic"], "Basic", id="in-the-client's-spelling"),
    ],
)
def test_a_scheme_is_chosen(schemes: list[str], chosen: str) -> None:
    request = v03.SendMessageRequest()
    request.configuration.push_notification.authentication.schemes.extend(schemes)
    able = Options(webhook_schemes=frozenset({"basic", "bearer"}))
    config = sends.upgrade(request, able).configuration.task_push_notification_config
    assert config.authentication.scheme == chosen


def test_schemes_that_nobody_can_serve_are_refused() -> None:
    request = ParseDict({"message": {"role": 7}}, v03.SendMessageRequest())
    request.configuration.push_notification.authentication.schemes.extend(["Negotiate"])
    with pytest.raises(A2AError, match="2 fields") as refused:
        sends.upgrade(request, Options(webhook_schemes=frozenset({"basic", "bearer"})))
    first, second = refused.value.violations
    assert first.field == "request.role"
    assert second.field == "configuration.push_notification.authentication.schemes"
    assert second.description == "none of these can be served; the server does basic, bearer"
