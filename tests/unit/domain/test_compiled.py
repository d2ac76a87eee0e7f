"""The functions that are written for each type of message say what a walk along the plan would say."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import struct_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.checkers import checker_of
from a2a_server.domain.demands import faults_of

MESSAGE = pb.Message(
    message_id="m",
    role=pb.ROLE_USER,
    parts=[{"text": "x"}, {"data": {"number_value": 1}, "metadata": {"a": 1}}, {"raw": b"x"}, {"url": "u"}],
    metadata={"a": {"b": [1]}},
)
ARTIFACT = pb.Artifact(artifact_id="a", parts=[{"text": "x"}, {"text": "y"}], metadata={"a": 1})
STATUS = pb.TaskStatus(state=pb.TASK_STATE_WORKING, message=MESSAGE)
CODE = pb.AuthorizationCodeOAuthFlow(authorization_url="u", token_url="u", scopes={"s": "d"})
CARD = pb.AgentCard(
    name="n",
    description="d",
    version="1",
    supported_interfaces=[{"url": "u", "protocol_binding": "GRPC", "protocol_version": "1.0"}],
    provider={"url": "u", "organization": "o"},
    capabilities={"extensions": [{"uri": "u", "params": {"a": 1}}]},
    security_schemes={
        "http": pb.SecurityScheme(http_auth_security_scheme={"scheme": "Bearer"}),
        "key": pb.SecurityScheme(api_key_security_scheme={"location": "header", "name": "n"}),
        "oidc": pb.SecurityScheme(open_id_connect_security_scheme={"open_id_connect_url": "u"}),
        "oauth": pb.SecurityScheme(oauth2_security_scheme={"flows": {"authorization_code": CODE}}),
    },
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[{"id": "s", "name": "n", "description": "d", "tags": ["t"]}],
    signatures=[{"protected": "p", "signature": "s", "header": {"a": 1}}],
)
CONFIG = pb.TaskPushNotificationConfig(url="u", authentication={"scheme": "Bearer"})
DEEP = pb.Part(data={"null_value": 0}).data
for _ in range(31):  # one object more than there may be inside each other
    DEEP = struct_pb2.Value(struct_value=struct_pb2.Struct(fields={"a": DEEP}))
SOUND = [
    pb.SendMessageRequest(message=MESSAGE, configuration={"task_push_notification_config": CONFIG}, metadata={"a": 1}),
    pb.StreamResponse(message=MESSAGE),
    pb.StreamResponse(
        task={"id": "t", "status": STATUS, "artifacts": [ARTIFACT] * 2, "history": [MESSAGE] * 2, "metadata": {"a": 1}}
    ),
    pb.StreamResponse(status_update={"task_id": "t", "context_id": "c", "status": STATUS, "metadata": {"a": 1}}),
    pb.StreamResponse(artifact_update={"task_id": "t", "context_id": "c", "artifact": ARTIFACT, "metadata": {"a": 1}}),
    CARD,
    pb.ListTasksRequest(status=pb.TASK_STATE_WORKING),
]


def broken(root: Message, message: Any) -> Iterator[Message]:
    """The root again and again, each time with one other fault somewhere inside `message`, which is part of it."""
    for field, _ in message.ListFields():
        yield from _without(root, message, field)
        value = getattr(message, field.name)  # anew: clearing a field has cut its old value off
        if field.enum_type:
            setattr(message, field.name, 99)
            yield root
            setattr(message, field.name, value)
        elif isinstance(value, struct_pb2.Struct | struct_pb2.Value):
            yield from _buried(root, value)
        elif field.message_type:
            for inner in _inner(field, value):
                yield from broken(root, inner)


def _without(root: Message, message: Message, field: FieldDescriptor) -> Iterator[Message]:
    before = type(message)()
    before.CopyFrom(message)
    message.ClearField(field.name)
    yield root
    message.CopyFrom(before)


def _buried(root: Message, value: Any) -> Iterator[Message]:
    before = type(value)()
    before.CopyFrom(value)
    for content in (DEEP if isinstance(value, struct_pb2.Value) else DEEP.struct_value, type(value)()):
        value.CopyFrom(content)
        yield root
    value.CopyFrom(before)


def _inner(field: FieldDescriptor, value: Any) -> list[Message]:
    if field.message_type and field.message_type.GetOptions().map_entry:
        values = list(value.values())
        return [item for item in values if isinstance(item, Message)]
    return list(value) if field.is_repeated else [value]


@pytest.mark.parametrize("message", SOUND, ids=lambda message: message.ListFields()[0][0].full_name)
def test_sound_messages(message: Message) -> None:
    assert checker_of(message.DESCRIPTOR)(message)
    assert not faults_of(message, "")


@pytest.mark.req("GEN-04", "GEN-05", "MSGS-03")
@pytest.mark.parametrize("message", SOUND, ids=lambda message: message.ListFields()[0][0].full_name)
def test_every_single_fault_is_seen(message: Message) -> None:
    seen = {True: 0, False: 0}
    copy = type(message)()
    copy.CopyFrom(message)
    for variant in broken(copy, copy):
        sound = checker_of(variant.DESCRIPTOR)(variant)
        assert sound is (not faults_of(variant, "")), variant
        seen[sound] += 1
    assert seen[False]


@pytest.mark.parametrize("kind", pb.DESCRIPTOR.message_types_by_name.values(), ids=lambda kind: kind.name)
def test_every_type_has_its_function(kind: Any) -> None:
    empty = GetMessageClass(kind)()
    assert checker_of(empty.DESCRIPTOR)(empty) is (not faults_of(empty, ""))
