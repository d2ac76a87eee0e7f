"""What the schema demands of every message, in the functions that are written for each type."""

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf import struct_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.checkers import checker_of, required_violations
from a2a_server.domain.demands import faults_of
from a2a_server.domain.free_form import NOT_FINITE, TOO_DEEP, fault_of, readable

MESSAGES = list(pb.DESCRIPTOR.message_types_by_name.values())


def fields(message: Message, prefix: str = "") -> list[str]:
    faults = faults_of(message, prefix)
    assert bool(faults) == bool(required_violations(message))
    return [violation.field for violation in faults]


@pytest.mark.parametrize(
    ("message", "faulty"),
    [
        pytest.param(pb.Artifact(), ["artifact_id", "parts"], marks=pytest.mark.req("MSGS-03"), id="artifact"),
        pytest.param(pb.Task(id="t", status={"state": 1}), [], id="task"),
        pytest.param(pb.Task(history=[{}]).history[0], ["message_id", "role", "parts"], id="message"),
        pytest.param(pb.Task(id="t"), ["status"], id="task-without-status"),
        pytest.param(pb.StreamResponse(), ["payload"], id="empty-response"),
        pytest.param(pb.Part(), ["content"], id="empty-part"),
        pytest.param(pb.StringList(), [], id="nothing-demanded"),
        pytest.param(
            pb.SecurityScheme(http_auth_security_scheme={}),
            ["http_auth_security_scheme.scheme"],
            id="security-scheme",
        ),
    ],
)
def test_faults(message: Message, faulty: list[str]) -> None:
    assert fields(message) == faulty


def test_a_card_is_searched_to_its_leaves() -> None:
    card = pb.AgentCard(
        name="n",
        supported_interfaces=[{"url": "u", "protocol_version": "1.0"}],
        capabilities={},
        security_schemes={"a": pb.SecurityScheme(), "b": pb.SecurityScheme(http_auth_security_scheme={})},
        default_input_modes=["text/plain"],
        skills=[{"id": "s", "name": "n", "description": "d"}],
    )
    assert sorted(fields(card)) == [
        "default_output_modes",
        "description",
        "security_schemes[a]",
        "security_schemes[b].http_auth_security_scheme.scheme",
        "skills[0].tags",
        "supported_interfaces[0].protocol_binding",
        "version",
    ]


def test_the_prefix_stands_in_front() -> None:
    assert fields(pb.Part(), "message.parts[3].") == ["message.parts[3]"]
    assert fields(pb.TaskStatus(), "status.") == ["status.state"]


def test_absence_of_an_enum_lists_what_is_allowed() -> None:
    (fault,) = required_violations(pb.Message(message_id="m", parts=[{"text": "x"}]))
    assert fault.description == "is required; allowed are ROLE_USER, ROLE_AGENT"


def lists(levels: int, text: str = "") -> struct_pb2.Value:
    value = struct_pb2.Value(string_value=text)
    for _ in range(levels):
        outer = struct_pb2.Value()
        outer.list_value.values.append(value)
        value = outer
    return value


@pytest.mark.parametrize(
    "text", ["", "x" * 200, "x" * 20_000, "x" * 2**21], ids=["small", "varint", "long-varint", "large"]
)
@pytest.mark.parametrize("levels", [45, 46])
def test_lists_in_lists(levels: int, text: str) -> None:
    assert fault_of(lists(levels, text)) == (TOO_DEEP if levels == 46 else "")
    assert readable(lists(levels, text)) is (levels == 45)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("levels", [29, 30, 31])
def test_objects_in_objects(levels: int, *, large: bool) -> None:
    value = struct_pb2.Value(struct_value=struct_pb2.Struct())
    for _ in range(levels - 1):
        outer = struct_pb2.Value()
        outer.struct_value.fields["a"].CopyFrom(value)
        value = outer
    if large:
        value.struct_value.fields["text"].string_value = "\x11" * 2**21
    for whole in (value, value.struct_value):
        assert readable(whole) is (levels <= 30)
        assert fault_of(whole) == (TOO_DEEP if levels > 30 else "")


def test_what_is_accepted_can_be_read_back() -> None:
    event = pb.StreamResponse()
    event.task.status.message.parts.add().data.CopyFrom(lists(45))
    assert pb.StreamResponse.FromString(event.SerializeToString()) == event


# -- what plans take for granted


def schema() -> Iterator[FieldDescriptor]:
    return (field for message in MESSAGES for field in message.fields)


def test_enums_are_never_repeated() -> None:
    assert not [field.full_name for field in schema() if field.enum_type and field.is_repeated]


def test_what_is_required_is_no_optional_scalar() -> None:
    assert not [f.full_name for f in schema() if f.has_presence and not f.message_type and not f.containing_oneof]


def test_free_form_values_are_single() -> None:
    free = ("google.protobuf.Struct", "google.protobuf.Value")
    assert not [f.full_name for f in schema() if f.message_type and f.message_type.full_name in free and f.is_repeated]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.name)
def test_no_message_contains_itself(kind: Descriptor) -> None:
    def inside(outer: Descriptor, path: tuple[str, ...]) -> None:
        assert outer.full_name not in path
        for field in outer.fields:
            if field.message_type and not field.message_type.full_name.startswith("google."):
                inside(field.message_type, (*path, outer.full_name))

    inside(kind, ())


V = struct_pb2.Value


def number(value: float) -> V:
    return V(number_value=value)


def listed(*values: V) -> V:
    return V(list_value=struct_pb2.ListValue(values=values))


def keyed(value: V) -> V:
    return V(struct_value=struct_pb2.Struct(fields={"k": value}))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, struct.unpack("<d", b"\1\0\0\0\0\0\xf0\xff")[0]])
@pytest.mark.parametrize("inside", [lambda v: v, listed, keyed, lambda v: listed(number(1), keyed(listed(v)))])
def test_numbers_that_json_cannot_say_are_seen_wherever_they_are(wrong: float, inside: Callable[[V], V]) -> None:
    assert fault_of(inside(number(wrong))) == NOT_FINITE
    large = listed(V(string_value="\x11" * 2**21), inside(number(wrong)))
    assert fault_of(large) == NOT_FINITE
    assert not readable(large)
    assert fault_of(struct_pb2.Struct(fields={"a": inside(number(wrong))})) == NOT_FINITE


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, 2.0**1023, -1.7976931348623157e308, 5e-324])
def test_all_others_are_fine(value: float) -> None:
    assert readable(
        listed(number(value), keyed(number(value)), V(bool_value=True), V(null_value=struct_pb2.NULL_VALUE))
    )


def test_text_that_looks_like_one_is_text() -> None:
    """Here a text's end and the length of what follows it make up the bytes of a NaN."""
    value = listed(V(string_value="\x11aaaaa"), V(string_value="x" * 16365))
    assert b"\x11aaaaa\x0a\xf0\x7f" in value.SerializeToString()
    assert readable(value)
    assert not readable(listed(value, number(math.inf)))


@pytest.mark.req("GEN-02")
def test_the_field_is_named() -> None:
    part = pb.Part(data=number(math.nan))
    message = pb.Message(message_id="1", role=pb.ROLE_USER, parts=[part])
    faults = required_violations(pb.SendMessageRequest(message=message))
    assert [(fault.field, fault.description) for fault in faults] == [("message.parts[0].data", NOT_FINITE)]


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
