"""Limits how often somebody may present wrong credentials, by address and by user name (spec: SECR-01, LIMT-03).

1. Credentials that were right before are always checked, so that nobody who is known is locked out.
2. Any others take a token from a bucket, which is given back unless they turn out to be wrong. So guesses that arrive
   together count like guesses one after another.
3. When the bucket is empty, credentials are refused without a check: not even a right guess shows.

All doors share the buckets. Of the credentials that were right, only hashes are kept.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

import structlog

from a2a_server.domain.hosts import network_of_client
from a2a_server.ports.access import Bucket, Limiter, Taken
from a2a_server.ports.authenticator import Authenticator, Caller, Credentials
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import AUTHORIZATION

_MOST_KNOWN: Final = 10_000
_MOST_LOGGED: Final = 1_000
_LOGGED_EVERY: Final = 60.0
_LONGEST: Final = 200

log = structlog.get_logger(__name__)


class GuessLimit:
    """Asks another authenticator, unless too many wrong credentials came from the same address or for the same user."""

    def __init__(self, authenticator: Authenticator, limiter: Limiter, per_minute: int) -> None:
        self.required = authenticator.required
        self.card = authenticator.card
        self.recent: Callable[[Credentials], Caller | None] | None = getattr(authenticator, "recent", None)
        """They were right, so nobody guesses."""
        self._authenticator = authenticator
        self._limiter = limiter
        self._bucket = Bucket(per_minute / 60, per_minute)
        schemes = self.card.schemes.values()
        self._names = (
            AUTHORIZATION,
            *(scheme.api_key_security_scheme.name.lower() for scheme in schemes if scheme.HasField(_API_KEY)),
        )
        self._right: dict[int, None] = {}
        """Hashes of credentials that were right; Python's own, whose seed nobody knows. The oldest stands first."""
        self._logged: dict[str, float] = {}

    def authenticate(self, credentials: Credentials) -> Coroutine[Any, Any, Caller]:
        metadata = credentials.metadata
        presented = "\n".join([value for name in self._names if name in metadata for value in metadata[name]])
        if not presented or (digest := hash(presented)) in self._right:
            return self._authenticator.authenticate(credentials)
        return self._try(credentials, digest)

    async def _try(self, credentials: Credentials, digest: int) -> Caller:
        taken: list[str] = []
        for guesser in _guessers(credentials):
            allowed, until_full = await self._take(guesser, 1)
            if not allowed:
                await self._give_back(taken)
                raise self._refusal(guesser, self._bucket.wait(until_full, 1))
            taken.append(guesser)
        caller, failed = None, None
        try:
            caller = await self._authenticator.authenticate(credentials)
        except A2AError as error:
            failed = error
        if failed is None or failed.reason is not Reason.UNAUTHENTICATED:
            await self._give_back(taken)
        if failed is not None or caller is None:
            raise failed or AssertionError
        self._right[digest] = None
        if len(self._right) > _MOST_KNOWN:
            del self._right[next(iter(self._right))]
        return caller

    async def _give_back(self, guessers: list[str]) -> None:
        for guesser in guessers:
            await self._take(guesser, -1)

    async def _take(self, guesser: str, number: int) -> Taken:
        taken = self._limiter.take(guesser, self._bucket, number)
        return taken if isinstance(taken, tuple) else await taken

    def _refusal(self, guesser: str, retry_after: float) -> A2AError:
        """Say nothing about users; and log it once a minute."""
        now = time.monotonic()
        if now - self._logged.get(guesser, -_LOGGED_EVERY) >= _LOGGED_EVERY:
            self._logged.pop(guesser, None)
            self._logged[guesser] = now
            if len(self._logged) > _MOST_LOGGED:
                del self._logged[next(iter(self._logged))]
            kind, _, name = guesser.partition(" ")
            log.warning("auth.guessing", **{kind: name})
        text = "Too many wrong credentials have been presented. Try again later."
        return A2AError(Reason.OVERLOADED, text, retry_after=retry_after)


_API_KEY: Final = "api_key_security_scheme"


def _guessers(credentials: Credentials) -> Iterator[str]:
    """What attempts are counted by: the address, and the user names that it tries."""
    yield f"address {network_of_client(credentials.peer)}"
    for value in credentials.metadata.get(AUTHORIZATION, ()):
        scheme, _, encoded = value.partition(" ")
        if scheme.lower() == "basic":
            try:
                user, _, _ = base64.b64decode(encoded.strip(), validate=True).partition(b":")
            except (binascii.Error, ValueError):
                continue
            yield f"user {user[:_LONGEST].decode(errors='replace')}"
