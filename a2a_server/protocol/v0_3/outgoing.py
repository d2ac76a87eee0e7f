"""Translates calls of 1.0 that go to a server of 0.3: requests down, answers up (spec: LMAP; wire-0.3 1, 3 and 8).

The other files of this package serve clients of 0.3. This one is for our own client, when the server is the older one.
What an answer holds that 1.0 cannot say is dropped, because an answer cannot be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from google.protobuf import empty_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.v0_3 import configs, messages, parts
from a2a_server.protocol.v0_3 import resource_names as names
from a2a_server.protocol.v0_3.upgraded_cards import upgrade_card

Translate = Callable[[Any], Message]

_SERVICE: Final = v03.DESCRIPTOR.services_by_name["A2AService"].methods_by_name
_STATES: Final = frozenset(pb.TaskState.values())


class OutgoingRpc(NamedTuple):
    method: MethodDescriptor
    """The RPC of 0.3."""
    jsonrpc: str
    """The method's name over JSON-RPC."""
    request: Translate
    """From 1.0 to 0.3."""
    answer: Translate
    """From 0.3 to 1.0; of a stream, for each item."""


# -- requests


def downgrade_send(request: pb.SendMessageRequest) -> v03.SendMessageRequest:
    legacy, asked = v03.SendMessageRequest(), request.configuration
    if request.HasField("message"):
        messages.Downgrade().message(legacy.request, request.message)
    legacy.configuration.blocking = not asked.return_immediately
    legacy.configuration.accepted_output_modes.extend(asked.accepted_output_modes)
    legacy.configuration.history_length = asked.history_length
    if asked.HasField("task_push_notification_config"):
        inner = configs.downgrade_inner(asked.task_push_notification_config)
        legacy.configuration.push_notification.CopyFrom(inner)
    if request.HasField("metadata"):
        legacy.metadata.CopyFrom(request.metadata)
    return legacy


def _downgrade_get(request: pb.GetTaskRequest) -> v03.GetTaskRequest:
    return v03.GetTaskRequest(name=names.task_name(request.id), history_length=request.history_length)


def _downgrade_list(
    request: pb.ListTaskPushNotificationConfigsRequest,
) -> v03.ListTaskPushNotificationConfigRequest:
    return v03.ListTaskPushNotificationConfigRequest(
        parent=names.task_name(request.task_id), page_size=request.page_size, page_token=request.page_token
    )


def _downgrade_create(config: pb.TaskPushNotificationConfig) -> v03.CreateTaskPushNotificationConfigRequest:
    """The path of creation, and with it `parent`, ends in the collection's name."""
    return v03.CreateTaskPushNotificationConfigRequest(
        parent=names.collection_name(config.task_id), config_id=config.id, config=configs.downgrade_config(config)
    )


def _by_task(kind: Callable[..., Message]) -> Translate:
    return lambda request: kind(name=names.task_name(request.id))


def _by_config(kind: Callable[..., Message]) -> Translate:
    return lambda request: kind(name=names.config_name(request.task_id, request.id))


# -- answers


def upgrade_answer(legacy: v03.SendMessageResponse) -> pb.SendMessageResponse:
    answer = pb.SendMessageResponse()
    if legacy.HasField("task"):
        _task(answer.task, legacy.task)
    elif legacy.HasField("msg"):
        _message(answer.message, legacy.msg)
    return answer


def upgrade_task(legacy: v03.Task) -> pb.Task:
    task = pb.Task()
    _task(task, legacy)
    return task


def upgrade_item(legacy: v03.StreamResponse) -> pb.StreamResponse:
    item = pb.StreamResponse()
    kind = legacy.WhichOneof("payload")
    if kind == "task":
        _task(item.task, legacy.task)
    elif kind == "msg":
        _message(item.message, legacy.msg)
    elif kind == "status_update":
        _status_update(item.status_update, legacy.status_update)
    elif kind == "artifact_update":
        _artifact_update(item.artifact_update, legacy.artifact_update)
    return item


def _task(task: pb.Task, legacy: v03.Task) -> None:
    task.id, task.context_id = legacy.id, legacy.context_id
    _status(task.status, legacy.status)
    for artifact in legacy.artifacts:
        _artifact(task.artifacts.add(), artifact)
    for message in legacy.history:
        _message(task.history.add(), message)
    _metadata(task, legacy)


def _message(message: pb.Message, legacy: v03.Message) -> None:
    messages.upgrade_message_into(message, legacy, "", [])


def _status(status: pb.TaskStatus, legacy: v03.TaskStatus) -> None:
    status.state = legacy.state if legacy.state in _STATES else 0  # type: ignore[assignment] # the same numbers
    if legacy.HasField("update"):
        _message(status.message, legacy.update)
    if legacy.HasField("timestamp"):
        status.timestamp.CopyFrom(legacy.timestamp)


def _artifact(artifact: pb.Artifact, legacy: v03.Artifact) -> None:
    artifact.artifact_id, artifact.name, artifact.description = legacy.artifact_id, legacy.name, legacy.description
    for part in legacy.parts:
        parts.upgrade_into(artifact.parts.add(), part, "", [])
    artifact.extensions.extend(legacy.extensions)
    _metadata(artifact, legacy)


def _status_update(event: pb.TaskStatusUpdateEvent, legacy: v03.TaskStatusUpdateEvent) -> None:
    event.task_id, event.context_id = legacy.task_id, legacy.context_id
    _status(event.status, legacy.status)
    _metadata(event, legacy)


def _artifact_update(event: pb.TaskArtifactUpdateEvent, legacy: v03.TaskArtifactUpdateEvent) -> None:
    event.task_id, event.context_id = legacy.task_id, legacy.context_id
    _artifact(event.artifact, legacy.artifact)
    event.append, event.last_chunk = legacy.append, legacy.last_chunk
    _metadata(event, legacy)


def _metadata(target: Any, legacy: Any) -> None:  # noqa: ANN401 - all that have metadata
    if legacy.HasField("metadata"):
        target.metadata.CopyFrom(legacy.metadata)


def upgrade_config(legacy: v03.TaskPushNotificationConfig) -> pb.TaskPushNotificationConfig:
    config = pb.TaskPushNotificationConfig()
    configs.upgrade_config_into(config, legacy.push_notification_config)
    try:
        config.task_id, named = names.new_config_of(legacy.name)
    except ValueError:
        return config
    config.id = config.id or named
    return config


def _upgrade_configs(
    legacy: v03.ListTaskPushNotificationConfigResponse,
) -> pb.ListTaskPushNotificationConfigsResponse:
    return pb.ListTaskPushNotificationConfigsResponse(
        configs=map(upgrade_config, legacy.configs), next_page_token=legacy.next_page_token
    )


# -- RPCs

_CONFIG: Final = "TaskPushNotificationConfig"
_IN_JSONRPC: Final = "tasks/pushNotificationConfig"

OUTGOING: Final[Mapping[str, OutgoingRpc]] = MappingProxyType(
    {
        rpc: OutgoingRpc(_SERVICE[name], jsonrpc, request, answer)
        for rpc, name, jsonrpc, request, answer in (
            ("SendMessage", "SendMessage", "message/send", downgrade_send, upgrade_answer),
            ("SendStreamingMessage", "SendStreamingMessage", "message/stream", downgrade_send, upgrade_item),
            ("GetTask", "GetTask", "tasks/get", _downgrade_get, upgrade_task),
            ("CancelTask", "CancelTask", "tasks/cancel", _by_task(v03.CancelTaskRequest), upgrade_task),
            (
                "SubscribeToTask",
                "TaskSubscription",
                "tasks/resubscribe",
                _by_task(v03.TaskSubscriptionRequest),
                upgrade_item,
            ),
            (f"Create{_CONFIG}", f"Create{_CONFIG}", f"{_IN_JSONRPC}/set", _downgrade_create, upgrade_config),
            (
                f"Get{_CONFIG}",
                f"Get{_CONFIG}",
                f"{_IN_JSONRPC}/get",
                _by_config(v03.GetTaskPushNotificationConfigRequest),
                upgrade_config,
            ),
            (f"List{_CONFIG}s", f"List{_CONFIG}", f"{_IN_JSONRPC}/list", _downgrade_list, _upgrade_configs),
            (
                f"Delete{_CONFIG}",
                f"Delete{_CONFIG}",
                f"{_IN_JSONRPC}/delete",
                _by_config(v03.DeleteTaskPushNotificationConfigRequest),
                lambda _: empty_pb2.Empty(),
            ),
            (
                "GetExtendedAgentCard",
                "GetAgentCard",
                "agent/getAuthenticatedExtendedCard",
                lambda _: v03.GetAgentCardRequest(),
                upgrade_card,
            ),
        )
    }
)
"""By the name of the RPC of 1.0. 0.3 has no ListTasks."""
