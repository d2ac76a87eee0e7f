"""The composition root: settings → adapters → core → doors; the only module that sees adapters."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from a2a_server.adapters.auth.anonymous import Anonymous
from a2a_server.adapters.auth.static import Secret, StaticAuthenticator
from a2a_server.adapters.clock import SystemClock
from a2a_server.adapters.memory.store import MemoryStore
from a2a_server.adapters.sqlite.store import SqliteStore
from a2a_server.operations.cards import CardBook
from a2a_server.operations.core import Core
from a2a_server.ports.agent import Agent, InternalEvent
from a2a_server.ports.authenticator import Authenticator, Caller
from a2a_server.ports.store import Store
from a2a_server.settings import Credential, Settings
from a2a_server.settings.model import MEMORY, SQLITE
from a2a_server.transport.address import Address
from a2a_server.transport.extensions import Extensions
from a2a_server.transport.pipeline import Pipeline, Rules
from a2a_server.transport.server import GrpcDoor
from a2a_server.transport.servicer import Servicer
from a2a_server.transport.streams import OpenStreams
from a2a_server.transport.tenants import Tenants
from a2a_server.transport.watchdog import Watchdog
from generated import a2a_pb2 as pb

LAST_ITEMS = 1.0
"""How long streams may take to deliver what was pending when the core had drained."""

WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - to be recognised

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Server:
    """A server that answers calls."""

    grpc: Address
    """Where the gRPC door really listens."""
    card: pb.AgentCard
    pipeline: Pipeline
    core: Core
    door: GrpcDoor
    drained: bool = False

    async def drain(self) -> None:
        """Take no new calls, let turns end, give streams their pending events (DURA-08). Repeating it does nothing."""
        if self.drained:
            return
        self.drained = True
        log.info("server.draining", streams=self.pipeline.streams.count)
        await self.door.refuse_health()
        self.pipeline.draining = True
        await self.core.drain()
        await self.pipeline.streams.settle(LAST_ITEMS)
        self.pipeline.streams.end_all()

    async def close(self) -> None:
        await self.drain()
        await self.door.stop(LAST_ITEMS)


@asynccontextmanager
async def running(settings: Settings, agent: Agent) -> AsyncIterator[Server]:
    """Serve an agent for as long as the context lasts, then drain and close everything."""
    async with AsyncExitStack() as stack:
        door = GrpcDoor(settings.transport, settings.tls)
        stack.push_async_callback(door.stop, None)
        address = door.listen(Address.parse(settings.grpc))
        store = store_of(settings)
        await store.open()
        stack.push_async_callback(store.close)
        server = await _open(settings, agent, store, door, address)
        streams, watchdog = server.pipeline.streams, Watchdog(settings.loop_block_warning)
        streams.start()
        watchdog.start()
        stack.callback(watchdog.stop)
        stack.push_async_callback(streams.close)
        stack.push_async_callback(server.close)
        log.info("server.started", grpc=str(address), agent=server.card.name, store=settings.store)
        yield server


async def _open(settings: Settings, agent: Agent, store: Store, door: GrpcDoor, address: Address) -> Server:
    authenticator = authenticator_of(settings)
    cards = CardBook(agent, [interface_of(settings, address)], authenticator.card)
    core = Core(
        agent=agent,
        store=store,
        clock=SystemClock(),
        cards=cards,
        limits=settings.limits,
        observers=[log_internal],
        keep_open_on_input=settings.keep_streams_open_on_input,
    )
    await core.start()
    pipeline = Pipeline(core.operations, authenticator, rules_of(settings, core.card), streams_of(settings))
    await door.serve(Servicer(pipeline, settings.error_codes, peer_names=bool(settings.tls.client_ca)))
    return Server(grpc=address, card=core.card, pipeline=pipeline, core=core, door=door)


def log_internal(event: InternalEvent) -> None:
    """Agents' internal events are for whoever looks closely (INTL-02)."""
    log.debug(event.kind, task_id=event.task_id, **{f"agent_{name}": value for name, value in event.fields.items()})


def store_of(settings: Settings) -> Store:
    if settings.store == MEMORY:
        return MemoryStore()
    return SqliteStore(Path(settings.store.removeprefix(SQLITE)))


def authenticator_of(settings: Settings) -> Authenticator:
    auth = settings.auth
    if not auth.credentials:
        return Anonymous()
    tokens, keys = ([_secret(credential) for credential in listed] for listed in (auth.tokens, auth.api_keys))
    return StaticAuthenticator(tokens=tokens, api_keys=keys, api_key_header=auth.api_key_header)


def _secret(credential: Credential) -> Secret:
    caller = Caller(
        credential.owner,
        authenticated=True,
        tenant=credential.tenant,
        extended_card=credential.extended_card,
    )
    return Secret(credential.digest, caller)


def rules_of(settings: Settings, card: pb.AgentCard) -> Rules:
    return Rules(
        tenants=Tenants(frozenset(settings.tenants), settings.default_tenant),
        extensions=Extensions.of(card.capabilities.extensions),
        strict_version=settings.strict_version,
        require_extensions_everywhere=settings.require_extensions_everywhere,
    )


def streams_of(settings: Settings) -> OpenStreams:
    options = settings.streams
    return OpenStreams(per_caller=options.per_caller, total=options.total, write_timeout=options.write_timeout)


def interface_of(settings: Settings, address: Address) -> pb.AgentInterface:
    """Say where clients find the gRPC door: `host:port`, and no wildcard (CARD-03, CARD-07, CONF-69)."""
    reachable = Address(socket.gethostname(), address.port) if address.host in WILDCARDS else address
    url = settings.public_grpc or str(reachable)
    return pb.AgentInterface(url=url, protocol_binding="GRPC", protocol_version="1.0")
