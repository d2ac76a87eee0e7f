"""How servers know each other: by certificates of one authority, on both sides of each connection (spec: SCAL-01)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SHARED_NAME: Final = "a2ad-peer"
"""The name in certificates that are made from a shared key."""
_CURVE: Final = ec.SECP256R1()
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""How many keys the curve has, and one more."""
_SKEW, _LONG = timedelta(days=1), timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a server shows, and the authority of those that it believes; all in PEM."""

    key: bytes
    cert: bytes
    ca: bytes


class PeerTls:
    """TLS between servers. Files are read again for each connection, so that certificates can be replaced."""

    def __init__(self, identity: Identity, name: str = "", again: Callable[[], Identity | None] | None = None) -> None:
        """`name` must be in every certificate; without one it is the host that is called.

        `again` reads the identity once more, and returns None if it is of no use.
        """
        self.name = name
        self._now = self._told = identity
        self._again = again

    def channel_credentials(self) -> grpc.ChannelCredentials:
        now = self._renewed()
        return grpc.ssl_channel_credentials(now.ca, now.key, now.cert)

    def server_credentials(self) -> grpc.ServerCredentials:
        return grpc.dynamic_ssl_server_credentials(
            _configuration(self._now),
            self._changed,  # type: ignore[arg-type]  # None = no change
            require_client_authentication=True,
        )

    def _renewed(self) -> Identity:
        if self._again is not None:
            self._now = self._again() or self._now
        return self._now

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """What gRPC asks for before each handshake."""
        now = self._renewed()
        if now == self._told:
            return None
        self._told = now
        return _configuration(now)


def _configuration(identity: Identity) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(identity.key, identity.cert)], identity.ca)


def shared_identity(shared_key: str) -> Identity:
    """The identity of whoever has the key: a certificate by an authority whose private key is derived from it."""
    derived = HKDF(SHA256(), 48, None, b"a2ad peers").derive(
        shared_key.encode()
    )  # 128 bits more, so that none is likelier
    authority = ec.derive_private_key(int.from_bytes(derived) % (_ORDER - 1) + 1, _CURVE)
    own = ec.generate_private_key(_CURVE)
    issuer = f"a2ad peers {x509.SubjectKeyIdentifier.from_public_key(authority.public_key()).digest.hex()}"
    ca = _certificate(issuer, issuer, authority.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    cert = (
        _certificate(issuer, SHARED_NAME, own.public_key())
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SHARED_NAME)]), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
    )
    return Identity(
        own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        cert.sign(authority, SHA256()).public_bytes(Encoding.PEM),
        ca.sign(authority, SHA256()).public_bytes(Encoding.PEM),
    )


def _certificate(issuer: str, subject: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    by, of = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (issuer, subject))
    now = datetime.now(UTC)
    return x509.CertificateBuilder(by, of, key, x509.random_serial_number(), now - _SKEW, now + _LONG)
