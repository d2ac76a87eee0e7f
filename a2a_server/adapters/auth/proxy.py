"""Callers that a trusted proxy names in headers, and nobody else can (spec: GATE-10, AUTN-03).

1. `ProxyTrust` says whether a call comes from a trusted proxy: by its address, its certificate, a secret, or all three.
2. `ConnectionCheck` takes the headers away from everybody else, before anything looks at them. It also refuses
   certificates that were revoked.
3. `ProxyScheme` reads the headers that are left.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.auth.certificate import valid_names
from a2a_server.adapters.auth.schemes import CredentialPlace
from a2a_server.domain.client_certificates import CertificateName, NamePattern, certificate_of, spelled
from a2a_server.ports.authenticator import Authenticator, Caller, Credentials
from a2a_server.protocol.errors import A2AError, Reason

_LONGEST_NAME: Final = 255
_PEM: Final = "-----BEGIN"
_PAIR: Final = re.compile(r'\s*([A-Za-z]+)=("(?:[^"\\]|\\.)*"|[^;,"]*)(;|,|$)')
"""One pair of Envoy's X-Forwarded-Client-Cert, and what follows it: elements are separated by commas."""
_KINDS: Final = ("uri", "dns")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyTrust:
    """Which proxies are trusted: each condition that is set must be met, and at least one must be set."""

    headers: frozenset[str]
    """In lower case: all headers that only proxies may send."""
    certificate_header: str = ""
    networks: Sequence[IPv4Network | IPv6Network] = ()
    certificates: Sequence[NamePattern] = ()
    secret_header: str = ""
    digest: bytes = b""
    """The SHA-256 of the secret."""

    def apply(self, credentials: Credentials) -> Credentials:
        """Take the headers away from everybody but a proxy, and put the certificate that a proxy names in its place."""
        if not self.headers:
            return credentials
        if not self.believes(credentials):
            return credentials._replace(metadata=self.without(credentials.metadata))
        values = credentials.metadata.get(self.certificate_header, ())
        certificate, names = forwarded(values[0]) if len(values) == 1 else (b"", ())
        return credentials._replace(certificate=certificate, names=names)

    def believes(self, credentials: Credentials) -> bool:
        if self.networks and not self._is_in_networks(credentials.via):
            return False
        if self.digest and not self._knows_secret(credentials.metadata.get(self.secret_header, ())):
            return False
        if self.certificates and not self._has_certificate(credentials.certificate):
            return False
        return bool(self.networks or self.digest or self.certificates)

    def without(self, metadata: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        """The metadata without the headers that only proxies may send."""
        if self.headers.isdisjoint(metadata):
            return metadata
        return {name: values for name, values in metadata.items() if name not in self.headers}

    def _is_in_networks(self, via: str) -> bool:
        try:
            address = ip_address(via)
        except ValueError:  # it has none, or nobody knows it
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self.networks)

    def _knows_secret(self, values: Sequence[str]) -> bool:
        given = hashlib.sha256(values[0].encode(errors="replace")).digest() if len(values) == 1 else b""
        return hmac.compare_digest(given, self.digest)

    def _has_certificate(self, certificate: bytes) -> bool:
        names = valid_names(certificate) if certificate else ()
        return any(pattern.found_in(names) for pattern in self.certificates)


class ConnectionCheck:
    """Settles what a connection proves before another authenticator looks at the credentials.

    Revoked certificates are refused, whether a client or a proxy presents them.
    """

    def __init__(
        self, authenticator: Authenticator, trust: ProxyTrust, revoked: Callable[[bytes], str] | None = None
    ) -> None:
        """`revoked` says why a certificate does not count; empty if it does."""
        self.required = authenticator.required
        self.card = authenticator.card
        self._authenticator = authenticator
        self._trust = trust
        self._revoked = revoked

    async def authenticate(self, credentials: Credentials) -> Caller:
        self._refuse_revoked(credentials)
        seen = self._trust.apply(credentials)
        if seen.certificate != credentials.certificate:
            self._refuse_revoked(seen)
        return await self._authenticator.authenticate(seen)

    def _refuse_revoked(self, credentials: Credentials) -> None:
        if self._revoked is None or not credentials.certificate:
            return
        if fault := self._revoked(credentials.certificate):
            log.info("certificate.refused", peer=credentials.peer, why=fault)
            text = "The client's certificate is not valid any more."
            raise A2AError(Reason.UNAUTHENTICATED, text, metadata={"challenge": "ClientCertificate"})


def forwarded(value: str) -> tuple[bytes, tuple[CertificateName, ...]]:
    """Read a certificate that a proxy has verified, or else its names; neither if it makes no sense.

    It is written as in RFC 9440 (`:base64:`), as PEM in percent-encoding, or as Envoy does.
    """
    try:
        if value.startswith(":"):
            return _checked(base64.b64decode(value.removeprefix(":").removesuffix(":"), validate=True)), ()
        if value.startswith(_PEM):
            return _checked(unquote_to_bytes(value)), ()
        return _from_envoy(value)
    except (ValueError, binascii.Error):
        return b"", ()


def _checked(certificate: bytes) -> bytes:
    certificate_of(certificate)
    return certificate


def _from_envoy(value: str) -> tuple[bytes, tuple[CertificateName, ...]]:
    """Read the last element, which the nearest proxy has written; earlier ones are what it was told."""
    found: list[tuple[str, str]] = []
    at, end = 0, ""
    while at < len(value):
        if end == ",":
            found.clear()
        if (pair := _PAIR.match(value, at)) is None:
            raise ValueError
        text = re.sub(r"\\(.)", r"\1", pair[2][1:-1]) if pair[2].startswith('"') else pair[2]
        found.append((pair[1].lower(), text))
        at, end = pair.end(), pair[3]
    certificates = [text for key, text in found if key == "cert" and text]
    if certificates:
        return _checked(unquote_to_bytes(certificates[-1])), ()
    named = [(key, unquote(text)) for key, text in found if key in _KINDS and text]
    return b"", tuple(spelled(CertificateName(kind, text)) for kind, text in named if text.isprintable())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyScheme:
    """Knows callers by the headers of a trusted proxy. All names are in lower case."""

    owner_header: str
    tenant_header: str = ""
    scopes_header: str = ""
    groups_header: str = ""
    extended_card: bool = False
    card_scheme: str = "Bearer"
    name: str = "proxy"

    @property
    def place(self) -> CredentialPlace:
        return CredentialPlace("header", self.owner_header)

    @property
    def challenge(self) -> str:
        return f'{self.card_scheme} realm="a2a"'

    @property
    def declaration(self) -> pb.SecurityScheme:
        return pb.SecurityScheme(http_auth_security_scheme=pb.HTTPAuthSecurityScheme(scheme=self.card_scheme))

    async def caller_of(self, credential: str, credentials: Credentials) -> Caller | None:
        """Nobody, if a header has several values: one of them may be the client's."""
        metadata = credentials.metadata
        owner, tenant = _only(metadata, self.owner_header), _only(metadata, self.tenant_header)
        if owner != credential or (self.tenant_header and not tenant):
            return None
        return Caller(
            owner, authenticated=True, tenant=tenant, extended_card=self.extended_card, scopes=self._scopes(metadata)
        )

    def _scopes(self, metadata: Mapping[str, Sequence[str]]) -> frozenset[str] | None:
        if not self.scopes_header and not self.groups_header:
            return None
        scopes = [scope for value in metadata.get(self.scopes_header, ()) for scope in re.split(r"[\s,]+", value)]
        groups = [group.strip() for value in metadata.get(self.groups_header, ()) for group in value.split(",")]
        return frozenset(filter(None, (*scopes, *groups)))


def _only(metadata: Mapping[str, Sequence[str]], header: str) -> str:
    values = metadata.get(header, ()) if header else ()
    value = values[0] if len(values) == 1 else ""
    return value if len(value) <= _LONGEST_NAME and value.isprintable() else ""
