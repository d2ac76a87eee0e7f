"""Checks the signatures of an agent card, as a client should before it trusts the card (spec: SIGN-04 to SIGN-06)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from time import time
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.util import urlsafe_b64decode, urlsafe_b64encode

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import loads
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import JSON, VERSION_HEADER
from a2a_server.protocol.signed_cards import SIGNATURES, canonical_bytes, to_old_sdk, to_sdk, to_the_spec

CARD_PATH: Final = "/.well-known/agent-card.json"
VerifyingKey = ECKey | RSAKey | OKPKey
_KINDS: Final[dict[str, type[VerifyingKey]]] = {"EC": ECKey, "RSA": RSAKey, "OKP": OKPKey}
_ALGORITHMS: Final = frozenset(
    {"ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA", "Ed25519"}
)
"""Those with a public key. What is signed with a shared secret proves nothing about who signed it."""
_MOST_BYTES: Final = 2**20
_MOST_SIGNATURES: Final = 32
_PORTS: Final = {"http": 80, "https": 443}

_TOLD: Final = "all members"
_LETTER: Final = "the card of 1.0"
_SDK: Final = "the card of 1.0 without empty members, as the official SDKs read it"
_OLD_SDK: Final = "the card of 0.3 without defaults, as the official SDK reads it"


class Unfetched(OSError):  # noqa: N818 - a verdict on the other side
    """What was asked for is no card, or no key set, or did not come. The message says which and why."""


class _Invalid(Exception):  # noqa: N818 - a verdict on a signature
    """Why a signature is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureReport:
    """The verdict on one signature."""

    valid: bool
    why: str
    """What it covers, or why it is not valid."""
    kid: str = ""
    algorithm: str = ""
    key_set: str = ""
    """Where the key was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReport:
    """The verdict on a card."""

    url: str
    name: str
    signatures: Sequence[SignatureReport]

    @property
    def verified(self) -> bool:
        """One valid signature is enough: others may be made with keys, or in ways, that are not known here."""
        return any(each.valid for each in self.signatures)


async def check_card(url: str, *, jwks: str = "", version: str = "", patience: float = 10.0) -> CardReport:
    """Fetch a card, and the key sets that its signatures name, and judge each signature.

    `url` is that of the card, or of the agent. `jwks` is a file or URL that is used instead of what signatures name.
    """
    card_url = url if urlsplit(url).path.endswith(".json") else url.rstrip("/") + CARD_PATH
    try:
        async with asyncio.timeout(patience), aiohttp.ClientSession(headers={"Accept": JSON}) as session:
            card = await _fetched(session, card_url, {VERSION_HEADER: version} if version else {})
            found = await _verdicts(card_url, card, _KeySets(session, card_url, jwks))
    except TimeoutError:
        raise Unfetched(f"{card_url}: card and keys did not come within {patience:g} seconds") from None
    return CardReport(url=card_url, name=str(card.get("name", "")), signatures=found)


async def card_fault(session: aiohttp.ClientSession, card_url: str, card: Mapping[str, Any]) -> str:
    """Say why a card that was fetched is not to be trusted; empty if one of its signatures is valid."""
    try:
        found = await _verdicts(card_url, {**card}, _KeySets(session, card_url, ""))
    except Unfetched as error:
        return str(error)
    if any(each.valid for each in found):
        return ""
    return next((each.why for each in found), "it has no signature")


async def _verdicts(card_url: str, card: dict[str, Any], keys: _KeySets) -> list[SignatureReport]:
    entries = card.get(SIGNATURES, [])
    if not isinstance(entries, list) or len(entries) > _MOST_SIGNATURES:
        raise Unfetched(f"{card_url}: signatures must be a list of at most {_MOST_SIGNATURES}")
    try:
        payloads = _payloads(card)
    except (ValueError, RecursionError) as error:
        raise Unfetched(f"{card_url}: has no canonical form: {error}") from None
    return [await _judged(entry, payloads, keys) for entry in entries]


async def _fetched(session: aiohttp.ClientSession, url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """GET a JSON object. Redirects are not followed: who answers is what is being checked."""
    body = bytearray()
    try:
        async with session.get(url, headers=headers, allow_redirects=False) as answer:
            while len(body) <= _MOST_BYTES and (chunk := await answer.content.readany()):
                body += chunk
    except (aiohttp.ClientError, ValueError, OSError) as error:
        raise Unfetched(f"{url}: {error or type(error).__name__}") from None
    if len(body) > _MOST_BYTES:
        raise Unfetched(f"{url}: has more than {_MOST_BYTES} bytes")
    if answer.status != HTTPStatus.OK:
        location = answer.headers.get("Location")
        raise Unfetched(f"{url}: answered {answer.status}{f', and points to {location}' if location else ''}")
    return _object(url, bytes(body))


def _object(where: str, text: bytes) -> dict[str, Any]:
    try:
        value = loads(text)
    except A2AError as error:
        raise Unfetched(f"{where}: is no JSON: {error.message}") from None
    if not isinstance(value, dict):
        raise Unfetched(f"{where}: is no JSON object")
    return value


class _KeySets:
    """The key sets that signatures name, each fetched once."""

    def __init__(self, session: aiohttp.ClientSession, card_url: str, told: str) -> None:
        self._session = session
        self._card_url = card_url
        self._told = told
        self._known: dict[str, list[dict[str, Any]]] = {}

    async def find(self, kid: str, jku: object) -> tuple[str, list[dict[str, Any]]]:
        where = self._told or self._named(jku)
        if where not in self._known:
            self._known[where] = _members(where, await self._read(where))
        found = [key for key in self._known[where] if key.get("kid") == kid]
        if not found:
            raise _Invalid(f"{where} has no key {kid}")
        return where, found

    async def _read(self, where: str) -> dict[str, Any]:
        if urlsplit(where).scheme in _PORTS:
            return await _fetched(self._session, where, {})
        return _object(where, _content(where))

    def _named(self, jku: object) -> str:
        """The URL that a signature names, if it is to be believed: anybody can sign with a key of their own."""
        if not jku:
            raise _Invalid("names no key set (jku); say which one is to be believed with --jwks")
        if not isinstance(jku, str) or _origin(jku) != _origin(self._card_url):
            raise _Invalid(
                f"its key set (jku) {jku} is not of the card's origin; whoever forges a card could name one of their "
                "own. If it is to be believed, name it with --jwks"
            )
        if not _is_safe(jku):
            raise _Invalid(f"its key set (jku) {jku} must be fetched over HTTPS; name it with --jwks to believe it")
        return jku


def _content(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise Unfetched(f"{file}: cannot be read: {error.strerror}") from None


def _members(where: str, jwks: Mapping[str, Any]) -> list[dict[str, Any]]:
    keys = jwks.get("keys")
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise Unfetched(f"{where}: is no JWK set")
    return keys


def _origin(url: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        return None


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        return parts.scheme == "https" or host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _payloads(card: Mapping[str, Any]) -> dict[str, bytes]:
    """What a signature may cover, and how to say it; what covers most comes first."""
    found = {_TOLD: canonical_bytes(card)}
    try:
        read = V1.decode({name: value for name, value in card.items() if name != SIGNATURES}, pb.AgentCard)
        found |= {_LETTER: to_the_spec(read), _SDK: to_sdk(read)}
    except A2AError:
        pass  # it is of another version
    return found | {_OLD_SDK: to_old_sdk(card)}


async def _judged(entry: object, payloads: Mapping[str, bytes], keys: _KeySets) -> SignatureReport:
    told: dict[str, str] = {}
    try:
        protected, signature, header = _parts(entry)
        kid, algorithm = header.get("kid"), header.get("alg")
        told = {"kid": str(kid or ""), "algorithm": str(algorithm or "")}
        if algorithm not in _ALGORITHMS:
            raise _Invalid(f"the algorithm {algorithm} is not accepted")  # noqa: TRY301 - one place makes the verdict
        if not isinstance(kid, str) or not kid:
            raise _Invalid("names no key (kid)")  # noqa: TRY301 - as above
        told["key_set"], found = await keys.find(kid, header.get("jku"))
        return SignatureReport(valid=True, why=_covered(protected, signature, payloads, found, algorithm), **told)
    except (_Invalid, Unfetched) as error:
        return SignatureReport(valid=False, why=str(error), **told)


def _parts(entry: object) -> tuple[str, bytes, dict[str, Any]]:
    match entry:
        case {"protected": str(protected), "signature": str(signature)}:
            pass
        case _:
            raise _Invalid("has no members protected and signature")
    if "=" in protected + signature:
        raise _Invalid("is padded: base64url goes without = here")
    try:
        header, made = loads(urlsafe_b64decode(protected.encode())), urlsafe_b64decode(signature.encode())
    except (ValueError, A2AError):
        raise _Invalid("is not base64url, or its protected header is no JSON") from None
    if not isinstance(header, dict) or "crit" in header:
        raise _Invalid("its protected header is no JSON object, or has critical members (crit)")
    return protected, made, header


def _covered(
    protected: str, signature: bytes, payloads: Mapping[str, bytes], keys: Sequence[Mapping[str, Any]], algorithm: str
) -> str:
    """Say what a signature covers."""
    faults = []
    for members in keys:
        try:
            key = _usable(members, algorithm)
        except _Invalid as fault:
            faults.append(str(fault))
            continue
        for name, payload in payloads.items():
            try:
                if _fits(f"{protected}.{urlsafe_b64encode(payload).decode()}", signature, key, algorithm):
                    return name
            except (JoseError, ValueError, TypeError) as error:
                faults.append(f"it cannot be checked: {error}")
    raise _Invalid(faults[0] if faults else "the card was changed, or read otherwise, or another key was used")


def _fits(signed: str, signature: bytes, key: VerifyingKey, algorithm: str) -> bool:
    """Checks the signature alone: headers may have members that are null, as those of the official SDK."""
    model = jws.JWSRegistry(algorithms=[algorithm]).get_alg(algorithm)
    model.check_key(key)
    return model.verify(signed.encode(), signature, key)


def _usable(members: Mapping[str, Any], algorithm: str) -> VerifyingKey:
    if (fault := next(_key_faults(members, algorithm), None)) is not None:
        raise _Invalid(fault)
    try:
        return _KINDS[members["kty"]].import_key({**members})
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise _Invalid(f"its key cannot be read: {error or type(error).__name__}") from None


def _key_faults(members: Mapping[str, Any], algorithm: str) -> Iterator[str]:
    if members.get("revoked"):
        yield "its key is revoked"
    if isinstance(until := members.get("exp"), int | float) and until <= time():
        yield "its key has expired"
    if members.get("use", "sig") != "sig" or members.get("alg", algorithm) != algorithm:
        yield "its key is meant for something else (use, alg)"
