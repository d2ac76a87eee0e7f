"""Reads the body of an HTTP request and makes its call, for every binding: headers → upstream → answer (DOOR-04)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qsl

from aiohttp import HttpVersion11, hdrs, web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from multidict import istr

from a2a_gateway.cards.agent_card import Cards
from a2a_gateway.http.backlog import UnfinishedBodies
from a2a_gateway.http.connection import certificate_of
from a2a_gateway.http.frames import Frames
from a2a_gateway.http.long_texts import LONG
from a2a_gateway.http.stream_slots import StreamSlots
from a2a_gateway.http.streams import EventCache, StreamForm, StreamReply
from a2a_gateway.profiles import Profile
from a2a_gateway.requests import headers
from a2a_gateway.requests.api_keys import QueryOrCookieKey
from a2a_gateway.requests.headers import HeaderMap
from a2a_gateway.requests.proxies import Proxies
from a2a_gateway.upstream import CallContext, MessageStream, Upstream, UpstreamAnswer, is_read
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import JsonText, read_in_steps
from a2a_server.protocol.errors import A2AError, Reason, Violation, deadline_exceeded, refuse
from a2a_server.protocol.large import LargeRequests
from a2a_server.protocol.names import CURSOR, CURSOR_HEADER, CURSOR_PARAMETER, VERSION, VERSION_HEADER
from a2a_server.protocol.options import SMALL, GatewayOptions

Query = Sequence[tuple[str, str]]
ExtraMetadata = Mapping[str, tuple[str, ...]]
"""Metadata that the gateway adds to a call."""

NO_METADATA: ExtraMetadata = MappingProxyType({})

_VERSION = istr(VERSION_HEADER)

_MOST_PARAMETERS = 1000
_ENCODINGS = ((hdrs.CONTENT_ENCODING, "identity"), (hdrs.TRANSFER_ENCODING, "chunked"))
"""The encodings that a body may have. aiohttp decodes chunks; it would not decode other encodings."""


class UnaryResult(NamedTuple):
    """The answer of a unary call: its JSON, its message, and the headers to send with it."""

    json: bytes
    message: Message
    headers: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Makes calls. All bindings use this one class, so that they behave the same."""

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
    keys: QueryOrCookieKey | None = None
    """Reads API keys from the query or a cookie."""
    door: str = "rest"
    """The name of the binding that makes these calls."""

    async def unary(  # noqa: PLR0913 - all that a binding knows about a call
        self,
        request: web.BaseRequest,
        query: Query,
        method: MethodDescriptor,
        message: Message,
        *,
        extra_metadata: ExtraMetadata = NO_METADATA,
        rest: MessageStream | None = None,
    ) -> UnaryResult:
        answer = await self.upstream.unary(method, message, self.context(request, query, extra_metadata, rest))
        wire, told, codec = answer.wire, answer.message, self.profile.codec
        extra = self.reply_headers(request, answer) if answer.metadata or answer.trailers else answer.headers
        if isinstance(told, pb.AgentCard):
            told = self.cards.with_doors(told, self.proxies.base(request), getattr(message, "tenant", ""))
            json = self.cards.encoded(told, codec)
        elif len(wire) > LONG:
            json = (await self.events.texts.of(codec, type(told), wire)).json
        else:
            json = codec.encode_kept(told, wire) if is_read(method) else codec.encode(told)
        return UnaryResult(json, told, extra)

    def reply_headers(self, request: web.BaseRequest, answer: UpstreamAnswer) -> Sequence[tuple[str, str]]:
        told = headers.outgoing(answer.metadata, answer.trailers, self.profile.echo(request.headers))
        return [*told, *answer.headers] if answer.headers else told

    async def stream(  # noqa: PLR0913 - as above
        self,
        request: web.BaseRequest,
        query: Query,
        method: MethodDescriptor,
        message: Message,
        *,
        frames: Frames,
        extra_metadata: ExtraMetadata = NO_METADATA,
        rest: MessageStream | None = None,
    ) -> StreamReply:
        slot = self.streams.admit(request, self.proxies.client(request), frames.comment)
        if request.content.total_bytes > SMALL:
            await asyncio.sleep(0)  # reading a long body took long; let other tasks run
        stream = await self.upstream.stream(method, message, self.context(request, query, extra_metadata, rest))
        form = StreamForm(frames, GetMessageClass(method.output_type), self.events, self.profile)
        reply = StreamReply(slot, form)
        await reply.open(stream)
        return reply

    def context(
        self,
        request: web.BaseRequest,
        query: Query,
        extra_metadata: ExtraMetadata = NO_METADATA,
        rest: MessageStream | None = None,
    ) -> CallContext:
        """Return what is sent with a message: metadata, timeout, the client's address and version."""
        found = self.header_map.incoming(request.headers)
        if self.keys is not None:
            self.keys.move_to_metadata(request, found.metadata)
        for name, value in query:
            if name == VERSION_HEADER:  # as a parameter (VERS-06); the pipeline refuses different values
                found.metadata[VERSION] = (*found.metadata.get(VERSION, ()), _checked_ascii(name, value))
            elif name == CURSOR_PARAMETER:
                _set_cursor(found.metadata, _checked_ascii(name, value))
        profile = self.profile
        if profile.metadata:
            found.metadata.update(profile.metadata)
            if extra_metadata:
                found.metadata.update(extra_metadata)
        if found.timeout == 0:  # refused here, because a quick call would be answered before the deadline is noticed
            raise deadline_exceeded(0)
        via = request.remote or ""
        peer = self.proxies.client(request) if self.proxies.trusted else via
        certificate = certificate_of(request.transport) if request.secure else b""
        spoken, door = profile.spoken, self.door
        return CallContext(found.metadata, found.timeout, peer, found.binary, spoken, rest, certificate, via, door)


def _checked_ascii(name: str, value: str) -> str:
    if not value.isascii() or not value.isprintable():
        refuse([Violation(name, "must be printable ASCII")])
    return value


def _set_cursor(metadata: dict[str, tuple[str, ...]], cursor: str) -> None:
    values = {*metadata.get(CURSOR, ()), cursor}
    if len(values) > 1:
        refuse([Violation(CURSOR_PARAMETER, f"differs from the header {CURSOR_HEADER}")])
    metadata[CURSOR] = tuple(values)


def versions_asked(request: web.BaseRequest, query: Query) -> Sequence[str]:
    """Return the versions that a request asks for, in headers and parameters (VERS-06)."""
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
    """Return the whole body, or raise an error as soon as it is known to be too large, too slow or encoded.

    Unless the call is `public`, the caller's credentials are checked before a large body is read.
    """
    options, content = calls.options, request.content
    check_encoding(request)
    here = content.is_eof()  # it arrived with the headers, as usual
    size = content.total_bytes if here else request.content_length
    if size is not None and size > options.max_body_bytes:
        raise _too_large(options)
    caller = ""
    if not public and (size is None or size > SMALL):
        caller = await calls.upstream.identify(calls.context(request, ()))
    if here:
        return content.read_nowait()
    await ask_for_body(request)
    try:
        return await asyncio.wait_for(_read_slowly(request, calls, caller), options.body_timeout)
    except TimeoutError:
        text = f"The body did not arrive within {options.body_timeout:g} seconds."
        raise A2AError(Reason.REQUEST_TIMEOUT, text) from None
    except web.RequestPayloadError:
        raise A2AError(Reason.INVALID_REQUEST, "The body is not well-formed HTTP/1.1.") from None


def check_encoding(request: web.BaseRequest) -> None:
    headers = request.headers
    for name, known in _ENCODINGS:
        if name in headers and (coding := headers[name]).lower() != known:
            text = f'Send the body as it is; {name} is "{coding[:100]}".'
            raise A2AError(Reason.ENCODING_NOT_SUPPORTED, text)


async def ask_for_body(request: web.BaseRequest) -> None:
    """Send `100 Continue` if the client waits for it before it sends the body (RFC 9110, 10.1.1)."""
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
    """Return the body for `loads`. A large one is parsed already, in steps; an error is raised if it is too large."""
    raw, options = await read_body(request, calls), calls.options
    if len(raw) <= SMALL and len(raw) <= options.max_json_values:  # it cannot have more values than bytes
        return raw
    return await read_large_json(raw, calls)


async def read_large_json(raw: bytes, calls: Calls) -> JsonText:
    options = calls.options
    most = options.max_json_values
    return await calls.large.read(read_in_steps(raw, options.max_depth, most, "gateway.max_json_values"))


def _too_large(options: GatewayOptions) -> A2AError:
    return A2AError(Reason.BODY_TOO_LARGE, f"The body may have at most {options.max_body_bytes} bytes.")
