"""Input requests as 1.0 carries them, read with suspicion (spec: XTRA, EXTN-07, EXTN-08)."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.input_requests import (
    TOOL_USE,
    InputRequest,
    check_answer,
    declaration,
    kind_of,
    mark,
    open_request,
    put_request,
    request_in,
    results_in,
)
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.names import INPUT_REQUEST_URI


def message(content: Any = None, **members: Any) -> pb.Message:
    """A message with this under the extension's INPUT_REQUEST_URI."""
    if content is not None:
        members["metadata"] = {INPUT_REQUEST_URI: content}
    return ParseDict({"messageId": "m", "extensions": [INPUT_REQUEST_URI], **members}, pb.Message())


def result(content: Any, kind: Any = "tool-result") -> dict[str, Any]:
    return {"data": content, "metadata": {INPUT_REQUEST_URI: {"partKind": kind}}}


def asking(state: pb.TaskState = pb.TASK_STATE_INPUT_REQUIRED, **members: Any) -> pb.TaskStatus:
    question = message({"inputRequest": {"requestId": "r", **members}})
    return pb.TaskStatus(state=state, message=question)


@pytest.mark.req("EXTN-01")
def test_the_extension_is_declared_with_what_it_does() -> None:
    assert declaration().uri == INPUT_REQUEST_URI
    assert declaration().description
    assert not declaration().required


@pytest.mark.req("XTRA-01", "EXTN-07")
def test_a_request_leaves_what_is_there_alone() -> None:
    question = message(extensions=["urn:x"], metadata={"a": 1, INPUT_REQUEST_URI: {"other": 2}})
    put_request(question, InputRequest("r", "Which?", sensitive=True))
    put_request(question, InputRequest("r", "Which?", sensitive=True))
    expected = {"kind": "input-request", "prompt": "Which?", "sensitive": True, "requestId": "r"}
    assert question == message(
        extensions=["urn:x", INPUT_REQUEST_URI],
        metadata={"a": 1, INPUT_REQUEST_URI: {"other": 2, "inputRequest": expected}},
    )
    assert request_in(question) == InputRequest("r", "Which?", sensitive=True)


@pytest.mark.req("EXTN-08")
@pytest.mark.parametrize(
    ("content", "request_"),
    [
        (None, None),
        ("text", None),
        ([], None),
        ({}, None),
        ({"inputRequest": "text"}, InputRequest("")),
        ({"inputRequest": {}}, InputRequest("")),
        ({"inputRequest": {"requestId": 7, "prompt": ["p"]}}, InputRequest("")),
        ({"inputRequest": {"requestId": "r", "sensitive": None}}, InputRequest("r")),
        ({"inputRequest": {"requestId": "r", "sensitive": False}}, InputRequest("r")),
        ({"inputRequest": {"requestId": "r", "sensitive": "yes"}}, InputRequest("r", sensitive=True)),
        ({"inputRequest": {"requestId": "r", "sensitive": 1, "prompt": "p"}}, InputRequest("r", "p", sensitive=True)),
    ],
)
def test_whatever_stands_there_is_read_without_harm(content: Any, request_: InputRequest | None) -> None:
    question = message(content)
    before = question.SerializeToString(deterministic=True)
    assert request_in(question) == request_
    assert question.SerializeToString(deterministic=True) == before  # protobuf's maps grow when they are looked at


@pytest.mark.req("EXTN-07")
def test_without_the_uri_it_is_somebody_s_own_metadata() -> None:
    assert request_in(message({"inputRequest": {"requestId": "r"}}, extensions=["urn:x"])) is None
    assert request_in(pb.Message()) is None


@pytest.mark.req("XTRA-02")
@pytest.mark.parametrize("state", pb.TaskState.values())
def test_only_a_task_that_waits_has_an_open_request(state: pb.TaskState) -> None:
    waits = state in {pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED}
    assert open_request(asking(state)) == (InputRequest("r") if waits else None)
    assert open_request(pb.TaskStatus(state=state)) is None


@pytest.mark.req("XTRA-02", "EXTN-08")
def test_results_are_told_from_other_parts() -> None:
    said = message(
        parts=[
            {"text": "x"},
            result({"toolUseId": "a", "result": {"deep": [1]}}),
            {"data": {"toolUseId": "b", "result": 1}},
            {"data": {"toolUseId": "c", "result": 1}, "metadata": {"partKind": "tool-result"}},
            result({"toolUseId": "d"}),
            result({"toolUseId": 7, "result": False}),
            result([1]),
            {"text": "marked", "metadata": {INPUT_REQUEST_URI: {"partKind": "tool-result"}}},
            result({"toolUseId": "e", "result": 1}, "tool-use"),
            result({"toolUseId": "f", "result": 1}, None),
            {"data": {}, "metadata": {INPUT_REQUEST_URI: "tool-result"}},
        ]
    )
    found = [(one.part, one.tool_use_id, one.value.WhichOneof("kind")) for one in results_in(said)]
    assert found == [
        (1, "a", "struct_value"),
        (4, "d", "null_value"),
        (5, "", "bool_value"),
        (6, "", "null_value"),
        (7, "", "null_value"),
    ]


def test_a_part_may_be_marked_in_passing() -> None:
    part = pb.Part(text="x")
    assert kind_of(part) == ""
    part.metadata["other"] = 1
    mark(part, TOOL_USE)
    assert kind_of(part) == "tool-use"
    assert part.metadata["other"] == 1


@pytest.mark.req("XTRA-02", "ERRS-05")
def test_results_must_be_for_what_is_asked() -> None:
    right, wrong = result({"toolUseId": "r"}), result({"toolUseId": "w" * 500})
    check_answer(asking(), message(parts=[{"text": "x"}, right, right]))
    with pytest.raises(A2AError) as caught:
        check_answer(asking(), message(parts=[right, wrong, result({})]))
    assert [(fault.field, fault.description) for fault in caught.value.violations] == [
        ("message.parts[1]", f"is the result for '{'w' * 80}', but the task asks for 'r'"),
        ("message.parts[2]", "a tool result needs a toolUseId; the task asks for 'r'"),
    ]
    for status in (asking(pb.TASK_STATE_WORKING), asking(requestId=""), pb.TaskStatus()):
        check_answer(status, message(parts=[wrong]))
