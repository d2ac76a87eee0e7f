"""The proto's spelling beside gRPC 0.3: JSON straight from 1.0's messages is that of the 0.3 messages in between."""

from collections.abc import Callable
from typing import Any, TypeVar

import orjson
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec import Codec
from a2a_server.protocol.dialects import KIND, PROTO, Spelling, proto
from a2a_server.protocol.dialects import kept as kept_in_json
from a2a_server.protocol.dialects import names as names_in_json
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.v0_3 import artifacts, events, kept, messages, names, push, sends, tasks
from a2a_server.protocol.v0_3.options import Options
from tests.property.dialects import as_json, within
from tests.property.test_compat_round_trips import (
    IDS,
    LEGACY_ANSWERS,
    LEGACY_EVENTS,
    legacy_sends,
    legacy_tasks,
    mappable,
    said,
)
from tests.unit.gateway.codec.strategies import messages as arbitrary

M = TypeVar("M", bound=Message)

MANY = settings(max_examples=40, deadline=None)
RAW = proto(raw_files=True)
IMPATIENT = proto(wait=False)
RAW_OPTIONS = Options(raw_files=True)


def test_both_ways_keep_under_the_same_names() -> None:
    assert kept_in_json.WRAPPED == kept.WRAPPED


@given(task_id=IDS, config_id=IDS)
def test_both_ways_make_the_same_names(task_id: str, config_id: str) -> None:
    assert names_in_json.config_name(task_id, config_id) == names.config_name(task_id, config_id)


def artifact(message: pb.Artifact, options: Options) -> v03.Artifact:
    legacy = v03.Artifact()
    artifacts.downgrade_into(legacy, message, options)
    return legacy


FORTH: list[Any] = [
    pytest.param(pb.Message, messages.downgrade, id="Message"),
    pytest.param(pb.Task, tasks.downgrade, id="Task"),
    pytest.param(pb.Artifact, artifact, id="Artifact"),
    pytest.param(pb.SendMessageResponse, events.downgrade_answer, id="SendMessageResponse"),
    pytest.param(pb.StreamResponse, lambda item, options: events.downgrade(item, options, last=False), id="item"),
]


def same(codec: Codec, message: Message, legacy: Any) -> None:
    """Nothing in the JSON is unknown to the 0.3 proto, and it says the same."""
    assert ParseDict(orjson.loads(codec.encode(message)), type(legacy)()) == legacy


@pytest.mark.req("LRES-05", "LMAP-02")
@pytest.mark.parametrize(("kind", "downgrade"), FORTH)
@MANY
@given(data=st.data())
def test_answers_are_written_alike(kind: type[Message], downgrade: Callable[..., Any], data: st.DataObject) -> None:
    message = data.draw(arbitrary(kind))
    same(PROTO.codec, message, downgrade(as_json(message), Options()))
    same(RAW.codec, message, downgrade(as_json(message), RAW_OPTIONS))


@MANY
@given(item=arbitrary(pb.StreamResponse))
def test_the_item_that_ends_a_stream_is_written_alike(item: pb.StreamResponse) -> None:
    same(PROTO.last, item, events.downgrade(as_json(item), last=True))


@MANY
@given(request=arbitrary(pb.SendMessageRequest))
def test_sends_are_written_alike_where_absence_does_not_wait(request: pb.SendMessageRequest) -> None:
    legacy = sends.downgrade(as_json(request))
    legacy.configuration.SetInParent()  # an empty one is written, and says the same
    same(IMPATIENT.codec, request, legacy)


@MANY
@given(config=arbitrary(pb.TaskPushNotificationConfig))
def test_push_configs_are_written_alike(config: pb.TaskPushNotificationConfig) -> None:
    same(PROTO.codec, config, push.downgrade(config))


BACK: list[Any] = [
    pytest.param(said(), messages.upgrade, pb.Message, id="Message"),
    pytest.param(legacy_tasks(), tasks.upgrade, pb.Task, id="Task"),
    pytest.param(LEGACY_EVENTS, events.upgrade, pb.StreamResponse, id="StreamResponse"),
    pytest.param(LEGACY_ANSWERS, events.upgrade_answer, pb.SendMessageResponse, id="SendMessageResponse"),
]


@pytest.mark.req("LRES-05", "LMAP-02")
@pytest.mark.parametrize(("strategy", "upgrade", "kind"), BACK)
@MANY
@given(data=st.data())
def test_what_peers_say_is_read_alike(
    strategy: st.SearchStrategy[Any], upgrade: Callable[[Any], Any], kind: type[Message], data: st.DataObject
) -> None:
    legacy = timely(data.draw(strategy))
    for as_in_proto in (False, True):
        told = MessageToDict(legacy, preserving_proto_field_name=as_in_proto)
        if mappable(legacy):
            assert PROTO.codec.decode(told, kind) == upgrade(legacy)
        elif is_spelt(legacy):
            with pytest.raises(A2AError):
                PROTO.codec.decode(told, kind)


def timely(legacy: M) -> M:
    """With times that JSON can tell."""
    for time in within(Timestamp, legacy):
        time.seconds, time.nanos = time.seconds % 2**31, time.nanos % 10**9
    return legacy


def is_spelt(legacy: Message) -> bool:
    """Whether all enums have names. JSON may have numbers, too, and what they mean is not for the codec to say."""
    states = {status.state for status in within(v03.TaskStatus, legacy)}
    roles = {message.role for message in within(v03.Message, legacy)}
    return states <= {*v03.TaskState.values()} and roles <= {*v03.Role.values()}


@MANY
@given(legacy=legacy_sends().filter(mappable), spelling=st.sampled_from([PROTO, IMPATIENT]))
def test_what_clients_ask_is_read_alike(legacy: v03.SendMessageRequest, spelling: Spelling) -> None:
    waits = spelling is PROTO
    if legacy.HasField("configuration"):
        legacy.configuration.blocking = waits  # when absent, only JSON can tell
    read = spelling.codec.decode(MessageToDict(legacy), pb.SendMessageRequest)
    assert read == sends.upgrade(legacy, Options(wait_unasked=waits))


# -- the schema's spelling keeps in the same way


@MANY
@given(part=arbitrary(pb.Part))
def test_metadata_of_parts_is_the_same_in_both_spellings(part: pb.Part) -> None:
    kind, proto = (orjson.loads(spelling.codec.encode(part)) for spelling in (KIND, PROTO))
    assert kind.get("metadata") == proto.get("metadata")
