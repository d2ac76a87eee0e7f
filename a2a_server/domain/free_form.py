"""Free-form values (Struct and Value): what must be refused because others could not read it (spec: EXTN-08, JSON-06).

Two things are refused: values that nest deeper than protobuf parsers read, and numbers that JSON cannot write.
"""

from __future__ import annotations

import math
import re
from typing import Final

from google.protobuf import struct_pb2
from google.protobuf.message import DecodeError

from a2a_server.domain.events import wrap

# Parsers stop at a hundred messages inside each other; writers do not, so a value that was written too deep is lost.
# One level of an object costs three messages (Value, Struct, map entry), one level of a list two.
_PARSED: Final = 100
# Reserved for the messages around a value: StreamResponse.task.status.message.parts.data are six, 0.3 adds one.
_HEADROOM: Final = 10
_ALLOWED: Final = _PARSED - _HEADROOM

_SHALLOW: Final = 2 * _ALLOWED
"""A value of fewer bytes is never too deep: every level costs two bytes."""

TOO_DEEP: Final = f"nests too deeply; at most {_ALLOWED // 3} objects or {_ALLOWED // 2} lists inside each other"
NOT_FINITE: Final = "holds a number that JSON cannot say; use finite numbers, or text such as NaN"

_STRUCT_VALUE: Final = struct_pb2.Value.STRUCT_VALUE_FIELD_NUMBER
_LIST_VALUE: Final = struct_pb2.Value.LIST_VALUE_FIELD_NUMBER
_VALUES: Final = struct_pb2.ListValue.VALUES_FIELD_NUMBER

_NUMBER: Final = b"\x11"
"""The tag of `number_value`. Bytes without it hold no number."""

# NaN and the infinities as serialised: the tag of `number_value`, and eight bytes whose exponent bits are all ones.
_SUSPECT: Final = re.compile(rb"\x11.{6}[\xf0-\xff][\x7f\xff]", re.DOTALL)


def readable(value: struct_pb2.Struct | struct_pb2.Value) -> bool:
    """Whether every client can read this value."""
    raw = value.SerializeToString()
    if 0 < len(raw) < _SHALLOW and _NUMBER not in raw:  # the usual case: not empty, not deep, no number
        return True
    return not (is_void(value) or too_deep(value)) and is_finite(value)


def is_void(value: struct_pb2.Struct | struct_pb2.Value) -> bool:
    """Whether a Value holds nothing at all. JSON's null and an empty object are values."""
    return isinstance(value, struct_pb2.Value) and value.WhichOneof("kind") is None


def too_deep(value: struct_pb2.Struct | struct_pb2.Value) -> bool:
    """Whether the value nests so deeply that it could not be parsed inside a response."""
    raw = value.SerializeToString()
    if len(raw) < _SHALLOW:
        return False
    # Ask the parser itself, with lists around the value to use up the headroom. Counting in Python is much slower.
    if isinstance(value, struct_pb2.Struct):
        raw = wrap(_STRUCT_VALUE, raw)
    for _ in range(_HEADROOM // 2):
        raw = wrap(_LIST_VALUE, wrap(_VALUES, raw))
    try:
        struct_pb2.Value.FromString(raw)
    except DecodeError:
        return True
    return False


def is_finite(value: struct_pb2.Struct | struct_pb2.Value) -> bool:
    """Whether all numbers inside are finite. The search may hit text that looks like a number, so it is confirmed."""
    return _SUSPECT.search(value.SerializeToString()) is None or _all_finite(value)


def _all_finite(value: struct_pb2.Struct | struct_pb2.Value) -> bool:
    if isinstance(value, struct_pb2.Struct):
        return all(map(_all_finite, value.fields.values()))
    match value.WhichOneof("kind"):
        case "number_value":
            return math.isfinite(value.number_value)
        case "struct_value":
            return _all_finite(value.struct_value)
        case "list_value":
            return all(map(_all_finite, value.list_value.values))
    return True
