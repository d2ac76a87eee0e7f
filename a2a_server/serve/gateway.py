"""A gateway that runs alone, in front of servers elsewhere (spec: GATE-10, OPER-08)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import structlog
from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_gateway.app import STREAM_SLOTS, create_app
from a2a_gateway.cards.card_file import CardFileError, UpstreamWithCard, read_card
from a2a_gateway.channel import ChannelUpstream, UnusableOptions
from a2a_gateway.http.server import DrainableUpstream, HttpDoor
from a2a_gateway.upstream import CallContext, MetadataPairs, StreamItem, Upstream, UpstreamAnswer, UpstreamStream
from a2a_server.adapters.auth.proxy import ProxyTrust
from a2a_server.domain.trace import trace_of
from a2a_server.operations.limits import Limits
from a2a_server.ports.authenticator import Credentials
from a2a_server.ports.journal import AccessLog, CallRecord
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.names import REQUEST_ID
from a2a_server.serve import start_warnings
from a2a_server.serve.authentication import proxy_trust
from a2a_server.serve.doors import config_of, keep_tls, take_http
from a2a_server.serve.journal import access_log, auditing
from a2a_server.settings import Settings
from a2a_server.transport.address import Address
from a2a_server.transport.call_watch import Told, Watch, WatchedBatches, watched, watched_failure
from a2a_server.transport.tls.certificates import PemFile, authorities, identity
from a2a_server.transport.tls.files import TlsFiles

UNUSABLE = (UnusableOptions, CardFileError)
"""What stops a gateway from starting, beside ports."""

log = structlog.get_logger(__name__)


@asynccontextmanager
async def relaying(settings: Settings, *, reread: asyncio.Event | None = None) -> AsyncIterator[Address]:
    """Run the gateway alone, in front of servers elsewhere; yields where it listens."""
    async with AsyncExitStack() as stack:
        tls = TlsFiles.of(settings.tls)  # first, because it may fail
        door, address = take_http(settings, stack, tls)
        keep_tls(tls, stack, reread)
        channel = channel_of(settings)
        stack.push_async_callback(channel.close)
        upstream = DrainableUpstream(upstream_of(settings, channel))
        access = stack.enter_context(access_log(settings.log))
        audit = await stack.enter_async_context(auditing(settings.audit))
        entry: Upstream = upstream if access is None else LoggedUpstream(upstream, access)
        config = config_of(settings, address, anonymous=False, audit=audit)  # the upstream says who may call
        app = create_app(entry, config)
        await door.open(app)
        stack.push_async_callback(leave, door, app, upstream, settings.limits)
        start_warnings.warn(settings, gateway=True)
        log.info("gateway.started", http=str(address), upstream=settings.upstream.addresses)
        yield address


async def leave(door: HttpDoor, app: web.Application, upstream: DrainableUpstream, limits: Limits) -> None:
    """Let unary calls through a gateway end; when its channels are closed afterwards, streams are told to come back."""
    log.info("gateway.draining", streams=app[STREAM_SLOTS].count)
    upstream.leaving = True
    await asyncio.sleep(limits.drain_delay)
    door.drain()
    await upstream.drain(limits.drain_grace)


def channel_of(settings: Settings) -> ChannelUpstream:
    """Check the files first: gRPC would accept any, and then reach no server."""
    options = settings.upstream
    if options.ca:
        authorities(PemFile("upstream.ca", options.ca))
    if options.cert and options.key:
        identity(PemFile("upstream.cert", options.cert), PemFile("upstream.key", options.key))
    return ChannelUpstream(options, keep_open_on_input=settings.keep_streams_open_on_input)


def upstream_of(settings: Settings, channel: ChannelUpstream) -> Upstream:
    path, proxy = settings.gateway.card, settings.auth.proxy
    upstream = ClientHeaders(channel, proxy_trust(proxy)) if proxy.headers else channel
    return UpstreamWithCard(upstream, read_card(path)) if path else upstream


@dataclass(frozen=True, slots=True)
class ClientHeaders:
    """Takes away from clients what only trusted proxies may say, and adds the certificate that a client has proven."""

    inner: Upstream
    trust: ProxyTrust

    async def identify(self, context: CallContext) -> str:
        return await self.inner.identify(self._checked(context))

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        return await self.inner.unary(method, request, self._checked(context))

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamStream:
        return await self.inner.stream(method, request, self._checked(context))

    async def ready(self) -> bool:
        return await self.inner.ready()

    def _checked(self, context: CallContext) -> CallContext:
        trust = self.trust
        if trust.believes(Credentials(context.metadata, context.certificate, context.peer, context.via)):
            return context
        metadata = dict(trust.without(context.metadata))
        if context.certificate and trust.certificate_header:
            metadata[trust.certificate_header] = (f":{base64.b64encode(context.certificate).decode()}:",)
        return context._replace(metadata=metadata)


@dataclass(frozen=True, slots=True)
class LoggedUpstream:
    """Writes each call into the access log when it has ended."""

    upstream: Upstream
    access: AccessLog

    async def identify(self, context: CallContext) -> str:
        return await watched_failure(self.upstream.identify(context), self._tell("", context))

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        return await watched(self.upstream.unary(method, request, context), self._tell(method.name, context))

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamStream:
        watch = Watch(self._tell(method.name, context))
        try:
            stream = await self.upstream.stream(method, request, context)
        except BaseException as error:
            watch.failed(error)
            watch.end()
            raise
        return LoggedStream(stream, WatchedBatches(stream.items, watch))

    async def ready(self) -> bool:
        return await self.upstream.ready()

    def _tell(self, rpc: str, context: CallContext) -> Told:
        return partial(self._ended, rpc, context)

    def _ended(self, rpc: str, context: CallContext, outcome: str, seconds: float, events: int | None) -> None:
        trace = trace_of(context.metadata)
        self.access.ended(
            CallRecord(
                rpc,
                context.door,
                context.spoken,
                "",
                "",
                context.peer,
                outcome,
                seconds,
                events,
                trace.parent if trace else "",
                next(iter(context.metadata.get(REQUEST_ID, ())), ""),
            )
        )


@dataclass(frozen=True, slots=True)
class LoggedStream:
    """Counts the events of a stream."""

    stream: UpstreamStream
    batches: WatchedBatches[Sequence[StreamItem]]

    @property
    def metadata(self) -> MetadataPairs:
        return self.stream.metadata

    @property
    def items(self) -> AsyncIterator[Sequence[StreamItem]]:
        return self.batches

    def on_ready(self, take: Callable[[Sequence[StreamItem]], bool]) -> None:
        self.stream.on_ready(self.batches.counting(take))

    def on_cut(self, cut: Callable[[A2AError], Awaitable[None]]) -> None:
        self.stream.on_cut(cut)
