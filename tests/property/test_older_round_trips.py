"""There and back again, through messages and JSON of 0.3: what is not lost on purpose comes back the same.

`docs/protocol-0.3.md` lists what is lost. Each `normal_*` here applies those rows and nothing else.
"""

from binascii import b2a_base64
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import orjson
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_gateway.older.v0_3.requests import spelling_of
from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec import Codec, loads
from a2a_server.protocol.draft.json import DRAFT
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import COMPAT
from a2a_server.protocol.options import LEGACY_DEFAULT
from a2a_server.protocol.v0_3 import configs, messages
from a2a_server.protocol.v0_3 import grpc_calls as calls
from a2a_server.protocol.v0_3 import resource_names as names
from a2a_server.protocol.v0_3.outgoing import OUTGOING, upgrade_item
from a2a_server.protocol.v0_3.parts import Found, decode_file, encode_file
from tests.property.dialects import as_json, copy, nameable, normal, within
from tests.property.messages import messages as arbitrary
from tests.unit.protocol.codec.strategies import JSON, NOISE
from tests.unit.protocol.codec.strategies import messages as arbitrary_json
from tests.unit.protocol.spelling import (
    KIND,
    KIND_EXTRAS,
    KIND_REST,
    KIND_REST_EXTRAS,
    PROTO,
    RAW,
    Spelling,
    read,
    written,
)

M = TypeVar("M", bound=Message)
MANY = settings(max_examples=60, deadline=None)
IDS = st.text(min_size=1) | st.text("/%25Ff", min_size=1) | st.sampled_from(["a", "None", "tasks", "ä\n"])


# -- 1.0 → 0.3 → 1.0


def up(legacy: v03.Message) -> pb.Message:
    message, found = pb.Message(), Found()
    messages.upgrade_message_into(message, legacy, "", found)
    assert not found
    return message


def down(message: pb.Message, *, raw_files: bool = False) -> v03.Message:
    legacy = v03.Message()
    messages.Downgrade(raw_files).message(legacy, message)
    return legacy


def normal_message(message: M) -> M:
    result = normal(message)
    for said in within(pb.Message, result):
        if said.reference_task_ids and not said.metadata.fields:
            said.ClearField("metadata")
    return result


@pytest.mark.req("LMAP-02")
@MANY
@given(message=arbitrary(pb.Message))
def test_messages_survive_0_3(message: pb.Message) -> None:
    after = up(down(message))
    assert as_json(after) == normal_message(message)
    assert up(down(after)) == after


@pytest.mark.req("LMAP-02", "LMAP-01")
@MANY
@given(task=arbitrary(pb.Task))
def test_what_tasks_and_streams_hold_survives_0_3(task: pb.Task) -> None:
    legacy = messages.Downgrade().task(task)
    assert [up(said) for said in legacy.history] == [up(down(said)) for said in task.history]
    assert (legacy.id, legacy.context_id, legacy.metadata) == (task.id, task.context_id, task.metadata)
    assert legacy.status.timestamp == task.status.timestamp
    assert [artifact.artifact_id for artifact in legacy.artifacts] == [it.artifact_id for it in task.artifacts]
    answer = messages.Downgrade().answer(pb.SendMessageResponse(task=task))
    item = messages.Downgrade().item(pb.StreamResponse(task=task), last=True)
    assert answer.task == item.task == legacy


@pytest.mark.req("LMAP-02")
@MANY
@given(item=arbitrary(pb.StreamResponse))
def test_what_our_client_is_answered_survives_0_3(item: pb.StreamResponse) -> None:
    """Read once, it stays the same; of what is unset nothing is left to tell, but for the status of a task."""
    once = upgrade_item(messages.Downgrade().item(item, last=True))
    assert once.WhichOneof("payload") == item.WhichOneof("payload")
    assert upgrade_item(messages.Downgrade().item(once, last=False)) == once
    assert [as_json(said) for said in once.task.history] == [normal_message(said) for said in item.task.history]
    for mine, theirs in ((once.task, item.task), (once.status_update, item.status_update)):
        assert mine.metadata == theirs.metadata
        assert mine.status.state == (theirs.status.state if theirs.status.state in pb.TaskState.values() else 0)


@MANY
@given(task_id=IDS, config_id=IDS, size=st.integers(0, 9))
def test_what_our_client_asks_is_what_a_server_of_0_3_is_asked(task_id: str, config_id: str, size: int) -> None:
    config = pb.TaskPushNotificationConfig(task_id=task_id, id=config_id.replace("/", ""), url="https://x.example")
    ids = {"task_id": task_id, "id": config_id}
    requests: dict[str, Message] = {
        "GetTask": pb.GetTaskRequest(id=task_id, history_length=size or None),
        "CancelTask": pb.CancelTaskRequest(id=task_id),
        "SubscribeToTask": pb.SubscribeToTaskRequest(id=task_id),
        "CreateTaskPushNotificationConfig": config,
        "GetTaskPushNotificationConfig": pb.GetTaskPushNotificationConfigRequest(**ids),
        "ListTaskPushNotificationConfigs": pb.ListTaskPushNotificationConfigsRequest(task_id=task_id, page_size=size),
        "DeleteTaskPushNotificationConfig": pb.DeleteTaskPushNotificationConfigRequest(**ids),
        "GetExtendedAgentCard": pb.GetExtendedAgentCardRequest(),
    }
    for rpc, request in requests.items():
        outgoing = OUTGOING[rpc]
        read_back = calls.CALLS[outgoing.method.name]
        assert read_back.rpc == rpc
        assert read_back.request(outgoing.request(request), LEGACY_DEFAULT) == request


@pytest.mark.req("LMAP-02")
@pytest.mark.parametrize("spelling", [KIND, KIND_REST, KIND_EXTRAS, KIND_REST_EXTRAS, PROTO])
@MANY
@given(message=arbitrary_json(pb.Message))
def test_messages_survive_json_of_0_3(spelling: Spelling, message: pb.Message) -> None:
    expected = normal_message(message)
    for part in expected.parts:
        if spelling is not PROTO and part.WhichOneof("content") is None:
            part.text = ""  # nothing else could be said of it
    assert read(spelling, written(spelling, message), pb.Message) == expected


SHAPED = st.dictionaries(st.sampled_from(["value", "data"]), JSON, max_size=2)
MARKS = st.fixed_dictionaries({}, optional={"data_part_compat": JSON, "own": JSON})


@pytest.mark.req("LMAP-02", "CONF-55")
@pytest.mark.parametrize("spelling", [KIND, KIND_REST_EXTRAS, PROTO, DRAFT])
@settings(max_examples=200, deadline=None)
@given(value=JSON | SHAPED, metadata=MARKS)
def test_any_data_survives_there_and_back(spelling: Spelling, value: Any, metadata: Any) -> None:
    """Whatever the value and its metadata look like, a wrapping among them, and whoever says it first."""
    part = ParseDict({"data": value, **({"metadata": metadata} if metadata else {})}, pb.Part())
    told = written(spelling, part)
    assert read(spelling, told, pb.Part) == part
    assert up(down(pb.Message(parts=[part]))) == pb.Message(parts=[part])
    inner = told["data"] if spelling in {KIND, KIND_REST_EXTRAS} else told["data"]["data"]
    assert type(inner) is dict

    bare = {"data": value} if inner is told["data"] else {"data": {"data": value}}
    said = {**bare, "metadata": metadata}
    first = read(spelling, said, pb.Part)
    again = written(spelling, first)
    assert read(spelling, again, pb.Part) == first
    if type(value) is dict:
        assert ParseDict({"metadata": {}, **again, "kind": 0}, Struct()) == ParseDict({**said, "kind": 0}, Struct())
    else:
        assert first.data == part.data


@MANY
@given(content=st.binary(), text=st.binary().map(b2a_base64))
def test_raw_files_come_back_unless_they_are_base64_text(content: bytes, text: bytes) -> None:
    part = pb.Part(raw=content + b"\xff")
    assert read(RAW, written(RAW, part), pb.Part) == part
    assert decode_file(encode_file(content)) == content
    base64 = pb.Part(raw=text.rstrip(b"\n"))
    assert encode_file(read(RAW, written(RAW, base64), pb.Part).raw) == base64.raw


@pytest.mark.req("LMAP-02")
@MANY
@given(config=arbitrary(pb.TaskPushNotificationConfig), task_id=IDS, config_id=IDS | st.just(""))
def test_push_configs_survive_0_3(config: pb.TaskPushNotificationConfig, task_id: str, config_id: str) -> None:
    config.task_id, config.id, config.tenant = task_id, config_id, ""
    if config.authentication == pb.AuthenticationInfo():
        config.ClearField("authentication")
    assert read(KIND, written(KIND, config), pb.TaskPushNotificationConfig) == config
    config.id = config.id.replace("/", "|")  # of which a name can be made
    for spelling in (KIND_REST, PROTO):
        assert read(spelling, written(spelling, config), pb.TaskPushNotificationConfig) == config
    if "," in config.authentication.scheme:
        config.authentication.scheme = "Bearer"
    legacy = v03.CreateTaskPushNotificationConfigRequest(
        parent=configs.downgrade_config(config).name.rpartition("/")[0], config=configs.downgrade_config(config)
    )
    assert calls.upgrade_create_config(legacy) == config


@pytest.mark.req("LMAP-02", "LGRP-02")
@given(task_id=IDS, config_id=IDS)
def test_ids_survive_as_names(task_id: str, config_id: str) -> None:
    name = names.config_name(task_id, config_id)
    assert names.config_of(name) == (task_id, config_id)
    assert names.parent_of(name.rpartition("/")[0]) == task_id
    assert names.task_of(name.removesuffix(f"/pushNotificationConfigs/{name.rpartition('/')[2]}")) == task_id


# -- 0.3 → 1.0 → 0.3


def mappable(legacy: Message) -> bool:
    return not (
        any(message.role not in v03.Role.values() for message in within(v03.Message, legacy))
        or any(file.WhichOneof("file") is None for file in within(v03.FilePart, legacy))
        or any(not data.HasField("data") for data in within(v03.DataPart, legacy))
    )


def normal_legacy(message: v03.Message) -> v03.Message:
    result = copy(message)
    for part in within(v03.Part, result):
        if part.file.HasField("file_with_bytes"):
            part.file.file_with_bytes = encode_file(decode_file(part.file.file_with_bytes))
    return result


@st.composite
def said(draw: st.DrawFn) -> v03.Message:
    message = draw(arbitrary(v03.Message))
    if draw(st.booleans()):
        messages.put_references(message.metadata, draw(st.lists(st.text(), min_size=1, max_size=2)))
    return message


@pytest.mark.req("LMAP-02")
@MANY
@given(message=said())
def test_what_clients_say_survives_1_0(message: v03.Message) -> None:
    if not mappable(message):
        with pytest.raises(A2AError) as refused:
            calls.upgrade_send(v03.SendMessageRequest(request=message))
        assert refused.value.reason is Reason.INVALID_PARAMS
        return
    assert down(up(message)) == normal_legacy(message)


# -- JSON as clients send it


NAME = st.text("abc-1", min_size=1, max_size=4)
MEMBERS = (
    *("kind", "text", "file", "data", "bytes", "uri", "fileWithUri", "fileWithBytes", "mimeType", "name", "raw", "url"),
    *("metadata", "mediaType", "filename", "message", "request", "parts", "content", "role", "messageId", "status"),
    *("configuration", "blocking", "historyLength", "pushNotificationConfig", "schemes", "pushNotification", "id"),
    *("authentication", "scheme", "taskId", "config", "inputRequest", "toolUseId", "referenceTaskIds", COMPAT),
    *("data_part_compat", "value", "prompt", "sensitive"),
)
WORDS = ("text", "file", "message", "tool-result", "user", "ROLE_AGENT", "working", "\ud800")
ANYTHING: Any = st.recursive(
    st.sampled_from([*NOISE, *WORDS]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=5),
    max_leaves=12,
)
READ = [pb.SendMessageRequest, pb.TaskPushNotificationConfig, pb.GetTaskRequest, pb.ListTasksRequest]


@settings(max_examples=300, deadline=None)
@given(value=ANYTHING | JSON, kind=st.sampled_from(READ))
def test_any_json_is_read_or_refused(value: Any, kind: Any) -> None:
    for spelling in (KIND, KIND_EXTRAS, PROTO):
        for told in (value, {"message": value}, {"message": {"parts": [value], "content": [value]}}):
            said = answer(partial(spelling.codec.decode, kind=kind), told)
            assert isinstance(said, kind) or said == Reason.INVALID_PARAMS
    assert answer(spelling_of, value) in {"kind", "proto", None, Reason.INVALID_PARAMS}


def answer(call: Callable[[Any], object], value: object) -> object:
    try:
        return call(value)
    except A2AError as error:
        return error.reason if error.violations else None


@pytest.mark.req("LRES-05", "LRPC-04")
@MANY
@given(message=arbitrary_json(pb.Message))
def test_the_spelling_of_a_send_is_told_by_its_body(message: pb.Message) -> None:
    message.role = pb.ROLE_USER
    kind, proto = written(KIND, message), written(PROTO, message)
    assert (spelling_of({"message": kind}), spelling_of({"message": proto})) == ("kind", "proto")
    unmarked = {name: item for name, item in kind.items() if name != "kind"}
    assert read(KIND, unmarked, pb.Message) == read(KIND, kind, pb.Message)
    with pytest.raises(A2AError) as refused:
        spelling_of({"message": {**kind, "content": proto["content"]}})
    assert [violation.field for violation in refused.value.violations] == ["message.content"]
    assert orjson.loads(orjson.dumps(kind)) == kind


PER_KIND = settings(max_examples=30, deadline=None)
DRAFT_IDS = st.text(min_size=1) | st.text("/%25Ff", min_size=1) | st.just("None")

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
    before = data.draw(arbitrary_json(kind))
    nameable(before)
    for codec in DRAFT[:2]:
        after = trip(codec, waiting(before))
        assert after == normal_draft(before)
        assert trip(codec, waiting(after)) == after


@pytest.mark.req("DRFT-02", "DRFT-04")
@PER_KIND
@given(page=arbitrary_json(pb.ListTaskPushNotificationConfigsResponse), data=st.data())
def test_push_configs_survive_the_draft(page: pb.ListTaskPushNotificationConfigsResponse, data: st.DataObject) -> None:
    for config in page.configs:
        config.task_id, config.id = data.draw(DRAFT_IDS), data.draw(DRAFT_IDS | st.just(""))
    nameable(page)
    expected = normal(page)
    assert trip(DRAFT.codec, page) == expected
    for config in page.configs:
        assert trip(DRAFT.codec, config) == normal(config)
