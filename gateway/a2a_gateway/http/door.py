"""The listening HTTP server: aiohttp's, bounded, and polite when it stops (spec: DOOR-04, DOOR-09, DURA-08)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from typing import Any, cast

import structlog
from aiohttp import web

from a2a_gateway.http.backlog import Backlog
from a2a_gateway.http.connection import MOST_HEADERS, Handler, Protocol
from a2a_gateway.http.outbox import Outbox
from a2a_server.protocol.options import GatewayOptions

log = structlog.get_logger(__name__)

_BACKLOG = 512
_UNSENT = 64 * 1024
"""How much the kernel may hold that is not on its way; what is more is held here, and counted."""
_LAST_WORDS = 1.0


class HttpDoor:
    """One listening HTTP server; its port is taken at once, calls are answered when it is opened."""

    def __init__(self, listener: socket.socket, options: GatewayOptions, tls: ssl.SSLContext | None = None) -> None:
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # or the kernel takes megabytes at a time from a slow reader's answer
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
        self._listener = listener
        self._options = options
        self._tls = tls
        self._server: Server | None = None
        self._runner: web.ServerRunner | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._server.connections) if self._server is not None else 0

    async def open(self, handler: Handler) -> None:
        self._server = Server(handler, self._options)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=_LAST_WORDS)
        await self._runner.setup()
        site = web.SockSite(self._runner, self._listener, ssl_context=self._tls, backlog=_BACKLOG)
        await site.start()
        self._watch = asyncio.create_task(self._server.watch(), name="http connections")

    def drain(self) -> None:
        """Let go of clients, so that their next calls go elsewhere: idle ones at once, others with their answer."""
        if self._server is not None:
            self._server.drain()

    async def close(self) -> None:
        """Stop listening, let answers that are being written end, drop what connections are left."""
        runner, self._runner = self._runner, None
        watch, self._watch = self._watch, None
        if runner is not None:
            await runner.cleanup()
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        self._listener.close()


class Server(web.Server):
    """Makes a protocol for each connection."""

    def __init__(self, handler: Handler, options: GatewayOptions) -> None:
        super().__init__(cast("Any", handler), handler_cancellation=True)
        self._answer = handler
        self._options = options
        self._outbox = Outbox(asyncio.get_running_loop())
        self._backlog = Backlog(options.max_unsent_bytes)
        self._draining = False

    def __call__(self) -> Protocol:
        options = self._options
        return Protocol(
            self,
            self._answer,
            loop=asyncio.get_running_loop(),
            options=options,
            outbox=self._outbox,
            backlog=self._backlog,
            draining=self._draining,
            keepalive_timeout=options.idle_timeout,
            access_log=None,
            auto_decompress=False,  # a small body must not become a large one
            max_line_size=options.max_url_bytes,
            # aiohttp's error tells the two limits apart by their numbers only
            max_field_size=options.max_header_bytes + (options.max_header_bytes == options.max_url_bytes),
            max_headers=MOST_HEADERS,
        )

    async def watch(self) -> None:
        """Look after all connections, for ever."""
        pause = min(self._options.body_timeout, self._options.write_timeout) / 4
        while True:
            await asyncio.sleep(pause)
            for connection in self.connections:
                try:
                    cast("Protocol", connection).look(time.monotonic())
                except Exception:  # what is wrong with one connection must not end the timeouts of all others
                    log.exception("http.not_looked_after")

    def drain(self) -> None:
        self._draining = True
        for connection in self.connections:
            if cast("Protocol", connection).idle:
                connection.force_close()
            else:
                cast("Protocol", connection).draining = True
