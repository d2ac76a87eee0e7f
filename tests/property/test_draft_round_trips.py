"""There and back again in the draft's JSON: what is not on the list of losses comes back the same."""

from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec, loads
from a2a_server.protocol.draft.json import DRAFT
from tests.property.dialects import nameable, normal
from tests.unit.gateway.codec.strategies import messages

PER_KIND = settings(max_examples=30, deadline=None)
IDS = st.text(min_size=1) | st.text("/%25Ff", min_size=1) | st.just("None")

SAID: list[Any] = [
    pb.Message,
    pb.Task,
    pb.Artifact,
    pb.StreamResponse,
    pb.SendMessageResponse,
    pb.SendMessageRequest,
    pb.GetTaskRequest,
    pb.CancelTaskRequest,
    pb.SubscribeToTaskRequest,
    pb.GetTaskPushNotificationConfigRequest,
    pb.DeleteTaskPushNotificationConfigRequest,
    pb.ListTaskPushNotificationConfigsRequest,
    pb.ListTasksResponse,
    pb.GetExtendedAgentCardRequest,
    Empty,
]


def trip(codec: Codec, message: Message) -> Any:
    return codec.decode(loads(codec.encode(message)), type(message))


def normal_draft(message: Any) -> Any:
    """As `normal`, but the draft says tenants in requests."""
    result = normal(message)
    if "tenant" in message.DESCRIPTOR.fields_by_name:
        result.tenant = message.tenant
    return result


def waiting(message: Message) -> Message:
    """A send that says that it waits, because the draft's do not wait without a configuration."""
    if isinstance(message, pb.SendMessageRequest):
        said = pb.SendMessageRequest()
        said.CopyFrom(message)
        said.configuration.SetInParent()
        return said
    return message


@pytest.mark.req("DRFT-02")
@pytest.mark.parametrize("kind", SAID, ids=[kind.DESCRIPTOR.name for kind in SAID])
@PER_KIND
@given(data=st.data())
def test_what_1_0_says_survives_the_draft(kind: Any, data: st.DataObject) -> None:
    before = data.draw(messages(kind))
    nameable(before)
    for codec in DRAFT[:2]:
        after = trip(codec, waiting(before))
        assert after == normal_draft(before)
        assert trip(codec, waiting(after)) == after


@pytest.mark.req("DRFT-02", "DRFT-04")
@PER_KIND
@given(page=messages(pb.ListTaskPushNotificationConfigsResponse), data=st.data())
def test_push_configs_survive_the_draft(page: pb.ListTaskPushNotificationConfigsResponse, data: st.DataObject) -> None:
    for config in page.configs:
        config.task_id, config.id = data.draw(IDS), data.draw(IDS | st.just(""))
    nameable(page)
    expected = normal(page)
    assert trip(DRAFT.codec, page) == expected
    for config in page.configs:
        assert trip(DRAFT.codec, config) == normal(config)
