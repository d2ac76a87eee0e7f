"""Counts the values of a request in its bytes, before the request is parsed (spec: DOOR-04, LIMT-01).

The cost of a message grows with its values, not with its bytes: 16 MiB may be one file, or millions of empty objects.
The values are counted in steps, and other tasks run between two steps.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import lru_cache
from typing import Final, NoReturn, TypeAlias, TypeVar

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from a2a_server.protocol.codec.dialect import descriptor_of
from a2a_server.protocol.errors import A2AError, Reason

MOST_VALUES: Final = 25_000
"""So many members of objects, which cost most, hold the event loop for up to 25 ms in each stage of their work."""

_BYTES: Final = 2**18
_FIELDS: Final = 2**13
"""What one step looks at, which takes a few milliseconds at most."""

_REST: Final = bytes(set(range(256)) - set(b"[]{},"))


def count_strings(raw: bytes, most: int, setting: str) -> Generator[None, None, int]:
    """Count the strings of a JSON text, names of members included, and refuse a text with too many values.

    As values count commas, brackets and braces outside of strings.
    """
    at = quotes = marks = 0
    while at < len(raw):
        part = raw[at : at + _BYTES]
        if (len(part) - len(part.rstrip(b"\\"))) % 2:  # what the last one escapes belongs to it
            part = raw[at : at + _BYTES + 1]
        at += len(part)
        if b"\\" in part:
            part = part.replace(b"\\\\", b"").replace(b'\\"', b"")  # so that every quote begins or ends a string
        pieces = part.split(b'"')
        marks += len(b"".join(pieces[quotes % 2 :: 2]).translate(None, _REST))
        quotes += len(pieces) - 1
        if marks > most:
            _refuse(most, setting)
        yield
    return quotes // 2


def _refuse(most: int, setting: str) -> NoReturn:
    text = f"The request has too many values: at most {most} are taken ({setting})."
    raise A2AError(Reason.BODY_TOO_LARGE, text)


M = TypeVar("M", bound=Message)

_Shape: TypeAlias = tuple[int, Mapping[int, tuple[Descriptor, int]]]
"""What each field of a type counts at least, and those that hold messages, by number: the type, and what it adds."""

_UNITS: Final = 4
"""What a value counts. A member of free-form JSON has four fields: the map's entry, key, value and its kind."""
_FREE: Final = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})
_LIGHT: Final = frozenset({"google.protobuf.Struct.fields", "google.protobuf.ListValue.values"})


_MESSAGE: Final = 5


@lru_cache(maxsize=256)
def _shape(kind: Descriptor) -> _Shape:
    entry = kind.GetOptions().map_entry
    units = 1 if entry or kind.full_name in _FREE else _UNITS
    inner = {
        field.number: (field.message_type, 0 if entry or field.full_name in _LIGHT else _MESSAGE - units)
        for field in kind.fields
        if field.message_type is not None
    }
    return units, inner


def read_wire(raw: bytes, kind: type[M], most: int, setting: str) -> Generator[None, None, M]:  # noqa: C901 - see `_varint`
    """Read a serialised message, and refuse it if it has too many values; whatever JSON may hold passes.

    Raises `DecodeError` if the bytes are not well-formed.
    """
    step, left, waiting = _FIELDS, _UNITS * most, [(descriptor_of(kind), 0, len(raw))]
    try:
        while waiting:
            outer, at, end = waiting.pop()
            units, inner = _shape(outer)
            while at < end:
                tag, at = raw[at], at + 1
                if tag > _LAST:
                    tag, at = _varint(raw, at - 1)
                left -= units
                step -= 1
                if not step:
                    step = _FIELDS
                    yield
                form = tag & 7
                if form == 2:  # noqa: PLR2004 - with a length
                    size, at = raw[at], at + 1
                    if size > _LAST:
                        size, at = _varint(raw, at - 1)
                    found = inner.get(tag >> 3)
                    if found is not None:
                        left -= found[1]
                        waiting.append((found[0], at, at + size))
                    at += size
                elif form == 0:
                    at = _varint(raw, at)[1]
                else:  # groups, which are unknown everywhere, have no content of their own
                    at += _FIXED[form]
                if left < 0:
                    _refuse(most, setting)
            if at > end:
                raise DecodeError
    except IndexError:
        raise DecodeError from None
    yield
    return kind.FromString(raw)


_FIXED: Final = {1: 8, 3: 0, 4: 0, 5: 4, 6: 2**60, 7: 2**60}
"""How many bytes follow, by the form; the last two do not exist."""

_LAST: Final = 0x7F
"""Only the last byte of a number is not larger."""
_LONGEST_VARINT: Final = 70
"""Ten bytes of seven bits."""


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends. Callers read one of a single byte themselves, which is faster."""
    value = shift = 0
    while shift < _LONGEST_VARINT:
        byte = raw[at]
        at += 1
        value |= (byte & _LAST) << shift
        if byte <= _LAST:
            return value, at
        shift += 7
    raise DecodeError
