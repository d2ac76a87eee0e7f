"""Scrypt hashes of passwords, which contain their own parameters (spec: GATE-01)."""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from typing import Final, NamedTuple

_FORM: Final = re.compile(r"scrypt:([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2}):((?:[0-9a-f]{2}){16,64}):([0-9a-f]{64})")
_POWERS: Final = range(12, 21)
_MOST_MEMORY: Final = 2**28
"""Bytes that verifying one password may take, times its rounds."""


class PasswordHash(NamedTuple):
    """`scrypt:15:8:3:SALT:HASH`, where 15 is the power of two that scrypt calls N, and 8 and 3 are its r and p."""

    power: int
    blocks: int
    rounds: int
    salt: bytes
    digest: bytes

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """Raises a `ValueError`; the text may be a password."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError("must be the scrypt:… line that `a2ad token password` prints, never the password itself")
        power, blocks, rounds = (int(number) for number in found.groups()[:3])
        if power not in _POWERS or not 0 < (128 * blocks * rounds) << power <= _MOST_MEMORY:
            raise ValueError("has parameters out of bounds; make it with `a2ad token password`")
        return cls(power, blocks, rounds, bytes.fromhex(found[4]), bytes.fromhex(found[5]))

    @classmethod
    def of(cls, password: str, salt: bytes, power: int = 15, blocks: int = 8, rounds: int = 3) -> PasswordHash:
        """Make a hash, by default with what OWASP advises for 32 MiB. That takes a quarter of a second."""
        made = cls(power, blocks, rounds, salt, b"")
        return made._replace(digest=made._hash(password))

    def matches(self, password: str) -> bool:
        """Takes as long as making it did. Other threads run meanwhile."""
        return hmac.compare_digest(self._hash(password), self.digest)

    def __str__(self) -> str:
        return f"scrypt:{self.power}:{self.blocks}:{self.rounds}:{self.salt.hex()}:{self.digest.hex()}"

    def _hash(self, password: str) -> bytes:
        return hashlib.scrypt(
            unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass"),
            salt=self.salt,
            n=2**self.power,
            r=self.blocks,
            p=self.rounds,
            maxmem=2 * _MOST_MEMORY,
            dklen=32,
        )
