"""Free-form JSON inside messages: Struct, Value and ListValue (spec: JSON-06).

Written by hand and not generated: their shape is known, they contain themselves, and in them null is a value.

protobuf's parsers stop at a hundred messages inside each other, of which an object takes three (Value, Struct and the
map's entry) and a list two. What no server could read is refused here, where the client can be told which field it is.
"""

from __future__ import annotations

from typing import Final

from google.protobuf import struct_pb2

from a2a_server.protocol.codec.faults import WRONG, Faults, key_path, note
from a2a_server.protocol.codec.scalars import number

EXPECTED: Final = "a JSON value"

_ROOM: Final = 90
"""Messages inside each other; ten more are for what is around a value."""
_ENTRY: Final = 2
"""What a member of an object takes: the map's entry and a Value."""
TOO_DEEP: Final = f"nests too deeply; at most {_ROOM // 3} objects or {_ROOM // 2} lists inside each other"


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
    try:
        _read_object(value, struct, _ROOM - 1)
    except TooDeepError:
        raise _too_deep() from None


def read_list(value: object, values: struct_pb2.ListValue) -> None:
    try:
        _read_items(value, values, _ROOM - 1)
    except TooDeepError:
        raise _too_deep() from None


def read_value(item: object, value: struct_pb2.Value) -> None:
    try:
        _read_any(item, value, _ROOM)
    except TooDeepError:
        raise _too_deep() from None


class TooDeepError(RuntimeError):
    """Not one of the faults that are told where they are: what nests too deeply does so as a whole."""


def _too_deep() -> Faults:
    faults = Faults()
    faults.add("", TOO_DEEP)
    return faults


def _read_object(value: object, struct: struct_pb2.Struct, room: int) -> None:
    if type(value) is not dict:
        raise TypeError
    struct.SetInParent()
    if value and room < _ENTRY:
        raise TooDeepError
    fields, faults = struct.fields, None
    for key, item in value.items():
        try:
            _read_any(item, fields[key], room - _ENTRY)
        except WRONG as error:
            faults = note(faults, key_path(key), EXPECTED, item, error)
    if faults:
        raise faults


def _read_items(value: object, values: struct_pb2.ListValue, room: int) -> None:
    if type(value) is not list:
        raise TypeError
    values.SetInParent()
    if value and not room:
        raise TooDeepError
    add, faults = values.values.add, None
    for index, item in enumerate(value):
        try:
            _read_any(item, add(), room - 1)
        except WRONG as error:
            faults = note(faults, f"[{index}]", EXPECTED, item, error)
    if faults:
        raise faults


def _read_any(item: object, value: struct_pb2.Value, room: int) -> None:
    if type(item) is str:
        value.string_value = item
    elif type(item) is float or type(item) is int:
        value.number_value = item
    elif type(item) is bool:
        value.bool_value = item
    elif type(item) is dict or type(item) is list:
        if not room:
            raise TooDeepError
        if type(item) is dict:
            _read_object(item, value.struct_value, room - 1)
        else:
            _read_items(item, value.list_value, room - 1)
    elif item is None:
        value.null_value = struct_pb2.NULL_VALUE
    else:
        raise TypeError
