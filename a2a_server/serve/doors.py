"""The doors of a server, and where clients find them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlsplit

from grpc.aio import ServerInterceptor

from a2a_gateway.app import create_app
from a2a_gateway.cards.agent_card import LegacyCards
from a2a_gateway.cards.interfaces import doors_at, draft_doors_at, old_doors_at
from a2a_gateway.dispatcher import GatewayConfig
from a2a_gateway.http.server import HttpDoor
from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.journal import Audit
from a2a_server.protocol.names import DRAFT, LEGACY
from a2a_server.serve.journal import tell_of_origin
from a2a_server.serve.parts import card_signer_of, documents_of
from a2a_server.settings import Settings
from a2a_server.transport.address import BACKLOG, Address, reachable
from a2a_server.transport.grpc.server import GrpcDoor
from a2a_server.transport.grpc.servicer import Servicer
from a2a_server.transport.grpc.servicer_v0_3 import LegacyServicer
from a2a_server.transport.local import LocalUpstream
from a2a_server.transport.pipeline import Pipeline
from a2a_server.transport.tls.files import TlsFiles

LAST_ITEMS = 1.0
"""How long streams may take to deliver what was pending when the core had drained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """The doors with their ports taken, so that these are known before the card is written; nobody answers yet."""

    grpc: GrpcDoor
    grpc_at: Address
    http: HttpDoor | None = None
    http_at: Address | None = None
    tls: TlsFiles | None = None
    shared: bool = False
    """Whether other processes have the same ports. Then this one listens when it can answer, and not before."""

    @classmethod
    def take(
        cls,
        settings: Settings,
        stack: AsyncExitStack,
        interceptors: Sequence[ServerInterceptor] = (),
        *,
        shared: bool = False,
    ) -> Doors:
        tls = TlsFiles.of(settings.tls)
        grpc = GrpcDoor(settings.transport, tls, interceptors, shared=shared)
        stack.push_async_callback(grpc.stop, None)
        at = Address.parse(settings.grpc)
        grpc_at = at if shared else grpc.listen(at)
        http, http_at = take_http(settings, stack, tls, shared=shared) if settings.http else (None, None)
        return cls(grpc=grpc, grpc_at=grpc_at, http=http, http_at=http_at, tls=tls, shared=shared)

    async def open(
        self, settings: Settings, pipeline: Pipeline, upstream: LocalUpstream, audit: Audit | None = None
    ) -> None:
        """Answer calls."""
        if self.shared:
            self.grpc.listen(self.grpc_at)
            if self.http is not None:
                self.http.listen(BACKLOG)
        servicer = Servicer(pipeline, settings.error_codes, mutual=bool(settings.tls.client_ca))
        await self.grpc.serve(servicer, legacy=old_servicer_of(settings, pipeline))
        if self.http is not None and self.http_at is not None:
            config = config_of(settings, self.http_at, anonymous=not settings.auth.knows_callers, audit=audit)
            await self.http.open(create_app(upstream, config))

    async def leave(self) -> None:
        """Let new connections go to the other processes. Open ones go on, and end by themselves."""
        if self.http is not None:
            self.http.leave()
        await self.grpc.leave()

    async def is_connected(self) -> bool:
        """Whether any client still has a connection."""
        return bool(self.http is not None and self.http.connections) or await self.grpc.is_connected()

    async def close(self) -> None:
        if self.http is not None:
            await self.http.close()
        await self.grpc.stop(LAST_ITEMS)


def take_http(
    settings: Settings, stack: AsyncExitStack, tls: TlsFiles | None, *, shared: bool = False
) -> tuple[HttpDoor, Address]:
    at = Address.parse(settings.http)
    door = HttpDoor(at.share("http") if shared else at.listen("http"), settings.gateway, tls)
    stack.push_async_callback(door.close)
    if tls is not None:
        tls.on_change.append(door.check_certificates)
    return door, Address(at.host, door.port)


def keep_tls(tls: TlsFiles | None, stack: AsyncExitStack, reread: asyncio.Event | None) -> None:
    """Read the files of TLS again when they change."""
    if tls is not None:
        watch = asyncio.create_task(tls.keep(reread), name="tls files")
        stack.callback(watch.cancel)


def old_servicer_of(settings: Settings, pipeline: Pipeline) -> LegacyServicer | None:
    if not settings.legacy.enabled:
        return None
    return LegacyServicer(pipeline, settings.legacy, mutual=bool(settings.tls.client_ca))


def config_of(settings: Settings, address: Address, *, anonymous: bool, audit: Audit | None = None) -> GatewayConfig:
    place = settings.auth.key_place
    keys = (place.name,) if place.location == "header" else ()
    said = settings.auth.proxy.headers
    options = replace(settings.gateway, forward_headers=(*settings.gateway.forward_headers, *keys, *said))
    return GatewayConfig(
        base=base_of(settings, address),
        public_url=settings.public_url,
        card=settings.card,
        card_signer=(signer := card_signer_of(settings)),
        options=options,
        codes=settings.error_codes,
        legacy_cards=LegacyCards(settings.legacy, signer) if settings.legacy.enabled else None,
        tenants=bool(settings.served_tenants),
        keys=None if keys else place,
        hosts=hosts_of(settings, address, anonymous=anonymous),
        documents=documents_of(settings),
        identity_headers=said,
        denied=None if audit is None else partial(tell_of_origin, audit),
    )


def interfaces_at(settings: Settings, grpc_at: Address, base: str, tenant: str = "") -> Sequence[pb.AgentInterface]:
    """The doors that a card lists for a tenant, or for none. Over gRPC, 0.3 cannot name tenants (CONF-50)."""
    interfaces = [interface_of(settings, grpc_at, tenant), *(doors_at(base, tenant) if base else ())]
    if settings.legacy.enabled:
        if base and (not tenant or settings.served_tenants):  # whichever: the card tells nobody who is one (TENA-04)
            interfaces += old_doors_at(base, tenant)
        if not tenant:
            interfaces.append(old_interface_of(settings, grpc_at))
    if base and DRAFT in settings.gateway.profiles:
        interfaces += draft_doors_at(base, settings.gateway.draft_path, tenant)
    return settings.card.listed(interfaces)


def base_of(settings: Settings, address: Address) -> str:
    """Where clients find the HTTP door (CARD-03, CARD-07, DOOR-05)."""
    scheme = "https" if settings.tls.cert else "http"
    return settings.public_url.rstrip("/") or f"{scheme}://{reachable(address)}"


def hosts_of(settings: Settings, address: Address, *, anonymous: bool) -> frozenset[str] | None:
    """The host names by which clients may call the HTTP door; None = any, if no web page can misuse it (DOOR-04)."""
    further = settings.gateway.hosts
    if "*" in further or not (anonymous or address.loopback):
        return None
    names = address.host, reachable(address).host, urlsplit(settings.public_url).hostname or "", *further
    return frozenset(name.lower().strip("[]").removesuffix(".") for name in names if name)


def issuer_of(settings: Settings, base: str, grpc: Address) -> str:
    """The `iss` of signed webhooks: the URL of the HTTP door, which may be another process, or else of gRPC."""
    return base or settings.public_url.rstrip("/") or interface_of(settings, grpc).url


def old_interface_of(settings: Settings, address: Address) -> pb.AgentInterface:
    """The gRPC door for cards of 0.3, which may want a URL. With a proxy in front, `public_url` tells if it has TLS."""
    secure = settings.tls.cert or (settings.public_grpc and settings.public_url.startswith("https:"))
    scheme = f"{'https' if secure else 'http'}://" if settings.legacy.grpc_urls else ""
    url = f"{scheme}{settings.public_grpc or reachable(address)}"
    return pb.AgentInterface(url=url, protocol_binding="GRPC", protocol_version=LEGACY)


def interface_of(settings: Settings, address: Address, tenant: str = "") -> pb.AgentInterface:
    """Where clients find the gRPC door: `host:port`, and no wildcard (CARD-03, CARD-07, CONF-69)."""
    url = settings.public_grpc or str(reachable(address))
    return pb.AgentInterface(url=url, protocol_binding="GRPC", protocol_version="1.0", tenant=tenant)
