"""What an answer, or the lack of one, means for a delivery (spec: DELV-02, PAID-03, SECR-03).

Operators read a word; nothing that a receiver has sent becomes part of it, nor of any log or error.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import aiohttp
import structlog

from a2a_server.adapters.webhook.sockets import RefusedAddressError
from a2a_server.ports.push import Outcome

logger = structlog.get_logger()

DELIVERED = Outcome(delivered=True)
REFUSED_CONFIG = Outcome(delivered=False, why="refused config", final=True)
REFUSED_ADDRESS = Outcome(delivered=False, why="refused address", final=True)
CLOSED = Outcome(delivered=False, why="closed")
TIMEOUT = Outcome(delivered=False, why="timeout")

_LONGEST_NUMBER = 10
"""Digits: three centuries, and far below what numbers can be."""


def of_answer(status: int, retry_after: str | None, now_ms: int, longest: float) -> Outcome:
    """Only 2xx is an acknowledgement: a redirect leads nowhere, whatever it asks for."""
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return DELIVERED
    wish = None if retry_after is None else seconds_until(retry_after, now_ms, longest)
    return Outcome(delivered=False, why=f"status {status}", retry_after=wish, final=status == HTTPStatus.GONE)


def seconds_until(wish: str, now_ms: int, longest: float) -> float | None:
    """Read `Retry-After`: seconds or a date (RFC 9110, 10.2.3). What is neither was not said."""
    wish = wish.strip()
    if wish.isascii() and wish.isdecimal() and len(wish) <= _LONGEST_NUMBER:
        return min(float(wish), longest)
    try:
        when = parsedate_to_datetime(wish)
        if when.tzinfo is None:  # "-0000"; HTTP knows no zone but GMT
            when = when.replace(tzinfo=UTC)
        wait = (when - datetime.fromtimestamp(now_ms / 1000, UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
    return max(0.0, min(wait, longest))


def of_failure(error: Exception) -> Outcome:
    """A word for what went wrong before there was an answer."""
    if isinstance(error, TimeoutError):
        return TIMEOUT
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, RefusedAddressError):
        return REFUSED_ADDRESS
    for kind, word in _WORDS:
        if isinstance(error, kind):
            return Outcome(delivered=False, why=word)
    logger.error("webhook.broken", error=type(error).__qualname__)
    return Outcome(delivered=False, why="internal error")


# The first that fits: aiohttp's errors descend from each other.
_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorCertificateError, "certificate"),
    (aiohttp.ClientConnectorSSLError, "TLS"),
    (aiohttp.ClientConnectorDNSError, "unknown host"),
    (aiohttp.ClientConnectionError, "connection"),
    (aiohttp.ClientError, "no HTTP"),
    (OSError, "connection"),
)
