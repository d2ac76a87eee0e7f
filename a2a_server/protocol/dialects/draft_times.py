"""`lastUpdatedAfter`, which the draft counts in milliseconds (spec: CONF-23)."""

from __future__ import annotations

from typing import Final

from google.protobuf import timestamp_pb2

from a2a_server.protocol.codec.scalars import integer
from a2a_server.protocol.codec.schema import Form

_FIRST: Final = -62135596800 * 1000
_LAST: Final = 253402300800 * 1000 - 1
"""The years 1 to 9999, which timestamps reach from and to."""


def _write(time: timestamp_pb2.Timestamp) -> str:
    """In quotes, as ProtoJSON writes 64 bits."""
    return str(time.seconds * 1000 + time.nanos // 1_000_000)


def _read(value: object, time: timestamp_pb2.Timestamp) -> None:
    milliseconds = integer(value)
    if not _FIRST <= milliseconds <= _LAST:
        raise ValueError
    time.seconds, rest = divmod(milliseconds, 1000)
    time.nanos = rest * 1_000_000


FORM: Final[Form] = Form(lambda _: _write, lambda _: _read, "milliseconds since 1970, such as 1767225600000")
