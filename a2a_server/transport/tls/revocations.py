"""Certificates that their authorities have revoked, by the lists (CRLs) that an operator keeps (spec: GATE-10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from a2a_server.domain.client_certificates import certificate_of

_BEGIN: Final = b"-----BEGIN X509 CRL-----"
_END: Final = b"-----END X509 CRL-----"
_PARTIAL: Final = (x509.DeltaCRLIndicator, x509.IssuingDistributionPoint)


class Withdrawn(NamedTuple):
    """One list, as far as it matters."""

    serials: frozenset[int]
    until: datetime | None


class Revocations:
    """Says whether a client certificate still counts. What no list speaks about, or only one of yesterday, does not."""

    def __init__(self, lists: Mapping[x509.Name, Sequence[Withdrawn]], authorities: Sequence[x509.Certificate]) -> None:
        self._lists = lists
        self._gone: set[x509.Name] = set()
        """Authorities that are withdrawn themselves, or whose own authority is."""
        for _ in authorities:
            self._gone |= {
                one.subject
                for one in authorities
                if all(self._is_gone(other) for other in _named(authorities, one.subject))
            }

    def fault(self, certificate: bytes) -> str:
        """Say why a certificate does not count; empty if it does."""
        try:
            read = certificate_of(certificate)
        except ValueError:
            return "cannot be read"
        lists = self._lists.get(read.issuer)
        if not lists:
            return "is of an authority without a list"
        now = datetime.now(UTC)
        if any(one.until is not None and one.until < now for one in lists):
            return "is of an authority whose list is out of date"
        return "is revoked" if self._is_gone(read) else ""

    def _is_gone(self, read: x509.Certificate) -> bool:
        listed = any(read.serial_number in one.serials for one in self._lists.get(read.issuer, ()))
        return listed or read.issuer in self._gone


def read_revocations(content: bytes, authorities: bytes) -> Revocations:
    """Read lists in PEM, or one in DER; a `ValueError` says what is wrong with the file."""
    signers = x509.load_pem_x509_certificates(authorities)
    lists: dict[x509.Name, list[Withdrawn]] = {}
    for one in _lists_in(content):
        if not any(_has_signed(signer, one) for signer in _named(signers, one.issuer)):
            raise ValueError(
                f"holds a list of {one.issuer.rfc4514_string()!r} that no authority in tls.client_ca signed"
            )
        if any(isinstance(extension.value, _PARTIAL) for extension in one.extensions):
            raise ValueError("holds a list that is not complete")
        serials = frozenset(entry.serial_number for entry in one)
        lists.setdefault(one.issuer, []).append(Withdrawn(serials, one.next_update_utc))
    return Revocations(lists, signers)


def _lists_in(content: bytes) -> Sequence[x509.CertificateRevocationList]:
    try:
        if _BEGIN not in content:
            return [x509.load_der_x509_crl(content)]
        pieces = (piece.partition(_END)[0] for piece in content.split(_BEGIN)[1:])
        return [x509.load_pem_x509_crl(_BEGIN + piece + _END + b"\n") for piece in pieces]
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("holds no list of revoked certificates, or a damaged one") from None


def _named(authorities: Iterable[x509.Certificate], name: x509.Name) -> list[x509.Certificate]:
    return [one for one in authorities if one.subject == name]


def _has_signed(signer: x509.Certificate, signed: x509.CertificateRevocationList) -> bool:
    try:
        return bool(signed.is_signature_valid(signer.public_key()))  # type: ignore[arg-type]  # other keys raise
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False
