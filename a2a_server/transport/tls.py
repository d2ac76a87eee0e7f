"""Certificates of the doors: TLS, and mutual TLS when client authorities are named (spec: SECR-06)."""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc

from a2a_server.transport.address import StartError
from a2a_server.transport.options import Tls


def credentials(tls: Tls) -> grpc.ServerCredentials:
    """Read the PEM files."""
    pair = (_pem("tls.key", tls.key), _pem("tls.cert", tls.cert))
    roots = _pem("tls.client_ca", tls.client_ca) if tls.client_ca else None
    return grpc.ssl_server_credentials([pair], roots, require_client_auth=roots is not None)


def _pem(setting: str, path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise StartError(f"{setting}: cannot read {path!r}: {error.strerror}") from None
    if b"-----BEGIN " not in content:
        raise StartError(f"{setting}: {path!r} is not a PEM file")
    return content


def server_context(tls: Tls) -> ssl.SSLContext | None:
    """The same files for the HTTP door; None without any."""
    if not tls.cert:
        return None
    credentials(tls)  # says which file cannot be read
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.cert, tls.key, password="")  # or OpenSSL would ask on the terminal
        if tls.client_ca:
            context.load_verify_locations(tls.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except ssl.SSLError as error:
        raise StartError(f"tls.cert: certificate, key and authorities do not fit together: {error.reason}") from None
    return context
