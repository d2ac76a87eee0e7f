"""Input requests as 1.0 carries them, and what is kept of a sensitive answer (spec: XTRA, EXTN-07, EXTN-08)."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import struct_pb2
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.checkers import required_violations
from a2a_server.domain.input_requests import (
    REDACTED,
    TOOL_USE,
    InputRequest,
    check_answer,
    declaration,
    kept_of,
    kind_of,
    mark,
    open_request,
    put_request,
    redacted,
    request_in,
    results_in,
    tool_result,
)
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.names import INPUT_REQUEST_URI
from tests.property.messages import JSON, NAMES, VALUES, messages


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


SECRET = "s3cr3t"
REQUESTS = st.builds(InputRequest, NAMES, NAMES, st.booleans())


@st.composite
def answers(draw: st.DrawFn, request: InputRequest) -> pb.Message:
    """A message like any other, with the secret in as many places as there are."""
    message = draw(messages(pb.Message))
    for part in message.parts:
        place = draw(st.sampled_from(["text", "raw", "url", "data", "filename", "media_type", "metadata"]))
        if place == "raw":
            part.raw = SECRET.encode()
        elif place == "data":
            value = struct_pb2.Value(string_value=SECRET)
            part.CopyFrom(tool_result(draw(st.sampled_from([request.request_id, "x"])), value))
        elif place == "metadata":
            part.metadata[SECRET] = SECRET
        else:
            setattr(part, place, SECRET)
    if draw(st.booleans()):
        message.metadata[SECRET] = SECRET
    return message


def status(request: InputRequest) -> pb.TaskStatus:
    question = pb.Message(message_id="q", role=pb.ROLE_AGENT, parts=[pb.Part(text="?")])
    put_request(question, request)
    return pb.TaskStatus(state=pb.TASK_STATE_INPUT_REQUIRED, message=question)


@pytest.mark.req("XTRA-01", "EXTN-07")
@given(messages(pb.Message), REQUESTS)
def test_a_request_is_read_as_it_was_put(message: pb.Message, request: InputRequest) -> None:
    message.metadata.Clear()
    put_request(message, request)
    assert request_in(pb.Message.FromString(message.SerializeToString())) == request


@pytest.mark.req("XTRA-01")
@given(NAMES, VALUES, messages(pb.Message))
def test_a_result_is_read_as_it_was_put(tool_use_id: str, value: struct_pb2.Value, message: pb.Message) -> None:
    del message.parts[:]
    message.parts.append(tool_result(tool_use_id, value))
    (found,) = results_in(message)
    kind = value.WhichOneof("kind")
    assert (found.part, found.tool_use_id) == (0, tool_use_id)
    assert found.value == value if kind else found.value.WhichOneof("kind") == "null_value"


@pytest.mark.req("EXTN-08")
@given(messages(pb.Message), JSON)
def test_reading_changes_nothing_and_never_fails(message: pb.Message, content: object) -> None:
    before = message.SerializeToString(deterministic=True)
    request_in(message)
    list(results_in(message))
    open_request(pb.TaskStatus(state=pb.TASK_STATE_INPUT_REQUIRED, message=message))
    assert message.SerializeToString(deterministic=True) == before


@pytest.mark.req("XTRA-04")
@given(st.data(), REQUESTS)
def test_nothing_that_a_client_has_put_in_is_kept(data: st.DataObject, request: InputRequest) -> None:
    message = data.draw(answers(request))
    before = message.SerializeToString(deterministic=True)
    kept = redacted(message, request)
    assert SECRET.encode() not in kept.SerializeToString()
    assert message.SerializeToString(deterministic=True) == before

    assert len(kept.parts) == len(message.parts)
    ids = ("message_id", "task_id", "context_id", "role", "extensions", "reference_task_ids")
    assert [getattr(kept, name) for name in ids] == [getattr(message, name) for name in ids]
    answering = [kind_of(part) for part in kept.parts]
    assert all(part.text == REDACTED for part, kind in zip(kept.parts, answering, strict=True) if not kind)
    assert not [fault for fault in required_violations(kept) if fault.field.startswith("parts[")]
    assert redacted(kept, request) == kept


@pytest.mark.req("XTRA-04")
@given(st.data(), REQUESTS)
def test_who_is_withheld(data: st.DataObject, request: InputRequest) -> None:
    """Any answer to an open sensitive request, and results for one that was answered; nothing else."""
    message = data.draw(answers(request))
    task = pb.Task(status=status(request))
    assert (kept_of(task, message) is not None) == request.sensitive

    asked = pb.Task(status=pb.TaskStatus(state=pb.TASK_STATE_WORKING), history=[task.status.message])
    answering = any(result.tool_use_id == request.request_id for result in results_in(message))
    assert (kept_of(asked, message) is not None) == (request.sensitive and answering)
    assert kept_of(pb.Task(history=[message]), message) is None or request_in(message) is not None

    question, answered = pb.Message(), redacted(message, request)
    question.CopyFrom(task.status.message)
    question.role, message.role, answered.role = pb.ROLE_AGENT, pb.ROLE_USER, pb.ROLE_USER
    for words_between in (0, 1):
        said = [question, *[pb.Message(message_id="other", role=pb.ROLE_USER)] * words_between, answered]
        asked = pb.Task(status=pb.TaskStatus(state=pb.TASK_STATE_WORKING), history=said)
        again = answering or not words_between
        assert (kept_of(asked, message) is not None) == (request.sensitive and again)


@pytest.mark.req("XTRA-02")
@given(st.data(), REQUESTS)
def test_what_resumes_a_task_that_asks(data: st.DataObject, request: InputRequest) -> None:
    message = data.draw(answers(request))
    wrong = [result.part for result in results_in(message) if result.tool_use_id != request.request_id]
    if not (wrong and request.request_id):
        check_answer(status(request), message)
        return
    with pytest.raises(A2AError) as caught:
        check_answer(status(request), message)
    assert [fault.field for fault in caught.value.violations] == [f"message.parts[{index}]" for index in wrong]
