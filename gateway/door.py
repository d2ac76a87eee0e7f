"""The listening HTTP server: aiohttp's, with refusals in our own shape and a bound on silence (spec: DOOR-04)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from a2a_server.errors import A2AError, Reason
from gateway import accept
from gateway.errors import failure_of
from gateway.options import Options
from gateway.replies import Answering, Reply

Handler = Callable[[web.BaseRequest], Awaitable[Answering]]

_MOST_HEADERS = 100
_BACKLOG = 512
_LAST_WORDS = 1.0


class HttpDoor:
    """One listening HTTP server; its port is taken at once, calls are answered when it is opened."""

    def __init__(self, listener: socket.socket, options: Options, tls: ssl.SSLContext | None = None) -> None:
        self._listener = listener
        self._options = options
        self._tls = tls
        self._runner: web.ServerRunner | None = None

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    async def open(self, handler: Handler) -> None:
        server = Server(handler, self._options)
        self._runner = web.ServerRunner(server, shutdown_timeout=_LAST_WORDS)
        await self._runner.setup()
        site = web.SockSite(self._runner, self._listener, ssl_context=self._tls, backlog=_BACKLOG)
        await site.start()

    async def close(self) -> None:
        """Stop listening, let answers that are being written end, drop what connections are left."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        self._listener.close()


class Server(web.Server):
    """Makes a protocol for each connection."""

    def __init__(self, handler: Handler, options: Options) -> None:
        super().__init__(cast("Any", handler), request_factory=self._begin, handler_cancellation=True)
        self._options = options

    def __call__(self) -> Protocol:
        options = self._options
        return Protocol(
            self,
            loop=asyncio.get_running_loop(),
            options=options,
            keepalive_timeout=options.idle_timeout,
            access_log=None,
            auto_decompress=False,  # a small body must not become a large one
            max_line_size=options.max_url_bytes,
            # aiohttp's error tells the two limits apart by their numbers only
            max_field_size=options.max_header_bytes + (options.max_header_bytes == options.max_url_bytes),
            max_headers=_MOST_HEADERS,
            lingering_time=1.0,
        )

    def _begin(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:  # noqa: ANN401 - aiohttp's own types
        protocol.begun = True
        return web.BaseRequest(message, payload, protocol, writer, task, protocol.loop)


class Protocol(web.RequestHandler):
    """One connection."""

    __slots__ = ("_options", "_silence", "begun", "loop")

    def __init__(self, manager: Server, *, loop: asyncio.AbstractEventLoop, options: Options, **settings: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(manager, loop=loop, **settings)
        self.loop = loop
        self.begun = False
        """Whether the connection has brought a request; aiohttp itself would wait for the first one for ever."""
        self._options = options
        self._silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._silence = self.loop.call_later(self._options.body_timeout, self._too_silent)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._silence is not None:
            self._silence.cancel()
        super().connection_lost(exc)

    def _too_silent(self) -> None:
        if not self.begun:
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what aiohttp refuses before there is a request for anybody to handle."""
        failure = failure_of(
            _refusal(exc, self._options)
            if status < HTTPStatus.INTERNAL_SERVER_ERROR
            else A2AError(Reason.INTERNAL, "Internal error.")
        )
        response = Reply(failure.rest(), accept.A2A, failure.headers, status=failure.http)
        response.closes = True
        return cast("web.StreamResponse", response)


def _refusal(error: BaseException | None, options: Options) -> A2AError:
    if isinstance(error, LineTooLong):
        limit = error.args[1]
        if limit == options.max_url_bytes:
            return A2AError(Reason.URI_TOO_LONG, f"Path and query may have at most {limit} bytes.")
        return A2AError(Reason.HEADERS_TOO_LARGE, f"A header may have at most {options.max_header_bytes} bytes.")
    text = error.message if isinstance(error, HttpProcessingError) else ""
    if text.startswith("Too many headers"):
        return A2AError(Reason.HEADERS_TOO_LARGE, f"A request may have at most {_MOST_HEADERS} headers.")
    return A2AError(Reason.INVALID_REQUEST, "The request is not well-formed HTTP/1.1.")
