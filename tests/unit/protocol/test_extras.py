"""Input requests and tools' parts: read on 0.3 in their own shape, carried as an extension, written back if wanted."""

from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain import input_requests
from a2a_server.protocol.names import INPUT_REQUEST_URI
from tests.unit.protocol.spelling import (
    KIND,
    KIND_EXTRAS,
    KIND_REST,
    KIND_REST_EXTRAS,
    PROTO,
    Spelling,
    faults,
    read,
    written,
)

READING = pytest.mark.parametrize("spelling", [KIND, KIND_EXTRAS, KIND_REST, KIND_REST_EXTRAS])

REQUEST = {"kind": "input-request", "prompt": "Password?", "sensitive": True, "requestId": "r-1"}
QUESTION: dict[str, Any] = {
    "kind": "message",
    "messageId": "m",
    "role": "agent",
    "parts": [{"kind": "text", "text": "Password?"}],
    "inputRequest": REQUEST,
}
RESULT = {"kind": "tool-result", "toolUseId": "r-1", "result": ["x", None]}
USE = {"kind": "tool-use", "name": "grep", "input": {"a": 1}, "metadata": {"own": 1}}


def part(**metadata: Any) -> dict[str, Any]:
    return {"kind": "data", "data": {"toolUseId": "r-1"}, "metadata": metadata}


@pytest.mark.req("XTRA-01")
@READING
def test_an_input_request_is_carried_as_an_extension(spelling: Spelling) -> None:
    message = read(spelling, QUESTION, pb.Message)
    assert message.extensions == [INPUT_REQUEST_URI]
    assert input_requests.request_in(message) == input_requests.InputRequest("r-1", "Password?", sensitive=True)
    assert written(KIND_EXTRAS, message) == written(KIND_REST_EXTRAS, message) == QUESTION
    own = {INPUT_REQUEST_URI: {"inputRequest": REQUEST}}
    assert written(KIND, message) == written(KIND_REST, message)
    assert written(KIND, message)["metadata"] == own
    assert written(PROTO, message)["metadata"] == own


@pytest.mark.req("XTRA-01")
def test_both_sides_call_the_extension_the_same() -> None:
    message = pb.Message(message_id="m", role=pb.ROLE_AGENT, parts=[{"text": "Password?"}])
    input_requests.put_request(message, input_requests.InputRequest("r-1", "Password?", sensitive=True))
    assert written(KIND_EXTRAS, message) == QUESTION
    answer = pb.Part()
    answer.data.struct_value["toolUseId"] = "r-1"
    input_requests.mark(answer, input_requests.TOOL_RESULT)
    assert written(KIND_EXTRAS, answer) == {"kind": "tool-result", "toolUseId": "r-1"}


def test_a_prompt_is_a_text_too_for_who_knows_of_no_requests() -> None:
    for parts, texts in (([], ["Password?"]), ([{"kind": "data", "data": {}}], ["", "Password?"])):
        message = read(KIND, {**QUESTION, "parts": parts}, pb.Message)
        assert [each.text for each in message.parts] == texts
    assert len(read(KIND, QUESTION, pb.Message).parts) == 1
    assert not read(KIND, {**QUESTION, "parts": [], "inputRequest": {"requestId": "r"}}, pb.Message).parts


def test_what_else_is_in_metadata_and_extensions_stays() -> None:
    others: dict[str, Any] = {"metadata": {"own": 1}, "extensions": ["urn:e"]}
    message = read(KIND, QUESTION | others, pb.Message)
    assert message.extensions == ["urn:e", INPUT_REQUEST_URI]
    assert written(KIND_EXTRAS, message) == QUESTION | others
    more: dict[str, Any] = {"metadata": {INPUT_REQUEST_URI: {"more": 1}}, "extensions": [INPUT_REQUEST_URI, "urn:e"]}
    message = read(KIND, QUESTION | more, pb.Message)
    assert written(KIND_EXTRAS, message) == QUESTION | more


@pytest.mark.parametrize(
    ("metadata", "extensions"),
    [
        ({INPUT_REQUEST_URI: {"inputRequest": REQUEST}}, []),  # not as the extension has it
        ({INPUT_REQUEST_URI: {"inputRequest": {**REQUEST, "prompt": 5}}}, [INPUT_REQUEST_URI]),
        ({INPUT_REQUEST_URI: {"inputRequest": {"prompt": "x"}}}, [INPUT_REQUEST_URI]),
        ({INPUT_REQUEST_URI: {"inputRequest": "x"}}, [INPUT_REQUEST_URI]),
        ({INPUT_REQUEST_URI: 5}, [INPUT_REQUEST_URI]),
        ({"own": 1}, [INPUT_REQUEST_URI]),
        (None, [INPUT_REQUEST_URI]),
    ],
)
def test_what_is_no_input_request_is_written_as_it_is(metadata: Any, extensions: list[str]) -> None:
    message = pb.Message(message_id="m", role=pb.ROLE_AGENT, extensions=extensions)
    if metadata:
        message.metadata.update(metadata)
    assert written(KIND_EXTRAS, message) == written(KIND, message)


@pytest.mark.req("XTRA-01")
@READING
@pytest.mark.parametrize("told", [RESULT, USE])
def test_parts_of_tools_are_carried_as_marked_data(spelling: Spelling, told: dict[str, Any]) -> None:
    message = read(spelling, told, pb.Part)
    assert input_requests.kind_of(message) == told["kind"]
    data = {name: item for name, item in told.items() if name not in {"kind", "metadata"}}
    marked = {**told.get("metadata", {}), INPUT_REQUEST_URI: {"partKind": told["kind"]}}
    assert written(KIND, message) == {"kind": "data", "data": data, "metadata": marked}
    assert written(PROTO, message) == {"data": {"data": data}, "metadata": marked}
    assert written(KIND_EXTRAS, message) == written(KIND_REST_EXTRAS, message) == told


@pytest.mark.parametrize(
    "told",
    [
        part(**{INPUT_REQUEST_URI: {"partKind": "other"}}),
        part(**{INPUT_REQUEST_URI: {"partKind": ["tool-result"]}}),
        part(**{INPUT_REQUEST_URI: "tool-result"}),
        part(own=1),
        {**part(**{INPUT_REQUEST_URI: {"partKind": "tool-result"}}), "data": {"toolUseId": 5}},
        {**part(**{INPUT_REQUEST_URI: {"partKind": "tool-use"}}), "data": {"kind": "x"}},
        part(**{INPUT_REQUEST_URI: {"partKind": "tool-use"}, "x-a2a-compat": {"mediaType": "a/b"}}),
        {
            "kind": "data",
            "data": {"value": 1},
            "metadata": {INPUT_REQUEST_URI: {"partKind": "tool-use"}, "data_part_compat": True},
        },
        {"kind": "text", "text": "x", "metadata": {INPUT_REQUEST_URI: {"partKind": "tool-use"}}},
        {"kind": "file", "file": {"uri": "u:x"}, "metadata": {INPUT_REQUEST_URI: {"partKind": "tool-use"}}},
    ],
)
def test_what_is_no_part_of_a_tool_is_written_as_it_is(told: Any) -> None:
    assert written(KIND_EXTRAS, read(KIND, told, pb.Part)) == told


def test_further_marks_of_a_tools_part_stay() -> None:
    told = {**RESULT, "metadata": {INPUT_REQUEST_URI: {"more": 1}}}
    message = read(KIND, told, pb.Part)
    assert input_requests.kind_of(message) == "tool-result"
    assert written(KIND_EXTRAS, message) == told


@pytest.mark.req("XTRA-01")
@READING
def test_what_is_wrong_with_extras(spelling: Spelling) -> None:
    parts = [
        {"kind": "tool-result", "result": "\ud800", "metadata": []},
        {"kind": "tool-use", "metadata": {"a": "\ud800"}},
        {"kind": "toolResult"},
    ]
    request = {"kind": ["input-request"], "prompt": 1, "requestId": {}, "sensitive": "yes", "more": 1}
    assert faults(spelling, {**QUESTION, "messageId": 5, "parts": parts, "inputRequest": request}, pb.Message) == {
        "messageId": "must be a string, got 5",
        "parts[0].toolUseId": "must be a string, got null",
        'parts[0]["result"]': "must hold no lone surrogates",
        "parts[0].metadata": "must be an object, got a list",
        'parts[1].metadata["a"]': "must hold no lone surrogates",
        "parts[2].kind": 'must be one of "text", "file", "data", got "toolResult"',
        "inputRequest.kind": 'must be "input-request", got a list',
        "inputRequest.prompt": "must be a string, got 1",
        "inputRequest.requestId": "must be a string, got an object",
        "inputRequest.sensitive": 'must be true or false, got "yes"',
    }
    assert faults(spelling, {"inputRequest": "x"}, pb.Message) == {"inputRequest": "must be an object, got a string"}
    assert faults(spelling, {"inputRequest": {"more": "\ud800"}}, pb.Message) == {
        'inputRequest["more"]': "must hold no lone surrogates"
    }
    assert faults(spelling, 5, pb.Message) == {"": "must be an object, got 5"}


def test_no_input_request_is_none() -> None:
    without = {name: item for name, item in QUESTION.items() if name != "inputRequest"}
    for spelling in (KIND, KIND_EXTRAS):
        assert written(spelling, read(spelling, {**without, "inputRequest": None}, pb.Message)) == without


def test_the_protos_spelling_has_no_extras() -> None:
    told = {"messageId": "m", "role": "ROLE_USER", "inputRequest": REQUEST, "content": []}
    assert faults(PROTO, told, pb.Message).keys() == {"inputRequest"}
