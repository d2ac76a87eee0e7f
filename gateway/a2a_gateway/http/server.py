"""The listening HTTP server: aiohttp with bounds, and an orderly way to stop (spec: DOOR-04, DOOR-09, DURA-08)."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from typing import cast

import structlog
from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_gateway.http.backlog import Backlog
from a2a_gateway.http.connection import LINGER, Bounds, Connection
from a2a_gateway.requests.headers import MOST_HEADERS
from a2a_gateway.upstream import CallContext, Upstream, UpstreamAnswer, UpstreamStream
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import GatewayOptions

log = structlog.get_logger(__name__)

_BACKLOG = 512
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
        self._server: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def connections(self) -> frozenset[Connection]:
        """The clients that are connected."""
        return frozenset(self._bounds.connections)

    async def open(self, app: web.Application) -> None:
        """Start the application, and serve it."""
        self._runner = runner = _runner(app, self._options, self._bounds)
        await runner.setup()
        aiohttps = runner.server
        assert aiohttps is not None  # noqa: S101 - there is one from setup to cleanup

        def connect() -> Connection:
            return Connection(aiohttps(), self._bounds, self._draining)

        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(connect, sock=self._listener, ssl=self._tls, backlog=_BACKLOG)
        self._watch = asyncio.create_task(self._look(), name="http connections")

    async def _look(self) -> None:
        """Look at all connections now and then."""
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
        if self._server is not None:
            self._server.close()
        runner, self._runner = self._runner, None
        watch, self._watch = self._watch, None
        if runner is not None:
            await runner.cleanup()
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        self._listener.close()


def _runner(app: web.Application, options: GatewayOptions, bounds: Bounds) -> web.AppRunner:
    return web.AppRunner(
        app,
        logger=_log_of_aiohttp(),
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


def _log_of_aiohttp() -> logging.Logger:
    logger = logging.getLogger("a2a_gateway.http.aiohttp")
    logger.addFilter(_is_no_refusal)
    return logger


def _is_no_refusal(record: logging.LogRecord) -> bool:
    """Leave out what aiohttp logs for every malformed request: anybody can send any number of them."""
    return not (record.exc_info and hasattr(record.exc_info[1], "code"))


class Drainable:
    """An upstream that can be told to stop while the real one goes on: calls end, new ones go elsewhere (DURA-08)."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._draining = False
        self._callers: set[asyncio.Task[object]] = set()
        self._cut: set[asyncio.Task[object]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

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
