"""What a send asks for, in both versions."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.v0_3.calls import upgrade_send
from a2a_server.protocol.v0_3.messages import DEFAULT, Options, upgrade_message_into
from a2a_server.protocol.v0_3.parts import Found

Json = dict[str, Any]


def up(request: Json, options: Options = DEFAULT) -> Json:
    return MessageToDict(upgrade_send(ParseDict(request, v03.SendMessageRequest()), options))


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


@pytest.mark.req("ERRS-05")
def test_what_cannot_be_mapped_is_told_all_at_once_in_the_words_of_0_3() -> None:
    legacy = ParseDict({"role": 9, "content": [{"text": "fine"}, {"file": {"name": "a"}}, {}]}, v03.Message())
    legacy.content.add().data.SetInParent()
    found = Found()
    upgrade_message_into(pb.Message(), legacy, "", found)
    assert [(fault.field, fault.description) for fault in found] == [
        ("role", "unknown value 9; allowed are ROLE_UNSPECIFIED, ROLE_USER, ROLE_AGENT"),
        ("content[1].file", "must have file_with_uri or file_with_bytes"),
        ("content[3].data.data", "is required: data holds its object in a member of the same name"),
    ]
