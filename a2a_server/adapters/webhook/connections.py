"""The HTTP client that webhooks are sent with: what it never does, what it bounds (spec: SSRF-01, SECR-06, DELV-04)."""

from __future__ import annotations

import asyncio
import io
import ssl
from types import SimpleNamespace

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from a2a_server.adapters.webhook.lookups import Lookups
from a2a_server.adapters.webhook.sockets import Sockets

LOOKUPS = 64
"""Names looked up at once."""
_KEPT = 15.0
"""Seconds that an idle connection is kept."""
MOST_OPEN = 256
"""Beyond as many connections no idle ones are kept."""
_RESENT = 2
_LONGEST_LINE = 8_190
_MOST_HEADERS = 64
_LONGEST_PIECE = 2**20


class Trip:
    """One request, and whether it went over a connection that had been used before."""

    reused = False


class Connections:
    """Connections to receivers. Follows no redirect, asks no proxy, keeps no cookie, believes no environment."""

    def __init__(self, sockets: Sockets, trust: str = "", resolver: AbstractResolver | None = None) -> None:
        self._sockets = sockets
        self._own = None if resolver else Lookups(LOOKUPS)
        connector = aiohttp.TCPConnector(
            socket_factory=sockets,
            resolver=resolver or self._own,
            ssl=_tls(trust),
            limit=0,  # waiting for a place would count as the receiver's time; whoever sends bounds how many at once
            keepalive_timeout=_KEPT,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # attempts have one for everything
            trust_env=False,
            auto_decompress=False,
            read_bufsize=16 * 1024,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            max_headers=_MOST_HEADERS,
            trace_configs=[_tracing()],
        )

    async def request(
        self, verb: str, url: URL, headers: dict[str, str], body: bytes | None = None
    ) -> aiohttp.ClientResponse:
        """Send, and read the head of the answer.

        A receiver may close a kept connection at the moment it is used again. That says nothing about the receiver, and
        aiohttp repeats only what is harmless to repeat. Webhooks are: they have a delivery id.
        """
        if self._sockets.more_than(MOST_OPEN):
            headers = {**headers, "Connection": "close"}
        for _ in range(_RESENT):
            trip = Trip()
            try:
                return await self._once(verb, url, headers, body, trip)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not trip.reused:
                    raise
        return await self._once(verb, url, headers, body, Trip())

    async def close(self) -> None:
        await self._session.close()
        if self._own:
            await self._own.close()

    async def _once(
        self, verb: str, url: URL, headers: dict[str, str], body: bytes | None, trip: Trip
    ) -> aiohttp.ClientResponse:
        # A long body is written in pieces, with pauses for other work.
        data = io.BytesIO(body) if body and len(body) > _LONGEST_PIECE else body
        return await self._session.request(
            verb, url, headers=headers, data=data, allow_redirects=False, trace_request_ctx=trip
        )


def _tls(trust: str) -> ssl.SSLContext:
    """Verify everything, with the system's authorities and those of `trust` (PEM)."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if trust:
        context.load_verify_locations(cadata=trust)
    return context


def _tracing() -> aiohttp.TraceConfig:
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(_remember)
    return tracing


async def _remember(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceConnectionReuseconnParams
) -> None:
    context.trace_request_ctx.reused = True


async def spend(response: aiohttp.ClientResponse, deadline: float, most: int) -> bytes:
    """Read a short body, so that its connection can be used again; of a long or slow one nothing more is wanted."""
    pieces: list[bytes] = []
    try:
        async with asyncio.timeout_at(deadline):
            while most > 0 and (piece := await response.content.read(most)):
                pieces.append(piece)
                most -= len(piece)
    except (TimeoutError, aiohttp.ClientError, OSError):
        pieces.clear()
    finally:
        response.close()  # unless it was read to its end: then the connection has been given back already
    return b"".join(pieces)
