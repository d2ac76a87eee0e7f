"""How deep free-form values may nest, so that whatever is accepted can be read back (spec: EXTN-08).

Parsers stop at a hundred messages inside each other; writers do not, so that a value written too deep is lost. An
object costs three messages (Value, Struct, map entry) and a list two.
"""

from __future__ import annotations

from typing import Final

from google.protobuf import struct_pb2
from google.protobuf.message import DecodeError

from a2a_server.domain.wire import wrap

_PARSED: Final = 100
# Kept for what is put around a value: StreamResponse.task.status.message.parts.data are six, 0.3 needs one more.
_HEADROOM: Final = 10
_ALLOWED: Final = _PARSED - _HEADROOM

SHALLOW: Final = 2 * _ALLOWED
"""Bytes of a value that is certainly not too deep: every level costs two."""

TOO_DEEP: Final = f"nests too deeply; at most {_ALLOWED // 3} objects or {_ALLOWED // 2} lists inside each other"

_STRUCT_VALUE: Final = struct_pb2.Value.STRUCT_VALUE_FIELD_NUMBER
_LIST_VALUE: Final = struct_pb2.Value.LIST_VALUE_FIELD_NUMBER
_VALUES: Final = struct_pb2.ListValue.VALUES_FIELD_NUMBER


def is_void(value: struct_pb2.Struct | struct_pb2.Value) -> bool:
    """Whether a value is none at all: JSON's null is one, and so is an empty object."""
    return isinstance(value, struct_pb2.Value) and value.WhichOneof("kind") is None


def too_deep(value: struct_pb2.Struct | struct_pb2.Value) -> bool:
    # The size settles most cases. For the others the parser itself is asked, with lists put around the value: counting
    # in Python would take longer than everything else done for a large request.
    raw = value.SerializeToString()
    if len(raw) < SHALLOW:
        return False
    if isinstance(value, struct_pb2.Struct):
        raw = wrap(_STRUCT_VALUE, raw)
    for _ in range(_HEADROOM // 2):
        raw = wrap(_LIST_VALUE, wrap(_VALUES, raw))
    try:
        struct_pb2.Value.FromString(raw)
    except DecodeError:
        return True
    return False
