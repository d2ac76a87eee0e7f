"""What the schema demands, beyond requests; and what the plans take for granted about the schema."""

from collections.abc import Iterator

import pytest
from google.protobuf import struct_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.checkers import required_violations
from a2a_server.domain.free_form import too_deep

MESSAGES = list(pb.DESCRIPTOR.message_types_by_name.values())


def fields(message: Message, prefix: str = "") -> list[str]:
    return [violation.field for violation in required_violations(message, prefix)]


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


@pytest.mark.parametrize("text", ["", "x" * 200, "x" * 20_000], ids=["small", "varint", "long-varint"])
@pytest.mark.parametrize("levels", [45, 46])
def test_lists_in_lists(levels: int, text: str) -> None:
    assert too_deep(lists(levels, text)) is (levels == 46)


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
