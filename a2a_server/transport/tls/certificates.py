"""TLS of the doors, and what is wrong with an operator's PEM files, said before the first call (spec: SECR-06).

gRPC takes any file: a server then fails with messages of its own library, and a client reaches nobody.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Final, NamedTuple

from a2a_server.transport.address import StartError
from a2a_server.transport.grpc_options import Tls

_CERTIFICATE: Final = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )?CERTIFICATE-----")
_KEY: Final = re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----")
_ENCRYPTED: Final = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED", re.MULTILINE)
_OF_ANOTHER: Final = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})
"""OpenSSL's reasons for a key that does not belong to the certificate; the last one means another algorithm."""


class PemFile(NamedTuple):
    """A file, and the setting or option that names it."""

    setting: str
    path: str

    def read(self) -> bytes:
        try:
            return Path(self.path).read_bytes()
        except OSError as error:
            raise StartError(f"{self.setting}: cannot read {self.path!r}: {error.strerror}") from None

    def refuse(self, fault: str) -> None:
        if fault:
            raise StartError(f"{self.setting}: {self.path!r} {fault}")


def authorities(file: PemFile) -> bytes:
    """Read the certificates of trusted authorities."""
    content = file.read()
    file.refuse(certificates_fault(content))
    return content


def identity(cert: PemFile, key: PemFile) -> tuple[bytes, bytes]:
    """Read a certificate, perhaps with its intermediates, and its private key."""
    shown, secret = cert.read(), key.read()
    if _swapped(shown, secret):
        raise StartError(
            f"{cert.setting}: {cert.path!r} holds a private key, and {key.setting} = {key.path!r} a certificate; "
            "swap the two"
        )
    cert.refuse(certificates_fault(shown))
    key.refuse(_key_fault(secret))
    if fault := _misfit(cert, key):
        key.refuse(fault + (", which must come first in its file" if len(_CERTIFICATE.findall(shown)) > 1 else ""))
    return shown, secret


def certificates_fault(content: bytes) -> str:
    """Say what keeps a file from being certificates; empty when nothing does."""
    if b"-----BEGIN " not in content:
        return "is not a PEM file of certificates"
    if not _CERTIFICATE.search(content):
        return "holds no certificate"
    # Words between certificates may be in any alphabet; OpenSSL leaves them out, but Python wants ASCII.
    text = content.decode("ascii", "ignore")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except ssl.SSLError:
        return "holds a certificate that is damaged"
    return ""


def _key_fault(content: bytes) -> str:
    if b"-----BEGIN " not in content:
        return "is not a PEM file of a private key"
    if _ENCRYPTED.search(content):
        return "is encrypted; give it without a passphrase"
    return "" if _KEY.search(content) else "holds no private key"


def _swapped(cert: bytes, key: bytes) -> bool:
    return bool(_KEY.search(cert) and _CERTIFICATE.search(key) and not (_CERTIFICATE.search(cert) or _KEY.search(key)))


def _misfit(cert: PemFile, key: PemFile) -> str:
    """Say what is wrong with the key of a sound certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # how strong a key must be is for whoever speaks TLS with it to say
    try:
        context.load_cert_chain(cert.path, key.path, password="")  # or OpenSSL would ask on the terminal
    except ssl.SSLError as error:
        if error.reason in _OF_ANOTHER:
            return f"is not the key of the certificate in {cert.setting} = {cert.path!r}"
        return "holds a private key that is damaged"
    return ""


def server_identity(tls: Tls) -> tuple[tuple[bytes, bytes], bytes | None]:
    """Read key and certificate, and the authorities of clients; say what is wrong with which file."""
    cert, key = identity(PemFile("tls.cert", tls.cert), PemFile("tls.key", tls.key))
    return (key, cert), authorities(PemFile("tls.client_ca", tls.client_ca)) if tls.client_ca else None


def server_context(tls: Tls) -> ssl.SSLContext:
    """TLS with the same files, which are sound, for the HTTP door."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("@SECLEVEL=2:ECDHE+AESGCM:ECDHE+CHACHA20")  # for 1.2: forward secrecy, and no CBC
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.cert, tls.key, password="")  # or OpenSSL would ask on the terminal
        if tls.client_ca:
            context.load_verify_locations(tls.client_ca)
            optional = tls.client_certificates == "optional"
            context.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
    except ssl.SSLError as error:
        why = _REFUSALS.get(error.reason, error.reason)
        raise StartError(f"tls.cert: {tls.cert!r} is refused by OpenSSL: {why}") from None
    return context


_REFUSALS: Final = {
    "CA_MD_TOO_WEAK": "an intermediate is signed with a hash that is broken",
    "EE_KEY_TOO_SMALL": "its key is too short to protect anything",
}
