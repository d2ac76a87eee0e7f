"""Sends, their answers, and what those hold: messages, artifacts, tasks, the items of streams.

Serves LMAP, LMAP-01, CONF-08, CONF-11 and CONF-26.


States and roles have the same numbers in both versions. A peer that knows more may send a number without a name: a
request with one is refused, and an answer gets 0, which 0.3 calls unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import Violation
from a2a_server.protocol.names import COMPAT
from a2a_server.protocol.v0_3 import parts
from a2a_server.protocol.v0_3.configs import upgrade_config_into
from a2a_server.protocol.v0_3.parts import Found

_STATES: Final = frozenset(v03.TaskState.values())
_ROLES: Final = frozenset(v03.Role.values())
_ROLE_NAMES: Final = ", ".join(v03.Role.keys())
_REFERENCES: Final = "referenceTaskIds"


def upgrade_send_into(
    request: pb.SendMessageRequest, legacy: v03.SendMessageRequest, found: Found, *, waits_by_default: bool
) -> None:
    """Fill the empty `request`."""
    if legacy.HasField("request"):
        upgrade_message_into(request.message, legacy.request, "request.", found)
    configured = legacy.HasField("configuration")
    if configured:
        _upgrade_configuration(request, legacy.configuration)
    if not (legacy.configuration.blocking if configured else waits_by_default):
        request.configuration.return_immediately = True
    if legacy.HasField("metadata"):
        request.metadata.CopyFrom(legacy.metadata)


def _upgrade_configuration(request: pb.SendMessageRequest, legacy: v03.SendMessageConfiguration) -> None:
    """Touch the new configuration only if there is something to say: an empty one says the same as none."""
    if legacy.accepted_output_modes:
        request.configuration.accepted_output_modes.extend(legacy.accepted_output_modes)
    if legacy.HasField("push_notification"):
        upgrade_config_into(request.configuration.task_push_notification_config, legacy.push_notification)
    if legacy.history_length:  # 0 = all of it, which in 1.0 is said by saying nothing
        request.configuration.history_length = legacy.history_length


def upgrade_message_into(message: pb.Message, legacy: v03.Message, path: str, found: Found) -> None:
    """Fill the empty `message`; `path` is "" or ends in a dot."""
    message.message_id = legacy.message_id
    message.context_id = legacy.context_id
    message.task_id = legacy.task_id
    if legacy.role in _ROLES:
        message.role = cast("pb.Role", legacy.role)
    else:
        found.append(Violation(f"{path}role", f"unknown value {legacy.role}; allowed are {_ROLE_NAMES}"))
    new = message.parts
    for index, part in enumerate(legacy.content[:]):  # as a list: protobuf's own way to iterate is slower
        parts.upgrade_into(new.add(), part, f"{path}content[{index}]", found)
    if legacy.extensions:
        message.extensions.extend(legacy.extensions)
    if legacy.HasField("metadata"):
        message.metadata.CopyFrom(legacy.metadata)
        if task_ids := take_references(message.metadata):
            message.reference_task_ids.extend(task_ids)
            if not message.metadata.fields:  # all of it was ours
                message.ClearField("metadata")


def put_references(metadata: struct_pb2.Struct, task_ids: Sequence[str]) -> None:
    """Keep the references to other tasks, for which 0.3 has no member (LMAP-02)."""
    record = struct_pb2.Struct()
    for task_id in task_ids:
        record.fields[_REFERENCES].list_value.values.add().string_value = task_id
    metadata.fields[COMPAT].struct_value.CopyFrom(record)


def take_references(metadata: struct_pb2.Struct) -> Sequence[str]:
    """Take out what `put_references` has left, if the record holds nothing else."""
    if COMPAT not in metadata.fields:
        return ()
    record = metadata.fields[COMPAT].struct_value.fields
    values = record[_REFERENCES].list_value.values if [*record] == [_REFERENCES] else ()
    if not all(value.WhichOneof("kind") == "string_value" for value in values):
        return ()
    task_ids = [value.string_value for value in values]
    if task_ids:
        del metadata.fields[COMPAT]
    return task_ids


@dataclass(frozen=True, slots=True)
class Downgrade:
    """Makes messages of 0.3 of those of 1.0. What is given a message of 0.3 fills it; it is empty before."""

    raw_files: bool = False
    """Whether the bytes of files are written as they are, and not as base64 text (CONF-66)."""

    def answer(self, answer: pb.SendMessageResponse) -> v03.SendMessageResponse:
        legacy = v03.SendMessageResponse()
        if answer.HasField("task"):
            self._task(legacy.task, answer.task)
        elif answer.HasField("message"):
            self.message(legacy.msg, answer.message)
        return legacy

    def task(self, task: pb.Task) -> v03.Task:
        legacy = v03.Task()
        self._task(legacy, task)
        return legacy

    def item(self, item: pb.StreamResponse, *, last: bool) -> v03.StreamResponse:
        """`last`: the stream closes after this item. Only who closes it knows (CONF-06, CONF-11)."""
        legacy = v03.StreamResponse()
        kind = item.WhichOneof("payload")
        if kind == "artifact_update":
            self._artifact_update(legacy.artifact_update, item.artifact_update)
        elif kind == "status_update":
            self._status_update(legacy.status_update, item.status_update)
            legacy.status_update.final = last
        elif kind == "task":
            self._task(legacy.task, item.task)
        elif kind == "message":
            self.message(legacy.msg, item.message)
        return legacy

    def message(self, legacy: v03.Message, message: pb.Message) -> None:
        legacy.message_id = message.message_id
        legacy.context_id = message.context_id
        legacy.task_id = message.task_id
        legacy.role = cast("v03.Role", message.role if message.role in _ROLES else 0)
        content = legacy.content
        for part in message.parts[:]:
            parts.downgrade_into(content.add(), part, raw_files=self.raw_files)
        if message.extensions:
            legacy.extensions.extend(message.extensions)
        if message.HasField("metadata"):
            legacy.metadata.CopyFrom(message.metadata)
        if message.reference_task_ids:
            put_references(legacy.metadata, message.reference_task_ids)

    def _task(self, legacy: v03.Task, task: pb.Task) -> None:
        legacy.id = task.id
        legacy.context_id = task.context_id
        if task.HasField("status"):
            self._status(legacy.status, task.status)
        artifacts, history = legacy.artifacts, legacy.history
        for artifact in task.artifacts[:]:
            self._artifact(artifacts.add(), artifact)
        for message in task.history[:]:
            self.message(history.add(), message)
        if task.HasField("metadata"):
            legacy.metadata.CopyFrom(task.metadata)

    def _status(self, legacy: v03.TaskStatus, status: pb.TaskStatus) -> None:
        legacy.state = cast("v03.TaskState", status.state if status.state in _STATES else 0)
        if status.HasField("message"):
            self.message(legacy.update, status.message)
        if status.HasField("timestamp"):
            legacy.timestamp.CopyFrom(status.timestamp)

    def _artifact(self, legacy: v03.Artifact, artifact: pb.Artifact) -> None:
        legacy.artifact_id = artifact.artifact_id
        legacy.name = artifact.name
        legacy.description = artifact.description
        old = legacy.parts
        for part in artifact.parts[:]:
            parts.downgrade_into(old.add(), part, raw_files=self.raw_files)
        if artifact.HasField("metadata"):
            legacy.metadata.CopyFrom(artifact.metadata)
        if artifact.extensions:
            legacy.extensions.extend(artifact.extensions)

    def _status_update(self, legacy: v03.TaskStatusUpdateEvent, event: pb.TaskStatusUpdateEvent) -> None:
        legacy.task_id = event.task_id
        legacy.context_id = event.context_id
        if event.HasField("status"):
            self._status(legacy.status, event.status)
        if event.HasField("metadata"):
            legacy.metadata.CopyFrom(event.metadata)

    def _artifact_update(self, legacy: v03.TaskArtifactUpdateEvent, event: pb.TaskArtifactUpdateEvent) -> None:
        legacy.task_id = event.task_id
        legacy.context_id = event.context_id
        if event.HasField("artifact"):
            self._artifact(legacy.artifact, event.artifact)
        legacy.append = event.append
        legacy.last_chunk = event.last_chunk
        if event.HasField("metadata"):
            legacy.metadata.CopyFrom(event.metadata)
