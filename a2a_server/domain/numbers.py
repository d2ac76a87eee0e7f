"""Numbers that JSON cannot say: free-form values hold none, or no JSON binding could answer (spec: JSON-06, GEN-02)."""

from __future__ import annotations

import math
import re
from typing import Final

from google.protobuf import struct_pb2

NOT_FINITE: Final = "holds a number that JSON cannot say; use finite numbers, or text such as NaN"

NUMBER: Final = b"\x11"
"""The tag of `number_value`; without it there is no number."""

# A double on the wire: the tag of `number_value`, eight bytes, and in the last two an exponent of ones only.
_SUSPECT: Final = re.compile(rb"\x11.{6}[\xf0-\xff][\x7f\xff]", re.DOTALL)


def is_finite(value: struct_pb2.Struct | struct_pb2.Value) -> bool:
    """Whether all numbers inside are finite. The bytes settle nearly all cases; text may only look like a number."""
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
