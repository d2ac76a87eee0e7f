"""Who calls: transport credentials in, a caller out (spec: AUTN-03, AUTZ-02)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from a2a_proto import a2a_pb2 as pb

ANONYMOUS = "anonymous"
"""The owner of everything when no authentication is configured."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An identity that the transport has proven; nothing inside a message changes it."""

    owner: str = ANONYMOUS
    authenticated: bool = False
    tenant: str = ""
    """The tenant this caller is bound to; empty when it may name one itself."""
    extended_card: bool = False
    """Whether this caller may read the extended agent card (XCARD-03)."""


class Credentials(NamedTuple):
    """What a door knows about the peer: metadata with lower-case names, and the names in its certificate."""

    metadata: Mapping[str, Sequence[str]]
    peer_names: tuple[str, ...] = ()


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
