"""The HTTP client that webhooks are sent with: what it refuses, and what it bounds (spec: SSRF-01, SECR-06, DELV-04).

1. `Lookups` resolves names in threads of their own, so that a slow name server holds up nothing but webhooks. Owners
   share these threads, so that the slow names of one do not hold up the webhooks of others.
2. `Sockets` refuses addresses that may not be called. aiohttp asks for a socket with the very address that it connects
   to, so that no second lookup, other spelling or redirect can get around the check.
3. `Connections` sends requests over them and keeps idle connections for a while.
"""

from __future__ import annotations

import asyncio
import errno
import io
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from ipaddress import ip_address
from threading import Thread
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp import AddrInfoType
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from a2a_server.domain.hosts import Addresses
from a2a_server.domain.scope import Shares

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


class Connections:
    """Connections to receivers, without redirects, proxies, cookies or settings from the environment."""

    def __init__(self, sockets: Sockets, trust: str = "", resolver: AbstractResolver | None = None) -> None:
        self._sockets = sockets
        connector = aiohttp.TCPConnector(
            socket_factory=sockets,
            resolver=resolver or Lookups(LOOKUPS),
            use_dns_cache=False,  # it would let owners wait for each other's lookups of one name
            ssl=_tls(trust),
            limit=0,  # waiting here would count as the receiver's time; the relay bounds how many run at once
            keepalive_timeout=_KEPT,
        )
        tracing = aiohttp.TraceConfig()
        tracing.on_connection_reuseconn.append(_remember)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # the sender limits each attempt as a whole
            trust_env=False,
            auto_decompress=False,
            read_bufsize=16 * 1024,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            max_headers=_MOST_HEADERS,
            trace_configs=[tracing],
        )

    async def request(
        self, verb: str, url: URL, headers: dict[str, str], owner: str, body: bytes | None = None
    ) -> aiohttp.ClientResponse:
        """Send on behalf of an owner, and read the head of the answer.

        A receiver may close a kept connection at the moment it is used again. aiohttp repeats only methods that are
        safe to repeat. Webhooks are safe, too, because they have a delivery id.
        """
        _owner.set(owner)  # for this task, which makes one attempt
        if self._sockets.more_than(MOST_OPEN):
            headers = {**headers, "Connection": "close"}
        for _ in range(_RESENT):
            reused = asyncio.Event()
            try:
                return await self._once(verb, url, headers, body, reused)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not reused.is_set():
                    raise
        return await self._once(verb, url, headers, body, asyncio.Event())

    async def close(self) -> None:
        await self._session.close()

    async def _once(
        self, verb: str, url: URL, headers: dict[str, str], body: bytes | None, reused: asyncio.Event
    ) -> aiohttp.ClientResponse:
        # A long body is written in pieces, so that other work can run in between.
        data = io.BytesIO(body) if body and len(body) > _LONGEST_PIECE else body
        return await self._session.request(
            verb, url, headers=headers, data=data, allow_redirects=False, trace_request_ctx=reused
        )


def _tls(trust: str) -> ssl.SSLContext:
    """Verify everything, with the system's authorities and those of `trust` (PEM)."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if trust:
        context.load_verify_locations(cadata=trust)
    return context


async def _remember(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceConnectionReuseconnParams
) -> None:
    context.trace_request_ctx.set()


async def spend(response: aiohttp.ClientResponse, deadline: float, most: int) -> bytes:
    """Read a short body, so that its connection can be used again. Give up on a long or slow one."""
    pieces: list[bytes] = []
    try:
        async with asyncio.timeout_at(deadline):
            while most > 0 and (piece := await response.content.read(most)):
                pieces.append(piece)
                most -= len(piece)
    except (TimeoutError, aiohttp.ClientError, OSError):
        pieces.clear()
    finally:
        response.close()  # no effect if it was read to its end: then the connection has been given back
    return b"".join(pieces)


_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


_owner: ContextVar[str] = ContextVar("owner", default="")
"""On whose behalf a name is looked up. aiohttp does not hand it on to the resolver."""


class Lookups(AbstractResolver):
    """The system's resolver, in one thread for each lookup. `Sockets` checks the addresses that it returns.

    A lookup keeps its place until its thread is done, also when nobody waits for it any more. The threads of a pool
    would keep the process from ending as long as a name server is silent.
    """

    def __init__(self, places: int) -> None:
        self._places = Shares(places)
        self._freed = asyncio.Event()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        owner, found = _owner.get(), Future[list[Any]]()
        while not self._places.room(owner):
            await self._freed.wait()
        ask = partial(
            socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        Thread(target=_settle, args=(found, ask), name="webhook-name", daemon=True).start()
        self._places.take(owner)
        answer = asyncio.wrap_future(found)
        answer.add_done_callback(partial(self._leave, owner))
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=port, family=family, proto=proto, flags=int(_NUMERIC)
            )
            for family, _, proto, _, address in await asyncio.shield(answer)
        ]

    def _leave(self, owner: str, answer: asyncio.Future[list[Any]]) -> None:
        answer.exception()  # asyncio would complain if nobody waits for it any more
        self._places.leave(owner)
        self._freed.set()
        self._freed = asyncio.Event()

    async def close(self) -> None:
        """Do not wait: a name server may take long."""


def _settle(found: Future[list[Any]], ask: Callable[[], list[Any]]) -> None:
    try:
        found.set_result(ask())
    except Exception as error:  # noqa: BLE001 - it is for whoever waits
        found.set_exception(error)


class RefusedAddressError(OSError):
    """The address may not be called. All have the same text, so that aiohttp reports several as one."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "webhooks may not go to this address")


class Sockets:
    """Makes sockets, and knows whether many are open."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._made: WeakSet[socket.socket] = WeakSet()  # the transports own them

    def __call__(self, info: AddrInfoType) -> socket.socket:
        family, kind, proto, _, address = info
        if self._is_refused(str(address[0])):
            raise RefusedAddressError
        made = socket.socket(family, kind, proto)
        self._made.add(made)
        return made

    def more_than(self, count: int) -> bool:
        """Whether more are open. Closed ones may stay in the set until they are garbage collected."""
        return len(self._made) > count and sum(made.fileno() >= 0 for made in self._made) > count

    def _is_refused(self, text: str) -> bool:
        try:
            return bool(self._addresses.refusal(ip_address(text)))
        except ValueError:  # not an address in its normal spelling
            return True
