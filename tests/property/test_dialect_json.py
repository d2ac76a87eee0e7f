"""JSON of 0.3 as clients send it: sound JSON comes back the same, whatever its spelling, and any other is refused."""

from binascii import b2a_base64
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec
from a2a_server.protocol.dialects import KIND, KIND_EXTRAS, PROTO, dialect_of
from a2a_server.protocol.dialects.members import snake
from a2a_server.protocol.errors import A2AError, Reason
from tests.property.test_compat_round_trips import DATA, MARKED
from tests.unit.gateway.codec.reference import canonical
from tests.unit.gateway.codec.strategies import JSON, KINDS, NOISE

MANY = settings(max_examples=40, deadline=None)

Objects = st.SearchStrategy[dict[str, Any]]
NAME = st.text("abc-1", min_size=1, max_size=4)
TEXT = st.text(max_size=4)
NAMES = st.lists(NAME, min_size=1, max_size=2)
OBJECT = st.dictionaries(TEXT, JSON, max_size=2)
SOMETHING = st.dictionaries(TEXT, JSON, min_size=1, max_size=2)
METADATA = OBJECT | MARKED
BYTES = st.binary(max_size=4).map(lambda content: b2a_base64(content, newline=False))
YES = st.sampled_from([True])
STAMP = st.just("2025-01-02T03:04:05.678Z")


def some(always: dict[str, Any], /, **optional: Any) -> Objects:
    return st.fixed_dictionaries(always, optional=optional)


def either(*objects: Objects) -> Objects:
    return st.one_of(*objects)


def kind(name: str, /, **members: Any) -> dict[str, Any]:
    return {"kind": st.just(name), **members}


# -- the schema's spelling

FILE = either(
    some({"uri": TEXT}, name=NAME, mimeType=NAME), some({"bytes": BYTES.map(bytes.decode)}, name=NAME, mimeType=NAME)
)
PART = either(
    some(kind("text", text=TEXT), metadata=METADATA),
    some(kind("file", file=FILE), metadata=METADATA),
    some(kind("data", data=OBJECT | DATA), metadata=METADATA),
)
TOOL = either(
    some(kind("tool-result", toolUseId=TEXT, result=JSON), metadata=SOMETHING),
    some(kind("tool-use"), name=NAME, arguments=OBJECT, metadata=SOMETHING),
)
REQUEST = some(kind("input-request", prompt=NAME, requestId=NAME), sensitive=st.booleans(), own=JSON)


def message(part: Objects, **optional: Any) -> Objects:
    return some(
        kind("message", role=st.sampled_from(["user", "agent"]), parts=st.lists(part, max_size=3), messageId=TEXT),
        contextId=NAME,
        taskId=NAME,
        referenceTaskIds=NAMES,
        extensions=NAMES,
        metadata=METADATA,
        **optional,
    )


STATES = ["submitted", "working", "input-required", "completed", "canceled", "failed", "rejected", "auth-required"]
MESSAGE = message(PART)
ARTIFACT = some(
    {"artifactId": TEXT, "parts": st.lists(PART, max_size=2)},
    name=NAME,
    description=NAME,
    extensions=NAMES,
    metadata=METADATA,
)
STATUS = some({"state": st.sampled_from([*STATES, "unknown"])}, message=MESSAGE, timestamp=STAMP)
TASK = some(
    kind("task", id=TEXT, contextId=TEXT, status=STATUS),
    artifacts=st.lists(ARTIFACT, min_size=1, max_size=2),
    history=st.lists(MESSAGE, min_size=1, max_size=2),
    metadata=METADATA,
)
CONFIG = some(
    {"url": TEXT},
    id=NAME,
    token=NAME,
    authentication=some({"schemes": st.lists(NAME, min_size=1, max_size=1)}, credentials=NAME),
)
SEND = some(
    {"message": MESSAGE},
    configuration=some(
        {"blocking": st.booleans()},
        acceptedOutputModes=NAMES,
        historyLength=st.integers(0, 9),
        pushNotificationConfig=CONFIG,
    ),
    metadata=OBJECT,
)
EVENT = either(
    some(
        kind("status-update", final=st.sampled_from([False]), taskId=TEXT, contextId=TEXT, status=STATUS),
        metadata=OBJECT,
    ),
    some(
        kind("artifact-update", taskId=TEXT, contextId=TEXT, artifact=ARTIFACT),
        append=YES,
        lastChunk=YES,
        metadata=OBJECT,
    ),
)
ITEM = either(TASK, MESSAGE, EVENT)
SOUND: list[Any] = [
    pytest.param(SEND, pb.SendMessageRequest, id="send"),
    pytest.param(either(TASK, MESSAGE), pb.SendMessageResponse, id="answer"),
    pytest.param(ITEM, pb.StreamResponse, id="item"),
    pytest.param(some({"id": TEXT}, historyLength=st.integers(0, 9)), pb.GetTaskRequest, id="get"),
    pytest.param(some({"id": TEXT}, metadata=OBJECT), pb.CancelTaskRequest, id="cancel"),
    pytest.param(some({"id": TEXT}), pb.SubscribeToTaskRequest, id="subscribe"),
    pytest.param(
        some({"taskId": TEXT, "pushNotificationConfig": CONFIG}), pb.TaskPushNotificationConfig, id="push config"
    ),
]


def trip(codec: Codec, value: Any, kind: Any) -> Any:
    return orjson.loads(codec.encode(codec.decode(value, kind)))


@pytest.mark.req("LMAP-02", "LRES-05")
@pytest.mark.parametrize(("strategy", "kind"), SOUND)
@MANY
@given(data=st.data())
def test_sound_json_of_the_schema_comes_back_the_same(strategy: Objects, kind: Any, data: st.DataObject) -> None:
    value = data.draw(strategy)
    assert canonical(trip(KIND.codec, value, kind)) == canonical(in_short(value))


def in_short(value: dict[str, Any]) -> dict[str, Any]:
    """A send without a configuration that says no more than none would."""
    return {name: item for name, item in value.items() if (name, item) != ("configuration", {"blocking": True})}


@pytest.mark.req("XTRA-01")
@MANY
@given(value=message(either(PART, TOOL), inputRequest=REQUEST))
def test_input_requests_and_tools_parts_come_back_in_their_own_shape(value: dict[str, Any]) -> None:
    if "inputRequest" in value:
        value["parts"].append({"kind": "text", "text": value["inputRequest"]["prompt"]})
        value = {name: item for name, item in value.items() if name != "metadata" or item}
    assert canonical(trip(KIND_EXTRAS.codec, value, pb.Message)) == canonical(value)
    as_known_to_all = trip(KIND.codec, value, pb.Message)
    assert {part["kind"] for part in as_known_to_all["parts"]} <= {"text", "file", "data"}
    assert canonical(trip(KIND_EXTRAS.codec, as_known_to_all, pb.Message)) == canonical(value)


# -- the same in other words


def otherwise(value: Any) -> Any:
    """Without kinds, and with names of members as protos have them; what clients name themselves stays."""
    if isinstance(value, list):
        return [otherwise(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        snake(name): item if name in {"metadata", "data"} else otherwise(item)
        for name, item in value.items()
        if name != "kind"
    }


@pytest.mark.req("LRPC-04")
@pytest.mark.parametrize(("strategy", "kind"), SOUND)
@MANY
@given(data=st.data())
def test_kinds_may_be_missing_and_names_be_spelt_as_in_the_proto(
    strategy: Objects, kind: Any, data: st.DataObject
) -> None:
    value = data.draw(strategy)
    assert KIND.codec.decode(otherwise(value), kind) == KIND.codec.decode(value, kind)


# -- the proto's spelling

LEGACY_BYTES = BYTES.map(b2a_base64).map(lambda text: text.decode().strip())
LEGACY_FILE = either(
    some({"fileWithUri": TEXT}, name=NAME, mimeType=NAME),
    some({"fileWithBytes": LEGACY_BYTES}, name=NAME, mimeType=NAME),
)
LEGACY_PART = either(
    some({"text": TEXT}, metadata=METADATA),
    some({"file": LEGACY_FILE}, metadata=METADATA),
    some({"data": st.fixed_dictionaries({"data": OBJECT | DATA})}, metadata=METADATA),
)
LEGACY_MESSAGE = some(
    {
        "role": st.sampled_from(["ROLE_USER", "ROLE_AGENT"]),
        "content": st.lists(LEGACY_PART, max_size=3),
        "messageId": TEXT,
    },
    contextId=NAME,
    taskId=NAME,
    extensions=NAMES,
    metadata=METADATA,
)
LEGACY_SEND = some(
    {"message": LEGACY_MESSAGE},
    configuration=some({"blocking": st.booleans()}, acceptedOutputModes=NAMES, pushNotification=CONFIG),
    metadata=OBJECT,
)


@pytest.mark.req("LMAP-02", "LRES-05")
@MANY
@given(value=LEGACY_SEND)
def test_sound_json_of_the_proto_comes_back_the_same(value: dict[str, Any]) -> None:
    assert canonical(trip(PROTO.codec, value, pb.SendMessageRequest)) == canonical(in_short(value))


@pytest.mark.req("LRES-05")
@MANY
@given(kind=SEND, proto=LEGACY_SEND)
def test_the_spelling_of_a_send_is_told_by_its_body(kind: dict[str, Any], proto: dict[str, Any]) -> None:
    assert (dialect_of(kind), dialect_of(proto)) == ("kind", "proto")
    mixed = {**kind, "message": {**kind["message"], "content": proto["message"]["content"]}}
    with pytest.raises(A2AError) as refused:
        dialect_of(mixed)
    assert [violation.field for violation in refused.value.violations] == ["message.content"]


# -- anything

MEMBERS = sorted(
    {
        *(
            "kind",
            "text",
            "file",
            "data",
            "bytes",
            "uri",
            "fileWithUri",
            "fileWithBytes",
            "mimeType",
            "name",
            "raw",
            "url",
        ),
        *("metadata", "mediaType", "filename", "message", "request", "parts", "content", "role", "messageId", "status"),
        *(
            "state",
            "artifact",
            "artifacts",
            "history",
            "configuration",
            "blocking",
            "pushNotificationConfig",
            "schemes",
        ),
        *(
            "pushNotification",
            "authentication",
            "scheme",
            "taskId",
            "id",
            "config",
            "inputRequest",
            "toolUseId",
            "task",
        ),
        *("referenceTaskIds", "x-a2a-compat", "data_part_compat", "value", "prompt", "sensitive", "tasks", "configs"),
    }
)
WORDS = ["text", "file", "message", "task", "status-update", "tool-result", "user", "ROLE_AGENT", "working", "\ud800"]
ANYTHING: Any = st.recursive(
    st.sampled_from([*NOISE, *WORDS]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(value=ANYTHING | JSON, kind=st.sampled_from([kind for kind in KINDS if kind.DESCRIPTOR.file == pb.DESCRIPTOR]))
def test_any_json_is_read_or_refused(value: Any, kind: Any) -> None:
    for spelling in (KIND, KIND_EXTRAS, PROTO):
        message = answer(spelling.codec.decode, value, kind)
        if isinstance(message, Message):
            orjson.loads(spelling.codec.encode(message))
        else:
            assert message.violations
    assert answer(dialect_of, value) in {"kind", "proto", None} or answer(dialect_of, value).violations


def answer(read: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except A2AError as error:
        return error if error.reason is Reason.INVALID_PARAMS else None
