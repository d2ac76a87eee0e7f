"""Free-form JSON inside messages: Struct, Value and ListValue (spec: JSON-06).

Written by hand and not generated: their shape is known, they contain themselves, and in them null is a value.
"""

from __future__ import annotations

from typing import Final

from google.protobuf import struct_pb2

from gateway.codec.faults import WRONG, key_path, note
from gateway.codec.scalars import number

EXPECTED: Final = "a JSON value"


def write_struct(struct: struct_pb2.Struct) -> dict[str, object]:
    fields = struct.fields
    return {key: write_value(fields[key]) for key in fields}  # half of what items() takes


def in_order(value: object) -> object:
    """A JSON value whose objects have their members in order; no two processes have the same one otherwise."""
    if type(value) is dict:
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if type(value) is list else value


def write_list(values: struct_pb2.ListValue) -> list[object]:
    return [write_value(value) for value in values.values[:]]


def write_value(value: struct_pb2.Value) -> object:
    if text := value.string_value:  # the most frequent kind, which then need not be asked for
        return text
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return number(value.number_value)
    if kind == "bool_value":
        return value.bool_value
    if kind == "struct_value":
        return write_struct(value.struct_value)
    if kind == "list_value":
        return write_list(value.list_value)
    return "" if kind == "string_value" else None


def read_struct(value: object, struct: struct_pb2.Struct) -> None:
    if type(value) is not dict:
        raise TypeError
    struct.SetInParent()
    fields, faults = struct.fields, None
    for key, item in value.items():
        try:
            read_value(item, fields[key])
        except WRONG as error:
            faults = note(faults, key_path(key), EXPECTED, item, error)
    if faults:
        raise faults


def read_list(value: object, values: struct_pb2.ListValue) -> None:
    if type(value) is not list:
        raise TypeError
    values.SetInParent()
    add, faults = values.values.add, None
    for index, item in enumerate(value):
        try:
            read_value(item, add())
        except WRONG as error:
            faults = note(faults, f"[{index}]", EXPECTED, item, error)
    if faults:
        raise faults


def read_value(item: object, value: struct_pb2.Value) -> None:
    if type(item) is str:
        value.string_value = item
    elif type(item) is float or type(item) is int:
        value.number_value = item
    elif type(item) is bool:
        value.bool_value = item
    elif type(item) is dict:
        read_struct(item, value.struct_value)
    elif type(item) is list:
        read_list(item, value.list_value)
    elif item is None:
        value.null_value = struct_pb2.NULL_VALUE
    else:
        raise TypeError
