"""There and back again in both spellings of 0.3's JSON: what is not on the list of losses comes back the same."""

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec, loads
from a2a_server.protocol.dialects import KIND, KIND_EXTRAS, KIND_REST, KIND_REST_EXTRAS, PROTO, Spelling, kind, proto
from tests.property.dialects import nameable, normal_kind, normal_proto
from tests.unit.gateway.codec.strategies import messages

Normal = Callable[[Any], Any]

PER_KIND = settings(max_examples=20, deadline=None)
SPELLINGS = {
    "kind": (KIND, normal_kind),
    "kind rest": (KIND_REST, normal_kind),
    "kind extras": (KIND_EXTRAS, normal_kind),
    "kind rest extras": (KIND_REST_EXTRAS, normal_kind),
    "proto": (PROTO, normal_proto),
}
EACH = pytest.mark.parametrize(("spelling", "normal"), SPELLINGS.values(), ids=SPELLINGS)
IMPATIENT = [(kind(wait=False), normal_kind), (proto(wait=False), normal_proto)]
RAW = proto(raw_files=True)

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
    pb.ListTasksRequest,
]


def trip(codec: Codec, message: Message) -> Any:
    return codec.decode(loads(codec.encode(message)), type(message))


@pytest.mark.req("LMAP-02")
@pytest.mark.parametrize("kind", SAID, ids=[kind.DESCRIPTOR.name for kind in SAID])
@EACH
@PER_KIND
@given(data=st.data())
def test_what_1_0_says_survives_0_3(spelling: Spelling, normal: Normal, kind: Any, data: st.DataObject) -> None:
    before = data.draw(messages(kind))
    if spelling is PROTO:
        nameable(before)
    for codec in spelling:
        after = trip(codec, before)
        assert after == normal(before)
        assert trip(codec, after) == after


@pytest.mark.parametrize(("spelling", "normal"), IMPATIENT, ids=["kind", "proto"])
@PER_KIND
@given(request=messages(pb.SendMessageRequest))
def test_sends_survive_where_they_do_not_wait_unasked(
    spelling: Spelling, normal: Normal, request: pb.SendMessageRequest
) -> None:
    nameable(request)
    assert trip(spelling.codec, request) == normal(request)


@PER_KIND
@given(part=messages(pb.Part), text=st.binary().map(b2a_base64))
def test_raw_files_come_back_unless_they_are_base64_text(part: pb.Part, text: bytes) -> None:
    if part.HasField("raw"):
        part.raw += b"\xff"
    assert trip(RAW.codec, part) == normal_proto(part)
    part.raw = text.rstrip(b"\n")
    assert trip(RAW.codec, part).raw == a2b_base64(text)


IDS = st.text(min_size=1) | st.text("/%25Ff", min_size=1) | st.just("None")


@st.composite
def pages(draw: st.DrawFn) -> pb.ListTaskPushNotificationConfigsResponse:
    page: pb.ListTaskPushNotificationConfigsResponse = draw(messages(pb.ListTaskPushNotificationConfigsResponse))
    for config in page.configs:
        config.task_id, config.id = draw(IDS), draw(IDS | st.just(""))
    return page


@pytest.mark.req("LMAP-02")
@EACH
@PER_KIND
@given(page=pages())
def test_push_configs_survive_0_3(
    spelling: Spelling, normal: Normal, page: pb.ListTaskPushNotificationConfigsResponse
) -> None:
    if spelling is PROTO:
        nameable(page)
    expected = normal(page)
    if spelling in {KIND, KIND_EXTRAS}:  # an array
        expected.next_page_token = ""
    assert trip(spelling.codec, page) == expected
    for config in page.configs:
        assert trip(spelling.codec, config) == normal(config)


@EACH
@PER_KIND
@given(request=messages(pb.ListTaskPushNotificationConfigsRequest), listed=messages(pb.ListTasksResponse))
def test_lists_survive_0_3(
    spelling: Spelling,
    normal: Normal,
    request: pb.ListTaskPushNotificationConfigsRequest,
    listed: pb.ListTasksResponse,
) -> None:
    expected = normal(request)
    if spelling in {KIND, KIND_EXTRAS}:  # on JSON-RPC they have no pages
        expected = pb.ListTaskPushNotificationConfigsRequest(task_id=request.task_id)
    assert trip(spelling.codec, request) == expected
    assert trip(spelling.codec, listed) == pb.ListTasksResponse(tasks=normal(listed).tasks)
    assert trip(spelling.codec, Empty()) == Empty()
