"""A certificate authority that signs any names, and revokes what it has signed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

_KINDS: Mapping[str, Callable[[str], x509.GeneralName]] = {
    "dns": x509.DNSName,
    "uri": x509.UniformResourceIdentifier,
    "email": x509.RFC822Name,
}


@dataclass(frozen=True)
class Issued:
    """A certificate with its key, in one PEM file."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    path: Path

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass
class Authority:
    """Files are in its folder."""

    folder: Path
    name: str = "Test Authority"
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    revoked: list[x509.Certificate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, self.name)])
        self.own = self._signed(self.subject, self.key, [], is_authority=True)
        self.path = self.folder / f"{self.name}.pem"
        self.path.write_bytes(self.own.public_bytes(Encoding.PEM))

    def issue(
        self, *names: str, common: str = "", is_authority: bool = False, lasts: float = 3600, path: str = ""
    ) -> Issued:
        """Sign names such as `dns:ann.example`; localhost is what servers are."""
        key = ec.generate_private_key(ec.SECP256R1())
        listed: list[x509.GeneralName] = [_KINDS[kind](value) for kind, _, value in (n.partition(":") for n in names)]
        if "dns:localhost" in names:
            listed.append(x509.IPAddress(ip_address("127.0.0.1")))
        attributes = [x509.NameAttribute(x509.NameOID.COMMON_NAME, common)] if common else []
        made = self._signed(x509.Name(attributes), key, listed, is_authority=is_authority, lasts=lasts)
        issued = Issued(made, key, self.folder / (path or f"{made.serial_number:x}.pem"))
        write(issued.path, issued.key_pem + issued.pem)
        return issued

    def crl(self, path: str = "crl.pem", *, lasts: float = 3600, encoding: Encoding = Encoding.PEM) -> Path:
        """Write the list of what is revoked."""
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.subject)
        builder = builder.last_update(now - timedelta(days=2)).next_update(now + timedelta(seconds=lasts))
        for one in self.revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(one.serial_number).revocation_date(now)
            builder = builder.add_revoked_certificate(entry.build())
        write(self.folder / path, builder.sign(self.key, hashes.SHA256()).public_bytes(encoding))
        return self.folder / path

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        names: Sequence[x509.GeneralName],
        *,
        is_authority: bool,
        lasts: float = 3600,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(self.subject, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(seconds=lasts))
        if is_authority:
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())


def write(path: Path, content: bytes) -> None:
    """Replace a file in one step, as whoever renews certificates does."""
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    os.replace(beside, path)  # noqa: PTH105 - as it is called
