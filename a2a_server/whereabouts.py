"""Where clients find the doors, as the settings and the sockets have it (spec: CARD-03, CARD-07, CONF-69)."""

from __future__ import annotations

import socket

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.names import LEGACY
from a2a_server.settings import Settings
from a2a_server.transport.grpc.address import Address

WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - to be recognised


def base_of(settings: Settings, address: Address) -> str:
    """Say where clients find the HTTP door (CARD-03, CARD-07, DOOR-05)."""
    scheme = "https" if settings.tls.cert else "http"
    return settings.public_url.rstrip("/") or f"{scheme}://{reachable(address)}"


def issuer_of(settings: Settings, base: str, grpc: Address) -> str:
    """Say who signs webhooks: what receivers know the server by, also where its HTTP door is another process."""
    return base or settings.public_url.rstrip("/") or interface_of(settings, grpc).url


def reachable(address: Address) -> Address:
    """A wildcard is nowhere that a client could go."""
    return Address(socket.gethostname(), address.port) if address.host in WILDCARDS else address


def old_interface_of(settings: Settings, address: Address) -> pb.AgentInterface:
    """0.3 writes the address of the gRPC door as a URL; what a proxy in front of it speaks, `public_url` tells."""
    secure = settings.tls.cert or (settings.public_grpc and settings.public_url.startswith("https:"))
    scheme = f"{'https' if secure else 'http'}://" if settings.legacy.grpc_urls else ""
    url = f"{scheme}{settings.public_grpc or reachable(address)}"
    return pb.AgentInterface(url=url, protocol_binding="GRPC", protocol_version=LEGACY)


def interface_of(settings: Settings, address: Address, tenant: str = "") -> pb.AgentInterface:
    """Say where clients find the gRPC door: `host:port`, and no wildcard (CARD-03, CARD-07, CONF-69)."""
    url = settings.public_grpc or str(reachable(address))
    return pb.AgentInterface(url=url, protocol_binding="GRPC", protocol_version="1.0", tenant=tenant)
