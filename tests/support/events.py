"""Events with all their members, for tests that need some."""

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import status_update

Metadata = Mapping[str, Any] | struct_pb2.Struct


def status_event(  # noqa: PLR0913, PLR0917 - the members of the event
    task_id: str,
    context_id: str,
    state: int,
    at_ms: int,
    message: pb.Message | None = None,
    metadata: Metadata | None = None,
) -> pb.StreamResponse:
    event, _ = status_update(task_id, context_id, state, at_ms, message)
    _fill(event.status_update.metadata, metadata)
    return event


def artifact_event(  # noqa: PLR0913 - as above
    task_id: str,
    context_id: str,
    artifact: pb.Artifact,
    *,
    append: bool = False,
    last_chunk: bool = False,
    metadata: Metadata | None = None,
) -> pb.StreamResponse:
    update = pb.TaskArtifactUpdateEvent(
        task_id=task_id, context_id=context_id, artifact=artifact, append=append, last_chunk=last_chunk
    )
    _fill(update.metadata, metadata)
    return pb.StreamResponse(artifact_update=update)


def _fill(target: struct_pb2.Struct, metadata: Metadata | None) -> None:
    if isinstance(metadata, struct_pb2.Struct):
        target.CopyFrom(metadata)
    elif metadata:
        target.update(metadata)


def agent_message(message_id: str, context_id: str, task_id: str, parts: Iterable[pb.Part]) -> pb.Message:
    return pb.Message(message_id=message_id, context_id=context_id, task_id=task_id, role=pb.ROLE_AGENT, parts=parts)
