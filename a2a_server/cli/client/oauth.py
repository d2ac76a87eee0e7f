"""OAuth 2.1 for a command line: device code (RFC 8628) and client credentials (spec: CLI-56)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client import failures
from a2a_server.cli.client.failures import CommandFailure, usage
from a2a_server.cli.client.logins import StoredLogin
from a2a_server.cli.client.output import tell
from a2a_server.protocol.names import JSON

_DEVICE: Final = "urn:ietf:params:oauth:grant-type:device_code"
_MOST_BYTES: Final = 2**20
_SECONDS: Final = 30.0
_INTERVAL: Final = 5.0
_LONGEST_WAIT: Final = 1800.0


@dataclass(frozen=True, slots=True)
class OAuthEndpoints:
    """Where a scheme of the card sends the user."""

    scheme: str
    flow: str
    """`device-code` or `client-credentials`."""
    token_url: str
    device_url: str = ""


@dataclass(frozen=True, slots=True)
class GrantedToken:
    """The answer of an authorization server."""

    access_token: str
    refresh_token: str
    expires_in: float

    def login(self, scheme: str, token_url: str, client_id: str) -> StoredLogin:
        return StoredLogin(
            scheme=scheme,
            access_token=self.access_token,
            token_url=token_url,
            client_id=client_id,
            expires_at=time.time() + self.expires_in if self.expires_in else 0.0,
            refresh_token=self.refresh_token,
        )


async def endpoints(card: pb.AgentCard, wanted: str, *, insecure: bool) -> OAuthEndpoints:
    """Choose the scheme of the card, and the flow: the one that is wanted, or the first that works here."""
    for name in sorted(card.security_schemes):
        scheme = card.security_schemes[name]
        for found in [it async for it in _offered(name, scheme, insecure=insecure)]:
            if wanted in {"", found.flow}:
                return found
    how = f"the flow {wanted}" if wanted else "device code or client credentials"
    raise usage(f"no scheme of the card offers {how}", "See the schemes of the card: a2ad card get")


async def _offered(name: str, scheme: pb.SecurityScheme, *, insecure: bool) -> AsyncIterator[OAuthEndpoints]:
    match scheme.WhichOneof("scheme"):
        case "oauth2_security_scheme":
            flows = scheme.oauth2_security_scheme.flows
            if flows.HasField("device_code"):
                flow = flows.device_code
                yield OAuthEndpoints(name, "device-code", flow.token_url, flow.device_authorization_url)
            if flows.HasField("client_credentials"):
                yield OAuthEndpoints(name, "client-credentials", flows.client_credentials.token_url)
        case "open_id_connect_security_scheme":
            found = await _asked("GET", scheme.open_id_connect_security_scheme.open_id_connect_url, {}, insecure)
            token_url, device_url = (
                str(found.get("token_endpoint", "")),
                str(found.get("device_authorization_endpoint", "")),
            )
            if token_url and device_url:
                yield OAuthEndpoints(name, "device-code", token_url, device_url)
            if token_url:
                yield OAuthEndpoints(name, "client-credentials", token_url)


async def by_device_code(at: OAuthEndpoints, client_id: str, scope: str, *, insecure: bool) -> GrantedToken:
    """Show the user where to confirm, and wait until that has happened."""
    form = {"client_id": client_id} | ({"scope": scope} if scope else {})
    asked = await _asked("POST", at.device_url, form, insecure)
    if "device_code" not in asked:
        raise _refused(asked)
    address = asked.get("verification_uri_complete") or asked.get("verification_uri")
    tell(f"Open {address} and enter the code {asked.get('user_code')}")
    pause = _number(asked.get("interval"), _INTERVAL)
    end = time.monotonic() + min(_number(asked.get("expires_in"), _LONGEST_WAIT), _LONGEST_WAIT)
    form = {"grant_type": _DEVICE, "device_code": str(asked["device_code"]), "client_id": client_id}
    while time.monotonic() < end:
        await asyncio.sleep(pause)
        answer = await _asked("POST", at.token_url, form, insecure)
        if answer.get("error") == "slow_down":
            pause += _INTERVAL
        elif answer.get("error") != "authorization_pending":
            return _granted(answer)
    raise CommandFailure(failures.AUTH_FAILED, "the code has expired before anybody confirmed it")


async def token_of(token_url: str, form: Mapping[str, str], *, insecure: bool) -> GrantedToken:
    return _granted(await _asked("POST", token_url, form, insecure))


def _granted(answer: Mapping[str, Any]) -> GrantedToken:
    token = answer.get("access_token")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise _refused(answer)
    refresh = answer.get("refresh_token")
    expires = _number(answer.get("expires_in"), 0.0)
    return GrantedToken(token, refresh if isinstance(refresh, str) else "", expires)


def _refused(answer: Mapping[str, Any]) -> CommandFailure:
    said = str(answer.get("error_description") or answer.get("error") or "it gave no token")[:300]
    return CommandFailure(failures.AUTH_FAILED, f"the authorization server has refused: {said}")


def _number(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 2**31 else otherwise


async def _asked(verb: str, url: str, form: Mapping[str, str], insecure: bool) -> Mapping[str, Any]:  # noqa: FBT001
    """Ask an authorization server. Secrets never travel in the open, nor along a redirect."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"}):
        raise CommandFailure(failures.CARD_INVALID, f"the authorization server {url[:200]!r} must be an https URL")
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers={"Accept": JSON}) as session,
            session.request(verb, url, data=form or None, allow_redirects=False, ssl=not insecure) as response,
        ):
            text = bytearray()
            while len(text) <= _MOST_BYTES and (chunk := await response.content.readany()):
                text += chunk
    except (aiohttp.ClientError, OSError) as error:
        raise CommandFailure(failures.UNREACHABLE, f"{url[:200]} cannot be reached: {str(error)[:200]}") from None
    return _members(url, bytes(text))


def _members(url: str, text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CommandFailure(failures.AUTH_FAILED, f"{url[:200]} has not answered with a JSON object")
    return found
