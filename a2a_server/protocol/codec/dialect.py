"""The choices of a dialect of ProtoJSON, and the codec's questions to descriptors (JSON-01, -08, -09, LRPC-03)."""

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
"""Messages that are written as the single value that they hold."""
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
    """How a dialect spells the values of one enum."""

    written: Callable[[int], object]
    read: Mapping[object, int]
    """Looked up with any JSON value; raises as mappings do if the value is no spelling."""
    expected: str


Complaint = str | Callable[[Mapping[str, object]], str]
"""Why a member is refused, or a function of the whole object that returns it; empty if it may be ignored."""


class Form(NamedTuple):
    """What a type or a field has instead of a generated function; None = the generated one is right.

    `write` and `read` make a function when it is first needed, from the compiler of the other types' functions. It is
    called as a generated one is: a writer with the field's value, a reader with the JSON value and the message to fill.
    The reader of a field that is not a message returns the field's value.
    """

    write: Callable[[Compiler], Function] | None = None
    read: Callable[[Compiler], Function] | None = None
    expected: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The choices in which versions of the protocol may differ."""

    member: Callable[[FieldDescriptor], str] = json_name
    """The name that is written; empty = the dialect has no such member."""
    also: Callable[[FieldDescriptor], Sequence[str]] = proto_names
    """Other names that are read."""
    always: Callable[[FieldDescriptor], bool] = is_required
    """Whether a field is written even with its default value."""
    time: Callable[[timestamp_pb2.Timestamp], str] = milliseconds
    constants: Mapping[str, Mapping[str, str | bool]] = field(default_factory=dict)
    """Members without a field, by type. They are written first; a text that is read must be the same."""
    foreign: Mapping[str, Mapping[str, Complaint]] = field(default_factory=dict)
    """Members of other dialects, by type, and why they are refused instead of ignored."""
    enums: Mapping[str, Spellings] = field(default_factory=dict)
    forms: Mapping[str, Form] = field(default_factory=dict)
    """By the full name of a type or of a field."""
    ordered: bool = False
    """Whether maps are written in the order of their keys, so that equal messages are written as equal bytes."""

    def fields(self, kind: Descriptor) -> Sequence[FieldDescriptor]:
        """Return the fields of a type that are members, by number."""
        return [field for field in sorted(kind.fields, key=lambda field: field.number) if self.member(field)]


def class_of(kind: Descriptor) -> type[Any]:
    """Return the class of a type's messages; typed as `Any`, because its fields are not known here."""
    return GetMessageClass(kind)


def descriptor_of(kind: type[Message]) -> Descriptor:
    return cast("Descriptor", kind.DESCRIPTOR)  # its declared type is wider


def map_entry(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    """Return the key and value of a map; None if the field is not a map."""
    entry = field.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return None
    return entry.fields_by_name["key"], entry.fields_by_name["value"]


def choice(field: FieldDescriptor) -> OneofDescriptor | None:
    """Return the oneof of a field, unless the field is alone in it, as `optional` fields are."""
    oneof = field.containing_oneof
    return oneof if oneof is not None and len(oneof.fields) > 1 else None


def is_nullable(field: FieldDescriptor) -> bool:
    """Whether null is a value of the field, instead of meaning that the field is absent."""
    kind = field.message_type or field.enum_type
    return kind is not None and kind.full_name in _NULLABLE and not field.is_repeated
