"""One connection of the HTTP door: bounds on silence, and refusals in our own shape (spec: DOOR-04, ERRS-02)."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, cast

import structlog
from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestPayloadError

from a2a_server.errors import A2AError, Reason
from gateway import accept
from gateway.errors import Failure, explain, failure_of
from gateway.options import Options
from gateway.replies import Reply

MOST_HEADERS = 100

log = structlog.get_logger(__name__)


class Protocol(web.RequestHandler):
    """One connection. It has no timer of its own; `look` is called now and then."""

    __slots__ = ("_body", "_greeted", "_heard", "_options", "_quiet_since", "_stuck_since", "_unsent", "idle", "loop")

    def __init__(
        self,
        manager: web.Server,
        *,
        loop: asyncio.AbstractEventLoop,
        options: Options,
        **settings: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(manager, loop=loop, **settings)
        self.loop = loop
        self.idle = True
        """Whether no request is being handled."""
        self._options = options
        self._greeted = False
        """Whether there has been a request."""
        self._heard = False
        """Whether a request has begun to come."""
        self._body: StreamReader | None = None
        self._quiet_since = 0.0
        self._stuck_since = 0.0
        self._unsent = 0

    def data_received(self, data: bytes) -> None:
        self._heard = True
        super().data_received(data)
        if not self.idle and self._messages and not isinstance(self._messages[-1][0], RawRequestMessage):
            self._spoil_body()

    def _spoil_body(self) -> None:
        """Tell who reads a body that the rest of it is no HTTP; aiohttp tells it to the next request only."""
        if self._body is not None and not self._body.is_eof():
            self._body.set_exception(RequestPayloadError())

    def begin(self, body: StreamReader) -> None:
        """The headers of a request are there."""
        self.idle = self._heard = False
        self._greeted = True
        self._quiet_since = 0.0
        self._body = body

    def end(self) -> None:
        """The request is answered."""
        self.idle = True
        self._heard = False
        self._body = None

    def look(self, now: float) -> None:
        """Drop the connection when its client has been silent, or has taken nothing, for too long."""
        if self.writing_paused:
            self._look_at_reader(now)
        else:
            self._stuck_since = 0.0
        if not self.idle or (self._greeted and not self._heard):  # aiohttp itself ends what is idle for too long
            self._quiet_since = 0.0
        elif not self._quiet_since:
            self._quiet_since = now
        elif now - self._quiet_since >= self._options.body_timeout:
            self._refuse_silence()

    def _look_at_reader(self, now: float) -> None:
        transport = self.transport
        unsent = transport.get_write_buffer_size() if transport is not None else 0
        if not self._stuck_since or unsent < self._unsent:
            self._stuck_since = now
        elif transport is not None and now - self._stuck_since >= self._options.write_timeout:
            log.info("http.reader_stuck", peer=self.peer, unsent=unsent)
            transport.abort()
        self._unsent = unsent

    def _refuse_silence(self) -> None:
        """Say what was missing, unless nothing was said at all: browsers open connections that they may never use."""
        if self._heard and self.transport is not None:
            text = f"The headers did not arrive within {self._options.body_timeout:g} seconds."
            self.transport.write(last_words(failure_of(A2AError(Reason.REQUEST_TIMEOUT, text))).text())
        self.force_close()

    @property
    def peer(self) -> str:
        name = self.peername
        return str(name[0] if isinstance(name, tuple) else name or "")

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what aiohttp refuses before there is a request for anybody to handle, or what nobody has handled."""
        if isinstance(exc, ConnectionError):
            raise exc  # there is nobody to tell
        if request.writer.output_size:
            log.error("http.broken_off", peer=self.peer, exc_info=exc)
            raise ConnectionResetError  # too late to tell anything else
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            refusal = _refusal(exc, self._options)
            log.debug("http.refused", peer=self.peer, reason=refusal.reason.name)
            return cast("web.StreamResponse", last_words(failure_of(refusal)))
        return cast(
            "web.StreamResponse", last_words(explain(exc if isinstance(exc, Exception) else RuntimeError(message)))
        )


def last_words(failure: Failure) -> Reply:
    """The answer to what is no request of A2A; the connection ends with it."""
    answer = Reply(failure.rest(), accept.A2A, failure.headers, status=failure.http)
    answer.closes = True
    return answer


def _refusal(error: BaseException | None, options: Options) -> A2AError:
    if isinstance(error, LineTooLong):
        limit = error.args[1]
        if limit == options.max_url_bytes:
            return A2AError(Reason.URI_TOO_LONG, f"Path and query may have at most {limit} bytes.")
        return A2AError(Reason.HEADERS_TOO_LARGE, f"A header may have at most {options.max_header_bytes} bytes.")
    text = error.message if isinstance(error, HttpProcessingError) else ""
    if text.startswith("Too many headers"):
        return A2AError(Reason.HEADERS_TOO_LARGE, f"A request may have at most {MOST_HEADERS} headers.")
    return A2AError(Reason.INVALID_REQUEST, "The request is not well-formed HTTP/1.1.")
