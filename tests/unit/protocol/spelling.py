"""What a spelling writes, reads and refuses, in short. Parts of messages travel inside of what is sent whole."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec, loads
from a2a_server.protocol.draft.json import DRAFT
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.v0_3.json import Spelling, kind_json, proto_json

KIND = kind_json()
KIND_REST = kind_json(rest=True)
KIND_EXTRAS = kind_json(extras=True)
KIND_REST_EXTRAS = kind_json(rest=True, extras=True)
PROTO = proto_json()
RAW = proto_json(raw_files=True)
__all__ = ["DRAFT", "KIND", "KIND_EXTRAS", "KIND_REST", "KIND_REST_EXTRAS", "PROTO", "RAW", "V1", "Spelling"]

Step = str | int
INSIDE: Mapping[type[Message], tuple[Callable[[Any], Message], list[Step]]] = {
    pb.Artifact: (lambda artifact: pb.Task(artifacts=[artifact]), ["artifacts", 0]),
    pb.Message: (lambda message: pb.Task(history=[message]), ["history", 0]),
    pb.Part: (lambda part: pb.Task(artifacts=[pb.Artifact(parts=[part])]), ["artifacts", 0, "parts", 0]),
    pb.TaskStatus: (lambda status: pb.Task(status=status), ["status"]),
    pb.TaskArtifactUpdateEvent: (lambda event: pb.StreamResponse(artifact_update=event), ["artifactUpdate"]),
    pb.TaskStatusUpdateEvent: (lambda event: pb.StreamResponse(status_update=event), ["statusUpdate"]),
}
"""Where something stands in what is answered."""


def written(spelling: Spelling | Codec, message: Message) -> Any:
    codec = spelling.codec if isinstance(spelling, Spelling) else spelling
    if codec is V1 or codec in DRAFT or type(message) not in INSIDE:
        return orjson.loads(codec.encode(message))
    wrap, path = INSIDE[type(message)]
    told = orjson.loads(codec.encode(wrap(message)))
    for step in path:
        told = told[step] if isinstance(step, int) or step in told else told  # without wrapper over JSON-RPC
    return told


def read(spelling: Spelling | Codec, value: Any, kind: Any) -> Any:
    """As from the wire."""
    wrapped, kind, _, inner = _sent(spelling, loads(orjson.dumps(value)), kind)
    return inner(_codec(spelling).decode(wrapped, kind))


def faults(spelling: Spelling | Codec, value: Any, kind: Any) -> dict[str, str]:
    wrapped, kind, prefix, _ = _sent(spelling, value, kind)
    with pytest.raises(A2AError) as caught:
        _codec(spelling).decode(wrapped, kind)
    assert caught.value.reason is Reason.INVALID_PARAMS
    found = {
        violation.field.removeprefix(prefix).removeprefix("."): violation.description
        for violation in caught.value.violations
    }
    assert len(found) == len(caught.value.violations)
    return found


def _codec(spelling: Spelling | Codec) -> Codec:
    return spelling.codec if isinstance(spelling, Spelling) else spelling


def _sent(spelling: Spelling | Codec, value: Any, kind: Any) -> tuple[Any, Any, str, Callable[[Any], Any]]:
    """The same as what is sent whole, and where it stands there."""
    if spelling is V1 or spelling is DRAFT or kind not in {pb.Message, pb.Part}:
        return value, kind, "", lambda whole: whole
    if kind is pb.Message:
        return {"message": value}, pb.SendMessageRequest, "message", lambda whole: whole.message
    member = "content" if spelling in {PROTO, RAW} else "parts"
    told = {"message": {member: [value]}}
    return told, pb.SendMessageRequest, f"message.{member}[0]", lambda whole: whole.message.parts[0]
