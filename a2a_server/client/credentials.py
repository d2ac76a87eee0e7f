"""Where credentials go: only where the security schemes of the card demand them (spec: CLI-44, CLI-67, OP-13)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.names import AUTHORIZATION_HEADER

Place = Literal["header", "query", "cookie"]
_BEARER: Final = frozenset({"oauth2_security_scheme", "open_id_connect_security_scheme"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerCredentials:
    """What the caller can prove itself with."""

    bearer: str = ""
    """A token; also of OAuth 2.0 and OpenID Connect."""
    api_key: str = ""
    basic: tuple[str, str] = ("", "")
    """User and password."""

    def __repr__(self) -> str:
        return "CallerCredentials(…)"

    def secrets(self) -> list[str]:
        """Return the texts that no log may show."""
        user, password = self.basic
        return [text for text in (self.bearer, self.api_key, password, _basic(user, password)) if text]


class PlacedCredential(NamedTuple):
    place: Place
    name: str
    value: str


class PresentedCredentials(NamedTuple):
    """Credentials, placed as a card demands."""

    placed: tuple[PlacedCredential, ...] = ()
    unused: tuple[str, ...] = ()
    """The kinds that no scheme of the card asks for; they are not sent."""

    def headers(self) -> list[tuple[str, str]]:
        cookies = [f"{name}={quote(value, safe='')}" for _, name, value in self._at("cookie")]
        plain = [(name, value) for _, name, value in self._at("header")]
        return [*plain, ("Cookie", "; ".join(cookies))] if cookies else plain

    def query(self) -> list[tuple[str, str]]:
        return [(name, value) for _, name, value in self._at("query")]

    def metadata(self) -> list[tuple[str, str]]:
        """Return all of them as gRPC metadata, which has no query."""
        return [(name.lower(), value) for name, value in (*self.headers(), *self.query())]

    def _at(self, place: Place) -> Iterator[PlacedCredential]:
        return (credential for credential in self.placed if credential.place == place)


def present(card: pb.AgentCard, credentials: CallerCredentials | None) -> PresentedCredentials:
    """Place the credentials for the first requirement that they meet; without such a one, for all schemes that fit."""
    if credentials is None:
        return PresentedCredentials()
    schemes = {name: dict(_placed(scheme, credentials)) for name, scheme in card.security_schemes.items()}
    met = (
        list(requirement.schemes)
        for requirement in card.security_requirements
        if requirement.schemes and all(schemes.get(name) for name in requirement.schemes)
    )
    chosen: dict[str, PlacedCredential] = {}
    for name in next(met, sorted(schemes)):
        for kind, credential in schemes[name].items():
            chosen.setdefault(f"{kind} {credential.place} {credential.name}", credential)
    used = {key.partition(" ")[0] for key in chosen}
    return PresentedCredentials(
        tuple(_distinct(chosen.values())), tuple(it for it in _given(credentials) if it not in used)
    )


def _placed(scheme: pb.SecurityScheme, given: CallerCredentials) -> Iterator[tuple[str, PlacedCredential]]:
    """Yield what answers a scheme, with the kind of the credential."""
    which = scheme.WhichOneof("scheme")
    word = scheme.http_auth_security_scheme.scheme.lower() if which == "http_auth_security_scheme" else ""
    if given.bearer and (which in _BEARER or word == "bearer"):
        yield "bearer", PlacedCredential("header", AUTHORIZATION_HEADER, f"Bearer {given.bearer}")
    elif word == "basic" and any(given.basic):
        yield "basic", PlacedCredential("header", AUTHORIZATION_HEADER, f"Basic {_basic(*given.basic)}")
    elif which == "api_key_security_scheme" and given.api_key:
        key = scheme.api_key_security_scheme
        place: Place = "query" if key.location == "query" else "cookie" if key.location == "cookie" else "header"
        yield "api_key", PlacedCredential(place, key.name, given.api_key)


def _distinct(credentials: Iterable[PlacedCredential]) -> Iterator[PlacedCredential]:
    """Leave out a second one at the same place: a header has one value."""
    seen: set[tuple[str, str]] = set()
    for credential in credentials:
        key = credential.place, credential.name.lower()
        if key not in seen:
            seen.add(key)
            yield credential


def _given(credentials: CallerCredentials) -> Iterator[str]:
    if credentials.bearer:
        yield "bearer"
    if credentials.api_key:
        yield "api_key"
    if any(credentials.basic):
        yield "basic"


def _basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode() if user or password else ""
