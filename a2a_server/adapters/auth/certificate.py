"""Callers with client certificates, by their names. TLS has verified the certificates (spec: GATE-10, AUTN-03)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog
from cryptography import x509

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.auth.schemes import CERTIFICATE, CredentialPlace
from a2a_server.domain.client_certificates import CertificateName, NamePattern, certificate_of, names_in
from a2a_server.ports.authenticator import Caller, Credentials

log = structlog.get_logger(__name__)

_SPIFFE: Final = re.compile(r"spiffe://(?P<domain>[a-z0-9._-]{1,255})(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)*").fullmatch
_LONGEST_OWNER: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRule:
    """The caller whose certificate has a matching name."""

    pattern: NamePattern
    caller: Caller
    """Without an owner, the name is the owner."""
    trust_domain: bool = False
    """Whether the trust domain of its SPIFFE id is the tenant."""

    def caller_of(self, names: Sequence[CertificateName]) -> Caller | None:
        """Nobody, if several names match and the owner is not fixed, or if a SPIFFE id is not the only URI."""
        found = self.pattern.found_in(names)
        if not found or (len(found) > 1 and not self.caller.owner):
            return None
        spiffe = _SPIFFE(found[0]) if _is_only_uri(found[0], names) else None
        if (spiffe is None and (self.trust_domain or found[0].startswith("spiffe:"))) or len(found[0]) > _LONGEST_OWNER:
            return None
        known = self.caller
        tenant = spiffe["domain"] if spiffe is not None and self.trust_domain else known.tenant
        return Caller(known.owner or found[0], True, tenant, known.extended_card, known.scopes)  # noqa: FBT003 - authenticated


def _is_only_uri(name: str, names: Sequence[CertificateName]) -> bool:
    return [other.value for other in names if other.kind == "uri"] == [name]


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateScheme:
    """Knows callers by their certificates. A certificate that no rule matches is ignored."""

    rules: Sequence[CertificateRule]
    name: str = "clientCertificate"
    place: CredentialPlace = CERTIFICATE
    challenge: str = "ClientCertificate"

    @property
    def declaration(self) -> pb.SecurityScheme:
        return pb.SecurityScheme(mtls_security_scheme=pb.MutualTlsSecurityScheme())

    async def caller_of(self, credential: str, credentials: Credentials) -> Caller | None:
        del credential
        names = credentials.names or valid_names(credentials.certificate)
        for rule in self.rules:
            if rule.pattern.found_in(names):
                return rule.caller_of(names)
        log.debug("certificate.unknown", names=[f"{kind}:{value}" for kind, value in names])
        return None


def valid_names(certificate: bytes) -> Sequence[CertificateName]:
    """The names of a certificate, unless it has expired since its connection was opened.

    Those of authorities have no SPIFFE ids.
    """
    try:
        read = certificate_of(certificate)
        if read.not_valid_after_utc < datetime.now(UTC):
            return ()
        names, is_authority = names_in(certificate), _signs_others(read)
        return [name for name in names if not (is_authority and name.value.startswith("spiffe:"))]
    except ValueError:  # damaged extensions
        return ()


def _signs_others(read: x509.Certificate) -> bool:
    try:
        return read.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
