"""Types of google.protobuf whose JSON is not an object of their fields (spec: JSON-06, JSON-07, JSON-08)."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from google.protobuf import duration_pb2, field_mask_pb2
from google.protobuf.message import Message

from a2a_server.protocol.codec import values
from a2a_server.protocol.codec.anything import AnyReader, AnyWriter, Lookup
from a2a_server.protocol.codec.compiler import Function
from a2a_server.protocol.codec.faults import unwritable
from a2a_server.protocol.codec.schema import Dialect
from a2a_server.protocol.codec.times import read_time

_DURATION: Final = re.compile(r"-?[0-9]+(?:\.[0-9]{1,9})?s")


def known_writers(writer: Lookup, dialect: Dialect) -> dict[str, Function]:
    """Functions from a message to its JSON value, by the type's full name."""
    free: dict[str, Function] = {
        "google.protobuf.ListValue": values.write_list,
        "google.protobuf.Struct": values.write_struct,
        "google.protobuf.Value": values.write_value,
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
    """Functions that put a JSON value into a message, by the type's full name."""
    return {
        "google.protobuf.Any": AnyReader(reader),
        "google.protobuf.Duration": _read_duration,
        "google.protobuf.FieldMask": _read_mask,
        "google.protobuf.ListValue": values.read_list,
        "google.protobuf.Struct": values.read_struct,
        "google.protobuf.Timestamp": read_time,
        "google.protobuf.Value": values.read_value,
    }


def _write_in_order(write: Function, message: Message) -> object:
    return values.in_order(write(message))


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
