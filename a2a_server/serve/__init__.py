"""The composition root: settings → adapters → core → doors. Nothing else imports adapters or the gateway.

1. `Doors.take` takes the ports, so that the card can name them; nobody answers yet.
2. `parts` makes what settings alone describe: store, authenticator, rules, webhooks.
3. `core_of` puts the operations together, and starting them takes up what an earlier process left.
4. The pipeline joins steps and operations, and `Doors.open` lets calls in.
5. `Server.close` drains: no new calls, turns end, streams deliver what is pending, doors close.

`running` does all of that for a server; `relaying` runs a gateway alone in front of servers elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial

import structlog
from aiohttp import web
from grpc.aio import ServerInterceptor

from a2a_gateway.app import STREAM_SLOTS, create_app
from a2a_gateway.cards.agent_card import Legacy
from a2a_gateway.cards.card_file import CardFileError, WithCard, read_card
from a2a_gateway.channel import ChannelUpstream, UnusableOptions
from a2a_gateway.dispatcher import GatewayConfig
from a2a_gateway.http.server import Drainable, HttpDoor
from a2a_gateway.upstream import Upstream
from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.defaults import LocalWakeups, SystemClock
from a2a_server.operations.core import Core
from a2a_server.operations.rpc.cards import CardBook
from a2a_server.ports.agent import AgentPort
from a2a_server.ports.authenticator import CardSecurity
from a2a_server.ports.store import Store
from a2a_server.serve.parts import (
    authenticator_of,
    base_of,
    delivery_of,
    documents_of,
    hosts_of,
    interfaces_at,
    issuer_of,
    log_internal,
    old_servicer_of,
    rules_of,
    store_of,
)
from a2a_server.serve.watchdog import Watchdog
from a2a_server.settings import Settings
from a2a_server.transport.address import Address
from a2a_server.transport.certificates import PemFile, authorities, identity, server_context
from a2a_server.transport.grpc.server import GrpcDoor
from a2a_server.transport.grpc.servicer import Servicer
from a2a_server.transport.local import LocalUpstream
from a2a_server.transport.open_streams import OpenStreams
from a2a_server.transport.pipeline import Pipeline, Step
from a2a_server.transport.steps import standard

LAST_ITEMS = 1.0
"""How long streams may take to deliver what was pending when the core had drained."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """The doors with their ports taken, so that these are known before the card is written; nobody answers yet."""

    grpc: GrpcDoor
    grpc_at: Address
    http: HttpDoor | None = None
    http_at: Address | None = None

    @classmethod
    def take(cls, settings: Settings, stack: AsyncExitStack, interceptors: Sequence[ServerInterceptor] = ()) -> Doors:
        grpc = GrpcDoor(settings.transport, settings.tls, interceptors)
        stack.push_async_callback(grpc.stop, None)
        grpc_at = grpc.listen(Address.parse(settings.grpc))
        http, http_at = take_http(settings, stack) if settings.http else (None, None)
        return cls(grpc=grpc, grpc_at=grpc_at, http=http, http_at=http_at)

    async def open(self, settings: Settings, pipeline: Pipeline, upstream: LocalUpstream) -> None:
        """Answer calls."""
        servicer = Servicer(pipeline, settings.error_codes, peer_names=bool(settings.tls.client_ca))
        await self.grpc.serve(servicer, legacy=old_servicer_of(settings, pipeline))
        if self.http is not None and self.http_at is not None:
            config = config_of(settings, self.http_at, anonymous=not settings.auth.credentials)
            await self.http.open(create_app(upstream, config))

    async def close(self) -> None:
        if self.http is not None:
            await self.http.close()
        await self.grpc.stop(LAST_ITEMS)


def take_http(settings: Settings, stack: AsyncExitStack) -> tuple[HttpDoor, Address]:
    at = Address.parse(settings.http)
    tls = server_context(settings.tls)  # first, because it may fail
    door = HttpDoor(at.listen("http"), settings.gateway, tls)
    stack.push_async_callback(door.close)
    return door, Address(at.host, door.port)


@dataclass(slots=True, kw_only=True)
class Server:
    """A server that answers calls."""

    card: pb.AgentCard
    pipeline: Pipeline
    core: Core
    doors: Doors
    drained: bool = False

    @property
    def grpc(self) -> Address:
        """Where the gRPC door really listens."""
        return self.doors.grpc_at

    @property
    def http(self) -> Address | None:
        """Where the HTTP door really listens, if it does."""
        return self.doors.http_at

    async def drain(self) -> None:
        """Take no new calls, let turns end, give streams their pending events (DURA-08). Repeating it does nothing."""
        if self.drained:
            return
        self.drained = True
        log.info("server.draining", streams=self.pipeline.streams.count)
        self.pipeline.draining = True
        await self.doors.grpc.refuse_health()
        if self.doors.http is not None:
            self.doors.http.drain()
        await self.core.drain()
        await self.pipeline.streams.settle(LAST_ITEMS)
        self.pipeline.streams.end_all()

    async def close(self) -> None:
        await self.drain()
        await self.doors.close()


@asynccontextmanager
async def running(
    settings: Settings, agent: AgentPort, *, steps: Sequence[Step] = (), interceptors: Sequence[ServerInterceptor] = ()
) -> AsyncIterator[Server]:
    """Serve an agent for as long as the context lasts, then drain and close everything.

    `steps` run for every call after the standard ones; `interceptors` are those of grpc.aio, for every gRPC call.
    """
    async with AsyncExitStack() as stack:
        doors = Doors.take(settings, stack, interceptors)
        store = store_of(settings)
        await store.open()
        stack.push_async_callback(store.close)
        authenticator = authenticator_of(settings)
        core = core_of(settings, agent, store, doors, authenticator.card)
        await core.start()
        taken = (*standard(authenticator, rules_of(settings, core.card)), *steps)
        streams = OpenStreams(**asdict(settings.streams))
        pipeline = Pipeline(core.operations, taken, streams, max_values=settings.transport.max_values)
        upstream = LocalUpstream(pipeline, store)
        await doors.open(settings, pipeline, upstream)
        health = asyncio.ensure_future(doors.grpc.keep_health(upstream.ready))
        stack.callback(health.cancel)
        watchdog = Watchdog(settings.loop_block_warning)
        pipeline.streams.start()
        watchdog.start()
        stack.callback(watchdog.stop)
        stack.push_async_callback(pipeline.streams.close)
        server = Server(card=core.card, pipeline=pipeline, core=core, doors=doors)
        stack.push_async_callback(server.close)
        log.info(
            "server.started",
            grpc=str(server.grpc),
            http=str(server.http or ""),
            agent=server.card.name,
            store=settings.store,
        )
        yield server


def core_of(settings: Settings, agent: AgentPort, store: Store, doors: Doors, security: CardSecurity) -> Core:
    base = base_of(settings, doors.http_at) if doors.http_at else ""
    clock = SystemClock()
    delivery = delivery_of(settings, clock, issuer_of(settings, base, doors.grpc_at))
    return Core(
        agent=agent,
        store=store,
        wakeups=LocalWakeups(),
        clock=clock,
        cards=CardBook(
            agent,
            partial(interfaces_at, settings, doors.grpc_at, base),
            security,
            push_notifications=delivery is not None,
            replay=settings.replay_extension,
            input_requests=settings.input_request_extension,
        ),
        limits=settings.limits,
        observers=[log_internal],
        keep_open_on_input=settings.keep_streams_open_on_input,
        answer_by_reference=settings.answer_by_reference,
        delivery=delivery,
    )


@asynccontextmanager
async def relaying(settings: Settings) -> AsyncIterator[Address]:
    """Run the gateway alone, in front of servers elsewhere; yields where it listens."""
    async with AsyncExitStack() as stack:
        door, address = take_http(settings, stack)
        channel = channel_of(settings)
        stack.push_async_callback(channel.close)
        upstream = Drainable(upstream_of(settings, channel))
        app = create_app(upstream, config_of(settings, address, anonymous=False))  # the upstream says who may call
        await door.open(app)
        stack.push_async_callback(leave, door, app, upstream, settings.limits.drain_grace)
        log.info("gateway.started", http=str(address), upstream=settings.upstream.addresses)
        yield address


async def leave(door: HttpDoor, app: web.Application, upstream: Drainable, grace: float) -> None:
    """Let unary calls through a gateway end; when its channels are closed afterwards, streams are told to come back."""
    log.info("gateway.draining", streams=app[STREAM_SLOTS].count)
    door.drain()
    await upstream.drain(grace)


def config_of(settings: Settings, address: Address, *, anonymous: bool) -> GatewayConfig:
    keys = (settings.auth.api_key_header,) if settings.auth.api_keys else ()
    options = replace(settings.gateway, forward_headers=(*settings.gateway.forward_headers, *keys))
    return GatewayConfig(
        base=base_of(settings, address),
        public_url=settings.public_url,
        options=options,
        codes=settings.error_codes,
        legacy_cards=Legacy(settings.legacy) if settings.legacy.enabled else None,
        tenants=bool(settings.tenants),
        hosts=hosts_of(settings, address, anonymous=anonymous),
        documents=documents_of(settings),
    )


UNUSABLE = (UnusableOptions, CardFileError)
"""What stops a gateway from starting, beside ports."""


def channel_of(settings: Settings) -> ChannelUpstream:
    """The way to the servers, with its files checked: gRPC would take any, and then reach nobody."""
    options = settings.upstream
    if options.ca:
        authorities(PemFile("upstream.ca", options.ca))
    if options.cert and options.key:
        identity(PemFile("upstream.cert", options.cert), PemFile("upstream.key", options.key))
    return ChannelUpstream(options, keep_open_on_input=settings.keep_streams_open_on_input)


def upstream_of(settings: Settings, channel: ChannelUpstream) -> Upstream:
    path = settings.gateway.card
    return WithCard(channel, read_card(path)) if path else channel
