"""All faults are told at once, each with its place; not more of them than anybody reads."""

from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason, Violation
from a2a_server.protocol.json_v1 import V1
from tests.unit.gateway.codec.everything import Lists, Loop, Maps, Singles


def faults(value: Any, kind: Any) -> dict[str, str]:
    with pytest.raises(A2AError) as caught:
        V1.decode(value, kind)
    assert caught.value.reason is Reason.INVALID_PARAMS
    found = {violation.field: violation.description for violation in caught.value.violations}
    assert len(found) == len(caught.value.violations)
    return found


@pytest.mark.req("JSON-13", "ERRS-05")
def test_every_fault_of_a_request_is_told() -> None:
    message = {
        "message_id": 5,
        "role": "USER",
        "parts": [
            {"text": "sound"},
            {"text": 1, "filename": []},
            3,
            {"raw": "###", "metadata": 0},
            {"data": 1, "url": "u"},
        ],
        "extensions": ["a", 1, None],
        "taskId": {},
    }
    request = {"message": message, "configuration": {"historyLength": 2**31, "returnImmediately": 0}, "metadata": []}
    assert faults(request, pb.SendMessageRequest) == {
        "message.messageId": "must be a string, got 5",
        "message.taskId": "must be a string, got an object",
        "message.role": 'must be one of ROLE_USER, ROLE_AGENT, got "USER"',
        "message.parts[1].text": "must be a string, got 1",
        "message.parts[1].filename": "must be a string, got a list",
        "message.parts[2]": "must be an object, got 3",
        "message.parts[3].raw": 'must be base64, got "###"',
        "message.parts[3].metadata": "must be an object, got 0",
        "message.parts[4].data": "can't be given together with url; only one of text, raw, url, data may be",
        "message.extensions[1]": "must be a string, got 1",
        "message.extensions[2]": "must be a string, got null",
        "configuration.historyLength": "must be a whole number from -2147483648 to 2147483647, got 2147483648",
        "configuration.returnImmediately": "must be true or false, got 0",
        "metadata": "must be an object, got a list",
    }


@pytest.mark.req("JSON-13")
def test_an_unknown_state_lists_those_that_exist() -> None:
    assert faults({"status": "TASK_STATE_DONE"}, pb.ListTasksRequest) == {
        "status": "must be one of TASK_STATE_SUBMITTED, TASK_STATE_WORKING, TASK_STATE_COMPLETED, TASK_STATE_FAILED, "
        "TASK_STATE_CANCELED, TASK_STATE_INPUT_REQUIRED, TASK_STATE_REJECTED, TASK_STATE_AUTH_REQUIRED, "
        'got "TASK_STATE_DONE"'
    }


def test_faults_in_maps_and_free_form_values_are_told_with_their_keys() -> None:
    inner = {"odd key": {"some_name": 3}, 'a"b': 5, "c" * 50: 5}
    maps = {"stringInner": inner, "stringInt32": [], "int32Inner": {"x": 0}}
    assert faults(maps, Maps) == {
        'stringInner["odd key"].someName': "must be a string, got 3",
        'stringInner["a\\"b"]': "must be an object, got 5",
        f'stringInner["{"c" * 40}"…]': "must be an object, got 5",
        "stringInt32": "must be an object, got a list",
        'int32Inner["x"]': 'must be named by a whole number from -2147483648 to 2147483647, got "x"',
    }
    assert faults({"oneStruct": {"a": {"b": [1, "\udc00"]}, "c": "\udc00"}}, Singles) == {
        'oneStruct["a"]["b"][1]': 'must hold no lone surrogates, got "\\udc00"',
        'oneStruct["c"]': 'must hold no lone surrogates, got "\\udc00"',
    }


def test_lists_tell_which_elements_are_wrong() -> None:
    assert list(faults({"manyInt32": [1, "a", True], "manyInner": {}, "manyString": "ab"}, Lists)) == [
        "manyInt32[1]", "manyInt32[2]", "manyString", "manyInner",
    ]  # fmt: skip
    assert list(faults({"manyStruct": [{}, 1], "manyColour": [7, 7.5], "manyBool": [0]}, Lists)) == [
        "manyBool[0]", "manyStruct[1]", "manyColour[1]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        ([], "a list"),
        ("x" * 50, f'"{"x" * 40}"…'),
        (0.5, "0.5"),
        (True, "true"),
        ("\ud800", '"\\ud800"'),
    ],
)
def test_a_body_of_the_wrong_kind_has_no_field_to_name(value: Any, shown: str) -> None:
    with pytest.raises(A2AError) as caught:
        V1.decode(value, pb.Message)
    assert caught.value.violations == (Violation("", f"must be an object, got {shown}"),)
    assert caught.value.message == f"The JSON must be an object, got {shown}."


def test_a_hundred_faults_are_enough() -> None:
    wrong = [{"text": 1}, {"text": 1, "filename": 2}] * 10_000
    fields = list(faults({"message": {"messageId": 1, "parts": wrong, "extensions": wrong}}, pb.SendMessageRequest))
    assert len(fields) == 100
    assert fields[:3] == ["message.messageId", "message.parts[0].text", "message.parts[1].text"]
    for value, kind in (
        ({"manyInt32": ["x"] * 200}, Lists),
        ({"stringInt32": {str(number): "x" for number in range(200)}}, Maps),
        ({"oneStruct": {"a": ["\ud800"] * 200}}, Singles),
    ):
        assert len(faults(value, kind)) == 100


def test_faults_deep_inside_do_not_multiply_the_work() -> None:
    value: dict[str, Any] = {"name": 5}
    for _ in range(60):
        value = {"again": value, "na_me": 1}
    assert faults(value, Loop) == {".".join(["again"] * 60 + ["name"]): "must be a string, got 5"}
