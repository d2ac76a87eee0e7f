"""One call for an HTTP request, whatever its binding: body, headers → context → upstream → answer (spec: DOOR-04)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qsl

from aiohttp import HttpVersion11, hdrs, web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from multidict import istr

from a2a_gateway.cards.agent_card import Cards, is_tenants
from a2a_gateway.http.frames import Frames
from a2a_gateway.http.long_texts import LONG
from a2a_gateway.http.stream_slots import StreamSlots
from a2a_gateway.http.streams import EventCache, StreamForm, StreamReply
from a2a_gateway.profiles import Profile
from a2a_gateway.requests import headers
from a2a_gateway.requests.headers import HeaderMap, must_be_json
from a2a_gateway.requests.proxies import Proxies
from a2a_gateway.upstream import CallContext, Upstream, UpstreamAnswer, is_read
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import JsonText, read_in_steps
from a2a_server.protocol.errors import A2AError, Reason, Violation, deadline_exceeded, refuse
from a2a_server.protocol.large import LargeRequests
from a2a_server.protocol.names import CURSOR, CURSOR_HEADER, CURSOR_PARAMETER, VERSION, VERSION_HEADER
from a2a_server.protocol.options import SMALL, GatewayOptions

Query = Sequence[tuple[str, str]]
Beside = Mapping[str, tuple[str, ...]]
"""Metadata that the gateway itself adds to a call."""

NOTHING: Beside = MappingProxyType({})

_VERSION = istr(VERSION_HEADER)

_MOST_PARAMETERS = 1000
_CODINGS = ((hdrs.CONTENT_ENCODING, "identity"), (hdrs.TRANSFER_ENCODING, "chunked"))
"""The accepted encodings of a body. aiohttp decodes chunks, and would pass other encodings on undecoded."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_ORIGIN, _SITE, _MODE, _DEST = istr("Origin"), istr("Sec-Fetch-Site"), istr("Sec-Fetch-Mode"), istr("Sec-Fetch-Dest")
_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]{1,254}))(?::[0-9]{1,5})?")
_ALL_ADDRESSES = frozenset({"0.0.0.0", "::"})  # noqa: S104 - to be recognised


class Told(NamedTuple):
    """The answer of a unary call as JSON, and the headers that go with it."""

    json: bytes
    message: Message
    headers: Sequence[tuple[str, str]]


class UnfinishedBodies:
    """How much has arrived of bodies that are not complete, together and by sender: an address, or a known caller."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._by_sender: dict[str, int] = {}

    def add(self, senders: Sequence[str], size: int) -> None:
        """Count what has arrived, or refuse it; it is counted all the same, until it is dropped."""
        self._total += size
        for sender in senders:
            self._by_sender[sender] = self._by_sender.get(sender, 0) + size
        if self._total > self._most or max([self._by_sender[sender] for sender in senders]) > self._most // 2:
            half = "half of them from one address or caller"
            text = f"Too much is being sent at once: at most {self._most} bytes, and {half}."
            raise A2AError(Reason.OVERLOADED, text, retry_after=1)

    def drop(self, senders: Sequence[str], size: int) -> None:
        self._total -= size
        for sender in senders:
            if left := self._by_sender.pop(sender, 0) - size:
                self._by_sender[sender] = left


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Makes calls; one for all bindings, so that they cannot differ."""

    upstream: Upstream
    options: GatewayOptions
    profile: Profile
    header_map: HeaderMap
    proxies: Proxies
    streams: StreamSlots
    cards: Cards
    events: EventCache
    bodies: UnfinishedBodies
    large: LargeRequests

    async def unary(
        self,
        request: web.BaseRequest,
        query: Query,
        method: MethodDescriptor,
        message: Message,
        *,
        beside: Beside = NOTHING,
    ) -> Told:
        answer = await self.upstream.unary(method, message, self.context(request, query, beside))
        wire, told, codec = answer.wire, answer.message, self.profile.codec
        extra = self.fields(request, answer) if answer.metadata or answer.trailers else ()
        if isinstance(told, pb.AgentCard):
            told = self.cards.with_doors(told, self.proxies.base(request))
            json = codec.encode(told) if is_tenants(told) else codec.encode_kept(told)
        elif len(wire) > LONG:
            json = (await self.events.texts.of(codec, type(told), wire)).json
        else:
            json = codec.encode_kept(told, wire) if is_read(method) else codec.encode(told)
        return Told(json, told, extra)

    def fields(self, request: web.BaseRequest, answer: UpstreamAnswer) -> Sequence[tuple[str, str]]:
        return headers.outgoing(answer.metadata, answer.trailers, self.profile.echo(request.headers))

    async def stream(  # noqa: PLR0913 - as above
        self,
        request: web.BaseRequest,
        query: Query,
        method: MethodDescriptor,
        message: Message,
        *,
        frames: Frames,
        beside: Beside = NOTHING,
    ) -> StreamReply:
        slot = self.streams.admit(request, self.proxies.client(request), frames.comment)
        if request.content.total_bytes > SMALL:
            await asyncio.sleep(0)  # others have the loop after a long body was read
        stream = await self.upstream.stream(method, message, self.context(request, query, beside))
        form = StreamForm(frames, GetMessageClass(method.output_type), self.events, self.profile)
        reply = StreamReply(slot, form)
        await reply.open(stream)
        return reply

    def context(self, request: web.BaseRequest, query: Query, beside: Beside = NOTHING) -> CallContext:
        """What is sent along with a message: metadata, deadline, the client's address and version."""
        found = self.header_map.incoming(request.headers)
        for name, value in query:
            if name == VERSION_HEADER:  # as parameter (VERS-06); pipelines refuse values that differ
                found.metadata[VERSION] = (*found.metadata.get(VERSION, ()), _sendable(name, value))
            elif name == CURSOR_PARAMETER:
                _agree(found.metadata, _sendable(name, value))
        profile = self.profile
        if profile.metadata:
            found.metadata.update(profile.metadata)
            if beside:
                found.metadata.update(beside)
        if found.timeout == 0:  # before anything has begun; what is quick would be answered all the same
            raise deadline_exceeded(0)
        peer = self.proxies.client(request) if self.proxies.trusted else request.remote or ""
        return CallContext(found.metadata, found.timeout, peer, found.binary, profile.spoken)


def _sendable(name: str, value: str) -> str:
    if not value.isascii() or not value.isprintable():
        refuse([Violation(name, "must be printable ASCII")])
    return value


def _agree(metadata: dict[str, tuple[str, ...]], cursor: str) -> None:
    values = {*metadata.get(CURSOR, ()), cursor}
    if len(values) > 1:
        refuse([Violation(CURSOR_PARAMETER, f"differs from the header {CURSOR_HEADER}")])
    metadata[CURSOR] = tuple(values)


def versions_asked(request: web.BaseRequest, query: Query) -> Sequence[str]:
    """The versions that a request asks for, in headers and parameters (VERS-06)."""
    said = request.headers.getall(_VERSION, ())
    return [*said, *(value for name, value in query if name == VERSION_HEADER)] if query else said


def query_of(text: str) -> Query:
    if not text:
        return ()
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS)
    except UnicodeDecodeError:
        refuse([Violation("query", "must be UTF-8, percent-encoded")])
    except ValueError:
        refuse([Violation("query", f"must have at most {_MOST_PARAMETERS} parameters")])


async def read_body(request: web.BaseRequest, calls: Calls, *, public: bool = False) -> bytes:
    """Return the whole body, or refuse it as soon as it is known to be too large, too slow or encoded.

    Unless the call is `public`, it is known who calls before a large body is read.
    """
    headers, options = request.headers, calls.options
    for name, known in _CODINGS:
        if name in headers and (coding := headers[name]).lower() != known:
            text = f'Send the body as it is; {name} is "{coding[:100]}".'
            raise A2AError(Reason.ENCODING_NOT_SUPPORTED, text)
    content = request.content
    here = content.is_eof()  # it came with the headers, as most do
    size = content.total_bytes if here else request.content_length
    if size is not None and size > options.max_body_bytes:
        raise _too_large(options)
    caller = ""
    if not public and (size is None or size > SMALL):
        caller = await calls.upstream.identify(calls.context(request, ()))
    if here:
        return content.read_nowait()
    await _ask_for_body(request)
    try:
        return await asyncio.wait_for(_read_slowly(request, calls, caller), options.body_timeout)
    except TimeoutError:
        text = f"The body did not arrive within {options.body_timeout:g} seconds."
        raise A2AError(Reason.REQUEST_TIMEOUT, text) from None
    except web.RequestPayloadError:
        raise A2AError(Reason.INVALID_REQUEST, "The body is not well-formed HTTP/1.1.") from None


async def _ask_for_body(request: web.BaseRequest) -> None:
    """Send `100 Continue` to a client that waits for it before it sends the body (RFC 9110, 10.1.1)."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun


async def _read_slowly(request: web.BaseRequest, calls: Calls, caller: str) -> bytes:
    body, options, address = bytearray(), calls.options, calls.proxies.client(request)
    senders = (address, f"caller {caller}") if caller else (address,)
    try:
        while chunk := await request.content.readany():
            body += chunk
            calls.bodies.add(senders, len(chunk))
            if len(body) > options.max_body_bytes:
                raise _too_large(options)
        return bytes(body)
    finally:
        calls.bodies.drop(senders, len(body))


async def read_json(request: web.BaseRequest, calls: Calls) -> JsonText:
    """Return the body as something to `loads`. A large one is read already, unless it has too many values."""
    raw, options = await read_body(request, calls), calls.options
    if len(raw) <= SMALL and len(raw) <= options.max_json_values:  # it cannot have more values than bytes
        return raw
    most = options.max_json_values
    return await calls.large.read(read_in_steps(raw, options.max_depth, most, "gateway.max_json_values"))


def _too_large(options: GatewayOptions) -> A2AError:
    return A2AError(Reason.BODY_TOO_LARGE, f"The body may have at most {options.max_body_bytes} bytes.")


def check_sender(request: web.BaseRequest, hosts: frozenset[str] | None, allows: Callable[[str], bool]) -> None:
    """Refuse what a web page sends that may not call (DOOR-04).

    `hosts` are the names that count as this server's; None = every name. `allows` says whether pages of an origin may
    call. What may change something follows the rules of CrossOriginProtection in Go 1.25.
    """
    headers = request.headers
    if hosts is not None and (host := headers.get(hdrs.HOST)) is not None and not is_own(host, hosts):
        text = f'Host "{host[:100]}" is none of this server\'s names; the setting gateway.hosts adds names.'
        raise A2AError(Reason.MISDIRECTED_REQUEST, text)
    if request.method in _SAFE or not (_SITE in headers or _ORIGIN in headers or _MODE in headers or _DEST in headers):
        return
    origin = headers.get(_ORIGIN, "")
    if not (_is_same(headers.get(_SITE, ""), origin, headers.get(hdrs.HOST, "")) or allows(origin)):
        text = "Pages of other sites may not call; the setting gateway.cors_origins lists origins whose pages may."
        raise A2AError(Reason.PERMISSION_DENIED, text)
    if request.method == hdrs.METH_POST and (hdrs.CONTENT_TYPE in headers or request.can_read_body):
        must_be_json(headers.get(hdrs.CONTENT_TYPE, ""))  # a page may send other types, or none, to any site


def _is_same(site: str, origin: str, host: str) -> bool:
    """Whether a request comes from a page of this server, from the user, or from no browser at all."""
    if site:
        return site in {"same-origin", "none"}
    return not origin or (bool(host) and origin.partition("://")[2].lower() == host.lower())


@lru_cache(maxsize=256)
def is_own(host: str, names: frozenset[str]) -> bool:
    """Whether a Host header names this server or machine. Ports may differ, because they are often forwarded."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found["address"] or found["name"]).lower().removesuffix(".")
    if name in names or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    # No page can have an address as its name without being at that address.
    return address.is_loopback or str(address) in names or not names.isdisjoint(_ALL_ADDRESSES)
