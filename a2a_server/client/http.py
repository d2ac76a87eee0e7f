"""HTTP requests to other agents: bounded, never redirected, and streams as they come (spec: SSEV, CLI-44, OP-13)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeVar

import aiohttp
import orjson
from yarl import URL

from a2a_server.client.binding import CallTerms, ClientLimits, Pairs
from a2a_server.client.credentials import PresentedCredentials
from a2a_server.client.failures import CallError, UnreachableError, invalid_answer, timed_out
from a2a_server.client.wire import WireLog
from a2a_server.protocol.codec import loads
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.names import A2A_JSON, JSON, SSE

T = TypeVar("T")

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_NUMBER: Final = re.compile(rb"[0-9]{1,18}")


class HttpRequest(NamedTuple):
    verb: str
    url: str
    query: Pairs = ()
    body: bytes = b""


class HttpAnswer(NamedTuple):
    status: int
    body: bytes

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - HTTP's classes


class SseEvent(NamedTuple):
    name: str
    number: int
    data: bytes


class HttpCaller:
    """Makes the requests of one interface, with the credentials that its card demands."""

    def __init__(
        self, session: aiohttp.ClientSession, presented: PresentedCredentials, limits: ClientLimits, wire: WireLog
    ) -> None:
        self._session = session
        self._presented = presented
        self._limits = limits
        self._wire = wire
        self._open: set[aiohttp.ClientResponse] = set()

    def close(self) -> None:
        """Tell whoever reads an answer that there is no more. aiohttp tells nobody when a session is closed."""
        for response in self._open:
            response.content.set_exception(UnreachableError("The connection was closed."))

    @property
    def sends_credentials(self) -> bool:
        return bool(self._presented.placed)

    async def answer(self, request: HttpRequest, terms: CallTerms) -> HttpAnswer:
        """Return the whole answer."""
        end = _end_of(terms.timeout)
        async with self._response(request, f"{A2A_JSON}, {JSON}", terms, end) as response:
            return await self._whole(response, end, terms.timeout)

    async def events(self, request: HttpRequest, terms: CallTerms) -> AsyncGenerator[HttpAnswer | SseEvent, None]:
        """Yield the events of a stream; what is no stream is yielded as one answer."""
        end, begin = _end_of(terms.timeout), _end_of(terms.begin)
        async with self._response(request, f"{SSE}, {JSON};q=0.5", terms, _sooner(begin, end)) as response:
            if response.content_type != SSE or response.status != 200:  # noqa: PLR2004 - MEDI-04
                yield await self._whole(response, _sooner(begin, end), terms.timeout)
                return
            parser = _SseParser(self._limits.event_bytes)
            while chunk := await _within(end, response.content.readany(), terms.timeout):
                for event in parser.feed(chunk):
                    self._wire.received("event", (), event.data.decode(errors="replace") if self._wire.listens else "")
                    yield event

    @asynccontextmanager
    async def _response(
        self, request: HttpRequest, accept: str, terms: CallTerms, end: float | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = [("Accept", accept), *terms.metadata, *self._presented.headers()]
        if request.body:
            headers.append(("Content-Type", JSON))
        url = _url_of(request, self._presented.query())
        self._wire.sent(f"{request.verb} {url}", headers, request.body.decode() if self._wire.listens else "")
        response: aiohttp.ClientResponse | None = None
        try:
            asked = self._session.request(
                request.verb, url, headers=headers, data=request.body or None, allow_redirects=False
            )
            response = await _within(end, asked, terms.timeout)
            self._open.add(response)
            yield response
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unreachable(url, error) from None
        finally:
            if response is not None:
                self._open.discard(response)
                response.close()

    async def _whole(self, response: aiohttp.ClientResponse, end: float | None, seconds: float | None) -> HttpAnswer:
        body = bytearray()
        while chunk := await _within(end, response.content.readany(), seconds):
            body += chunk
            if len(body) > self._limits.answer_bytes:
                raise invalid_answer(f"The answer is larger than {self._limits.answer_bytes} bytes.")
        answer = HttpAnswer(response.status, bytes(body))
        if self._wire.listens:
            self._wire.received(f"{response.status}", response.headers.items(), answer.body.decode(errors="replace"))
        return answer


def json_of(body: bytes) -> object:
    """Read an answer; raise InvalidAgentResponse if it is not JSON."""
    try:
        return loads(body)
    except A2AError as error:
        raise invalid_answer(f"The agent's answer cannot be read. {error.message}") from None


def tolerant_json(body: bytes) -> object:
    """Read the body of an error, which may be anything."""
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def _url_of(request: HttpRequest, credentials: list[tuple[str, str]]) -> URL:
    try:
        url = URL(request.url, encoded=True)
    except ValueError:
        raise CallError(f"{request.url[:200]} is not a URL.") from None
    return url.extend_query([*request.query, *credentials]) if request.query or credentials else url


async def _within(end: float | None, waited: Awaitable[T], seconds: float | None) -> T:
    try:
        async with asyncio.timeout(None if end is None else max(end - time.monotonic(), 0)) as limit:
            return await waited
    except TimeoutError:
        if limit.expired():
            raise timed_out(seconds) from None
        raise


def _unreachable(url: URL, error: Exception) -> UnreachableError:
    text = str(error) or type(error).__name__
    return UnreachableError(f"{url.origin() if url.is_absolute() else url} cannot be reached: {text[:300]}")


def _end_of(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def _sooner(one: float | None, other: float | None) -> float | None:
    return min((it for it in (one, other) if it is not None), default=None)


class _SseParser:
    """Takes server-sent events apart, as the HTML standard defines them, and bounds each.

    event = *( field line-end ) line-end
    field = name [ ":" [ " " ] value ]      ; a name that is empty makes a comment
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: list[bytes] = []
        """The parts of a line whose end has not come yet."""
        self._data: list[bytes] = []
        self._name = ""
        self._number = 0
        self._size = 0
        self._after_return = False

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        if self._after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_return = chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        for line in ended:
            yield from self._line(b"".join((*self._begun, line)))
            self._begun.clear()
        if rest:
            self._begun.append(rest)
            self._grow(len(rest))

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._most:
            raise invalid_answer(f"An event of the stream is larger than {self._most} bytes.")

    def _line(self, line: bytes) -> Iterator[SseEvent]:
        if not line:
            if self._data:
                yield SseEvent(self._name, self._number, b"\n".join(self._data))
            self._data, self._name, self._size = [], "", 0
            return
        self._grow(len(line))
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode(errors="replace")
        elif name == b"id":
            self._number = int(value) if _NUMBER.fullmatch(value) else 0
