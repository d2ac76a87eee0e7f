"""Timestamps: written in UTC, read with any offset (spec: JSON-07, JSON-08)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from google.protobuf import timestamp_pb2

from a2a_server.protocol.codec.scalars import unwritable

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - all arithmetic here is in UTC
_FIRST: Final = -62135596800
_LAST: Final = 253402300799
_NANOS: Final = 1_000_000_000
_RFC_3339: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])"
    r"(?:\.([0-9]{1,9}))?"
    r"(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)

EXPECTED: Final = 'a time such as "2026-02-03T04:05:06.789Z"'


def milliseconds(time: timestamp_pb2.Timestamp) -> str:
    """Write three digits of the second. More are cut off, not rounded, so that no time moves into the future."""
    seconds, nanos = time.seconds, time.nanos
    if not (_FIRST <= seconds <= _LAST and 0 <= nanos < _NANOS):
        raise unwritable(f"it holds a time {seconds} seconds and {nanos} nanoseconds after 1970")
    return _written(seconds, nanos // 1_000_000)


@lru_cache(maxsize=1024)
def _written(seconds: int, millis: int) -> str:
    return f"{_to_the_second(seconds)}.{millis:03}Z"


@lru_cache(maxsize=1024)  # formatting a date is slow
def _to_the_second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()


def read_time(value: object, time: timestamp_pb2.Timestamp) -> None:
    if type(value) is not str or not (parts := _RFC_3339.fullmatch(value)):
        raise ValueError
    moment, fraction, sign, hours, minutes = parts.groups()
    since = datetime.fromisoformat(moment) - _EPOCH
    seconds = since.days * 86400 + since.seconds
    if sign:
        offset = int(hours) * 3600 + int(minutes) * 60
        seconds += offset if sign == "-" else -offset
    if not _FIRST <= seconds <= _LAST:
        raise ValueError
    time.seconds = seconds
    time.nanos = int(fraction.ljust(9, "0")) if fraction else 0
