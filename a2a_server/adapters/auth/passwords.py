"""Callers with a name and a password, HTTP Basic (spec: GATE-01; RFC 7617).

Verifying a password is slow on purpose. So a right one is verified once, and a keyed hash of it is remembered.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.auth.schemes import CredentialPlace
from a2a_server.adapters.auth.verdicts import SharedChecks, Verdict, VerdictCache
from a2a_server.domain.password_hash import PasswordHash
from a2a_server.domain.scope import Shares
from a2a_server.ports.authenticator import Caller, Credentials

PLACES: Final = 8
"""Passwords that wait to be verified, while one address sends them; twice as many if several do."""


class Account(NamedTuple):
    """A user's password, whose it is, and until when, in seconds since 1970."""

    hashed: PasswordHash
    caller: Caller
    expires: float


class PasswordScheme:
    """Verifies names and passwords, one at a time, in a thread."""

    name = "basic"
    place = CredentialPlace("scheme", "basic")
    declaration = pb.SecurityScheme(http_auth_security_scheme=pb.HTTPAuthSecurityScheme(scheme="Basic"))
    challenge = 'Basic realm="a2a", charset="UTF-8"'

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._nobody = PasswordHash(15, 8, 3, os.urandom(16), os.urandom(32))
        self._secret = os.urandom(32)
        self._known = VerdictCache()
        self._checks = SharedChecks(Shares(PLACES), "Too many passwords are being checked now.")
        self._thread = ThreadPoolExecutor(1, "passwords")

    def replace(self, accounts: Iterable[tuple[str, Account]]) -> None:
        """Replace all accounts by these."""
        self._accounts = dict(accounts)
        self._known.clear()

    async def caller_of(self, credential: str, credentials: Credentials) -> Caller | None:
        digest, now = hashlib.blake2b(credential.encode(errors="replace"), key=self._secret).digest(), time.time()
        known = self._known.get(digest, now)
        if known is None:
            user, colon, password = _decoded(credential).partition(":")
            if not colon:
                return None
            known = await self._checks.verdict(digest, credentials.peer, lambda: self._verify(digest, user, password))
        return known.caller

    async def close(self) -> None:
        self._checks.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _verify(self, digest: bytes, user: str, password: str) -> Verdict:
        """An unknown user takes as long as a wrong password."""
        account = self._accounts.get(user)
        hashed = account.hashed if account is not None else self._nobody
        right = await asyncio.get_running_loop().run_in_executor(self._thread, hashed.matches, password)
        # Meanwhile the account may have been replaced.
        if not right or account is None or self._accounts.get(user) != account or account.expires <= time.time():
            return Verdict(None, 0)
        return self._known.put(digest, Verdict(account.caller, account.expires))


def _decoded(credential: str) -> str:
    try:
        return base64.b64decode(credential, validate=True).decode()
    except ValueError:
        return ""
