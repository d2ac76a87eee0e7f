"""What the codec asks of descriptors, and what a dialect decides about them (spec: JSON-01, -08, -09, LRPC-03)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from google.api import field_behavior_pb2
from google.protobuf import timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.times import milliseconds

NULL: Final = "google.protobuf.NullValue"
WRAPPERS: Final = frozenset(kind.full_name for kind in wrappers_pb2.DESCRIPTOR.message_types_by_name.values())
"""Messages that are written as the one value that they hold."""
OWN_FORM: Final = WRAPPERS | {
    f"google.protobuf.{name}" for name in ("Any", "Duration", "FieldMask", "ListValue", "Struct", "Timestamp", "Value")
}
"""Messages whose JSON is not an object of their fields."""

_NULLABLE: Final = "google.protobuf.Value", NULL


def is_required(field: FieldDescriptor) -> bool:
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]


def json_name(field: FieldDescriptor) -> str:
    return field.json_name


def proto_names(field: FieldDescriptor) -> Sequence[str]:
    return field.json_name, field.name


class Spellings(NamedTuple):
    """How the values of one enum are spelt."""

    written: Callable[[int], object]
    read: Mapping[object, int]
    """Asked with whatever stands there; raises what mappings raise if that is none of the spellings."""
    expected: str


Complaint = str | Callable[[Mapping[str, object]], str]
"""What is wrong with a member; or what tells that by the whole object, and has nothing to say if it may be ignored."""


class Form(NamedTuple):
    """What one type, or one single field, has instead of what would be generated; None = that is right.

    Functions are made when they are first needed, of the compiler that makes those of other types. They are called as
    generated ones are: a writer with what the field holds, a reader with the JSON value and the message to fill; the
    reader of a field that is no message returns what the field shall hold.
    """

    write: Callable[[Compiler], Function] | None = None
    read: Callable[[Compiler], Function] | None = None
    expected: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What versions of the protocol could do differently without having another codec."""

    member: Callable[[FieldDescriptor], str] = json_name
    """The name that is written; empty: the dialect has no such member."""
    also: Callable[[FieldDescriptor], Sequence[str]] = proto_names
    """Further names that are read."""
    always: Callable[[FieldDescriptor], bool] = is_required
    """Whether the field is written although it holds its default."""
    time: Callable[[timestamp_pb2.Timestamp], str] = milliseconds
    constants: Mapping[str, Mapping[str, str | bool]] = field(default_factory=dict)
    """Members, by type, that no field stands for: written first. Texts must be right if they are there when read."""
    foreign: Mapping[str, Mapping[str, Complaint]] = field(default_factory=dict)
    """Members, by type, that are refused and not ignored, and what is wrong with them: they are other dialects'."""
    enums: Mapping[str, Spellings] = field(default_factory=dict)
    forms: Mapping[str, Form] = field(default_factory=dict)
    """By the full name of a type or of a single field."""
    ordered: bool = False
    """Whether maps are written in the order of their keys, so that all who write a message write the same bytes."""

    def fields(self, kind: Descriptor) -> Sequence[FieldDescriptor]:
        """The fields that are members, in their order."""
        return [field for field in sorted(kind.fields, key=lambda field: field.number) if self.member(field)]


def class_of(kind: Descriptor) -> type[Any]:
    """The class of the type's messages; `Any`, because what is generated is known by name only."""
    return GetMessageClass(kind)


def descriptor_of(kind: type[Message]) -> Descriptor:
    return cast("Descriptor", kind.DESCRIPTOR)  # typed as if it could be another implementation's


def map_entry(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    """Key and value of a map; None if the field is no map."""
    entry = field.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return None
    return entry.fields_by_name["key"], entry.fields_by_name["value"]


def choice(field: FieldDescriptor) -> OneofDescriptor | None:
    """The oneof in which the field competes; `optional` fields are alone in one of their own."""
    oneof = field.containing_oneof
    return oneof if oneof is not None and len(oneof.fields) > 1 else None


def is_nullable(field: FieldDescriptor) -> bool:
    """Whether null is a value of the field and not its absence."""
    kind = field.message_type or field.enum_type
    return kind is not None and kind.full_name in _NULLABLE and not field.is_repeated
