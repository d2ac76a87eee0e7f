"""Whatever a message holds, a check passes it or names fields that exist; and the grammar of URLs and media ranges."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain import media_types, validation
from a2a_server.domain.checkers import checker_of, required_violations
from a2a_server.domain.demands import faults_of
from a2a_server.protocol.errors import A2AError, Reason
from tests.property.messages import messages


def check_request(request: Any) -> None:
    validation.check_request(request, request.tenant)


CHECKS: dict[type[Message], Callable[..., None]] = {
    pb.SendMessageRequest: validation.check_send,
    pb.GetTaskRequest: validation.check_get,
    pb.ListTasksRequest: validation.check_list,
    pb.CancelTaskRequest: check_request,
    pb.SubscribeToTaskRequest: check_request,
    pb.TaskPushNotificationConfig: validation.check_push_create,
    pb.GetTaskPushNotificationConfigRequest: check_request,
    pb.ListTaskPushNotificationConfigsRequest: validation.check_push_list,
    pb.DeleteTaskPushNotificationConfigRequest: check_request,
    pb.GetExtendedAgentCardRequest: check_request,
}
REQUESTS = [pytest.param(check, kind, id=kind.DESCRIPTOR.name) for kind, check in CHECKS.items()]


def refusal(check: Callable[..., None], *arguments: object) -> A2AError | None:
    try:
        check(*arguments)
    except A2AError as error:
        return error
    return None


def exists(kind: Any, path: str) -> bool:
    """Whether a field is spelled as the schema spells it, with an index exactly where one belongs."""
    head, _, rest = path.partition(".")
    name, index = re.fullmatch(r"(\w+)(\[.*\])?", head, re.DOTALL).groups()  # type: ignore[union-attr]
    field = kind.fields_by_name.get(name)
    if field is None:
        return not rest and name in kind.oneofs_by_name
    if index and not field.is_repeated:
        return False
    return not rest or (field.message_type is not None and exists(field.message_type, rest))


@pytest.mark.parametrize(("check", "kind"), REQUESTS)
@given(data=st.data())
def test_requests(check: Callable[..., None], kind: type[Message], data: st.DataObject) -> None:
    request = data.draw(messages(kind))
    before = request.SerializeToString(deterministic=True)
    error = refusal(check, request)
    if error is None:
        assert not required_violations(request)
    else:
        assert error.reason is Reason.INVALID_PARAMS
        assert error.violations
        for violation in error.violations:
            assert exists(request.DESCRIPTOR, violation.field), violation
            assert violation.description
    assert request.SerializeToString(deterministic=True) == before


@given(messages(pb.SendMessageRequest), st.lists(st.text() | st.sampled_from(["*/*", "text/*", "text/plain"])))
def test_content_types(request: pb.SendMessageRequest, modes: list[str]) -> None:
    error = refusal(media_types.check_content_types, request, modes)
    if error is not None:
        assert error.reason is Reason.CONTENT_TYPE_NOT_SUPPORTED
        assert set(error.metadata) == {"mediaType", "supported"}


@pytest.mark.req("GEN-04", "GEN-05")
@given(messages(pb.Message))
def test_required_members_of_a_message(message: pb.Message) -> None:
    faults = {violation.field for violation in required_violations(message)}
    absent = {"message_id": not message.message_id, "parts": not message.parts, "role": message.role not in {1, 2}}
    assert {name: name in faults for name in absent} == absent


@pytest.mark.parametrize("kind", [pb.SendMessageRequest, pb.StreamResponse, pb.Task, pb.AgentCard])
@given(data=st.data())
def test_the_short_answer_is_the_long_one(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    before = message.SerializeToString(deterministic=True)
    assert checker_of(message.DESCRIPTOR)(message) is (not faults_of(message, ""))
    assert message.SerializeToString(deterministic=True) == before


@given(messages(pb.AgentCard))
def test_cards(card: pb.AgentCard) -> None:
    for violation in required_violations(card):
        # Names of security schemes are free and may contain what paths are made of.
        if not violation.field.startswith("security_schemes["):
            assert exists(pb.AgentCard.DESCRIPTOR, violation.field), violation


def test_every_request_has_its_check() -> None:
    service = pb.DESCRIPTOR.services_by_name["A2AService"]
    kinds: set[Any] = {method.input_type.name for method in service.methods}
    assert kinds == {kind.DESCRIPTOR.name for kind in CHECKS}


@pytest.mark.parametrize(
    ("url", "sound"),
    [
        ("https://hook.example", True),
        ("http://127.0.0.1:8080/a?b=c#d", True),
        ("http://[::1]/", True),
        ("HTTPS://hook.example/", True),
        ("https://münchen.example/", True),
        ("", False),
        ("hook.example/x", False),
        ("//hook.example/x", False),
        ("ftp://hook.example/", False),
        ("file:///etc/passwd", False),
        ("https://", False),
        ("https://:443/", False),
        ("https://h:0/", False),
        ("https://h:port/", False),
        ("https://h:70000/", False),
        ("https://[::1/", False),
        ("https://h/a b", False),
        ("https://h/\n", False),
        ("https://h/" + "x" * 2048, False),
    ],
)
def test_urls(url: str, sound: bool) -> None:  # noqa: FBT001
    assert (validation.url_fault(url) == "") is sound


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        ("text/plain", "text/plain"),
        ("application/vnd.api+json; v=1", "application/vnd.api+json; v=1"),
        ("*/*", "*/*"),
        ("*", "*/*"),
        ("text", "text/plain"),
        ("Text", "text/plain"),
        ("file", "*/*"),
        ("image", "image/*"),
        ("audio", "audio/*"),
        ("video", "video/*"),
        ("", None),
        ("form", None),
        ("text/", None),
        ("/plain", None),
        ("text/plain/x", None),
        ("text /plain", None),
    ],
)
def test_words_are_read_as_modes_and_what_nobody_knows_is_left_out(value: str, mode: str | None) -> None:
    assert media_types.modes_of([value, "a/b"]) == ((mode, "a/b") if mode else ("a/b",))


@pytest.mark.parametrize(
    ("media_type", "mode", "covered"),
    [
        ("text/plain", "text/plain", True),
        ("text/plain", "*/*", True),
        ("text/plain", "text/*", True),
        ("text/plain;charset=utf-8", "Text/Plain", True),
        ("text/plain", "text", False),
        ("textile/plain", "text/*", False),
        ("text", "text/*", False),
    ],
)
def test_matches(media_type: str, mode: str, covered: bool) -> None:  # noqa: FBT001
    assert media_types.matches(media_type, mode) is covered
