"""Messages as dialects of 0.3 bring them back: what each of them loses, and nothing else (docs/protocol-0.3.md)."""

from collections.abc import Iterator
from typing import Any, TypeVar

from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb

M = TypeVar("M", bound=Message)


def copy(message: M) -> M:
    result = type(message)()
    result.CopyFrom(message)
    return result


def walk(message: Message) -> Iterator[Any]:
    """The message and all that is set inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = [item for item in value.values() if isinstance(item, Message)]
        else:
            inner = list(value) if field.is_repeated else [value]
        for item in inner:
            yield from walk(item)


def within(kind: type[M], message: Message) -> Iterator[M]:
    yield from [item for item in walk(message) if isinstance(item, kind)]


_REQUIRED = {
    "Task": "status",
    "TaskStatusUpdateEvent": "status",
    "TaskArtifactUpdateEvent": "artifact",
    "SendMessageRequest": "message",
}


def as_json(message: M) -> M:
    """What all JSON changes, 1.0's too: required members are there, times have milliseconds, no value is null."""
    result = copy(message)
    for outer in [*walk(result)]:
        if name := _REQUIRED.get(outer.DESCRIPTOR.name):
            getattr(outer, name).SetInParent()
    for time in within(timestamp_pb2.Timestamp, result):
        time.nanos -= time.nanos % 1_000_000
    for value in within(struct_pb2.Value, result):
        if value.WhichOneof("kind") is None:
            value.null_value = struct_pb2.NULL_VALUE
    return result


def normal(message: M) -> M:
    """What both spellings lose besides."""
    result = as_json(message)
    _name_all(result)
    for part in within(pb.Part, result):
        if part.HasField("data") and part.media_type == "application/json":
            part.media_type = ""
        named = (part.media_type or part.filename) and part.WhichOneof("content") not in {"raw", "url"}
        wrapped = part.HasField("data") and part.data.WhichOneof("kind") != "struct_value"
        if (named or wrapped) and not part.metadata.fields:
            part.ClearField("metadata")
    for config in within(pb.TaskPushNotificationConfig, result):
        if config.authentication == pb.AuthenticationInfo():
            config.ClearField("authentication")
    _without_places(result)
    for request in within(pb.SendMessageRequest, result):
        if request.configuration == pb.SendMessageConfiguration():  # which says the same as none
            request.ClearField("configuration")
    return result


def _name_all(result: Message) -> None:
    for status in within(pb.TaskStatus, result):
        if status.state not in pb.TaskState.values():
            status.state = pb.TASK_STATE_UNSPECIFIED
    for listing in within(pb.ListTasksRequest, result):
        if listing.status not in pb.TaskState.values():
            listing.status = pb.TASK_STATE_UNSPECIFIED
    for said in within(pb.Message, result):
        if said.role not in pb.Role.values():
            said.role = pb.ROLE_UNSPECIFIED


def _without_places(message: Message) -> None:
    """Tenants are told by URLs, and the task of a config inside a send by the message."""
    for inner in walk(message):
        if "tenant" in inner.DESCRIPTOR.fields_by_name:
            inner.ClearField("tenant")
    for configuration in within(pb.SendMessageConfiguration, message):
        if configuration.HasField("task_push_notification_config"):
            configuration.task_push_notification_config.ClearField("task_id")


def nameable(message: Message) -> None:
    """Let names be made of the ids of configs, where a spelling has those."""
    for config in within(pb.TaskPushNotificationConfig, message):
        config.id = config.id.replace("/", "|")
