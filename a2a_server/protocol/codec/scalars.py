"""Numbers, booleans, bytes and enums in ProtoJSON (spec: JSON-02, -03, -05, -13).

Readers raise any of `WRONG` for a wrong value; the caller says what would be right. They follow the grammar of
ProtoJSON, while json_format also accepts what Python accepts: `1_000`, ` 5`, `+5`, `true` for an enum, and base64 with
other characters in between.
"""

from __future__ import annotations

import re
import struct
from binascii import a2b_base64, b2a_base64
from math import copysign, inf, isfinite, isnan, nan
from typing import Final

from google.protobuf.descriptor import EnumDescriptor

from a2a_server.protocol.errors import A2AError, Reason

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: Final = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}
_EXACT: Final = 2.0**53
_bits: Final = struct.Struct("<f").pack
_STANDARD: Final = str.maketrans("-_", "+/")


def integer(value: object) -> int:
    """Read a whole number: 5, 5.0, 5e0, or the same in quotes. protobuf checks the bounds."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is str and _NUMBER.fullmatch(value):
        return int(value) if value.lstrip("-").isdigit() else integer(float(value))
    raise ValueError


def real(value: object) -> float:
    if type(value) is str:
        if value in _WORDS:
            return _WORDS[value]
        if not _NUMBER.fullmatch(value):
            raise ValueError
    elif type(value) is not int and type(value) is not float:
        raise TypeError
    number = float(value)
    if not isfinite(number):  # such as 1e400 in quotes
        raise ValueError
    return number


def single(value: object) -> float:
    """Read a number of 32 bits."""
    number = real(value)
    _bits(number)  # raises if the number is too large
    return number


def boolean(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError
    return value


def boolean_key(key: str) -> bool:
    return ("false", "true").index(key) == 1


def octets(value: object) -> bytes:
    """Read base64 of either alphabet, with or without padding (JSON-05)."""
    if type(value) is not str:
        raise TypeError
    standard = value.translate(_STANDARD) if "-" in value or "_" in value else value
    return a2b_base64(standard + "=" * (-len(value) % 4), strict_mode=True)


def base64(value: bytes) -> str:
    return b2a_base64(value, newline=False).decode()


class EnumNumbers(dict[object, int]):
    """The numbers of an enum by name. Any other number is accepted too, because enums are open."""

    def __init__(self, enum: EnumDescriptor) -> None:
        super().__init__((value.name, value.number) for value in enum.values)

    def __missing__(self, value: object) -> int:
        if isinstance(value, str) and not value.lstrip("-").isdigit():  # 1e0 is a number here, but not in quotes
            raise ValueError
        return integer(value)


class EnumNames(dict[int, str]):
    """The names of an enum by number. A number without a name is written as a number."""

    def __init__(self, enum: EnumDescriptor) -> None:
        super().__init__((number, value.name) for number, value in enum.values_by_number.items())

    def __missing__(self, number: int) -> int:
        return number


def number(value: float) -> float:
    """Return a finite number; a whole one without a fraction, as JSON clients send it."""
    if value.is_integer() and -_EXACT <= value <= _EXACT:
        return int(value) or (0 if copysign(1.0, value) > 0 else value)  # but -0 stays -0.0
    if not isfinite(value):
        raise unwritable(f"it holds the number {value}")
    return value


def double(value: float) -> float | str:
    if isfinite(value):
        return number(value)
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def shortest(value: float) -> float | str:
    """Write a number of 32 bits with no more digits than it needs."""
    for digits in range(6, 10):
        short = float(f"{value:.{digits}g}")
        if _bits(short) == _bits(value):
            return double(short)
    return double(value)


def key_text(key: object) -> str:
    """Write the key of a map."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def unwritable(what: str) -> A2AError:
    """Return the error for a message of the agent or the upstream that has no JSON form."""
    return A2AError(Reason.INVALID_AGENT_RESPONSE, f"The answer can't be written as JSON: {what}.")
