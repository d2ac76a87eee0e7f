"""Who calls: transport credentials in, a caller out (spec: AUTN-03, AUTZ-02)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.rights import lacking, refuse_rights

if TYPE_CHECKING:  # agents import this module, and should not wait for a library that reads certificates
    from a2a_server.domain.client_certificates import CertificateName

ANONYMOUS = "anonymous"
"""The owner of everything when no authentication is configured."""


class Caller(NamedTuple):
    """An identity that the transport has proven; nothing inside a message changes it."""

    owner: str = ANONYMOUS
    authenticated: bool = False
    tenant: str = ""
    """The tenant this caller is bound to; empty when it may name one itself."""
    extended_card: bool = False
    """Whether this caller may read the extended agent card (XCARD-03)."""
    scopes: frozenset[str] | None = None
    """What this caller may do; None = everything that callers may do."""

    def is_same(self, other: Caller) -> bool:
        """Whether both are one caller, whatever each of its credentials allows."""
        return self is other or (self.owner, self.tenant) == (other.owner, other.tenant)

    def require(self, rights: Iterable[str], subject: str) -> None:
        """Refuse what the scopes do not allow. The error names what is missing for the `subject` (AUTZ-05)."""
        if missing := lacking(self.scopes, rights):
            refuse_rights(missing, subject)


class Credentials(NamedTuple):
    """What a door knows about the peer: metadata with lower-case names, and its certificate."""

    metadata: Mapping[str, Sequence[str]]
    certificate: bytes = b""
    """The certificate that the peer has proven to own, in DER or PEM; empty without mutual TLS."""
    peer: str = ""
    """The address that the call came from, without a port; empty if that is not known."""
    via: str = ""
    """The address at the other end of the connection; `peer` may be what trusted proxies say about the client."""
    names: tuple[CertificateName, ...] = ()
    """The names in a client's certificate that a trusted proxy has seen, and does not show."""
    door: str = "grpc"
    """The way in: grpc, rest or jsonrpc."""


@dataclass(frozen=True, slots=True)
class CardSecurity:
    """How the card tells clients what `authenticate` expects, made from the same settings (GATE-02)."""

    schemes: Mapping[str, pb.SecurityScheme] = field(default_factory=dict)
    requirements: Sequence[pb.SecurityRequirement] = ()


class Authenticator(Protocol):
    """Decides who a call comes from."""

    @property
    def required(self) -> bool:
        """False only when every caller is the anonymous owner."""
        ...

    @property
    def card(self) -> CardSecurity:
        """What the card declares."""
        ...

    async def authenticate(self, credentials: Credentials) -> Caller:
        """Return the caller, or raise UNAUTHENTICATED with `metadata["challenge"]` naming a usable scheme."""
        ...
