"""Callers with opaque tokens: the provider is asked about each token, and its answer is remembered (spec: GATE-09).

Calls that present the same token at once share one request, and the number of requests at a time is bounded.
"""

from __future__ import annotations

import base64
import hashlib
import time
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus

import orjson
import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.auth.schemes import BEARER, BEARER_CHALLENGE, CredentialPlace
from a2a_server.adapters.auth.tokens import (
    CallerRules,
    Claims,
    RefusedTokenError,
    check_audience,
    check_times,
    expires_at,
    looks_signed,
)
from a2a_server.adapters.auth.verdicts import SharedChecks, Verdict, VerdictCache
from a2a_server.ports.authenticator import Caller, Credentials
from a2a_server.ports.fetching import Fetcher, FetchError
from a2a_server.protocol.errors import A2AError, Reason

log = structlog.get_logger(__name__)

_UNANSWERED: Final = "The token cannot be checked now: its provider does not answer."


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """The provider's address, this server's account there, and how long answers are remembered, in seconds."""

    url: str
    client_id: str
    client_secret: str
    in_form: bool
    """Whether the client's name and secret are sent in the form, instead of as HTTP Basic."""
    issuer: str
    audiences: frozenset[str]
    kept: float
    kept_refused: float

    def request(self, token: str) -> dict[str, Any]:
        form = {"token": token, "token_type_hint": "access_token"}
        if self.in_form:
            return {"form": {**form, "client_id": self.client_id, "client_secret": self.client_secret}}
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"  # RFC 6749, 2.3.1
        return {"form": form, "credentials": f"Basic {base64.b64encode(pair.encode()).decode()}"}


@dataclass(slots=True, kw_only=True, eq=False)
class IntrospectionScheme:
    """Asks a provider about tokens."""

    name: str
    declaration: pb.SecurityScheme
    provider: Provider
    callers: CallerRules
    fetcher: Fetcher
    checks: SharedChecks
    opaque_only: bool
    """Whether signed tokens are left to the issuers that sign them."""
    place: CredentialPlace = BEARER
    challenge: str = BEARER_CHALLENGE
    _valid: VerdictCache = field(default_factory=VerdictCache, init=False)
    _refused: VerdictCache = field(default_factory=VerdictCache, init=False)
    """Apart, so that guesses cannot push out what is valid."""
    _failure: str = field(default="", init=False)
    """Why the last question was not answered; it is logged when it changes."""

    async def caller_of(self, credential: str, credentials: Credentials) -> Caller | None:
        if self.opaque_only and looks_signed(credential):
            return None
        digest, now = hashlib.sha256(credential.encode(errors="replace")).digest(), time.time()
        known = self._valid.get(digest, now) or self._refused.get(digest, now)
        if known is None:
            known = await self.checks.verdict(digest, credentials.peer, lambda: self._find_out(digest, credential))
        return known.caller

    async def close(self) -> None:
        self.checks.close()

    async def _find_out(self, digest: bytes, token: str) -> Verdict:
        try:
            claims = orjson.loads(await self.fetcher.fetch(self.provider.url, **self.provider.request(token)))
            active = claims["active"]
        except (FetchError, ValueError, TypeError, LookupError) as error:
            why = str(error) if isinstance(error, FetchError) else "the answer does not say whether the token is active"
            if self._failure != why:
                log.warning("introspection.failed", scheme=self.name, why=why)
            self._failure = why
            raise A2AError(Reason.UNAVAILABLE, _UNANSWERED, retry_after=2) from None
        self._failure, now = "", time.time()
        try:
            caller = self._caller_of(claims, now) if active is True else None
        except RefusedTokenError as error:
            log.debug("token.refused", scheme=self.name, why=str(error))
            caller = None
        if caller is None:
            return self._refused.put(digest, Verdict(None, now + self.provider.kept_refused))
        until = now + self.provider.kept
        return self._valid.put(digest, Verdict(caller, min(until, expires_at(claims)) if "exp" in claims else until))

    def _caller_of(self, claims: Claims, now: float) -> Caller:
        if self.provider.issuer and claims.get("iss") != self.provider.issuer:
            raise RefusedTokenError("it is of another issuer")
        if self.provider.audiences:
            check_audience(claims, "aud", self.provider.audiences)
        check_times({"exp": now + 1, **claims}, now, 0)
        return self.callers.caller_of(claims)
