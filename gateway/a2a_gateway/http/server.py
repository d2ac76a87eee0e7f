"""The listening HTTP server: aiohttp with bounds, and an orderly way to stop (spec: DOOR-04, DOOR-09, DURA-08)."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import cast

import structlog
from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_gateway.http.backlog import Backlog
from a2a_gateway.http.connection import LINGER, Bounds, Connection
from a2a_gateway.requests.headers import MOST_HEADERS
from a2a_gateway.requests.proxies import Proxies
from a2a_gateway.upstream import CallContext, Upstream, UpstreamAnswer, UpstreamStream
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import GatewayOptions, connection_bounds

log = structlog.get_logger(__name__)

_RETRY = 0.5
_MINUTE = 60.0
_UNSENT = 64 * 1024
"""How many bytes the kernel may hold that are not on their way yet; the rest is held and counted here."""
_LAST_WORDS = 1.0


class HttpDoor:
    """One listening HTTP server; its port is taken at once, calls are answered when it is opened."""

    def __init__(self, listener: socket.socket, options: GatewayOptions, tls: ssl.SSLContext | None = None) -> None:
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # or the kernel takes megabytes at a time from a slow reader's answer
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
        self._listener = listener
        self._options = options
        self._tls = tls
        self._bounds = Bounds(options, Backlog(options.max_unsent_bytes))
        self._draining = False
        self._runner: web.AppRunner | None = None
        self._guests = Guests(options)
        self._accepting: asyncio.Task[None] | None = None
        self._arrivals: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def connections(self) -> frozenset[Connection]:
        return frozenset(self._bounds.connections)

    async def open(self, app: web.Application) -> None:
        self._runner = runner = _runner(app, self._options, self._bounds)
        await runner.setup()
        aiohttps = runner.server
        assert aiohttps is not None  # noqa: S101 - there is one from setup to cleanup

        def connect() -> Connection:
            return Connection(aiohttps(), self._bounds, self._draining)

        self._accepting = asyncio.create_task(self._accept(connect), name="http accepting")
        self._watch = asyncio.create_task(self._look(), name="http connections")

    async def _accept(self, connect: Callable[[], Connection]) -> None:
        """Accept connections, within the bounds, before anything is read from them."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, peer = await loop.sock_accept(self._listener)
            except OSError as error:  # no descriptor is left, or the client has gone already
                log.debug("http.not_accepted", error=error.strerror)
                await asyncio.sleep(_RETRY if error.errno in (errno.EMFILE, errno.ENFILE) else 0)
                continue
            if self._guests.admit(peer[0]):
                arrival = loop.create_task(self._welcome(connect(), client, peer[0]))
                self._arrivals.add(arrival)
                arrival.add_done_callback(self._arrivals.discard)
            else:
                client.close()
            await asyncio.sleep(0)  # a flood of connections must not keep others from being served

    async def _welcome(self, connection: Connection, client: socket.socket, address: str) -> None:
        connection.left = partial(self._guests.release, address)
        patience = self._options.body_timeout if self._tls is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, client, ssl=self._tls, ssl_handshake_timeout=patience
            )
        except OSError:  # no TLS, or none in time
            client.close()
        finally:
            if connection.transport is None:
                self._guests.release(address)

    async def _look(self) -> None:
        pause = min(self._options.body_timeout, self._options.write_timeout) / 4
        while True:
            await asyncio.sleep(pause)
            for connection in self.connections:
                try:
                    connection.look(time.monotonic())
                except Exception:  # what is wrong with one connection must not end the timeouts of all others
                    log.exception("http.not_looked_after")

    def drain(self) -> None:
        """Let go of clients, so that their next calls go elsewhere: idle ones at once, others with their answer."""
        self._draining = True
        for connection in self.connections:
            connection.drain()

    async def close(self) -> None:
        """Stop listening, let answers that are being written end, drop what connections are left."""
        for task in (self._accepting, *self._arrivals):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        runner, self._runner = self._runner, None
        watch, self._watch = self._watch, None
        if runner is not None:
            await runner.cleanup()
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        self._listener.close()


def _runner(app: web.Application, options: GatewayOptions, bounds: Bounds) -> web.AppRunner:
    logger = logging.getLogger("a2a_gateway.http.aiohttp")
    logger.addFilter(_is_no_refusal)
    return web.AppRunner(
        app,
        logger=logger,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=_LAST_WORDS,
        lingering_time=LINGER,
        keepalive_timeout=options.idle_timeout,
        auto_decompress=False,  # a small body must not become a large one
        # Larger than what is let in, so that it is refused in words of ours (`connection`).
        max_line_size=bounds.most_head_bytes,
        max_field_size=bounds.most_head_bytes,
        max_headers=2 * MOST_HEADERS,
    )


def _is_no_refusal(record: logging.LogRecord) -> bool:
    """Leave out malformed requests, and clients that go in the middle of one: anybody can send any number of them."""
    error = record.exc_info[1] if record.exc_info else None
    return not (hasattr(error, "code") or isinstance(error, ConnectionError))


class Guests:
    """How many connections each address has (spec: LIMT-01)."""

    def __init__(self, options: GatewayOptions) -> None:
        self._total, self._most = connection_bounds(options.connections, options.connections_per_client)
        self._proxies = Proxies(options.trusted_proxies)
        self._open: Counter[str] = Counter()
        self._count = 0
        self._told: dict[str, float] = {}

    def admit(self, address: str) -> bool:
        """Whether one more connection is let in, which then counts until it is released."""
        has_place = self._open[address] < self._most or self._proxies.trusts(address)
        if not has_place or self._count >= self._total:
            self._tell(address)
            return False
        self._open[address] += 1
        self._count += 1
        return True

    def release(self, address: str) -> None:
        self._count -= 1
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]  # addresses come and go

    def _tell(self, address: str) -> None:
        """Say so, at most once a minute for each address."""
        now = time.monotonic()
        if now - self._told.get(address, -_MINUTE) >= _MINUTE:
            self._told = {one: when for one, when in self._told.items() if now - when < _MINUTE}
            self._told[address] = now
            log.warning("http.too_many_connections", peer=address, open=self._open[address])


class Drainable:
    """An upstream that can be told to stop while the real one goes on: calls end, new ones go elsewhere (DURA-08)."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._draining = False
        self._callers: set[asyncio.Task[object]] = set()
        self._cut: set[asyncio.Task[object]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def identify(self, context: CallContext) -> str:
        return await self._upstream.identify(context)

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        self._admit()
        caller = cast("asyncio.Task[object]", asyncio.current_task())
        self._callers.add(caller)
        self._idle.clear()
        try:
            return await self._upstream.unary(method, request, context)
        except asyncio.CancelledError:
            if caller not in self._cut:
                raise
            caller.uncancel()
            raise _stopping() from None
        finally:
            self._callers.discard(caller)
            self._cut.discard(caller)
            if not self._callers:
                self._idle.set()

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamStream:
        self._admit()
        return await self._upstream.stream(method, request, context)

    async def ready(self) -> bool:
        return not self._draining and await self._upstream.ready()

    async def drain(self, seconds: float) -> None:
        """Refuse new calls and wait for unary ones. Streams may never end, but can be resumed."""
        self._draining = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            for caller in tuple(self._callers):
                self._cut.add(caller)
                caller.cancel()

    def _admit(self) -> None:
        if self._draining:
            raise _stopping()


def _stopping() -> A2AError:
    return A2AError(Reason.UNAVAILABLE, "The gateway is stopping.", retry_after=1)
