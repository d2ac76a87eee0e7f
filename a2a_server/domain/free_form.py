"""Checks free-form values (Struct and Value) for contents that clients could not read (spec: EXTN-08, JSON-06).

Two things are refused: values that nest deeper than protobuf parsers read, and numbers that JSON cannot write.
"""

from __future__ import annotations

import math
from typing import Final

from google.protobuf import struct_pb2

# Parsers stop at a hundred messages inside each other; writers do not, so a value that was written too deep is lost.
# One level of an object costs three messages (Value, Struct, map entry), one level of a list two.
_PARSED: Final = 100
# Reserved for the messages around a value: StreamResponse.task.status.message.parts.data are six, 0.3 adds one.
_HEADROOM: Final = 10
_ALLOWED: Final = _PARSED - _HEADROOM
_ENTRY: Final = 2
"""What a member of an object needs: the map's entry and a Value."""

_SHALLOW: Final = 2 * _ALLOWED
"""A value of fewer bytes is never too deep: every level costs two bytes."""

VOID: Final = "holds no value; JSON's null is `null_value`"
TOO_DEEP: Final = f"nests too deeply; at most {_ALLOWED // 3} objects or {_ALLOWED // 2} lists inside each other"
NOT_FINITE: Final = "holds a number that JSON cannot say; use finite numbers, or text such as NaN"

_NUMBER: Final = b"\x11"
"""The tag of `number_value`. Bytes without it hold no number."""


def readable(value: struct_pb2.Struct | struct_pb2.Value) -> bool:
    """Whether every client can read this value."""
    raw = value.SerializeToString()
    if 0 < len(raw) < _SHALLOW and _NUMBER not in raw:  # the usual case: not empty, not deep, no number
        return True
    return not fault_of(value)


def fault_of(value: struct_pb2.Struct | struct_pb2.Value) -> str:
    """Return what is wrong with a value, "" = nothing. JSON's null and an empty object are values."""
    if isinstance(value, struct_pb2.Struct):
        return _fault_of_object(value, _ALLOWED - 1)
    return _fault(value, _ALLOWED) if value.WhichOneof("kind") else VOID


def _fault(value: struct_pb2.Value, room: int) -> str:
    """Return the first fault; `room` is how many messages may still nest inside this one."""
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return "" if math.isfinite(value.number_value) else NOT_FINITE
    if kind == "struct_value":
        return _fault_of_object(value.struct_value, room - 1)
    if kind != "list_value":
        return ""
    items = value.list_value.values[:]
    if room <= bool(items):
        return TOO_DEEP
    for item in items:
        if fault := _fault(item, room - 2):
            return fault
    return ""


def _fault_of_object(value: struct_pb2.Struct, room: int) -> str:
    fields = value.fields
    if room < (_ENTRY if fields else 0):
        return TOO_DEEP
    for name in fields:  # faster than values()
        if fault := _fault(fields[name], room - _ENTRY):
            return fault
    return ""
