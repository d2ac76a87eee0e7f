"""Types of google.protobuf whose JSON is not an object of their fields (spec: JSON-06, JSON-07, JSON-08).

Free-form JSON, which is Struct, Value and ListValue, is not generated: its types are fixed and contain each other,
and in them null is a value. protobuf's parsers stop at a hundred nested messages; an object needs three (Value, Struct
and the map's entry) and a list two. A value that no server could parse is refused here, where the field is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from google.protobuf import any_pb2, duration_pb2, field_mask_pb2, struct_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from a2a_server.protocol.codec.compiler import Function
from a2a_server.protocol.codec.dialect import OWN_FORM, Dialect, class_of
from a2a_server.protocol.codec.faults import (
    MISFIT,
    WRONG,
    TooDeepError,
    expected_message,
    key_path,
    note,
    shown,
    with_fault,
)
from a2a_server.protocol.codec.scalars import base64, number, unwritable
from a2a_server.protocol.codec.times import read_time

_EXPECTED: Final = "a JSON value"

_ROOM: Final = 90
"""How many nested messages a value may need; ten more are left for the messages around it."""
_ENTRY: Final = 2
"""What a member of an object needs: the map's entry and a Value."""
_TOO_DEEP: Final = f"nests too deeply; at most {_ROOM // 3} objects or {_ROOM // 2} lists inside each other"


def write_struct(struct: struct_pb2.Struct) -> dict[str, object]:
    fields = struct.fields
    return {key: write_value(fields[key]) for key in fields}  # faster than items()


def in_order(value: object) -> object:
    """Sort the members of all objects, because the order of a protobuf map differs between processes."""
    if type(value) is dict:
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if type(value) is list else value


def write_list(values: struct_pb2.ListValue) -> list[object]:
    return [write_value(value) for value in values.values[:]]


def write_value(value: struct_pb2.Value) -> object:
    if text := value.string_value:  # the most frequent kind, tested without asking for the kind
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


def read_struct(value: object, struct: struct_pb2.Struct, room: int = _ROOM - 1) -> None:
    if type(value) is not dict:
        raise TypeError
    struct.SetInParent()
    if value and room < _ENTRY:
        raise TooDeepError(_TOO_DEEP)
    fields, faults = struct.fields, None
    for key, item in value.items():
        try:
            read_value(item, fields[key], room - _ENTRY)
        except MISFIT as error:
            faults = note(faults, key_path(key), _EXPECTED, item, error)
    if faults:
        raise faults


def read_list(value: object, values: struct_pb2.ListValue, room: int = _ROOM - 1) -> None:
    if type(value) is not list:
        raise TypeError
    values.SetInParent()
    if value and not room:
        raise TooDeepError(_TOO_DEEP)
    add, faults = values.values.add, None
    for index, item in enumerate(value):
        try:
            read_value(item, add(), room - 1)
        except MISFIT as error:
            faults = note(faults, f"[{index}]", _EXPECTED, item, error)
    if faults:
        raise faults


def read_value(item: object, value: struct_pb2.Value, room: int = _ROOM) -> None:
    if type(item) is str:
        value.string_value = item
    elif type(item) is float or type(item) is int:
        value.number_value = item
    elif type(item) is bool:
        value.bool_value = item
    elif type(item) is dict or type(item) is list:
        if not room:
            raise TooDeepError(_TOO_DEEP)
        if type(item) is dict:
            read_struct(item, value.struct_value, room - 1)
        else:
            read_list(item, value.list_value, room - 1)
    elif item is None:
        value.null_value = struct_pb2.NULL_VALUE
    else:
        raise TypeError


Lookup = Callable[[Descriptor], Callable[..., Any]]

_TYPE, _VALUE = "@type", "value"


def _write_any(writer: Lookup, message: any_pb2.Any) -> dict[str, object]:
    if not (message.type_url or message.value):
        return {}
    try:
        kind = _kind_of(message, message.type_url)
        inner = class_of(kind).FromString(message.value)
    except (LookupError, DecodeError):  # an unknown type, which the client may know
        return {_TYPE: message.type_url, _VALUE: base64(message.value)}
    written = writer(kind)(inner)
    return {_TYPE: message.type_url, **({_VALUE: written} if kind.full_name in OWN_FORM else written)}


def _read_any(reader: Lookup, value: object, message: any_pb2.Any) -> None:
    if type(value) is not dict:
        raise TypeError
    if not value:
        return
    kind = _named(value, message)
    inner = class_of(kind)()
    if kind.full_name in OWN_FORM:
        try:
            reader(kind)(value[_VALUE], inner)
        except WRONG as error:
            raise note(None, f".{_VALUE}", expected_message(kind), value.get(_VALUE), error) from None
    else:
        reader(kind)(value, inner)
    message.type_url = value[_TYPE]
    message.value = inner.SerializeToString()


def _named(value: dict[str, object], message: any_pb2.Any) -> Descriptor:
    name = value.get(_TYPE)
    try:
        return _kind_of(message, cast("str", name))
    except (LookupError, TypeError, AttributeError):
        raise with_fault(None, key_path(_TYPE), f"must name a known type of message, got {shown(name)}") from None


def _kind_of(message: any_pb2.Any, url: str) -> Descriptor:
    pool = message.DESCRIPTOR.file.pool
    return pool.FindMessageTypeByName(url.rpartition("/")[2])


_DURATION: Final = re.compile(r"-?[0-9]+(?:\.[0-9]{1,9})?s")


def known_writers(writer: Lookup, dialect: Dialect) -> dict[str, Function]:
    """Return the functions from a message to its JSON value, by the type's full name."""
    free: dict[str, Function] = {
        "google.protobuf.ListValue": write_list,
        "google.protobuf.Struct": write_struct,
        "google.protobuf.Value": write_value,
    }
    if dialect.ordered:
        free = {name: partial(lambda write, message: in_order(write(message)), write) for name, write in free.items()}
    return {
        "google.protobuf.Any": partial(_write_any, writer),
        "google.protobuf.Duration": _write_in_words,
        "google.protobuf.FieldMask": _write_in_words,
        "google.protobuf.Timestamp": dialect.time,
        **free,
    }


def known_readers(reader: Lookup) -> dict[str, Function]:
    """Return the functions that put a JSON value into a message, by the type's full name."""
    return {
        "google.protobuf.Any": partial(_read_any, reader),
        "google.protobuf.Duration": _read_duration,
        "google.protobuf.FieldMask": _read_mask,
        "google.protobuf.ListValue": read_list,
        "google.protobuf.Struct": read_struct,
        "google.protobuf.Timestamp": read_time,
        "google.protobuf.Value": read_value,
    }


def _write_in_words(message: duration_pb2.Duration | field_mask_pb2.FieldMask) -> str:
    try:
        return message.ToJsonString()
    except ValueError as error:
        raise unwritable(str(error).removesuffix(".")) from None


def _read_duration(value: object, message: duration_pb2.Duration) -> None:
    if type(value) is not str or not _DURATION.fullmatch(value):
        raise ValueError
    message.FromJsonString(value)


def _read_mask(value: object, message: field_mask_pb2.FieldMask) -> None:
    if type(value) is not str:
        raise TypeError
    message.FromJsonString(value)
