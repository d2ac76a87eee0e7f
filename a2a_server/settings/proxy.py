"""The settings of trusted proxies, which say who calls (spec: GATE-10)."""

from __future__ import annotations

import re
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, field_validator, model_validator

from a2a_server.protocol.names import AUTHORIZATION
from a2a_server.protocol.options import RESERVED, Networks, split
from a2a_server.settings.credentials import CertificatePattern, check_hash, digest_of
from a2a_server.settings.sections import Section

_HEADER: Final = re.compile("[A-Za-z0-9-]{1,64}").fullmatch
_OURS: Final = ("grpc-", "a2a-")


def _header(text: str) -> str:
    name = text.lower()
    if text and (not _HEADER(text) or name in {*RESERVED, AUTHORIZATION} or name.startswith(_OURS)):
        raise ValueError("must be a header of letters, digits and dashes that has no other use")
    return name


Header = Annotated[str, AfterValidator(_header)]
CertificatePatterns = Annotated[tuple[CertificatePattern, ...], BeforeValidator(split)]


class TrustedProxy(Section):
    """Headers, and gRPC metadata, in which a trusted proxy says who calls. They are removed from all other calls. A
    proxy is trusted if it meets each of `networks`, `certificates` and `secret_hash` that is set.
    """

    owner_header: Header = ""
    """The header with the owner, such as x-forwarded-user; empty = no such callers."""
    tenant_header: Header = ""
    """The header with the tenant that the caller is bound to; calls without it are refused."""
    scopes_header: Header = ""
    """The header with what the caller may do, separated by blanks or commas. Without this and the next one, callers may
    do everything."""
    groups_header: Header = ""
    """The header with the caller's groups, separated by commas. They count as scopes, or as roles."""
    certificate_header: Header = ""
    """The header with the client's certificate: client-cert (RFC 9440), x-forwarded-client-cert (Envoy), or any with
    PEM in percent-encoding. `[[auth.certificates]]` says whose it is. A gateway that runs alone and has tls.client_ca
    passes the certificates of its clients on in this header."""
    extended_card: bool = False
    """Whether these callers may read the extended agent card."""
    card_scheme: str = Field(default="Bearer", pattern=r"^[A-Za-z0-9-]{1,64}$")
    """How clients authenticate with the proxy, for the card: a scheme of HTTP, such as Bearer or Basic."""
    networks: Networks = ()
    """Addresses and networks from which the proxies connect, such as 10.0.0.0/8."""
    certificates: CertificatePatterns = ()
    """Names in the proxies' own certificates, spelled as in `[[auth.certificates]]`; needs tls.client_ca."""
    secret_header: Header = ""
    """The header with a secret that only proxies know."""
    secret_hash: SecretStr = SecretStr("")
    """`sha256:` and the SHA-256 of this secret; `a2ad token new` makes both."""

    @field_validator("secret_hash")
    @classmethod
    def _is_a_hash(cls, value: SecretStr) -> SecretStr:
        return check_hash(value) if value.get_secret_value() else value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        listed = [name for name in (*self.identity_headers, self.secret_header) if name]
        if len({*listed}) < len(listed):
            raise ValueError("each header can mean one thing only")
        if bool(self.secret_header) != bool(self.secret_hash.get_secret_value()):
            raise ValueError("secret_header and secret_hash are needed together")
        if any((self.tenant_header, self.scopes_header, self.groups_header)) and not self.owner_header:
            raise ValueError("tenant_header, scopes_header and groups_header need owner_header")
        if self.owner_header and not self.trusts:
            raise ValueError(
                "owner_header needs networks, certificates or secret_hash, which say what proxy is trusted"
            )
        return self

    @property
    def trusts(self) -> bool:
        """Whether there is a way to be trusted."""
        return bool(self.networks or self.certificates or self.secret_header)

    @property
    def identity_headers(self) -> tuple[str, ...]:
        return (
            *(self.owner_header, self.tenant_header, self.scopes_header, self.groups_header),
            self.certificate_header,
        )

    @property
    def headers(self) -> tuple[str, ...]:
        """All that is set."""
        return tuple(filter(None, (*self.identity_headers, self.secret_header)))

    @property
    def digest(self) -> bytes:
        return digest_of(self.secret_hash)
