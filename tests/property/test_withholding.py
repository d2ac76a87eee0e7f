"""What is kept of a sensitive answer, whatever the answer was (spec: XTRA-04, EXTN-08)."""

from __future__ import annotations

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.checkers import required_violations
from a2a_server.domain.input_requests import (
    REDACTED,
    InputRequest,
    check_answer,
    kept_of,
    kind_of,
    open_request,
    put_request,
    redacted,
    request_in,
    results_in,
    tool_result,
)
from a2a_server.protocol.errors import A2AError
from tests.property.messages import JSON, NAMES, VALUES, messages

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
