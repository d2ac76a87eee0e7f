"""Certificates of the doors: TLS, and mutual TLS when client authorities are named (spec: SECR-06)."""

from __future__ import annotations

import ssl

import grpc

from a2a_server.transport.grpc.address import StartError
from a2a_server.transport.grpc.options import Tls
from a2a_server.transport.grpc.pem import PemFile, authorities, identity


def credentials(tls: Tls) -> grpc.ServerCredentials:
    """Read the PEM files."""
    cert, key = identity(PemFile("tls.cert", tls.cert), PemFile("tls.key", tls.key))
    roots = authorities(PemFile("tls.client_ca", tls.client_ca)) if tls.client_ca else None
    return grpc.ssl_server_credentials([(key, cert)], roots, require_client_auth=roots is not None)


def server_context(tls: Tls) -> ssl.SSLContext | None:
    """The same files for the HTTP door; None without any."""
    if not tls.cert:
        return None
    credentials(tls)  # says what is wrong with which file
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.cert, tls.key, password="")  # or OpenSSL would ask on the terminal
        if tls.client_ca:
            context.load_verify_locations(tls.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except ssl.SSLError as error:
        raise StartError(
            f"tls.cert: {tls.cert!r} is refused by OpenSSL: {_WHY.get(error.reason, error.reason)}"
        ) from None
    return context


_WHY = {
    "CA_MD_TOO_WEAK": "an intermediate is signed with a hash that is broken",
    "EE_KEY_TOO_SMALL": "its key is too short to protect anything",
}
