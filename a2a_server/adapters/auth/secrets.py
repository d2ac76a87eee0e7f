"""Bearer tokens and API keys, of which only hashes are kept (spec: AUTN-02 to AUTN-04, GATE-01, GATE-02, GATE-08).

`ListedSecrets` come from the settings. `StoredKeys` are the API keys of the store, all of them in memory, so that no
call waits for the store, whatever strangers send:

1. All keys that count are read before the first call.
2. Twice a second the store is asked for changes, which costs one look into an index.
3. The times of last use are collected, and written every few seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.auth.schemes import BEARER, BEARER_CHALLENGE, CredentialPlace
from a2a_server.ports.authenticator import Caller, Credentials
from a2a_server.ports.keys import KeyStore, StoredKey
from a2a_server.ports.store import StoreUnavailable
from a2a_server.protocol.options import KeyPlace

POLL: Final = 0.5
FLUSH: Final = 10.0
"""Seconds."""
_BATCH: Final = 500

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Secret:
    """One credential: its SHA-256, whose it is, and until when, in seconds since 1970."""

    digest: bytes
    caller: Caller
    expires: float = float("inf")


class KnownHashes(Protocol):
    """Knows callers by the hashes of their secrets."""

    def caller_of(self, digest: bytes, now: float) -> Caller | None: ...


class ListedSecrets:
    """The secrets that the settings list. The time that a look-up takes depends on hashes, which nobody can choose."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self.replace(secrets)

    def replace(self, secrets: Iterable[Secret]) -> None:
        self._known = {secret.digest: secret for secret in secrets}

    def caller_of(self, digest: bytes, now: float) -> Caller | None:
        secret = self._known.get(digest)
        return secret.caller if secret is not None and secret.expires > now else None


class StoredKeys:
    """The API keys of the store."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._known: dict[bytes, tuple[StoredKey, Caller]] = {}
        self._change = 0
        self._used: dict[str, int] = {}
        self._away = False

    def caller_of(self, digest: bytes, now: float) -> Caller | None:
        found = self._known.get(digest)
        if found is None:
            return None
        key, caller = found
        now_ms = int(now * 1000)
        if key.expires_ms is not None and key.expires_ms <= now_ms:
            return None
        self._used[key.key_id] = now_ms
        return caller

    async def load(self) -> None:
        """Learn what has changed."""
        while changes := await self._store.keys_after(self._change, _BATCH):
            for self._change, key in changes:
                self._take(key)
            await asyncio.sleep(0)

    async def run(self) -> None:
        """Follow the store until canceled. While it is away, what is known counts: calls need it, too."""
        flushed = time.monotonic()
        while True:
            await asyncio.sleep(POLL)
            try:
                await self.load()
                if time.monotonic() - flushed >= FLUSH:
                    flushed = time.monotonic()
                    await self.flush()
            except StoreUnavailable as error:
                self._tell(why=str(error))
            else:
                self._tell()

    async def close(self) -> None:
        """Write the last uses, if the store is there."""
        with suppress(StoreUnavailable):
            await self.flush()

    async def flush(self) -> None:
        while self._used:
            part = dict(list(self._used.items())[:_BATCH])
            for key_id in part:
                del self._used[key_id]
            await self._store.note_use(part)

    def _take(self, key: StoredKey) -> None:
        if key.revoked_ms is not None:
            self._known.pop(key.digest, None)
            return
        caller = Caller(
            key.owner, authenticated=True, tenant=key.tenant, extended_card=key.extended_card, scopes=key.scopes
        )
        self._known[key.digest] = key, caller

    def _tell(self, why: str = "") -> None:
        if bool(why) != self._away:
            self._away = bool(why)
            if why:
                log.warning("keys.not_read", why=why)
            else:
                log.info("keys.read_again")


class SecretScheme:
    """Knows callers by their secrets. These are random, which is why one round of SHA-256 is enough (GATE-01)."""

    def __init__(
        self,
        name: str,
        place: CredentialPlace,
        declaration: pb.SecurityScheme,
        challenge: str,
        known: Sequence[KnownHashes],
    ) -> None:
        self.name = name
        self.place = place
        self.declaration = declaration
        self.challenge = challenge
        self._known = known

    def caller_of(self, credential: str, credentials: Credentials) -> Caller | None:
        del credentials
        digest, now = hashlib.sha256(credential.encode(errors="replace")).digest(), time.time()
        for known in self._known:
            if (caller := known.caller_of(digest, now)) is not None:
                return caller
        return None


def bearer_scheme(*known: KnownHashes) -> SecretScheme:
    declared = pb.SecurityScheme(http_auth_security_scheme=pb.HTTPAuthSecurityScheme(scheme="Bearer"))
    return SecretScheme("bearer", BEARER, declared, BEARER_CHALLENGE, known)


def api_key_scheme(at: KeyPlace, *known: KnownHashes) -> SecretScheme:
    """The gateway takes keys out of query, cookie or header, and sends them on as metadata, as gRPC clients do."""
    declared = pb.SecurityScheme(api_key_security_scheme=pb.APIKeySecurityScheme(location=at.location, name=at.name))
    challenge = f'ApiKey {at.location}="{at.name}"'
    return SecretScheme("apiKey", CredentialPlace("header", at.metadata), declared, challenge, known)
