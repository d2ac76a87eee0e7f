"""Tokens, API keys and passwords: of the settings, of their file and of the store (spec: GATE-01, GATE-08)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import structlog

from a2a_server.adapters.auth.passwords import Account, PasswordScheme
from a2a_server.adapters.auth.schemes import Scheme
from a2a_server.adapters.auth.secrets import ListedSecrets, Secret, StoredKeys, api_key_scheme, bearer_scheme
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.keys import KeyStore
from a2a_server.settings import Auth, Credential
from a2a_server.settings.credentials import CertificateCaller, CredentialLists, Password

POLL: Final = 0.5
"""Seconds between two looks at the file of credentials."""

log = structlog.get_logger(__name__)


async def credential_schemes(auth: Auth, store: KeyStore | None, stack: AsyncExitStack) -> Sequence[Scheme]:
    """Return a scheme for each kind of credential that is configured. `stack` ends what runs for them."""
    lists = Lists()
    lists.take(auth)
    schemes: list[Scheme] = [bearer_scheme(lists.tokens)] if auth.has_tokens else []
    if auth.has_api_keys:
        stored = [await _stored(store, stack)] if auth.stored_keys and store is not None else []
        schemes.append(api_key_scheme(auth.key_place, lists.api_keys, *stored))
    if auth.passwords:
        schemes.append(lists.passwords)
        stack.push_async_callback(lists.passwords.close)
    if auth.tokens_file:
        stack.push_async_callback(ended, asyncio.create_task(_follow(auth, lists)))
    return schemes


async def _stored(store: KeyStore, stack: AsyncExitStack) -> StoredKeys:
    keys = StoredKeys(store)
    await keys.load()
    stack.push_async_callback(keys.close)
    stack.push_async_callback(ended, asyncio.create_task(keys.run()))
    return keys


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


class Lists:
    """What the settings and their file list."""

    def __init__(self) -> None:
        self.tokens = ListedSecrets()
        self.api_keys = ListedSecrets()
        self.passwords = PasswordScheme()

    def take(self, found: CredentialLists) -> None:
        self.tokens.replace(_secrets(found.tokens))
        self.api_keys.replace(_secrets(found.api_keys))
        self.passwords.replace(_accounts(found.passwords))


async def _follow(auth: Auth, lists: Lists) -> None:
    """Read the file again when it changes. One that cannot be used changes nothing."""
    path, seen, known = Path(auth.tokens_file), None, CredentialLists(**dict(_kinds(auth)))
    while True:
        await asyncio.sleep(POLL)
        stamp = await asyncio.to_thread(_stamp, path)
        if stamp == seen:
            continue
        seen = stamp
        try:
            found = await asyncio.to_thread(auth.reread)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            log.warning("tokens_file.unusable", path=str(path), why=why)
            continue
        if found != known:
            known = found
            lists.take(found)
            _tell(auth, found)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns


def _kinds(lists: CredentialLists) -> Iterator[tuple[str, Sequence[Credential]]]:
    for kind in CredentialLists.model_fields:
        yield kind, getattr(lists, kind)


def _tell(auth: Auth, found: CredentialLists) -> None:
    log.info("tokens_file.read", path=auth.tokens_file, **{kind: len(listed) for kind, listed in _kinds(found)})
    served = {"tokens": auth.has_tokens, "api_keys": auth.has_api_keys, "passwords": bool(auth.passwords)}
    if ignored := [kind for kind, listed in _kinds(found) if listed and not served[kind]]:
        log.warning("tokens_file.ignored", kinds=ignored, why="the card declares no such scheme until the next start")


def _secrets(credentials: Iterable[Credential]) -> Iterator[Secret]:
    for credential in credentials:
        yield Secret(credential.digest, caller_of(credential), _expires(credential))


def _accounts(passwords: Iterable[Password]) -> Iterator[tuple[str, Account]]:
    for password in passwords:
        yield password.login, Account(password.hashed, caller_of(password), _expires(password))


def caller_of(credential: Credential | CertificateCaller) -> Caller:
    return Caller(
        credential.owner,
        authenticated=True,
        tenant=credential.tenant,
        extended_card=credential.extended_card,
        scopes=None if credential.scopes is None else frozenset(credential.scopes),
    )


def _expires(credential: Credential) -> float:
    return float("inf") if credential.expires is None else credential.expires.timestamp()
