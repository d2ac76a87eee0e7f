"""Secrets and content sealed with AES-256-GCM under one of several keys (spec: PAID-06, SECR-03)."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import json
import secrets
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import count

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from a2a_server.domain.scope import Scope
from a2a_server.ports.push import Unsealable
from a2a_server.ports.records import Entry, Receipt, Write
from a2a_server.ports.sealing import (
    EVENT,
    PLAIN,
    Place,
    agent_state_place,
    artifacts_place,
    event_place,
    fingerprint_place,
    head_place,
    reply_place,
    turn_place,
)
from a2a_server.ports.sealing import SETTING as STORE_SETTING
from a2a_server.ports.store import StoreDamaged, StoreRefused

SETTING = "push.secret_keys"

# The forms of a stored text:
# sealed:1:<key id>:<base64url of nonce and ciphertext>    sealed; the place is associated data
# plain:1:<text>                                           not sealed; used for a text that itself looks like a form
# <text>                                                   not sealed
_SEALED = "sealed:1:"
_PLAIN = "plain:1:"
_KEY = 32
_NONCE = 12


def sealing_keys(texts: Sequence[str], setting: str = SETTING) -> tuple[bytes, ...]:
    """Read keys, 32 bytes in base64 of either alphabet, as `openssl rand -base64 32` prints them."""
    return tuple(_key_of(text, f"{setting}[{number}]") for number, text in enumerate(texts))


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


# The form of a sealed value, which no message of protobuf and no JSON begins like:
# <5: mark> <4: key id> <12: salt> <6: count> <ciphertext> <16: tag>
# Each process has a salt of its own, and encrypts with a key that is made of the named key and the salt. So its nonces
# may be counted. With random ones a key would be good for 2^32 values, which a busy server writes in a week.
_MARK = b"\x00a2s\x01"
_SALT = slice(9, 21)
_COUNT = slice(21, 27)
_BOX = 27
_KNOWN_SALTS = 1024


class SealedContent:
    """Seals the content of one store with the first key, and opens with all of them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {_id_of(key): key for key in keys}
        self.first = _id_of(keys[0])
        self._salt = secrets.token_bytes(12)
        self._counts = count()
        self._boxes: dict[tuple[str, bytes], AESGCM] = {}
        self._front = _MARK + bytes.fromhex(self.first) + self._salt
        self._plain = True
        """Whether values may be there that are not sealed."""

    def begin(self, used: Collection[str]) -> None:
        if unknown := sorted({*used} - {PLAIN, *self._keys}):
            raise StoreRefused(
                f"the store has content that is sealed with the key {unknown[0]!r}, which {STORE_SETTING} lacks. "
                f"Add it behind the first; `a2ad db rekey` makes it needless"
            )
        self._plain = PLAIN in used

    def key_of(self, value: bytes) -> str:
        return value[len(_MARK) : _SALT.start].hex() if value.startswith(_MARK) else PLAIN

    def seal(self, value: bytes, place: Place) -> bytes:
        if not value:
            return b""
        shown, counted = _shown(value, place), next(self._counts).to_bytes(6, "big")
        box = self._box(self.first, self._salt).encrypt(_nonce(counted), value, _bound(place) + shown)
        return shown + self._front + counted + box

    def open(self, value: bytes, place: Place) -> bytes:
        if not value:
            return b""
        shown = _shown(value, place)
        sealed = value[len(shown) :]
        name = self.key_of(sealed)
        if name == PLAIN and self._plain:
            return value
        if name not in self._keys:
            raise StoreDamaged(f"the {_told(place)} in the store is damaged: {STORE_SETTING} has no key for it")
        try:
            box = self._box(name, sealed[_SALT])
            return box.decrypt(_nonce(sealed[_COUNT]), sealed[_BOX:], _bound(place) + shown)
        except (InvalidTag, ValueError):
            raise StoreDamaged(f"the {_told(place)} in the store is damaged, or in the wrong place") from None

    def sealed(self, write: Write) -> Write:
        scope, task_id, head = write.scope, write.task_id, write.head
        return replace(
            write,
            entries=[Entry(one.number, self.seal(one.wire, event_place(task_id, one.number))) for one in write.entries],
            head=head and head._replace(task=self.seal(head.task, head_place(scope, task_id))),
            artifacts=write.artifacts and self.seal(write.artifacts, artifacts_place(task_id)),
            begin=[
                replace(one, request=self.seal(one.request, turn_place(task_id, one.number))) for one in write.begin
            ],
            state=write.state and self.seal(write.state, agent_state_place(task_id)),
            receipt=write.receipt and self.sealed_receipt(scope, write.receipt),
        )

    def sealed_receipt(self, scope: Scope, receipt: Receipt) -> Receipt:
        return replace(
            receipt,
            fingerprint=self.seal(receipt.fingerprint, fingerprint_place(scope, receipt.key)),
            reply=self.seal(receipt.reply, reply_place(scope, receipt.key)),
        )

    def opened_receipt(self, scope: Scope, receipt: Receipt) -> Receipt:
        return replace(
            receipt,
            fingerprint=self.open(receipt.fingerprint, fingerprint_place(scope, receipt.key)),
            reply=self.open(receipt.reply, reply_place(scope, receipt.key)),
        )

    def _box(self, name: str, salt: bytes) -> AESGCM:
        box = self._boxes.get((name, salt))
        if box is None:
            if len(self._boxes) >= _KNOWN_SALTS:
                self._boxes.clear()
            box = self._boxes[name, salt] = AESGCM(hmac.digest(self._keys[name], b"a2a-server store" + salt, "sha256"))
        return box


def _shown(value: bytes, place: Place) -> bytes:
    """What stays readable of a value, in front of the rest."""
    return value[:1] if place[0] == EVENT else b""


def _nonce(counted: bytes) -> bytes:
    return bytes(6) + counted


def _bound(place: Place) -> bytes:
    return json.dumps(place).encode()


def _told(place: Place) -> str:
    return " ".join(map(str, place))
