"""The core's complaints, in the words of the client who sent 0.3."""

from collections.abc import Callable
from typing import Any

import pytest
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.descriptor import Descriptor
from google.protobuf.json_format import ParseDict
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.domain import validation
from a2a_server.protocol.errors import A2AError, Reason, StatusError, Violation, status_of
from a2a_server.protocol.options import LegacyOptions
from a2a_server.protocol.v0_3 import error_words
from a2a_server.protocol.v0_3.error_words import for_grpc_client
from a2a_server.protocol.v0_3.grpc_calls import CALLS

HOOK = {"authentication": {"credentials": "s" * 5_000}, "url": "nowhere", "token": "t" * 5_000}

CASES: list[tuple[str, Any, Callable[..., None], dict[str, Any], list[str]]] = [
    ("SendMessage", v03.SendMessageRequest, validation.check_send, {}, ["request"]),
    (
        "SendStreamingMessage",
        v03.SendMessageRequest,
        validation.check_send,
        {
            "message": {
                "role": "ROLE_AGENT",
                "contextId": "\0",
                "content": [{}],
                "metadata": {"x-a2a-compat": {"referenceTaskIds": ["\0"]}},
            },
            "configuration": {"historyLength": -1, "pushNotification": HOOK},
        },
        [
            "request.message_id",
            "request.content[0]",
            "configuration.push_notification.authentication.schemes",
            "request.role",
            "request.context_id",
            "request.metadata.x-a2a-compat.referenceTaskIds[0]",
            "configuration.history_length",
            "configuration.push_notification.url",
            "configuration.push_notification.token",
            "configuration.push_notification.authentication.credentials",
        ],
    ),
    (
        "GetTask",
        v03.GetTaskRequest,
        validation.check_get,
        {"name": "tasks/t", "historyLength": -1},
        ["history_length"],
    ),
    (
        "CreateTaskPushNotificationConfig",
        v03.CreateTaskPushNotificationConfigRequest,
        validation.check_push_create,
        {"parent": "tasks/t", "configId": "\0", "config": {"pushNotificationConfig": HOOK}},
        [
            "config.push_notification_config.authentication.schemes",
            "config_id",
            "config.push_notification_config.url",
            "config.push_notification_config.token",
            "config.push_notification_config.authentication.credentials",
        ],
    ),
    (
        "ListTaskPushNotificationConfig",
        v03.ListTaskPushNotificationConfigRequest,
        validation.check_push_list,
        {"parent": "tasks/t", "pageSize": 101},
        ["page_size"],
    ),
]


@pytest.mark.parametrize(("rpc", "kind", "check", "request_", "fields"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.req("ERRS-05")
def test_faults_that_the_core_finds(
    rpc: str, kind: Any, check: Callable[..., None], request_: dict[str, Any], fields: list[str]
) -> None:
    legacy = ParseDict(request_, kind())
    with pytest.raises(A2AError) as refused:
        check(CALLS[rpc].request(legacy, LegacyOptions()))
    error = for_grpc_client(refused.value, CALLS[rpc].rpc)
    assert sorted(fault.field for fault in error.violations) == sorted(fields)
    for fault in error.violations:
        assert exists(kind.DESCRIPTOR, fault.field), fault.field


def exists(kind: Descriptor, path: str) -> bool:
    for name in path.split("."):
        if kind.full_name == "google.protobuf.Struct":
            return True
        field = kind.fields_by_name.get(name.partition("[")[0])
        if field is None:
            return False
        kind = field.message_type or kind
    return True


@pytest.mark.parametrize(
    ("rpc", "core", "in_spelling"),
    [
        ("SendMessage", "message.parts[3].raw", "request.content[3].file.file_with_bytes"),
        ("SendMessage", "message.parts[3].url", "request.content[3].file.file_with_uri"),
        ("SendMessage", "message.parts[3].media_type", "request.content[3].file.mime_type"),
        ("SendMessage", "message.parts[3].filename", "request.content[3].file.name"),
        ("SendMessage", "message.parts[3].data", "request.content[3].data.data"),
        ("SendMessage", "message.parts[3].metadata", "request.content[3].metadata"),
        ("SendMessage", "configuration.return_immediately", "configuration.blocking"),
        ("SendMessage", "configuration.task_push_notification_config.id", "configuration.push_notification.id"),
        ("CancelTask", "id", "name"),
        ("TaskSubscription", "id", "name"),
        ("GetTaskPushNotificationConfig", "task_id", "name"),
        ("GetTaskPushNotificationConfig", "id", "name"),
        ("DeleteTaskPushNotificationConfig", "id", "name"),
        ("ListTaskPushNotificationConfig", "task_id", "parent"),
        ("CreateTaskPushNotificationConfig", "task_id", "parent"),
        ("GetAgentCard", "tenant", "tenant"),
    ],
)
def test_single_fields(rpc: str, core: str, in_spelling: str) -> None:
    error = A2AError(
        Reason.INVALID_PARAMS, f"{core}: no", metadata={"a": "b"}, violations=[Violation(core, "no")], retry_after=1.0
    )
    said = for_grpc_client(error, CALLS[rpc].rpc)
    assert said.violations == (Violation(in_spelling, "no"),)
    assert said.message == f"{in_spelling}: no"
    assert (said.reason, said.metadata, said.retry_after) == (error.reason, error.metadata, error.retry_after)
    assert (
        for_grpc_client(said, CALLS[rpc].rpc).violations == said.violations
    )  # so faults found here may pass through as well


def test_other_errors_pass_as_they_are() -> None:
    error = A2AError(
        Reason.TASK_NOT_FOUND, "Task not found.", metadata={"taskId": "TASK_STATE_CANCELED"}, retry_after=1
    )
    told = for_grpc_client(error, "GetTask")
    for member in ("reason", "message", "metadata", "violations", "retry_after"):
        assert getattr(told, member) == getattr(error, member)


@pytest.mark.req("CONF-26", "ERRS-05")
def test_words_are_those_of_0_3() -> None:
    said = "TASK_STATE_CANCELED, TASK_STATE_WORKING: must hold exactly one of text, raw, url, data"
    told = "TASK_STATE_CANCELLED, TASK_STATE_WORKING: must hold exactly one of text, file, data"
    error = A2AError(
        Reason.INVALID_PARAMS, said, metadata={"state": "TASK_STATE_CANCELED"}, violations=[Violation("x", said)]
    )
    in_spelling = for_grpc_client(error, "SendMessage")
    assert (in_spelling.message, in_spelling.metadata) == (told, {"state": "TASK_STATE_CANCELLED"})
    assert in_spelling.violations == (Violation("x", told),)


def test_their_names_are_those_of_the_sdk() -> None:
    theirs = {kind.__name__: number for kind, number in JSON_RPC_ERROR_CODE_MAP.items()}
    ours = {reason.sdk_type: reason.jsonrpc_code for reason in Reason if reason.sdk_type}
    assert ours == {name: number for name, number in theirs.items() if name != "JSONParseError"}


@pytest.mark.req("ERRS-05")
def test_only_whole_words_change_and_only_where_they_speak_of_tasks() -> None:
    text = "TASK_STATE_CANCELED, TASK_STATE_CANCELED_TWICE, ROLE_AGENT"
    error = A2AError(
        Reason.INVALID_PARAMS,
        text,
        metadata={"taskId": "ROLE_USER", "state": "TASK_STATE_WORKING"},
        violations=[Violation("message.ROLE_USER", text)],
        retry_after=2,
    )
    said = "canceled, TASK_STATE_CANCELED_TWICE, agent"
    told: Any = error_words.translate_error(error, error_words.KIND)
    assert (told.reason, told.message, told.retry_after) == (Reason.INVALID_PARAMS, said, 2)
    assert told.metadata == {"taskId": "ROLE_USER", "state": "working"}
    assert told.violations == (Violation("message.ROLE_USER", said),)
    far: Any = error_words.translate_error(StatusError(status_of(error), [("x", "y")]), error_words.KIND)
    assert (far.status, far.trailers, far.metadata) == (status_of(told), [("x", "y")], ())


def test_details_that_are_broken_stay_as_they_are() -> None:
    broken = Packed(type_url=f"type.googleapis.com/{details.BadRequest.DESCRIPTOR.full_name}", value=b"\xff")
    error = StatusError(status_pb2.Status(code=3, message="ROLE_USER", details=[broken]), [])
    told: Any = error_words.translate_error(error, error_words.DRAFT)
    assert (told.status.message, list(told.status.details)) == ("user", [broken])
