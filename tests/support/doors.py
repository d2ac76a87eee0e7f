"""Every way into a server, each with a stub of the same shape, so that one scenario goes through all of them."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import aiohttp
import grpc

from a2a_gateway.app import STREAM_SLOTS, create_app
from a2a_gateway.cards.agent_card import LegacyCards
from a2a_gateway.channel import ChannelUpstream
from a2a_gateway.dispatcher import GatewayConfig
from a2a_gateway.http.server import HttpDoor
from a2a_gateway.http.stream_slots import StreamSlots
from a2a_gateway.upstream import Upstream
from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, discovery_pb2, discovery_pb2_grpc
from a2a_server.ports.store import Store
from a2a_server.protocol.options import FORWARDED, LEGACY_DEFAULT, ChannelOptions, GatewayOptions, LegacyOptions
from a2a_server.transport.address import Address
from a2a_server.transport.local import LocalUpstream
from a2a_server.transport.pipeline import Pipeline
from tests.support.door_jsonrpc import JsonRpcStub
from tests.support.door_rest import RestStub

Door = Literal["grpc", "rest", "jsonrpc", "rest-far", "jsonrpc-far"]
"""The far ones lead through a gateway that calls the server over gRPC, as one in another process does."""

DOORS: tuple[Door, ...] = get_args(Door)
HTTP = DOORS[1:]

SERVICE = pb.DESCRIPTOR.services_by_name["A2AService"]
DISCOVERY = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"]

_LONG = 256 * 1024
OPTIONS = GatewayOptions(
    forward_headers=(*FORWARDED, "x-user", "x-tenant"),
    max_url_bytes=_LONG,
    max_header_bytes=_LONG,
    max_header_total_bytes=_LONG,
    max_body_bytes=_LONG**2,
)
"""Lets in what `ByHeader` reads, and everything that another door would leave to the pipeline."""

_SMALL = 16 * 1024


@dataclass(frozen=True)
class Client:
    """What a client calls with."""

    stub: Any
    discovery: Any


@dataclass(frozen=True)
class OpenGateway:
    """A gateway that listens."""

    streams: StreamSlots
    door: HttpDoor

    @property
    def port(self) -> int:
        return self.door.port

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def http_door(
    upstream: Upstream, options: GatewayOptions = OPTIONS, *, old: bool | LegacyOptions = False, **chosen: Any
) -> AsyncIterator[OpenGateway]:
    """Serve HTTP for the duration of the block; 0.3 is spoken if `old`, which may say how."""
    door = HttpDoor(Address("127.0.0.1", 0).listen("http"), options)
    cards = LegacyCards(old if isinstance(old, LegacyOptions) else LEGACY_DEFAULT) if old else None
    config = GatewayConfig(base=f"http://127.0.0.1:{door.port}", options=options, legacy_cards=cards, **chosen)
    app = create_app(upstream, config)
    try:
        await door.open(app)
        yield OpenGateway(app[STREAM_SLOTS], door)
    finally:
        await door.close()


@asynccontextmanager
async def upstream_for(
    door: Door, pipeline: Pipeline, store: Store, port: int, *, keep_open_on_input: bool = False
) -> AsyncIterator[Upstream]:
    if not door.endswith("-far"):
        yield LocalUpstream(pipeline, store)
        return
    options = ChannelOptions(addresses=(f"127.0.0.1:{port}",))
    upstream = ChannelUpstream(options, keep_open_on_input=keep_open_on_input)
    try:
        yield upstream
    finally:
        await upstream.close()


@asynccontextmanager
async def client_of(door: Door, *, grpc_port: int, base: str, sluggish: bool = False) -> AsyncIterator[Client]:
    """A client; a sluggish one has the smallest window there is, so that what it does not read stays at the server."""
    if door == "grpc":
        window = (("grpc.http2.lookahead_bytes", _SMALL), ("grpc.http2.bdp_probe", 0)) if sluggish else ()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}", options=window) as channel:
            yield Client(a2a_pb2_grpc.A2AServiceStub(channel), discovery_pb2_grpc.DiscoveryStub(channel))
        return
    async with _session(sluggish=sluggish) as session:
        rest, discovery = (RestStub(session, base, service) for service in (SERVICE, DISCOVERY))
        yield Client(JsonRpcStub(session, base + "/", SERVICE) if door.startswith("jsonrpc") else rest, discovery)


def _session(*, sluggish: bool) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0, socket_factory=_narrow if sluggish else None)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=_SMALL if sluggish else 2**16,
    )


def _narrow(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
    return made
