"""Asks the schemes who calls: all that is presented must be right, and must be enough (spec: AUTN-01 to AUTN-05)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, Protocol

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.authenticator import Caller, CardSecurity, Credentials
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import AUTHORIZATION

LONGEST = 8192
"""Characters. Longer values cannot be credentials, and are not looked at."""


@dataclass(frozen=True, slots=True)
class CredentialPlace:
    """Where in a request the credentials of a scheme are. Several schemes may share one place."""

    kind: Literal["scheme", "header", "certificate"]
    name: str
    """In lower case: the scheme of an Authorization header, or the name of another header."""

    @property
    def must_be_known(self) -> bool:
        """Whether a credential there that proves nothing is an error. A certificate may be a proxy's."""
        return self.kind != "certificate"

    def read(self, credentials: Credentials) -> Sequence[str]:
        """Return the values there. `Schemes` reads Authorization headers, because it knows all of their schemes."""
        if self.kind == "certificate":
            return (_PRESENT,) if credentials.certificate or credentials.names else ()
        return credentials.metadata.get(self.name, ())


CERTIFICATE: Final = CredentialPlace("certificate", "")
_PRESENT: Final = "present"
"""Stands for a certificate, which TLS has verified already."""
BEARER: Final = CredentialPlace("scheme", "bearer")
BEARER_CHALLENGE: Final = 'Bearer realm="a2a"'


class Scheme(Protocol):
    """One way to prove who calls, as the card declares it."""

    @property
    def name(self) -> str:
        """Its name on the card, such as `apiKey`."""
        ...

    @property
    def place(self) -> CredentialPlace: ...

    @property
    def declaration(self) -> pb.SecurityScheme: ...

    @property
    def challenge(self) -> str:
        """What `WWW-Authenticate` says when credentials are missing or wrong."""
        ...

    def caller_of(self, credential: str, credentials: Credentials) -> Caller | Awaitable[Caller | None] | None:
        """Return the caller whom a credential proves, or None. `credentials` has all that the door knows.

        A scheme that has to wait returns an awaitable.
        """
        ...


_UNREAD: Final = (CredentialPlace("scheme", ""), ())
"""An Authorization header of a scheme that nobody here reads."""

_RECENTLY: Final = 0.25
"""Seconds for which a proven caller is remembered, so that one who calls often is not looked up each time."""
_MOST_RECENT: Final = 1_000

Alternative = tuple[str, ...]
"""Names of schemes that are needed together. The first one says who calls."""


class Schemes:
    """Knows callers by the schemes of the settings.

    The card's requirements are alternatives (OR) of combinations (AND). Without `alternatives`, each scheme is enough.
    What a request presents beyond the alternative that it fulfils must belong to the same caller.
    """

    required = True

    def __init__(
        self,
        schemes: Sequence[Scheme],
        alternatives: Sequence[Alternative] = (),
        *,
        scopes: Mapping[str, Sequence[str]] = MappingProxyType({}),
        resource_metadata: str = "",
    ) -> None:
        """`scopes` are those that clients should ask for, by scheme; the URL is for `WWW-Authenticate` (RFC 9728)."""
        self._alternatives = tuple(alternatives) or tuple(dict.fromkeys((scheme.name,) for scheme in schemes))
        by_place: dict[CredentialPlace, list[Scheme]] = {}
        for scheme in schemes:
            by_place.setdefault(scheme.place, []).append(scheme)
        read = by_place.items()
        self._authorizations = {place.name: (place, found) for place, found in read if place.kind == "scheme"}
        self._elsewhere = [(place, found) for place, found in read if place.kind != "scheme"]
        self._headers = [place.name for place, _ in self._elsewhere if place.kind == "header"]
        self._recent: dict[str, Caller] = {}
        """By Authorization headers. Whatever is withdrawn or expires, counts for this moment."""
        self.card = CardSecurity(
            {scheme.name: scheme.declaration for scheme in reversed(schemes)},  # of one name, the first declares it
            [
                pb.SecurityRequirement(schemes={name: pb.StringList(list=scopes.get(name, ())) for name in alternative})
                for alternative in self._alternatives
            ],
        )
        challenges = dict.fromkeys(scheme.challenge for scheme in schemes if scheme.challenge)
        named = f', resource_metadata="{resource_metadata}"' if resource_metadata else ""
        self._challenge = _joined(challenges, named)
        self._invalid = _joined(challenges, f'{named}, error="invalid_token"')
        """For those who have presented a token (RFC 6750)."""

    def recent(self, credentials: Credentials) -> Caller | None:
        """Return whom the same Authorization header has proven a moment ago, if nothing else is presented."""
        line = self._only_line(credentials)
        return self._recent.get(line) if line else None

    async def authenticate(self, credentials: Credentials) -> Caller:
        caller = await self._authenticate(credentials)
        if line := self._only_line(credentials):
            if not self._recent:
                asyncio.get_running_loop().call_later(_RECENTLY, self._recent.clear)
            if len(self._recent) < _MOST_RECENT:
                self._recent[line] = caller
        return caller

    def _only_line(self, credentials: Credentials) -> str:
        """The Authorization header, if it is the only credential."""
        metadata = credentials.metadata
        lines = metadata.get(AUTHORIZATION, ())
        if len(lines) != 1 or credentials.certificate or credentials.names:
            return ""
        for name in self._headers:
            if name in metadata:
                return ""
        return lines[0]

    async def _authenticate(self, credentials: Credentials) -> Caller:
        proven: dict[str, Caller] = {}
        for place, schemes, value in self._presented(credentials):
            known = False
            for scheme in schemes if 0 < len(value) <= LONGEST else ():
                found = scheme.caller_of(value, credentials)
                caller = found if found is None or isinstance(found, Caller) else await found
                if caller is not None:  # two callers by one scheme are none
                    known = proven.setdefault(scheme.name, caller).is_same(caller)
                    break
            if not known and place.must_be_known:
                raise self._refusal(token=place == BEARER)
        return self._caller_among(proven)

    def _presented(self, credentials: Credentials) -> list[tuple[CredentialPlace, Sequence[Scheme], str]]:
        """What a request shows, and who can read it. An Authorization header that nobody reads is wrong as well."""
        found: list[tuple[CredentialPlace, Sequence[Scheme], str]] = []
        for line in credentials.metadata.get(AUTHORIZATION, ()) if self._authorizations else ():
            kind, _, value = line.partition(" ")
            found.append((*self._authorizations.get(kind.lower(), _UNREAD), value.strip()))
        for place, schemes in self._elsewhere:
            found += [(place, schemes, value) for value in place.read(credentials)]
        return found

    def _caller_among(self, proven: Mapping[str, Caller]) -> Caller:
        if len(proven) == 1:  # as most
            [(name, caller)] = proven.items()
            if (name,) in self._alternatives:
                return caller
        for alternative in self._alternatives:
            if all(name in proven for name in alternative):
                caller = proven[alternative[0]]
                if all(other.is_same(caller) for name, other in proven.items() if name not in alternative):
                    return caller
        raise self._refusal()

    def _refusal(self, *, token: bool = False) -> A2AError:
        """No credential, a wrong one, or two of different callers: the answer is the same, but for wrong tokens."""
        message = "The request needs valid credentials."
        challenge = self._invalid if token else self._challenge
        return A2AError(Reason.UNAUTHENTICATED, message, metadata={"challenge": challenge})


def _joined(challenges: Iterable[str], more: str) -> str:
    """Write all challenges as one header; `more` is added to the one for bearer tokens."""
    return ", ".join(f"{text}{more}" if text == BEARER_CHALLENGE else text for text in challenges)
