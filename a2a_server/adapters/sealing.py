"""Secrets sealed with AES-256-GCM under one of several keys (spec: PAID-06)."""

from __future__ import annotations

import binascii
import hashlib
import secrets
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from a2a_server.ports.push import Unsealable

SETTING = "push.secret_keys"

# The forms of a stored text:
# sealed:1:<key id>:<base64url of nonce and ciphertext>    sealed; the place is associated data
# plain:1:<text>                                           not sealed; used for a text that itself looks like a form
# <text>                                                   not sealed
_SEALED = "sealed:1:"
_PLAIN = "plain:1:"
_KEY = 32
_NONCE = 12


def sealing_keys(texts: Sequence[str]) -> tuple[bytes, ...]:
    """Read keys, 32 bytes in base64 of either alphabet, as `openssl rand -base64 32` prints them."""
    return tuple(_key_of(text, f"{SETTING}[{number}]") for number, text in enumerate(texts))


def _key_of(text: str, setting: str) -> bytes:
    try:
        key = b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY:
        raise ValueError(f"{setting} must be {_KEY} bytes in base64, such as `openssl rand -base64 {_KEY}` prints")
    return key


class Sealing:
    """Seals with the first key, and opens with all of them. Without keys, texts are stored as they are."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys = {_id_of(key): AESGCM(key) for key in keys}
        self._first = _id_of(keys[0]) if keys else ""

    def seal(self, text: str, place: str) -> str:
        if not text:
            return ""
        if not self._first:
            return _PLAIN + text if text.startswith((_SEALED, _PLAIN)) else text
        nonce = secrets.token_bytes(_NONCE)
        box = nonce + self._keys[self._first].encrypt(nonce, text.encode(), place.encode())
        return f"{_SEALED}{self._first}:{urlsafe_b64encode(box).decode()}"

    def open(self, sealed: str, place: str) -> str:
        if not sealed.startswith(_SEALED):
            return sealed.removeprefix(_PLAIN)
        name, _, text = sealed.removeprefix(_SEALED).partition(":")
        key = self._keys.get(name)
        if key is None:
            raise Unsealable(f"{SETTING} lacks the key {name[:16]!r}, which a stored secret is sealed with")
        try:
            box = urlsafe_b64decode(text)
            return key.decrypt(box[:_NONCE], box[_NONCE:], place.encode()).decode()
        except (InvalidTag, ValueError):
            raise Unsealable(
                f"a stored secret is damaged or in the wrong place, though {SETTING} has its key"
            ) from None


def _id_of(key: bytes) -> str:
    """A name for the key that reveals nothing about it."""
    return hashlib.sha256(b"a2a-server sealing key" + key).hexdigest()[:8]
