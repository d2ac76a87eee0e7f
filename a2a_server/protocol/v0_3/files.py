"""How the bytes of a file stand in 0.3's bytes field (spec: CONF-66).

The Python and Go SDKs put base64 *text* there, the JavaScript SDK the bytes themselves, and they cannot read each
other. We read both and write what the majority reads.
"""

from __future__ import annotations

import binascii


def decode(content: bytes) -> bytes:
    """Decode what is base64 to the letter, padding included; anything else is the file itself."""
    try:
        decoded = binascii.a2b_base64(content, strict_mode=True)
    except binascii.Error:
        return content
    # Bits that the last group has left over must be zero, which strict mode does not look at.
    tail = decoded[(len(decoded) - 1) // 3 * 3 :]
    return decoded if content.endswith(binascii.b2a_base64(tail, newline=False)) else content


def encode(raw: bytes) -> bytes:
    return binascii.b2a_base64(raw, newline=False)
