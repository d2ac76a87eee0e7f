"""One connection of the HTTP door: one request after another, and bounds on silence (spec: DOOR-04, ERRS-02).

aiohttp parses. Its loop over requests is replaced by ours: that one makes a task and a writer for each of them, runs
its parser over nothing twice, and passes requests and answers through more hands, for 10 µs per call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import structlog
from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage, StreamWriter
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestPayloadError

from a2a_gateway.errors import Failure, explain, failure_of
from a2a_gateway.http.backlog import NOTHING, Backlog, Text
from a2a_gateway.http.outbox import Outbox
from a2a_gateway.http.replies import Answering, Reply
from a2a_gateway.http.strange import strange_request
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import A2A_JSON
from a2a_server.protocol.options import GatewayOptions

Handler = Callable[[web.BaseRequest], Awaitable[Answering]]

MOST_HEADERS = 100

_LINGER = 1.0
"""Seconds for which a body is read on and thrown away after its answer: who still sends has not seen that yet."""
_BESIDE = len(": \r\n")
_VERSIONS = ((1, 1), (1, 0))

log = structlog.get_logger(__name__)


class Protocol(web.RequestHandler):
    """One connection. It has no timer of its own for what comes slowly; `look` is called now and then."""

    __slots__ = (
        "_backlog",
        "_body",
        "_greeted",
        "_handler",
        "_heard",
        "_large",
        "_options",
        "_outbox",
        "_quiet_since",
        "_run",
        "_said",
        "_stuck_since",
        "_unsent",
        "draining",
        "idle",
        "loop",
        "text",
    )

    def __init__(  # noqa: PLR0913 - what it is to know of the door
        self,
        server: web.Server,
        handler: Handler,
        *,
        loop: asyncio.AbstractEventLoop,
        options: GatewayOptions,
        outbox: Outbox,
        backlog: Backlog,
        draining: bool,
        **settings: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(server, loop=loop, **settings)
        self.loop = loop
        self.idle = True
        """Whether no request is being handled."""
        self.draining = draining
        """Whether the connection ends with the answer that is under way."""
        self._handler = handler
        self._options = options
        self._outbox = outbox
        self._backlog = backlog
        self.text: Text = NOTHING
        """What is being sent bit by bit, if it is long."""
        self._said = -1
        """The round of the outbox that the latest answer leaves with."""
        self._greeted = False
        """Whether there has been a request."""
        self._heard = False
        """Whether a request has begun to come."""
        self._run = 0
        """How much has come since the latest request's headers, and with them: the next ones' cannot be more."""
        self._large = False
        """Whether there may have been headers of more bytes than are let in; to add up each time would cost."""
        self._body: StreamReader | None = None
        self._quiet_since = 0.0
        self._stuck_since = 0.0
        self._unsent = 0

    @property
    def peer(self) -> str:
        name = self.peername
        return str(name[0] if isinstance(name, tuple) else name or "")

    # -- what comes

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._run += len(data)
        known = len(self._messages)
        super().data_received(data)
        if len(self._messages) > known:
            self._large = self._large or self._run > self._options.max_header_total_bytes
            self._run = len(data)
        if not self.idle and self._messages and not isinstance(self._messages[-1][0], RawRequestMessage):
            self._spoil_body()

    def eof_received(self) -> None:
        """The client sends no more, and the transport closes as soon as all is written: also what is about to be."""
        self.speak()

    def _spoil_body(self) -> None:
        """Tell who reads a body that the rest of it is no HTTP; aiohttp tells it to the next request only."""
        if self._body is not None and not self._body.is_eof():
            self._body.set_exception(RequestPayloadError())

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - aiohttp's own
        """Nothing to do unless reading was paused; aiohttp would run its parser over nothing."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    # -- requests

    async def start(self) -> None:
        """Answer one request after another, until either side has had enough."""
        writer, messages = StreamWriter(self, self.loop), self._messages
        try:
            while not self._force_close:
                if not messages:
                    self._waiter = self.loop.create_future()
                    await self._waiter
                    self._waiter = None
                message, body = self._take()
                if isinstance(message, RawRequestMessage):
                    answer = await self._answer(message, body, writer)
                    answer.send(self, message)
                    goes_on = bool(answer.keep_alive) and not self._close
                else:
                    await self._refuse(message.exc, body, writer)
                    goes_on = False
                if self.writing_paused or not body.is_eof():
                    await self._settle(body)
                if not goes_on:
                    break
                self._expect_more()
        except asyncio.CancelledError:
            self.force_close()
            raise
        except ConnectionError:
            pass  # the client has gone
        except Exception:
            log.exception("http.broken_off", peer=self.peer)
        if not self._force_close:
            self._task_handler = None
            self._hang_up()

    def _take(self) -> tuple[Any, StreamReader]:
        """Begin with a request, whose headers are there; the answer to the one before goes first."""
        assert self._parser is not None  # noqa: S101 - until the connection is lost
        message, body = self._messages.popleft()
        self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()
        self.speak()
        self.idle = self._heard = False
        self._greeted = self._request_in_progress = True
        self._quiet_since = 0.0
        self._body = body
        return message, body

    async def _answer(self, message: RawRequestMessage, body: StreamReader, writer: StreamWriter) -> Answering:
        """Have a request answered; nothing but a lost connection is left to raise."""
        writer.output_size, task = 0, self._task_handler
        self._current_request = request = web.BaseRequest(message, body, self, writer, task, self.loop)  # type: ignore[arg-type]
        try:
            if self._large:
                _check(message, self._options.max_header_total_bytes)
            if message.version in _VERSIONS:
                answer = await self._handler(request)
            else:
                fault = A2AError(Reason.INVALID_REQUEST, "HTTP/1.1 and HTTP/1.0 are spoken here.")
                answer = last_words(failure_of(fault))
        except ConnectionError:
            raise
        except Exception as error:
            if writer.output_size:  # too late to tell anything else
                raise
            answer = last_words(explain(error))
        finally:
            self._end()
        # What is left of a body is not waited for, and what follows a request to speak another protocol is no HTTP.
        if self.draining or self._upgraded or not body.is_eof():
            answer.closes = True
        return answer

    async def _refuse(self, error: BaseException, body: StreamReader, writer: StreamWriter) -> None:
        """Answer what is no request that anybody could handle."""
        if (strange := strange_request(error)) is not None:
            (await self._answer(strange, body, writer)).send(self, strange)
            return
        self._end()
        refusal = _refusal(error, self._options)
        log.debug("http.refused", peer=self.peer, reason=refusal.reason.name)
        self.say(last_words(failure_of(refusal)).text())

    def _end(self) -> None:
        """The request is handled."""
        self.idle, self._heard, self._body = True, False, None
        self._current_request, self._request_in_progress = None, False
        if self._handler_waiter is not None:
            self._handler_waiter.set_result(None)

    def _expect_more(self) -> None:
        """If no request comes for long, aiohttp's timer ends the connection."""
        ends = self._next_keepalive_close_time = self.loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self.loop.call_at(ends, self._process_keepalive)

    async def _settle(self, body: StreamReader) -> None:
        """Wait for what is left of a request, and for room for what is to be said next."""
        if not body.is_eof():
            await self._linger(body)
        if self.writing_paused:
            self.speak()
            self._owe()
            await self._drain_helper()

    async def _linger(self, body: StreamReader) -> None:
        """Read on for a moment, and forget it: who is still sending has not seen the answer yet (RFC 9112, 9.6)."""
        self.speak()
        with suppress(TimeoutError, RequestPayloadError):
            async with asyncio.timeout(_LINGER):
                while not body.is_eof() and not self._force_close:
                    await body.readany()

    # -- answers

    def say(self, text: bytes) -> None:
        """Send an answer, soon: with those of other connections that are ready by then."""
        if self.transport is None:
            raise ConnectionResetError
        self._said = self._outbox.put(self.transport, text)

    def speak(self) -> None:
        """What was said is sent now."""
        if self._said == self._outbox.round:
            self._outbox.empty()

    def force_close(self) -> None:
        self.speak()
        super().force_close()

    def _hang_up(self) -> None:
        self.speak()
        if self.transport is not None:
            self.transport.close()

    # -- clients that read slowly

    @property
    def unsent(self) -> int:
        """How many bytes the transport holds."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def _owe(self) -> None:
        if self.transport is not None:
            self._backlog.wait(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._owe()

    def resume_writing(self) -> None:
        self._backlog.go_on(self)
        super().resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._backlog.go_on(self)
        super().connection_lost(exc)

    def cut_off(self) -> None:
        """Too much waits for clients, and for this one the most; this may be said while it is being sent something."""
        if (transport := self.transport) is not None:
            log.info("http.reader_slow", peer=self.peer, unsent=self.unsent)
            self.loop.call_soon(transport.abort)

    # -- silence

    def look(self, now: float) -> None:
        """Drop the connection when its client has been silent, or has taken nothing, for too long."""
        if self._reading_paused or self._buffer_paused:
            self._look_behind()
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

    def _look_behind(self) -> None:
        """More has come behind a stream than is kept. It is thrown away from now on, and the connection ends with the
        stream: who stopped reading would not notice that the client has left, and keep its place for it.
        """
        request = self._current_request
        if request is not None and request.writer.output_size:  # the stream has begun
            self._close = True
            self._messages.clear()
            self._reading_paused = self._buffer_paused = False
            self._resume_transport_reading()

    def _look_at_reader(self, now: float) -> None:
        transport, unsent = self.transport, self.unsent
        if not self._stuck_since or unsent < self._unsent:
            self._stuck_since = now
        elif transport is not None and now - self._stuck_since >= self._options.write_timeout:
            log.info("http.reader_stuck", peer=self.peer, unsent=unsent)
            transport.abort()
        else:
            self._owe()
        self._unsent = unsent

    def _refuse_silence(self) -> None:
        """Say what was missing, unless nothing was said at all: browsers open connections that they may never use."""
        if self._heard and self.transport is not None:
            text = f"The headers did not arrive within {self._options.body_timeout:g} seconds."
            self.say(last_words(failure_of(A2AError(Reason.REQUEST_TIMEOUT, text))).text())
        self.force_close()


def last_words(failure: Failure) -> Reply:
    """The answer to what is no request of A2A; the connection ends with it."""
    answer = Reply(failure.rest(), A2A_JSON, failure.headers, status=failure.http)
    answer.closes = True
    return answer


def _check(message: RawRequestMessage, most: int) -> None:
    """Refuse headers that are too much together (DOOR-04)."""
    if sum(len(name) + len(value) + _BESIDE for name, value in message.raw_headers) > most:
        raise A2AError(Reason.HEADERS_TOO_LARGE, f"All headers together may have at most {most} bytes.")


def _refusal(error: BaseException | None, options: GatewayOptions) -> A2AError:
    if isinstance(error, LineTooLong):
        limit = error.args[1]
        if limit == options.max_url_bytes:
            return A2AError(Reason.URI_TOO_LONG, f"Path and query may have at most {limit} bytes.")
        return A2AError(Reason.HEADERS_TOO_LARGE, f"A header may have at most {options.max_header_bytes} bytes.")
    text = error.message if isinstance(error, HttpProcessingError) else ""
    if text.startswith("Too many headers"):
        return A2AError(Reason.HEADERS_TOO_LARGE, f"A request may have at most {MOST_HEADERS} headers.")
    return A2AError(Reason.INVALID_REQUEST, "The request is not well-formed HTTP/1.1.")
