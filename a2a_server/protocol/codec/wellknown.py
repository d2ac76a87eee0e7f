"""Types of google.protobuf whose JSON is not an object of their fields (spec: JSON-06, JSON-07, JSON-08).

Free-form JSON, which is Struct, Value and ListValue, is not generated: its types are fixed and contain each other,
and in them null is a value. protobuf's parsers stop at a hundred nested messages; an object needs three (Value, Struct
and the map's entry) and a list two. A value that no server could parse is refused here, where the field is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from google.protobuf import any_pb2, duration_pb2, field_mask_pb2, struct_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from a2a_server.protocol.codec.compiler import Function
from a2a_server.protocol.codec.dialect import OWN_FORM, Dialect, class_of
from a2a_server.protocol.codec.faults import WRONG, Faults, expected_message, key_path, note, shown
from a2a_server.protocol.codec.scalars import base64, number, unwritable
from a2a_server.protocol.codec.times import read_time

EXPECTED: Final = "a JSON value"

_ROOM: Final = 90
"""How many nested messages a value may need; ten more are left for the messages around it."""
_ENTRY: Final = 2
"""What a member of an object needs: the map's entry and a Value."""
TOO_DEEP: Final = f"nests too deeply; at most {_ROOM // 3} objects or {_ROOM // 2} lists inside each other"


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
    """Not one of `WRONG`, so it ends the reading: the value as a whole nests too deeply."""


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


Lookup = Callable[[Descriptor], Callable[..., Any]]

_TYPE, _VALUE = "@type", "value"


@dataclass(frozen=True, slots=True)
class AnyWriter:
    writer: Lookup

    def __call__(self, message: any_pb2.Any) -> dict[str, object]:
        if not (message.type_url or message.value):
            return {}
        try:
            kind = _kind_of(message, message.type_url)
            inner = class_of(kind).FromString(message.value)
        except (LookupError, DecodeError):  # an unknown type, which the client may know
            return {_TYPE: message.type_url, _VALUE: base64(message.value)}
        written = self.writer(kind)(inner)
        return {_TYPE: message.type_url, **({_VALUE: written} if kind.full_name in OWN_FORM else written)}


@dataclass(frozen=True, slots=True)
class AnyReader:
    reader: Lookup

    def __call__(self, value: object, message: any_pb2.Any) -> None:
        if type(value) is not dict:
            raise TypeError
        if not value:
            return
        kind = _named(value, message)
        inner = class_of(kind)()
        if kind.full_name in OWN_FORM:
            self._read_value(value, kind, inner)
        else:
            self.reader(kind)(value, inner)
        message.type_url = value[_TYPE]
        message.value = inner.SerializeToString()

    def _read_value(self, value: dict[str, object], kind: Descriptor, inner: Message) -> None:
        try:
            self.reader(kind)(value[_VALUE], inner)
        except WRONG as error:
            raise note(None, f".{_VALUE}", expected_message(kind), value.get(_VALUE), error) from None


def _named(value: dict[str, object], message: any_pb2.Any) -> Descriptor:
    name = value.get(_TYPE)
    try:
        return _kind_of(message, cast("str", name))
    except (LookupError, TypeError, AttributeError):
        faults = Faults()
        faults.add(key_path(_TYPE), f"must name a known type of message, got {shown(name)}")
        raise faults from None


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
        free = {name: partial(_write_in_order, write) for name, write in free.items()}
    return {
        "google.protobuf.Any": AnyWriter(writer),
        "google.protobuf.Duration": _write_in_words,
        "google.protobuf.FieldMask": _write_in_words,
        "google.protobuf.Timestamp": dialect.time,
        **free,
    }


def known_readers(reader: Lookup) -> dict[str, Function]:
    """Return the functions that put a JSON value into a message, by the type's full name."""
    return {
        "google.protobuf.Any": AnyReader(reader),
        "google.protobuf.Duration": _read_duration,
        "google.protobuf.FieldMask": _read_mask,
        "google.protobuf.ListValue": read_list,
        "google.protobuf.Struct": read_struct,
        "google.protobuf.Timestamp": read_time,
        "google.protobuf.Value": read_value,
    }


def _write_in_order(write: Function, message: Message) -> object:
    return in_order(write(message))


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
