"""One attempt at one webhook: checks, headers, the request, and what the answer means (spec: HOOK, DELV-02, SSRF)."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import quote

import aiohttp
import structlog
from aiohttp.abc import AbstractResolver
from yarl import URL

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.webhook.connections import Connections, RefusedAddressError, Sockets, spend
from a2a_server.domain.webhooks import Policy, Target, faults_of, target_of
from a2a_server.ports.clock import Clock
from a2a_server.ports.push import Notice, Outcome, PushConfig
from a2a_server.protocol.errors import Violation
from a2a_server.protocol.names import (
    AUTHORIZATION_HEADER,
    CURRENT,
    DELIVERY_ID_HEADER,
    EVENT_NUMBER_HEADER,
    LEGACY,
    SIGNATURE_HEADER,
    TASK_ID_HEADER,
    TEXT,
    TOKEN_HEADER,
    VERSION_HEADER,
)

logger = structlog.get_logger()

Sign = Callable[[Notice], str]

_MOST_READ = 16 * 1024
"""Bytes of an answer that are read so that its connection can be kept."""
_SPENDING = 1.0
"""Seconds to wait for the rest of an answer, after its status has decided the outcome."""
_CHALLENGE_PARAMETER = "validationToken"
_MOST_CHALLENGE = 512
"""Bytes that are read of the answer to a challenge: the token, and line ends that editors add."""
_VISIBLE = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")
_BEARER = "bearer"
_LONGEST_NUMBER = 10
"""Digits of a `Retry-After` in seconds."""

_REJECTIONS = frozenset({400, 405, 415, 422})
"""Statuses that find fault with the one webhook (CONF-81)."""

DELIVERED = Outcome(delivered=True)
REFUSED_CONFIG = Outcome(delivered=False, why="refused config", final=True)
REFUSED_ADDRESS = Outcome(delivered=False, why="refused address", final=True)
CLOSED = Outcome(delivered=False, why="closed")
TIMEOUT = Outcome(delivered=False, why="timeout")


@dataclass(eq=False, repr=False)
class WebhookSender:
    """Sends over connections that it keeps for a while. Times are in seconds."""

    _policy: Policy
    _clock: Clock
    _: KW_ONLY
    timeout: float = 15.0
    user_agent: str = "a2ad"
    sign: Sign | None = None
    trust: str = ""
    """PEM: authorities beside the system's."""
    resolver: AbstractResolver | None = None
    _connections: Connections | None = field(default=None, init=False)

    async def open(self) -> None:
        self._connections = Connections(Sockets(self._policy.addresses), self.trust, self.resolver)

    async def close(self) -> None:
        connections, self._connections = self._connections, None
        if connections:
            await connections.close()

    async def send(self, notice: Notice) -> Outcome:
        """Check the config again: the policy may have become stricter since it was made."""
        if not self._may_be_called(notice.hook):
            return REFUSED_CONFIG
        try:
            return await self._attempt(notice)
        except Exception as error:  # noqa: BLE001 - nothing that a receiver does may end the relay
            return of_failure(error) if self._connections else CLOSED

    async def challenge(self, hook: PushConfig, owner: str) -> bool:
        if not self._may_be_called(hook):
            return False
        try:
            return await self._echoes(target_of(hook.config.url), owner)
        except Exception:  # noqa: BLE001 - as above; the client is not told why it failed
            return False

    def faults(self, config: pb.TaskPushNotificationConfig, prefix: str = "") -> Sequence[Violation]:
        return faults_of(config, self._policy, prefix)

    def _may_be_called(self, hook: PushConfig) -> bool:
        return bool(hook.config.url) and not self.faults(hook.config)

    async def _attempt(self, notice: Notice) -> Outcome:
        url = URL(target_of(notice.hook.config.url).url, encoded=True)
        headers = headers_of(notice, self.user_agent, self.sign)
        now = asyncio.get_running_loop().time
        deadline = now() + self.timeout
        async with asyncio.timeout_at(deadline):
            response = await self._ready().request("POST", url, headers, notice.owner, notice.body)
        await spend(response, min(deadline, now() + _SPENDING), _MOST_READ)
        retry_after = response.headers.get("Retry-After")
        return of_answer(response.status, retry_after, self._clock.now_ms())

    async def _echoes(self, target: Target, owner: str) -> bool:
        """Whether `GET <url>?validationToken=<token>` is answered by 200, the token and nothing else (SSRF-05).

        The config's secrets are not sent, because it is not known yet who would get them.
        """
        token = secrets.token_urlsafe(32)
        deadline = asyncio.get_running_loop().time() + self.timeout
        glue = "&" if "?" in target.path else "?"
        url = URL(f"{target.url}{glue}{_CHALLENGE_PARAMETER}={token}", encoded=True)
        headers = {"User-Agent": self.user_agent, "Accept": TEXT, "Accept-Encoding": "identity"}
        async with asyncio.timeout_at(deadline):
            response = await self._ready().request("GET", url, headers, owner)
        answer = await spend(response, deadline, _MOST_CHALLENGE)
        return response.status == HTTPStatus.OK and hmac.compare_digest(answer.strip(), token.encode())

    def _ready(self) -> Connections:
        if self._connections is None:
            raise RuntimeError("the sender is not open")
        return self._connections


# -- headers (HOOK-03, HOOK-04, HOOK-05, LPSH-01, CONF-35, TRAC-01); every value is checked or encoded


def headers_of(notice: Notice, user_agent: str, sign: Sign | None) -> dict[str, str]:
    """Who sends, to what the body belongs, and which delivery it is."""
    headers = {
        "Content-Type": notice.content_type,
        "User-Agent": user_agent,
        "Accept-Encoding": "identity",
        VERSION_HEADER: CURRENT if notice.hook.version == CURRENT else LEGACY,  # the draft calls itself 0.3, too
        TASK_ID_HEADER: _visible(notice.task_id),
        EVENT_NUMBER_HEADER: str(notice.number),
        DELIVERY_ID_HEADER: _visible(notice.delivery_id),
    }
    if token := notice.hook.config.token:
        headers[TOKEN_HEADER] = token
    if notice.trace is not None:
        headers |= notice.trace.headers()
    headers |= _authorization(notice, sign(notice) if sign else "")
    return headers


def _authorization(notice: Notice, signature: str) -> dict[str, str]:
    """The client's credentials, and our signature beside them or in their place."""
    authentication = notice.hook.config.authentication
    scheme, credentials = authentication.scheme, authentication.credentials
    if signature and not credentials and scheme.lower() in {"", _BEARER}:
        return {AUTHORIZATION_HEADER: f"Bearer {signature}"}
    headers = {SIGNATURE_HEADER: signature} if signature else {}
    if scheme:
        headers[AUTHORIZATION_HEADER] = f"{scheme} {credentials}".rstrip()
    return headers


def _visible(text: str) -> str:
    """Percent-encode what headers cannot carry: ids may hold any characters."""
    return quote(text, safe=_VISIBLE)


# -- outcomes (DELV-02, PAID-03, SECR-03); no word that a receiver has sent gets into them, into logs or errors


def of_answer(status: int, retry_after: str | None, now_ms: int) -> Outcome:
    """Only 2xx acknowledges a webhook. Redirects are not followed."""
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return DELIVERED
    wish = None if retry_after is None else seconds_until(retry_after, now_ms)
    final, rejected = status == HTTPStatus.GONE, status in _REJECTIONS
    return Outcome(delivered=False, why=f"status {status}", retry_after=wish, final=final, rejected=rejected)


def seconds_until(wish: str, now_ms: int) -> float | None:
    """Read `Retry-After`: seconds or a date (RFC 9110, 10.2.3). None when it is neither."""
    wish = wish.strip()
    if wish.isascii() and wish.isdecimal() and len(wish) <= _LONGEST_NUMBER:
        return float(wish)
    try:
        when = parsedate_to_datetime(wish)
        if when.tzinfo is None:  # "-0000"; HTTP knows no zone but GMT
            when = when.replace(tzinfo=UTC)
        wait = (when - datetime.fromtimestamp(now_ms / 1000, UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
    return max(0.0, wait)


def of_failure(error: Exception) -> Outcome:
    """What went wrong before there was an answer, in a word."""
    if isinstance(error, TimeoutError):
        return TIMEOUT
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, RefusedAddressError):
        return REFUSED_ADDRESS
    for kind, word in _WORDS:
        if isinstance(error, kind):
            return Outcome(delivered=False, why=word)
    logger.error("webhook.broken", error=type(error).__qualname__)
    return Outcome(delivered=False, why="internal error")


# The first that matches counts: aiohttp's errors are subclasses of each other.
_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorCertificateError, "certificate"),
    (aiohttp.ClientConnectorSSLError, "TLS"),
    (aiohttp.ClientConnectorDNSError, "unknown host"),
    (aiohttp.ClientConnectionError, "connection"),
    (aiohttp.ClientError, "no HTTP"),
    (OSError, "connection"),
)
