"""Bearer tokens and API keys that the settings list as hashes (spec: AUTN-02 to AUTN-04, GATE-01, GATE-02)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.authenticator import Caller, CardSecurity, Credentials
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import AUTHORIZATION

LONGEST = 4096
"""Characters. Longer values cannot be credentials and are not hashed."""


@dataclass(frozen=True, slots=True)
class Secret:
    """One credential: its SHA-256, and whose it is."""

    digest: bytes
    caller: Caller


class StaticAuthenticator:
    """Knows callers by their secrets. All credentials of a request must be right and belong to one caller."""

    required = True

    def __init__(self, *, tokens: Sequence[Secret], api_keys: Sequence[Secret], api_key_header: str) -> None:
        self._tokens = tuple(tokens)
        self._api_keys = tuple(api_keys)
        self._header = api_key_header
        self.card = _card(api_key_header, bearer=bool(tokens), api_key=bool(api_keys))
        offers = ['Bearer realm="a2a"'] * bool(tokens) + [f'ApiKey header="{api_key_header}"'] * bool(api_keys)
        self._challenge = ", ".join(offers)

    async def authenticate(self, credentials: Credentials) -> Caller:
        found = [_find(self._tokens, _bearer(value)) for value in credentials.metadata.get(AUTHORIZATION, ())]
        if self._api_keys:  # a header that the card does not declare is not a credential (AUTN-04)
            found += [_find(self._api_keys, key) for key in credentials.metadata.get(self._header.lower(), ())]
        callers = set(found)
        if len(callers) != 1 or (caller := callers.pop()) is None:
            # No credential, a wrong one, or two of different callers: the answer is the same.
            message = "The request needs valid credentials."
            raise A2AError(Reason.UNAUTHENTICATED, message, metadata={"challenge": self._challenge})
        return caller


def _bearer(value: str) -> str:
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _find(secrets: Iterable[Secret], presented: str) -> Caller | None:
    """Compare with every secret, so that the time taken reveals nothing."""
    digest = hashlib.sha256(presented[:LONGEST].encode(errors="replace")).digest()
    caller = None
    for secret in secrets:
        if hmac.compare_digest(secret.digest, digest):
            caller = secret.caller
    return caller if 0 < len(presented) <= LONGEST else None


def _card(header: str, *, bearer: bool, api_key: bool) -> CardSecurity:
    schemes = {}
    if bearer:
        schemes["bearer"] = pb.SecurityScheme(http_auth_security_scheme=pb.HTTPAuthSecurityScheme(scheme="Bearer"))
    if api_key:
        declared = pb.APIKeySecurityScheme(location="header", name=header)
        schemes["apiKey"] = pb.SecurityScheme(api_key_security_scheme=declared)
    alternatives = [pb.SecurityRequirement(schemes={name: pb.StringList()}) for name in schemes]
    return CardSecurity(schemes, alternatives)
