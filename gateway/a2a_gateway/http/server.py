"""The listening HTTP server: aiohttp with bounds, and an orderly way to stop (spec: DOOR-04, DOOR-09, DURA-08)."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import cast

import structlog
from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_gateway.http.backlog import Backlog
from a2a_gateway.http.connection import LINGER, Bounds, Connection, DoorTls
from a2a_gateway.requests.headers import MOST_HEADERS
from a2a_gateway.requests.proxies import Proxies
from a2a_gateway.upstream import CallContext, Upstream, UpstreamAnswer, UpstreamStream
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import GatewayOptions, connection_bounds

log = structlog.get_logger(__name__)

_RETRY = 0.5
_MINUTE = 60.0
_KERNEL_BUFFER = 64 * 1024
"""How many unsent bytes of a connection the kernel may hold. The rest is held and counted here."""
_SHUTDOWN_SECONDS = 1.0


class HttpDoor:
    """One listening HTTP server. Its port is reserved at once; it answers requests after `open`."""

    def __init__(self, listener: socket.socket, options: GatewayOptions, tls: DoorTls | None = None) -> None:
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # by default the kernel buffers megabytes for a slow reader
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _KERNEL_BUFFER)
        self._listener = listener
        self._options = options
        self._tls = tls
        self._bounds = Bounds(options, Backlog(options.max_unsent_bytes), tls)
        self._draining = self._left = False
        self._runner: web.AppRunner | None = None
        self._limit = ConnectionLimit(options)
        self._connect: Callable[[], Connection] | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._arrivals: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def connections(self) -> frozenset[Connection]:
        return frozenset(self._bounds.connections)

    def listen(self, backlog: int) -> None:
        """Let connections come to a port that other processes share; they wait until `open`."""
        self._listener.listen(backlog)

    async def open(self, app: web.Application) -> None:
        self._runner = runner = _runner(app, self._options, self._bounds)
        await runner.setup()
        aiohttps = runner.server
        assert aiohttps is not None  # noqa: S101 - there is one from setup to cleanup

        def connect() -> Connection:
            return Connection(aiohttps(), self._bounds, self._draining)

        self._connect = connect
        self._accepting = asyncio.create_task(self._accept(connect), name="http accepting")
        self._watch = asyncio.create_task(self._watch_connections(), name="http connections")

    async def _accept(self, connect: Callable[[], Connection]) -> None:
        """Accept connections up to the limit, before reading anything from them."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, peer = await loop.sock_accept(self._listener)
            except OSError as error:  # no file descriptor is free, or the client has left already
                if self._left:
                    return
                log.debug("http.not_accepted", error=error.strerror)
                await asyncio.sleep(_RETRY if error.errno in (errno.EMFILE, errno.ENFILE) else 0)
                continue
            self._arrive(connect, client, peer[0])
            await asyncio.sleep(0)  # a flood of connections must not keep others from being served

    def _arrive(self, connect: Callable[[], Connection], client: socket.socket, address: str) -> None:
        if not self._limit.admit(address):
            client.close()
            return
        arrival = asyncio.get_running_loop().create_task(self._start_connection(connect(), client, address))
        self._arrivals.add(arrival)
        arrival.add_done_callback(self._arrivals.discard)

    async def _start_connection(self, connection: Connection, client: socket.socket, address: str) -> None:
        connection.on_lost = partial(self._limit.release, address)
        context = self._tls.context if self._tls is not None else None
        patience = self._options.body_timeout if context is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, client, ssl=context, ssl_handshake_timeout=patience
            )
        except OSError:  # the TLS handshake failed or took too long
            client.close()
        finally:
            if connection.transport is None:
                self._limit.release(address)

    def check_certificates(self) -> None:
        """Drop clients whose certificates have been revoked since they connected."""
        for connection in self.connections:
            connection.check_certificate()

    async def _watch_connections(self) -> None:
        pause = min(self._options.body_timeout, self._options.write_timeout) / 4
        while True:
            await asyncio.sleep(pause)
            for connection in self.connections:
                try:
                    connection.check_timeouts(time.monotonic())
                except Exception:  # what is wrong with one connection must not end the timeouts of all others
                    log.exception("http.not_looked_after")

    def leave(self) -> None:
        """Accept nothing after what waits already. Each connection closes after its next answer."""
        self._left = self._draining = True
        with suppress(OSError):  # nothing waits any more
            while self._connect is not None:
                client, peer = self._listener.accept()
                client.setblocking(False)  # noqa: FBT003 - socket has it so
                self._arrive(self._connect, client, peer[0])
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for connection in self.connections:
            connection.ends = True

    def drain(self) -> None:
        """Close idle connections at once, and others after their answer, so that clients connect elsewhere."""
        self._draining = True
        for connection in self.connections:
            connection.drain()

    async def close(self) -> None:
        """Stop listening, finish the answers that are being written, and drop all remaining connections."""
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
    logger.addFilter(_is_server_fault)
    return web.AppRunner(
        app,
        logger=logger,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN_SECONDS,
        lingering_time=LINGER,
        keepalive_timeout=options.idle_timeout,
        auto_decompress=False,  # a small compressed body could expand to a very large one
        # Larger than our own bounds, so that `connection` refuses a large head with our error message.
        max_line_size=bounds.most_head_bytes,
        max_field_size=bounds.most_head_bytes,
        max_headers=2 * MOST_HEADERS,
    )


def _is_server_fault(record: logging.LogRecord) -> bool:
    """Keep malformed and aborted requests out of the log, because anybody can send any number of them."""
    error = record.exc_info[1] if record.exc_info else None
    return not (hasattr(error, "code") or isinstance(error, ConnectionError))


class ConnectionLimit:
    """Limits the number of connections, in total and per address (spec: LIMT-01)."""

    def __init__(self, options: GatewayOptions) -> None:
        self._total, self._most = connection_bounds(options.connections, options.connections_per_client)
        self._proxies = Proxies(options.trusted_proxies)
        self._open: Counter[str] = Counter()
        self._count = 0
        self._logged_at: dict[str, float] = {}

    def admit(self, address: str) -> bool:
        """Count one more connection, until `release`; False if the limit is reached."""
        has_place = self._open[address] < self._most or self._proxies.trusts(address)
        if not has_place or self._count >= self._total:
            self._log_refusal(address)
            return False
        self._open[address] += 1
        self._count += 1
        return True

    def release(self, address: str) -> None:
        self._count -= 1
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def _log_refusal(self, address: str) -> None:
        """Log a refused connection, at most once a minute for each address."""
        now = time.monotonic()
        if now - self._logged_at.get(address, -_MINUTE) >= _MINUTE:
            self._logged_at = {one: when for one, when in self._logged_at.items() if now - when < _MINUTE}
            self._logged_at[address] = now
            log.warning("http.too_many_connections", peer=address, open=self._open[address])


class DrainableUpstream:
    """Wraps an upstream so that this gateway can stop alone: it refuses new calls, and open ones end (DURA-08)."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.leaving = False
        """Whether balancers should send no more calls; those that come are still taken."""
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
        return not self.leaving and await self._upstream.ready()

    async def drain(self, seconds: float) -> None:
        """Refuse new calls, and wait for unary calls. Streams are not waited for: clients can resume them elsewhere."""
        self.leaving = self._draining = True
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
