"""Tokens of identity providers: what they say, and whose they are (spec: GATE-01, AUTN-03; RFC 7519, 8725, 9068).

1. `read_jwt` takes a signed token apart. Only algorithm, type and key id are read of its header: anything else there
   (`jku`, `x5u`, `jwk`, `x5c`) is the sender's word, and ignored. A token that needs extensions (`crit`) is refused.
2. `TokenRules` check everything about it but the signature, which `issuer.py` does.
3. `CallerRules` make a caller of its claims.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from a2a_server.ports.authenticator import Caller

Claims = Mapping[str, Any]

_COMPACT: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)").fullmatch

_LONGEST_NAME: Final = 255
_NEVER: Final = 1e12
"""Seconds since 1970, far in the future: a later time is refused."""


class RefusedTokenError(Exception):
    """The token proves nothing; the message says why, for the operator's log."""


class Jwt(NamedTuple):
    """A signed token, taken apart."""

    header: Claims
    claims: Claims
    signed: bytes
    signature: bytes


def looks_signed(text: str) -> bool:
    return _COMPACT(text) is not None


def read_jwt(text: str) -> Jwt:
    """Take a token apart. Raises a `RefusedTokenError` if it is none."""
    parts = _COMPACT(text)
    if parts is None:
        raise RefusedTokenError("it is no signed JWT")
    header, claims = _object(parts[1]), _object(parts[2])
    return Jwt(header, claims, f"{parts[1]}.{parts[2]}".encode(), _bytes(parts[3]))


def _object(part: str) -> Claims:
    try:
        found = json.loads(_bytes(part), object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise RefusedTokenError("a part of it is no JSON object with each member once") from None
    if not isinstance(found, dict):
        raise RefusedTokenError("a part of it is no JSON object")
    return found


def _bytes(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise RefusedTokenError("a part of it is not in base64") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse repeated members: other programs may read another one of them."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _no_number(name: str) -> None:
    raise ValueError(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What an issuer's tokens must say."""

    issuers: frozenset[str]
    audiences: frozenset[str]
    audience_claim: str
    algorithms: frozenset[str]
    types: frozenset[str]
    """In lower case, and without `application/`. Tokens without a type are taken for `jwt`."""
    leeway: float

    def check(self, token: Jwt, now: float) -> None:
        if _text(token.claims, "iss") not in self.issuers:
            raise RefusedTokenError("it is of another issuer")
        self._check_header(token.header)
        check_audience(token.claims, self.audience_claim, self.audiences)
        check_times(token.claims, now, self.leeway)

    def _check_header(self, header: Claims) -> None:
        if _text(header, "alg") not in self.algorithms:
            raise RefusedTokenError("its algorithm is not allowed")
        if str(header.get("typ", "jwt")).lower().removeprefix("application/") not in self.types:
            raise RefusedTokenError("it is of another type")
        if "crit" in header:
            raise RefusedTokenError("it needs extensions of JWS")
        if "kid" in header:
            _text(header, "kid")


def _text(claims: Claims, name: str) -> str:
    if not isinstance(value := claims.get(name), str):
        raise RefusedTokenError(f"its {name} is no text")
    return value


def check_audience(claims: Claims, name: str, audiences: Collection[str]) -> None:
    found = claims.get(name)
    meant = found if isinstance(found, list) else [found]
    if not any(isinstance(audience, str) and audience in audiences for audience in meant):
        raise RefusedTokenError(f"its {name} names none of the audiences")


def check_times(claims: Claims, now: float, leeway: float) -> None:
    if expires_at(claims, leeway) <= now:
        raise RefusedTokenError("it has expired")
    if any(_time(claims, name, 0) > now + leeway for name in ("nbf", "iat")):
        raise RefusedTokenError("it is not valid yet")


def expires_at(claims: Claims, leeway: float = 0) -> float:
    """When the token stops being valid. One that never expires is refused."""
    return _time(claims, "exp", 0) + leeway


def _time(claims: Claims, name: str, absent: float) -> float:
    value = claims.get(name, absent)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _NEVER:
        raise RefusedTokenError(f"its {name} is no time")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerRules:
    """How a caller is made of claims. Claims go by name, or by a path with dots: `realm_access.roles`."""

    owner_claim: str
    owner_prefix: str
    """Keeps the owners of several issuers apart."""
    tenant: str
    tenant_claim: str
    scopes: frozenset[str] | None
    """What all callers may do; None = what their tokens say."""
    scope_claims: Collection[str]
    required: Mapping[str, Collection[str]]
    """Claims that a token must have, with the values of which one is enough."""
    extended_card: bool

    def caller_of(self, claims: Claims) -> Caller:
        for path, values in self.required.items():
            if not any(value in values for value in _texts(found_at(claims, path))):
                raise RefusedTokenError(f"its {path} is another")
        return Caller(
            self.owner_prefix + _name_at(claims, self.owner_claim),
            authenticated=True,
            tenant=_name_at(claims, self.tenant_claim) if self.tenant_claim else self.tenant,
            extended_card=self.extended_card,
            scopes=self._scopes(claims),
        )

    def _scopes(self, claims: Claims) -> frozenset[str]:
        if self.scopes is not None:
            return self.scopes
        return frozenset(scope for path in self.scope_claims for scope in _split(found_at(claims, path)))


def found_at(claims: Claims, path: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the claim of that name, or what the path leads to: names of claims may have dots themselves."""
    if path in claims:
        return claims[path]
    first, _, rest = path.partition(".")
    inner = claims.get(first)
    return found_at(inner, rest) if rest and isinstance(inner, dict) else None


def _name_at(claims: Claims, path: str) -> str:
    name = found_at(claims, path)
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise RefusedTokenError(f"its {path} is no name of at most {_LONGEST_NAME} characters")
    return name


def _split(value: object) -> Iterator[str]:
    """Yield scopes: separated by blanks in a text, as OAuth has it, or the texts of a list."""
    return iter(value.split()) if isinstance(value, str) else _texts(value)


def _texts(value: object) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, bool):
            yield str(item).lower()
        elif isinstance(item, str):
            yield item
