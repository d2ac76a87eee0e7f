"""What streams carry, and the answer of a send (spec: LMAP, CONF-11)."""

from __future__ import annotations

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.v0_3 import artifacts, messages, tasks
from a2a_server.protocol.v0_3.faults import Faults, settle
from a2a_server.protocol.v0_3.options import DEFAULT, Options


def upgrade(legacy: v03.StreamResponse) -> pb.StreamResponse:
    """`final` is not looked at: in 1.0 the end of the stream says it."""
    response, faults = pb.StreamResponse(), Faults()
    kind = legacy.WhichOneof("payload")
    if kind == "artifact_update":
        _upgrade_artifact_update(response.artifact_update, legacy.artifact_update, faults)
    elif kind == "status_update":
        _upgrade_status_update(response.status_update, legacy.status_update, faults)
    else:
        _upgrade_payload(response, legacy, faults)
    settle(faults)
    return response


def _upgrade_status_update(event: pb.TaskStatusUpdateEvent, legacy: v03.TaskStatusUpdateEvent, faults: Faults) -> None:
    event.task_id = legacy.task_id
    event.context_id = legacy.context_id
    if legacy.HasField("status"):
        tasks.upgrade_status_into(event.status, legacy.status, "status_update.status.", faults)
    if legacy.HasField("metadata"):
        event.metadata.CopyFrom(legacy.metadata)


def _upgrade_artifact_update(
    event: pb.TaskArtifactUpdateEvent, legacy: v03.TaskArtifactUpdateEvent, faults: Faults
) -> None:
    event.task_id = legacy.task_id
    event.context_id = legacy.context_id
    if legacy.HasField("artifact"):
        artifacts.upgrade_into(event.artifact, legacy.artifact, "artifact_update.artifact.", faults)
    event.append = legacy.append
    event.last_chunk = legacy.last_chunk
    if legacy.HasField("metadata"):
        event.metadata.CopyFrom(legacy.metadata)


def downgrade(response: pb.StreamResponse, options: Options = DEFAULT, *, last: bool) -> v03.StreamResponse:
    """`last` = the stream closes after this item; only who closes it knows (CONF-06, CONF-11)."""
    legacy = v03.StreamResponse()
    kind = response.WhichOneof("payload")
    if kind == "artifact_update":
        _downgrade_artifact_update(legacy.artifact_update, response.artifact_update, options)
    elif kind == "status_update":
        _downgrade_status_update(legacy.status_update, response.status_update, options, last=last)
    else:
        _downgrade_payload(legacy, response, options)
    return legacy


def _downgrade_status_update(
    legacy: v03.TaskStatusUpdateEvent, event: pb.TaskStatusUpdateEvent, options: Options, *, last: bool
) -> None:
    legacy.task_id = event.task_id
    legacy.context_id = event.context_id
    if event.HasField("status"):
        tasks.downgrade_status_into(legacy.status, event.status, options)
    legacy.final = last
    if event.HasField("metadata"):
        legacy.metadata.CopyFrom(event.metadata)


def _downgrade_artifact_update(
    legacy: v03.TaskArtifactUpdateEvent, event: pb.TaskArtifactUpdateEvent, options: Options
) -> None:
    legacy.task_id = event.task_id
    legacy.context_id = event.context_id
    if event.HasField("artifact"):
        artifacts.downgrade_into(legacy.artifact, event.artifact, options)
    legacy.append = event.append
    legacy.last_chunk = event.last_chunk
    if event.HasField("metadata"):
        legacy.metadata.CopyFrom(event.metadata)


# -- the answer of a send: a task or a message, as in a stream


def upgrade_answer(legacy: v03.SendMessageResponse) -> pb.SendMessageResponse:
    response, faults = pb.SendMessageResponse(), Faults()
    _upgrade_payload(response, legacy, faults)
    settle(faults)
    return response


def downgrade_answer(response: pb.SendMessageResponse, options: Options = DEFAULT) -> v03.SendMessageResponse:
    legacy = v03.SendMessageResponse()
    _downgrade_payload(legacy, response, options)
    return legacy


def _upgrade_payload(
    response: pb.SendMessageResponse | pb.StreamResponse,
    legacy: v03.SendMessageResponse | v03.StreamResponse,
    faults: Faults,
) -> None:
    if legacy.HasField("task"):
        tasks.upgrade_into(response.task, legacy.task, "task.", faults)
    elif legacy.HasField("msg"):
        messages.upgrade_into(response.message, legacy.msg, "msg.", faults)


def _downgrade_payload(
    legacy: v03.SendMessageResponse | v03.StreamResponse,
    response: pb.SendMessageResponse | pb.StreamResponse,
    options: Options,
) -> None:
    if response.HasField("task"):
        tasks.downgrade_into(legacy.task, response.task, options)
    elif response.HasField("message"):
        messages.downgrade_into(legacy.msg, response.message, options)
