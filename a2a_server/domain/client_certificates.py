"""Reads the names in a client certificate, and matches them with patterns (spec: GATE-10)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from cryptography import x509

_PEM: Final = b"-----BEGIN"
_KINDS: Final = (("uri", x509.UniformResourceIdentifier), ("dns", x509.DNSName), ("email", x509.RFC822Name))
_BREAKS: Final = {"dns": ".", "uri": "/", "email": "@", "cn": ""}
"""The character that `*` does not match, by kind of name."""


class CertificateName(NamedTuple):
    """One name in a certificate: `kind` is uri, dns, email, or cn for the subject's common name."""

    kind: str
    value: str


@lru_cache(maxsize=1024)
def certificate_of(content: bytes) -> x509.Certificate:
    """Read DER, or PEM with one certificate; anything else is a `ValueError`."""
    return (
        x509.load_pem_x509_certificate(content) if content.startswith(_PEM) else x509.load_der_x509_certificate(content)
    )


@lru_cache(maxsize=1024)
def names_in(content: bytes) -> tuple[CertificateName, ...]:
    """Read the names: alternative names first, then the common name. What cannot be a name is left out."""
    certificate = certificate_of(content)
    common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    found = [CertificateName("cn", str(entry.value)) for entry in common]
    try:
        shown = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        shown = x509.SubjectAlternativeName([])
    listed = [CertificateName(kind, value) for kind, cls in _KINDS for value in shown.get_values_for_type(cls)]
    return tuple(spelled(name) for name in (*listed, *found) if name.value.isprintable())


def spelled(name: CertificateName) -> CertificateName:
    """Return the name in lower case if it is a host's, because case does not matter there."""
    kind, value = name
    if kind == "dns":
        return CertificateName(kind, value.lower().removesuffix("."))
    if kind == "email":
        local, at, host = value.rpartition("@")
        return CertificateName(kind, f"{local}{at}{host.lower()}")
    return name


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Names of one kind. `*` stands for some characters up to the next `.` `/` or `@`, and `**` for any."""

    kind: str
    matches: Callable[[str], object]

    @classmethod
    def read(cls, text: str) -> NamePattern:
        kind, _, pattern = text.partition(":")
        if kind not in _BREAKS or not pattern:
            raise ValueError("must be dns:, uri:, email: or cn: and a name, such as dns:*.clients.example")
        some = f"[^{re.escape(_BREAKS[kind])}]+" if _BREAKS[kind] else ".+"
        spelled = pattern.lower() if kind == "dns" else pattern
        pieces = (some if piece == "*" else ".+" if piece == "**" else re.escape(piece) for piece in _split(spelled))
        return cls(kind, re.compile("".join(pieces)).fullmatch)

    def found_in(self, names: Sequence[CertificateName]) -> list[str]:
        return [name.value for name in names if name.kind == self.kind and self.matches(name.value)]


def _split(pattern: str) -> list[str]:
    return re.split(r"(\*+)", pattern)
