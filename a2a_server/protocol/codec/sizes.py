"""How many values a request holds, counted in its bytes before anything is built (spec: DOOR-04, LIMT-01).

What a message costs grows with its values, not with its bytes: 16 MiB may be one file, or millions of empty objects.
Only requests of more bytes than the bound on values are looked at; a smaller one cannot have too many.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NoReturn, TypeAlias

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from a2a_server.protocol.codec.dialect import descriptor_of
from a2a_server.protocol.errors import A2AError, Reason

MOST_VALUES: Final = 50_000
"""Of the most expensive kind, members of objects, so many hold the event loop for up to 100 ms."""

_GLANCE: Final = 2**20
_REST: Final = bytes(set(range(256)) - set(b"[]{},"))


def check_json(raw: bytes, most: int, setting: str) -> None:
    """Refuse a JSON text with too many values. Counted are commas, brackets and braces outside of strings."""
    if len(raw) <= most or _marks(raw) <= most:
        return
    if len(raw) > _GLANCE:  # most texts of very many values show it early
        check_json(raw[:_GLANCE], most, setting)
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # so that every quote begins or ends a string
    if bare.count(b'"') > 4 * (most + 1) or _marks(b"".join(bare.split(b'"')[::2])) > most:
        _refuse(most, setting)


def _marks(raw: bytes) -> int:
    return len(raw.translate(None, _REST))


def _refuse(most: int, setting: str) -> NoReturn:
    text = f"The request has too many values: at most {most} are taken ({setting})."
    raise A2AError(Reason.BODY_TOO_LARGE, text)


_Inner: TypeAlias = Mapping[int, tuple[Descriptor, int]]
"""The fields of a type that hold messages, by number: the message's type and its weight."""

_UNITS: Final = 4
"""A field counts as one unit. A member of an object has four: the map's entry, key, value and the kind of the value."""
_MESSAGE: Final = 5
_LIGHT: Final = frozenset({"google.protobuf.Struct.fields", "google.protobuf.ListValue.values"})


@lru_cache(maxsize=256)
def _inner(kind: Descriptor) -> _Inner:
    return {
        field.number: (field.message_type, 1 if field.full_name in _LIGHT or _is_entry(kind) else _MESSAGE)
        for field in kind.fields
        if field.message_type is not None
    }


def _is_entry(kind: Descriptor) -> bool:
    return kind.GetOptions().map_entry


def check_wire(raw: bytes, kind: type[Message], most: int, setting: str) -> None:  # noqa: C901 - see `_varint`
    """Refuse a serialised message with too many values; whatever JSON may hold by `check_json` passes.

    Raises `DecodeError` if the bytes are not well-formed.
    """
    if len(raw) <= most:
        return
    left, waiting = _UNITS * most, [(_inner(descriptor_of(kind)), 0, len(raw))]
    try:
        while waiting:
            inner, at, end = waiting.pop()
            while at < end:
                tag, at = raw[at], at + 1
                if tag > _LAST:
                    tag, at = _varint(raw, at - 1)
                left -= 1
                form = tag & 7
                if form == 2:  # noqa: PLR2004 - with a length
                    size, at = raw[at], at + 1
                    if size > _LAST:
                        size, at = _varint(raw, at - 1)
                    found = inner.get(tag >> 3)
                    if found is not None:
                        left -= found[1] - 1
                        waiting.append((_inner(found[0]), at, at + size))
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
