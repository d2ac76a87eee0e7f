"""Callers with signed tokens (JWT) of an issuer, whose keys verify them (spec: GATE-01, AUTN-01 to AUTN-05).

1. `IssuerKeys.run` fetches the keys at once, then regularly, in the background. A fetch that fails changes nothing.
2. A token with an unknown key waits for another fetch. That is one fetch for all who wait, with a pause between two, so
   that strangers who invent keys cannot flood the issuer.
3. `generation` changes when a key has gone. Tokens that were verified before must be verified again.
4. `IssuerScheme` reads and verifies the tokens, and remembers those that were right.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.auth.schemes import BEARER, BEARER_CHALLENGE, CredentialPlace
from a2a_server.adapters.auth.tokens import CallerRules, Jwt, RefusedTokenError, TokenRules, expires_at, read_jwt
from a2a_server.adapters.auth.verdicts import Verdict, VerdictCache
from a2a_server.ports.authenticator import Caller, Credentials
from a2a_server.ports.fetching import Fetcher, FetchError
from a2a_server.protocol.errors import A2AError, Reason

MOST_KEYS: Final = 50
MOST_WAITING: Final = 256
_LONGEST_PAUSE: Final = 60.0
_RSA_BITS: Final = range(2048, 8193)
"""Shorter keys are not safe, and longer ones are slow."""

_FOR_SECRETS: Final = ("X25519", "X448")
"""Curves whose keys sign nothing."""

Jwk = RSAKey | ECKey | OKPKey

_KINDS: Final[Mapping[object, tuple[type[Jwk], Sequence[str]]]] = {
    "RSA": (RSAKey, ("n", "e")),
    "EC": (ECKey, ("crv", "x", "y")),
    "OKP": (OKPKey, ("crv", "x")),
}

log = structlog.get_logger(__name__)


class PublicKey(NamedTuple):
    """A key that verifies signatures."""

    kid: str | None
    """The id by which tokens name it, if it has one."""
    algorithm: str | None
    """The only one that it may be used for, if the issuer says so."""
    jwk: Jwk
    thumbprint: str

    def fits(self, kid: str | None, algorithm: str) -> bool:
        return (kid is None or self.kid in (None, kid)) and self.algorithm in (None, algorithm)

    def has_signed(self, token: Jwt) -> bool:
        algorithm = JWSRegistry.algorithms[token.header["alg"]]
        try:
            algorithm.check_key(self.jwk)
            return bool(algorithm.verify(token.signed, token.signature, self.jwk))
        except (JoseError, ValueError):
            return False


class IssuerKeys:
    """The keys as they were fetched last. `run` must be running."""

    def __init__(self, issuer: str, fetcher: Fetcher, *, jwks_url: str, refresh: float, cooldown: float) -> None:
        """Without `jwks_url` the issuer's metadata says where its keys are. Times are seconds."""
        self._issuer = issuer
        self._fetcher = fetcher
        self._jwks_url = jwks_url
        self._refresh = refresh
        self._cooldown = cooldown
        self._keys: Sequence[PublicKey] = ()
        self._wanted = asyncio.Event()
        self._fetched = asyncio.Event()
        self._waiting = 0
        self._failure = ""
        self.generation = 0

    async def run(self) -> None:
        failures = 0
        while True:
            failures = 0 if await self._renew() else failures + 1
            self._wanted.clear()
            self._fetched.set()
            self._fetched = asyncio.Event()
            await asyncio.sleep(self._cooldown)
            pause = min(2.0 ** min(failures, 6), _LONGEST_PAUSE) if failures else self._refresh
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), pause)

    def fitting(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        return [key for key in self._keys if key.fits(kid, algorithm)]

    async def renewed(self) -> None:
        """Wait until the keys have been fetched again. UNAVAILABLE if they cannot be."""
        if self._waiting >= MOST_WAITING:
            raise unavailable()
        self._waiting += 1
        try:
            self._wanted.set()
            await self._fetched.wait()
        finally:
            self._waiting -= 1
        if self._failure:
            raise unavailable()

    async def _renew(self) -> bool:
        try:
            found = keys_of(await self._fetcher.fetch(self._jwks_url or await self._find_jwks()))
        except Exception as error:  # noqa: BLE001 - whatever the issuer sends, there must be a next time
            why = str(error) if isinstance(error, FetchError) else f"unexpected: {type(error).__name__}"
            if self._failure != why:
                log.warning("issuer.failed", issuer=self._issuer, why=why, keys_kept=len(self._keys))
            self._failure = why
            return False
        if self._failure or not self._keys:
            log.info("issuer.ready", issuer=self._issuer, keys=len(found))
        self._failure = ""
        if not {key.thumbprint for key in self._keys} <= {key.thumbprint for key in found}:
            self.generation += 1
        self._keys = found
        return True

    async def _find_jwks(self) -> str:
        metadata = _object(await self._metadata())
        if metadata.get("issuer") != self._issuer:
            raise FetchError(f"its metadata names another issuer: {str(metadata.get('issuer'))[:100]!r}")
        return str(metadata.get("jwks_uri", ""))

    async def _metadata(self) -> bytes:
        """Fetch the metadata from its first place, or else the second. If both fail, say why the first did."""
        failure: FetchError | None = None
        for url in metadata_urls(self._issuer):
            try:
                return await self._fetcher.fetch(url)
            except FetchError as error:
                failure = failure or error
        raise failure or AssertionError


@dataclass(slots=True, kw_only=True, eq=False)
class IssuerScheme:
    """Verifies the tokens of one issuer."""

    name: str
    declaration: pb.SecurityScheme
    keys: IssuerKeys
    tokens: TokenRules
    callers: CallerRules
    place: CredentialPlace = BEARER
    challenge: str = BEARER_CHALLENGE
    _verified: VerdictCache = field(default_factory=VerdictCache, init=False)
    _generation: int = field(default=0, init=False)

    def caller_of(self, credential: str, credentials: Credentials) -> Caller | Awaitable[Caller | None] | None:
        del credentials
        digest, now = hashlib.sha256(credential.encode(errors="replace")).digest(), time.time()
        if self._generation != self.keys.generation:
            self._generation = self.keys.generation
            self._verified.clear()
        if (known := self._verified.get(digest, now)) is not None:
            return known.caller
        return self._find_out(credential, digest, now)

    async def _find_out(self, credential: str, digest: bytes, now: float) -> Caller | None:
        try:
            return await self._verify(credential, digest, now)
        except RefusedTokenError as error:
            log.debug("token.refused", scheme=self.name, why=str(error))
            return None

    async def _verify(self, credential: str, digest: bytes, now: float) -> Caller:
        token = read_jwt(credential)
        self.tokens.check(token, now)
        caller = self.callers.caller_of(token.claims)
        await self._check_signature(token)
        self._verified.put(digest, Verdict(caller, expires_at(token.claims, self.tokens.leeway)))
        return caller

    async def _check_signature(self, token: Jwt) -> None:
        """Fetch the keys again only if none of those that are known can be the right one."""
        kid, algorithm = token.header.get("kid"), token.header["alg"]
        known = self.keys.fitting(kid, algorithm)
        if any(key.has_signed(token) for key in known):
            return
        if kid is None or all(key.kid != kid for key in known):
            await self.keys.renewed()
            if any(key.has_signed(token) for key in self.keys.fitting(kid, algorithm)):
                return
        raise RefusedTokenError("no key of the issuer has signed it")


def metadata_urls(issuer: str) -> tuple[str, str]:
    """Where an issuer's metadata is, as OpenID Connect Discovery has it and as RFC 8414 has it."""
    bare = issuer.removesuffix("/")
    scheme, host, path, *_ = urlsplit(bare)
    return f"{bare}/.well-known/openid-configuration", f"{scheme}://{host}/.well-known/oauth-authorization-server{path}"


def unavailable() -> A2AError:
    """Not UNAUTHENTICATED: the token may be good, and the client should keep it."""
    text = "The token cannot be checked now: its issuer does not answer."
    return A2AError(Reason.UNAVAILABLE, text, retry_after=2)


def keys_of(document: bytes) -> Sequence[PublicKey]:
    """Read a JWKS. Keys that are of no use for signatures are left out; that there are none is a failure."""
    listed = _object(document).get("keys")
    members = listed[:MOST_KEYS] if isinstance(listed, list) else []
    if keys := [key for member in members if isinstance(member, dict) and (key := _key_of(member))]:
        return keys
    raise FetchError("the answer has no keys to verify signatures with")


def _key_of(member: Mapping[str, Any]) -> PublicKey | None:
    try:
        if member.get("use", "sig") != "sig" or "verify" not in member.get("key_ops", ["verify"]):
            return None
        kind, parts = _KINDS[member["kty"]]
        if member.get("crv") in _FOR_SECRETS or (kind is RSAKey and _bits(member["n"]) not in _RSA_BITS):
            return None
        jwk = kind.import_key({name: member[name] for name in ("kty", *parts)})  # public members only
        return PublicKey(member.get("kid"), member.get("alg"), jwk, jwk.thumbprint())
    except Exception:  # noqa: BLE001 - whatever is wrong with one key, the others are used
        return None


def _bits(number: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(number + "==")).bit_length()


def _object(document: bytes) -> Mapping[str, Any]:
    try:
        found = orjson.loads(document)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise FetchError("the answer is no JSON object")
    return found
