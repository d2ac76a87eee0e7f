"""A schema with every kind of field that protobuf has, for what the vendored protos do not use."""

from collections.abc import Iterator
from typing import Any

from google.api import field_behavior_pb2
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

IMPORTS = (any_pb2, duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
SCALARS = "double float int64 uint64 int32 fixed64 fixed32 bool string bytes uint32 sfixed32 sfixed64 sint32 sint64"
WELL_KNOWN = ("Any", "Duration", "FieldMask", "ListValue", "NullValue", "Struct", "Timestamp", "Value", "Int32Value",
              "UInt64Value", "DoubleValue", "BoolValue", "BytesValue", "StringValue")  # fmt: skip
KEYS = "string", "bool", "int32", "uint64", "sint64", "fixed32"
ENUMS = "Colour", "NullValue"


def _type(name: str) -> dict[str, Any]:
    if name in SCALARS.split():
        return {"type": Field.Type.Value(f"TYPE_{name.upper()}")}
    package = "google.protobuf" if name in WELL_KNOWN else "everything"
    kind = Field.TYPE_ENUM if name in ENUMS else Field.TYPE_MESSAGE
    return {"type": kind, "type_name": f".{package}.{name}"}


class _File:
    def __init__(self) -> None:
        self.proto = descriptor_pb2.FileDescriptorProto(name="tests/everything.proto", package="everything")
        self.proto.syntax = "proto3"
        self.proto.dependency.extend(module.DESCRIPTOR.name for module in IMPORTS)
        self.proto.dependency.append(field_behavior_pb2.DESCRIPTOR.name)
        colour = self.proto.enum_type.add(name="Colour")
        for number, name in enumerate(("COLOUR_UNSPECIFIED", "COLOUR_RED", "COLOUR_BLUE")):
            colour.value.add(name=name, number=number)

    def message(self, name: str) -> descriptor_pb2.DescriptorProto:
        return self.proto.message_type.add(name=name)


def _add(message: descriptor_pb2.DescriptorProto, name: str, kind: str, **options: Any) -> Field:
    label = Field.LABEL_REPEATED if options.pop("repeated", False) else Field.LABEL_OPTIONAL
    number = len(message.field) + 1
    found: Field = message.field.add(name=name, number=number, label=label, **(_type(kind) | options))
    return found


def _add_map(message: descriptor_pb2.DescriptorProto, key: str, kind: str) -> None:
    entry = message.nested_type.add(name=f"{key.capitalize()}{kind.lower().capitalize()}Entry")  # protoc's choice
    entry.options.map_entry = True
    _add(entry, "key", key)
    _add(entry, "value", kind)
    _add(message, f"{key}_{kind.lower()}", f"{message.name}.{entry.name}", repeated=True)


def _require(field: Field) -> None:
    field.options.Extensions[field_behavior_pb2.field_behavior].append(field_behavior_pb2.REQUIRED)


def _kinds() -> Iterator[str]:
    yield from (*SCALARS.split(), *WELL_KNOWN, "Colour", "Inner")


def _build() -> descriptor_pb2.FileDescriptorProto:
    file = _File()
    inner = file.message("Inner")
    _add(inner, "some_name", "string")
    singles, lists, maps = file.message("Singles"), file.message("Lists"), file.message("Maps")
    for kind in _kinds():
        _add(singles, f"one_{kind.lower()}", kind)
        if kind != "NullValue":
            _add(lists, f"many_{kind.lower()}", kind, repeated=True)
            _add_map(maps, "string", kind)
    for key in KEYS[1:]:
        _add_map(maps, key, "Inner")
        _add_map(maps, key, "int32")
    _add(singles, "from", "string")
    _add(singles, "renamed", "string", json_name="otherName")
    _add_choice(file.message("Choice"))
    _add_optionals(file.message("Optionals"))
    _add_required(file.message("Required"), file.message("Loop"))
    return file.proto


def _add_choice(message: descriptor_pb2.DescriptorProto) -> None:
    message.oneof_decl.add(name="kind")
    for name in ("Value", "NullValue", "string", "int32", "Inner", "Struct", "bytes"):
        _add(message, f"a_{name.lower()}", name, oneof_index=0)


def _add_optionals(message: descriptor_pb2.DescriptorProto) -> None:
    for index, kind in enumerate(("int32", "string", "bool", "Colour", "double", "bytes")):
        message.oneof_decl.add(name=f"_my_{kind.lower()}")
        _add(message, f"my_{kind.lower()}", kind, oneof_index=index, proto3_optional=True)


def _add_required(message: descriptor_pb2.DescriptorProto, loop: descriptor_pb2.DescriptorProto) -> None:
    for kind in ("string", "int64", "double", "bool", "bytes", "Colour", "Inner", "Struct", "Timestamp", "Value"):
        _require(_add(message, f"my_{kind.lower()}", kind))
    _require(_add(message, "my_list", "Inner", repeated=True))
    _require(_add(message, "loop", "Loop"))
    message.oneof_decl.add(name="_my_optional")
    _require(_add(message, "my_optional", "string", oneof_index=0, proto3_optional=True))
    _require(_add(loop, "again", "Loop"))
    _require(_add(loop, "name", "string"))


_POOL = descriptor_pool.Default()
_POOL.AddSerializedFile(_build().SerializeToString())


def kind(name: str) -> Any:
    """The class of a message of the schema."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"everything.{name}"))


Singles, Lists, Maps, Choice, Optionals, Required, Loop, Inner = map(
    kind, ("Singles", "Lists", "Maps", "Choice", "Optionals", "Required", "Loop", "Inner")
)
ALL = Singles, Lists, Maps, Choice, Optionals, Required, Loop, Inner
