"""The schema's spelling beside the official SDK's models of 0.3: they read what we write, and we what they dump."""

from typing import Any

import orjson
import pytest
from a2a.compat.v0_3 import types
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.dialects import KIND, KIND_REST
from tests.property.dialects import within
from tests.unit.gateway.codec.reference import canonical
from tests.unit.gateway.codec.strategies import messages

MANY = settings(max_examples=40, deadline=None)

MODELS: list[Any] = [
    (pb.Message, types.Message),
    (pb.Task, types.Task),
    (pb.Artifact, types.Artifact),
    (pb.TaskStatusUpdateEvent, types.TaskStatusUpdateEvent),
    (pb.TaskArtifactUpdateEvent, types.TaskArtifactUpdateEvent),
    (pb.TaskPushNotificationConfig, types.TaskPushNotificationConfig),
    (pb.SendMessageRequest, types.MessageSendParams),
    (pb.GetTaskRequest, types.TaskQueryParams),
    (pb.CancelTaskRequest, types.TaskIdParams),
    (pb.GetTaskPushNotificationConfigRequest, types.GetTaskPushNotificationConfigParams),
    (pb.DeleteTaskPushNotificationConfigRequest, types.DeleteTaskPushNotificationConfigParams),
    (pb.ListTaskPushNotificationConfigsRequest, types.ListTaskPushNotificationConfigParams),
]


def sound(message: Any) -> Any:
    """With what the schema cannot do without."""
    for said in within(pb.Message, message):
        if said.role not in {pb.ROLE_USER, pb.ROLE_AGENT}:
            said.role = pb.ROLE_AGENT
    if isinstance(message, pb.SendMessageRequest) and not message.message.role:
        message.message.role = pb.ROLE_USER
    return message


def dumped(model: BaseModel) -> Any:
    return orjson.loads(model.model_dump_json(by_alias=True, exclude_none=True))


@pytest.mark.req("LRPC-03", "LRPC-04")
@pytest.mark.parametrize(("kind", "model"), MODELS, ids=[model.__name__ for _, model in MODELS])
@MANY
@given(data=st.data())
def test_the_models_read_what_is_written_and_their_dumps_are_read(
    kind: type[Message], model: type[BaseModel], data: st.DataObject
) -> None:
    message = sound(data.draw(messages(kind)))
    for codec in KIND:
        written = orjson.loads(codec.encode(message))
        dump = dumped(model.model_validate(written))
        assert canonical(dump) == canonical(written)
        assert codec.decode(dump, kind) == codec.decode(written, kind)


ITEMS = messages(pb.StreamResponse).filter(lambda item: item.WhichOneof("payload")).map(sound)
ANSWERS = messages(pb.SendMessageResponse).filter(lambda item: item.WhichOneof("payload")).map(sound)


@pytest.mark.req("LRPC-02", "LRPC-05")
@MANY
@given(item=ITEMS)
def test_items_of_streams_are_bare_objects(item: pb.StreamResponse) -> None:
    for final, codec in enumerate(KIND):
        written = orjson.loads(codec.encode(item))
        told = types.SendStreamingMessageSuccessResponse.model_validate({"id": 1, "result": written}).result
        assert told.kind == item.WhichOneof("payload").replace("_", "-")
        assert canonical(dumped(told)) == canonical(written)
        if isinstance(told, types.TaskStatusUpdateEvent):
            assert told.final is bool(final)
            assert [*written][:2] == ["kind", "final"]
        assert next(iter(written)) == "kind"


@pytest.mark.req("LRPC-02", "LRPC-08")
@MANY
@given(answer=ANSWERS)
def test_answers_of_sends_are_bare_objects(answer: pb.SendMessageResponse) -> None:
    written = orjson.loads(KIND.codec.encode(answer))
    told = types.SendMessageSuccessResponse.model_validate({"id": 1, "result": written}).result
    assert told.kind == answer.WhichOneof("payload")
    assert canonical(dumped(told)) == canonical(written)
    assert [*orjson.loads(KIND_REST.codec.encode(answer)).items()] == [(told.kind, written)]
    assert next(iter(written)) == "kind"
