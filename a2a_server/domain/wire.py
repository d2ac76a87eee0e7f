"""Messages put around bytes that are there already, without reading them (spec: GEN-08).

What protobuf writes for a submessage is its tag, its length and its bytes.
"""

from __future__ import annotations

from typing import Final

_LENGTH_DELIMITED: Final = 2
_SEVEN_BITS: Final = 0x7F
_MORE: Final = 0x80
_TWICE_SEVEN_BITS: Final = 0x4000
_BYTES: Final = tuple(bytes((number,)) for number in range(256))


def wrap(field: int, content: bytes) -> bytes:
    """A message whose only field is a submessage, serialised already; `field` is below 16."""
    tag, rest = field << 3 | _LENGTH_DELIMITED, len(content)
    if rest <= _SEVEN_BITS:
        return _BYTES[tag] + _BYTES[rest] + content
    if rest < _TWICE_SEVEN_BITS:  # as nearly all others
        return _BYTES[tag] + _BYTES[rest & _SEVEN_BITS | _MORE] + _BYTES[rest >> 7] + content
    head = [tag]
    while rest > _SEVEN_BITS:
        head.append(rest & _SEVEN_BITS | _MORE)
        rest >>= 7
    head.append(rest)
    return bytes(head) + content


def unwrap(message: bytes) -> tuple[int, bytes]:
    """Take apart what `wrap` puts together."""
    start = 1
    while message[start] & _MORE:
        start += 1
    return message[0] >> 3, message[start + 1 :]
