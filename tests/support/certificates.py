"""Certificates that no authority of `trustme` would make."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from tests.support.house import Tls


def self_signed(folder: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> Tls:
    """A key, and a certificate that it has signed itself."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agents.example")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    cert = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
    (folder / "own.pem").write_bytes(cert.public_bytes(forms.Encoding.PEM))
    secret = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    (folder / "own.key").write_bytes(secret)
    return Tls(cert=str(folder / "own.pem"), key=str(folder / "own.key"))
