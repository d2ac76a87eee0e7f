"""Every rule for requests: one row with the fault, or with what is no fault."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import struct_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.media_types import check_content_types
from a2a_server.domain.validation import (
    check_get,
    check_list,
    check_push_create,
    check_push_list,
    check_request,
    check_send,
    is_plain,
    may_exist,
)
from a2a_server.protocol.errors import A2AError, Reason
from tests.property.messages import messages
from tests.support.effort import effort

CONFIG = "configuration.task_push_notification_config"
LONG = "x" * 257


def check_plain(request: Any) -> None:
    check_request(request, request.tenant)


def faults_of(check: Callable[..., None], request: Any, **options: Any) -> dict[str, str]:
    try:
        check(request, **options)
    except A2AError as error:
        refusal = error
    else:
        return {}
    assert refusal.reason is Reason.INVALID_PARAMS
    faults = {violation.field: violation.description for violation in refusal.violations}
    assert len(faults) == len(refusal.violations)
    return faults


def send(
    message: dict[str, Any] | None = None,
    configuration: dict[str, Any] | None = None,
    **members: Any,
) -> pb.SendMessageRequest:
    sound = {"message_id": "m", "role": pb.ROLE_USER, "parts": [{"text": "hello"}]}
    return pb.SendMessageRequest(message={**sound, **(message or {})}, configuration=configuration, **members)


def push(**members: Any) -> dict[str, Any]:
    return {"task_push_notification_config": {"url": "https://hook.example/", **members}}


def nested(levels: int) -> struct_pb2.Value:
    value = struct_pb2.Value(bool_value=True)
    for _ in range(levels):
        outer = struct_pb2.Value()
        outer.struct_value.fields["k"].CopyFrom(value)
        value = outer
    return value


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        pytest.param(pb.SendMessageRequest(), "message", marks=pytest.mark.req("GEN-04"), id="no-message"),
        pytest.param(send({"message_id": ""}), "message.message_id", marks=pytest.mark.req("GEN-04"), id="no-id"),
        pytest.param(send({"role": 0}), "message.role", marks=pytest.mark.req("GEN-04"), id="no-role"),
        pytest.param(send({"role": 7}), "message.role", id="unknown-role"),
        pytest.param(send({"role": pb.ROLE_AGENT}), "message.role", marks=pytest.mark.req("SEND-03"), id="agent-role"),
        pytest.param(send({"parts": []}), "message.parts", marks=pytest.mark.req("GEN-05"), id="no-parts"),
        pytest.param(
            send({"parts": [{"text": "x"}, {"filename": "f"}]}),
            "message.parts[1]",
            marks=pytest.mark.req("SEND-02"),
            id="part-without-content",
        ),
        pytest.param(send({"parts": [{"data": struct_pb2.Value()}]}), "message.parts[0].data", id="data-without-value"),
        pytest.param(send({"parts": [{"data": nested(31)}]}), "message.parts[0].data", id="data-too-deep"),
        pytest.param(
            send({"parts": [{"text": "x", "metadata": nested(31).struct_value}]}),
            "message.parts[0].metadata",
            id="part-metadata-too-deep",
        ),
        pytest.param(send({"metadata": nested(31).struct_value}), "message.metadata", id="metadata-too-deep"),
        pytest.param(send(metadata=nested(31).struct_value), "metadata", id="request-metadata-too-deep"),
        pytest.param(send({"parts": [{"text": "x"}] * 1001}), "message.parts", id="too-many-parts"),
        pytest.param(send({"message_id": LONG}), "message.message_id", id="long-id"),
        pytest.param(send({"message_id": "a\0b"}), "message.message_id", id="nul-in-id"),
        pytest.param(send({"context_id": "a\nb"}), "message.context_id", id="newline-in-context"),
        pytest.param(send({"context_id": LONG}), "message.context_id", id="long-context"),
        pytest.param(send({"task_id": "a\x85b"}), "message.task_id", id="c1-control-in-task"),
        pytest.param(send({"task_id": LONG}), "message.task_id", id="long-task"),
        pytest.param(send({"extensions": ["u"] * 101}), "message.extensions", id="too-many-extensions"),
        pytest.param(send({"extensions": ["u", "u\r"]}), "message.extensions[1]", id="control-in-extension"),
        pytest.param(send({"reference_task_ids": ["t"] * 101}), "message.reference_task_ids", id="too-many-references"),
        pytest.param(
            send({"reference_task_ids": ["t", LONG]}), "message.reference_task_ids[1]", id="reference-too-long"
        ),
        pytest.param(
            send(configuration={"history_length": -1}),
            "configuration.history_length",
            marks=pytest.mark.req("HIST-05"),
            id="negative-history",
        ),
        pytest.param(send(configuration=push(url="")), f"{CONFIG}.url", marks=pytest.mark.req("PUSH-04"), id="no-url"),
        pytest.param(send(configuration=push(url="hook.example")), f"{CONFIG}.url", id="relative-url"),
        pytest.param(
            send(configuration=push(task_id="t")),
            f"{CONFIG}.task_id",
            marks=pytest.mark.req("PUSH-14"),
            id="config-of-a-new-task-names-one",
        ),
        pytest.param(
            send({"task_id": "t"}, push(task_id="u")),
            f"{CONFIG}.task_id",
            marks=pytest.mark.req("PUSH-14"),
            id="config-names-another-task",
        ),
        pytest.param(send(configuration=push(id=LONG)), f"{CONFIG}.id", id="long-config-id"),
        pytest.param(send(configuration=push(token="a\r\nX: y")), f"{CONFIG}.token", id="header-in-token"),
        pytest.param(
            send(configuration=push(authentication={})), f"{CONFIG}.authentication.scheme", id="empty-authentication"
        ),
        pytest.param(
            send(configuration=push(authentication={"scheme": "Bearer\n"})),
            f"{CONFIG}.authentication.scheme",
            id="control-in-scheme",
        ),
        pytest.param(
            send(configuration=push(authentication={"scheme": "Bearer", "credentials": "a\n"})),
            f"{CONFIG}.authentication.credentials",
            id="control-in-credentials",
        ),
        pytest.param(
            send(configuration=push(tenant="north"), tenant="south"),
            f"{CONFIG}.tenant",
            marks=pytest.mark.req("TENA-03"),
            id="config-in-another-tenant",
        ),
        pytest.param(send(tenant="a/b"), "tenant", id="slash-in-tenant"),
        pytest.param(send(tenant="a\tb"), "tenant", id="control-in-tenant"),
        pytest.param(send(tenant=LONG), "tenant", id="long-tenant"),
    ],
)
def test_a_send_with_one_fault(request_: pb.SendMessageRequest, field: str) -> None:
    assert set(faults_of(check_send, request_)) == {field}


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(send(), id="the-least"),
        pytest.param(send({"message_id": "x" * 256, "context_id": "ünï/urn:7 ☃", "task_id": "a b"}), id="free-ids"),
        pytest.param(send({"parts": [{"data": {"null_value": 0}}]}), id="null-is-a-value"),
        pytest.param(send({"parts": [{"text": ""}, {"raw": b""}, {"url": ""}]}), id="content-may-be-empty"),
        pytest.param(send({"parts": [{"data": nested(30)}]}), id="thirty-objects-deep"),
        pytest.param(send({"metadata": {"k": "v" * 10_000}}), id="large-and-flat"),
        pytest.param(send({"parts": [{"text": "x"}] * 1000}), id="a-thousand-parts"),
        pytest.param(send(configuration={"history_length": 0}), id="no-history"),
        pytest.param(send(configuration={"accepted_output_modes": ["*/*", "text/*;q=0.5", "x", ""] * 99}), id="modes"),
        pytest.param(send({"task_id": "t"}, push(task_id="t")), id="config-names-its-task"),
        pytest.param(send(configuration=push(tenant="north"), tenant="north"), id="config-names-its-tenant"),
        pytest.param(
            send(configuration=push(id="i", token="t", authentication={"scheme": "Bearer", "credentials": "c"})),
            id="full-config",
        ),
        pytest.param(send(tenant="acme:eu"), id="tenant"),
    ],
)
def test_a_sound_send(request_: pb.SendMessageRequest) -> None:
    assert faults_of(check_send, request_) == {}


def test_all_faults_come_at_once() -> None:
    request = send({"role": 9, "parts": [{}], "message_id": ""}, {"history_length": -1, **push(url="")}, tenant="/")
    assert set(faults_of(check_send, request)) == {
        "message.role",
        "message.parts[0]",
        "message.message_id",
        "configuration.history_length",
        f"{CONFIG}.url",
        "tenant",
    }


TASK_REQUESTS = [
    pytest.param(check_get, pb.GetTaskRequest, id="get"),
    pytest.param(check_plain, pb.CancelTaskRequest, id="cancel"),
    pytest.param(check_plain, pb.SubscribeToTaskRequest, id="subscribe"),
]
CONFIG_REQUESTS = [
    pytest.param(check_plain, pb.GetTaskPushNotificationConfigRequest, id="get-config"),
    pytest.param(check_plain, pb.DeleteTaskPushNotificationConfigRequest, id="delete-config"),
]


@pytest.mark.req("GEN-04")
@pytest.mark.parametrize(("check", "kind"), TASK_REQUESTS)
def test_requests_for_a_task_name_it(check: Callable[..., None], kind: type[pb.GetTaskRequest]) -> None:
    assert faults_of(check, kind()) == {"id": "is required"}
    assert set(faults_of(check, kind(tenant="a/b"))) == {"id", "tenant"}
    assert faults_of(check, kind(id=LONG + "\0")) == {}  # it is not there, and that is another error


@pytest.mark.req("GEN-04")
@pytest.mark.parametrize(("check", "kind"), CONFIG_REQUESTS)
def test_requests_for_a_config_name_it(
    check: Callable[..., None], kind: type[pb.GetTaskPushNotificationConfigRequest]
) -> None:
    assert faults_of(check, kind()) == {"task_id": "is required", "id": "is required"}
    assert faults_of(check, kind(task_id="t", id="c")) == {}


def test_metadata_of_a_cancel_nests_no_deeper_than_others() -> None:
    request = pb.CancelTaskRequest(id="t", metadata=nested(31).struct_value)
    assert set(faults_of(check_plain, request)) == {"metadata"}


@pytest.mark.req("HIST-05")
def test_history_of_a_get() -> None:
    assert set(faults_of(check_get, pb.GetTaskRequest(id="t", history_length=-1))) == {"history_length"}
    assert faults_of(check_get, pb.GetTaskRequest(id="t", history_length=0)) == {}


NAMES = (
    "TASK_STATE_SUBMITTED, TASK_STATE_WORKING, TASK_STATE_COMPLETED, TASK_STATE_FAILED, TASK_STATE_CANCELED, "
    "TASK_STATE_INPUT_REQUIRED, TASK_STATE_REJECTED, TASK_STATE_AUTH_REQUIRED"
)


@pytest.mark.parametrize(
    ("members", "faults"),
    [
        pytest.param({}, {}, id="nothing-asked"),
        *(
            pytest.param(
                {"page_size": size},
                {"page_size": f"must lie in 1..100, got {size}"},
                marks=pytest.mark.req("LIST-08"),
                id=f"page-size{size}",
            )
            for size in (-1, 101, 2**31 - 1)
        ),
        pytest.param({"page_size": 1}, {}, marks=pytest.mark.req("LIST-08"), id="smallest-page"),
        pytest.param({"page_size": 100}, {}, marks=pytest.mark.req("LIST-08"), id="largest-page"),
        pytest.param(
            {"status": 99},
            {"status": f"unknown value 99; allowed are {NAMES}"},
            marks=pytest.mark.req("LIST-16"),
            id="unknown-state",
        ),
        pytest.param({"status": 0}, {}, marks=pytest.mark.req("LIST-16"), id="unspecified-is-no-filter"),
        pytest.param(
            {"history_length": -5},
            {"history_length": "must not be negative, got -5"},
            marks=pytest.mark.req("HIST-05"),
            id="negative-history",
        ),
        pytest.param({"history_length": 5}, {}, id="history"),
        pytest.param({"context_id": "\0"}, {"context_id": "must not contain control characters"}, id="context"),
        pytest.param({"status_timestamp_after": Timestamp(seconds=1_700_000_000, nanos=999_999_999)}, {}, id="time"),
    ],
)
def test_a_list(members: dict[str, Any], faults: dict[str, str]) -> None:
    assert faults_of(check_list, pb.ListTasksRequest(**members)) == faults


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(-62_135_596_801, 0), (253_402_300_800, 0), (0, -1), (0, 1_000_000_000)]
)
def test_a_time_out_of_this_world(seconds: int, nanos: int) -> None:
    request = pb.ListTasksRequest(status_timestamp_after=Timestamp(seconds=seconds, nanos=nanos))
    assert set(faults_of(check_list, request)) == {"status_timestamp_after"}


def test_a_push_config_of_its_own() -> None:
    assert faults_of(check_push_create, pb.TaskPushNotificationConfig(task_id="t", url="http://h:8080/x?y")) == {}


@pytest.mark.req("PUSH-04")
def test_a_push_config_says_where_to_and_for_which_task() -> None:
    assert faults_of(check_push_create, pb.TaskPushNotificationConfig()) == {
        "url": "is required",
        "task_id": "is required",
    }


def test_a_push_config_names_its_tenant_as_requests_do() -> None:
    config = pb.TaskPushNotificationConfig(task_id="t", url="http://h", tenant="a/b")
    assert faults_of(check_push_create, config) == {"tenant": "must not contain a slash"}


@pytest.mark.parametrize(("size", "fault"), [(-1, True), (0, False), (1, False), (100, False), (101, True)])
def test_page_size_of_push_configs(size: int, fault: bool) -> None:  # noqa: FBT001
    request = pb.ListTaskPushNotificationConfigsRequest(task_id="t", page_size=size)
    assert set(faults_of(check_push_list, request)) == ({"page_size"} if fault else set())


def test_the_extended_card_only_knows_tenants() -> None:
    assert faults_of(check_plain, pb.GetExtendedAgentCardRequest(tenant="acme")) == {}
    assert set(faults_of(check_plain, pb.GetExtendedAgentCardRequest(tenant="a/b"))) == {"tenant"}


@pytest.mark.parametrize(
    ("identifier", "possible"), [("t", True), ("x" * 256, True), ("", True), (LONG, False), ("a\0", False)]
)
def test_ids_that_no_task_has(identifier: str, possible: bool) -> None:  # noqa: FBT001
    assert may_exist(identifier) is possible


@pytest.mark.req("SEND-04")
@pytest.mark.parametrize(
    ("part", "modes", "refused"),
    [
        pytest.param({"text": "x"}, ["text/plain"], "", id="text"),
        pytest.param({"text": "x"}, ["application/json"], "text/plain", id="no-text"),
        pytest.param({"text": "x", "media_type": "text/markdown"}, ["text/plain"], "text/markdown", id="says-more"),
        pytest.param({"text": "x", "media_type": "Text/Plain; charset=utf-8"}, ["TEXT/PLAIN;q=1"], "", id="case"),
        pytest.param({"data": {"bool_value": True}}, ["application/json"], "", id="data"),
        pytest.param({"data": {"bool_value": True}}, ["text/*"], "application/json", id="no-data"),
        pytest.param({"raw": b"x"}, ["text/plain"], "", id="bytes-of-unknown-type"),
        pytest.param({"url": "https://x"}, [], "", id="link-of-unknown-type"),
        pytest.param({"raw": b"x", "media_type": "image/png"}, ["text/*", "image/*"], "", id="range"),
        pytest.param({"raw": b"x", "media_type": "image/png"}, ["*/*"], "", id="anything"),
        pytest.param({"raw": b"x", "media_type": "image/png"}, ["text/*"], "image/png", id="other-range"),
        pytest.param({"raw": b"x", "media_type": "imagery/png"}, ["image/*"], "imagery/png", id="prefix-only"),
        pytest.param({"text": "x"}, [], "", id="no-modes"),
        pytest.param({"filename": "f"}, [], "", id="no-content-is-another-error"),
    ],
)
def test_content_types(part: dict[str, Any], modes: list[str], refused: str) -> None:
    request = send({"parts": [part]})
    if not refused:
        check_content_types(request, modes)
        return
    with pytest.raises(A2AError) as caught:
        check_content_types(request, modes)
    assert caught.value.reason is Reason.CONTENT_TYPE_NOT_SUPPORTED
    assert caught.value.metadata == {"mediaType": refused, "supported": ",".join(modes)}


@pytest.mark.req("TENA-03")
def test_a_config_may_name_the_tenant_that_the_callers_credentials_imply() -> None:
    request = send(configuration=push(tenant="north"))
    assert not faults_of(check_send, request, tenant="north")
    assert set(faults_of(check_send, request, tenant="south")) == {f"{CONFIG}.tenant"}


def glanced(
    names: dict[str, str], role: int, depth: int, parts: list[Any], configuration: dict[str, Any] | None
) -> pb.SendMessageRequest:
    request = send({**names, "role": role, "parts": parts}, configuration)
    if depth:
        request.metadata.fields["deep"].CopyFrom(nested(depth))
    return request


def unread(request: pb.SendMessageRequest) -> bool:
    """Whether the agent would have to read something else than plain text."""
    try:
        check_content_types(request, ["text/plain"])
    except A2AError:
        return True
    return False


SOME_NAMES = st.dictionaries(
    st.sampled_from(["message_id", "context_id", "task_id"]), st.text() | st.sampled_from([LONG, "x" * 256])
)
ROLES = st.just(pb.ROLE_USER) | st.sampled_from(pb.Role.values())
DEPTHS = st.just(0) | st.sampled_from([1, 20, 40, 41, 60])
TEXT = st.just([{"text": "x"}])
PARTS = st.sampled_from([{"text": ""}, {"raw": b""}, {"text": "x", "media_type": "text/html"}, {}])
CONFIGURATIONS = st.sampled_from(
    [None, {"return_immediately": True}, {"history_length": -1}, {"accepted_output_modes": ["x"]}, push(url="")]
)
NEARLY_PLAIN = st.tuples(SOME_NAMES, ROLES, DEPTHS, TEXT | st.lists(PARTS, max_size=2), CONFIGURATIONS)


@pytest.mark.req("GEN-03", "SEND-02")
@settings(max_examples=effort(100, everything=400))
@given(NEARLY_PLAIN)
def test_what_looks_fine_at_a_glance_has_no_faults(members: tuple[Any, ...]) -> None:
    request = glanced(*members)
    assert not (is_plain(request) and (faults_of(check_send, request) or unread(request)))


@pytest.mark.req("GEN-03", "SEND-02")
@given(messages(pb.SendMessageRequest))
def test_nor_has_any_other_request_that_looks_fine(request: pb.SendMessageRequest) -> None:
    assert not (is_plain(request) and (faults_of(check_send, request) or unread(request)))


@pytest.mark.req("GEN-03")
def test_most_requests_need_no_more_than_a_glance() -> None:
    assert is_plain(send({"context_id": "c", "task_id": "t"}, {"history_length": 0}, metadata={"skill": "s"}))


@pytest.mark.req("GEN-03", "SEND-04")
@pytest.mark.parametrize(
    ("message", "members"),
    [
        ({"parts": []}, {}),
        ({"parts": [{"text": "a"}, {"raw": b"b"}]}, {}),
        ({"parts": [{"raw": b"b"}]}, {}),
        ({"parts": [{"text": "a", "media_type": "text/html"}]}, {}),
        ({"parts": [{"text": "a", "metadata": {"deep": 1}}]}, {}),
        ({"metadata": {"deep": 1}}, {}),
        ({"extensions": [""]}, {}),
        ({"reference_task_ids": [LONG]}, {}),
        ({}, {"tenant": "a/b"}),
    ],
)
def test_everything_special_is_looked_at(message: dict[str, Any], members: dict[str, Any]) -> None:
    assert not is_plain(send(message, **members))
