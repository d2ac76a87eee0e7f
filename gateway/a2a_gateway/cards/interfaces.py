"""The interfaces that a gateway lists in a card, and what interfaces say about a card (CARD-03, LCRD-04, TENA-04)."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import major_minor
from a2a_server.protocol.names import CURRENT, DRAFT, LEGACY

BINDINGS = ("HTTP+JSON", "JSONRPC")


def tenants_of(card: pb.AgentCard, asked: str) -> Collection[str]:
    """Return the tenants of a card: those of its interfaces, or else the one that the client asked for.

    Interfaces of 0.3 do not count, because their tenants are part of the URLs.
    """
    return dict.fromkeys(door.tenant for door in card.supported_interfaces if not is_old(door)) or (asked,)


def names_tenant(card: pb.AgentCard) -> bool:
    """Whether a card is, or may be, for a tenant. Interfaces of 0.3 have the tenant in the URL, which is not parsed.

    Such a card is not remembered: a modification date or a faster answer would reveal that somebody has asked for it
    before, and so that the tenant exists (TENA-04).
    """
    doors = card.supported_interfaces
    return any(door.tenant for door in doors) or (bool(doors) and all(map(is_old, doors)))


def doors_at(base: str, tenant: str = "", version: str = CURRENT) -> list[pb.AgentInterface]:
    base = base.rstrip("/")
    return [
        pb.AgentInterface(url=base, protocol_binding="HTTP+JSON", protocol_version=version, tenant=tenant),
        pb.AgentInterface(url=base + "/", protocol_binding="JSONRPC", protocol_version=version, tenant=tenant),
    ]


def draft_doors_at(base: str, path: str, tenant: str = "") -> list[pb.AgentInterface]:
    """Return the interfaces below the draft's path. If that is `/`, JSON-RPC is at `/v1`, as `/` is 1.0's (CONF-49)."""
    base = base.rstrip("/")
    (rest, _), (_, jsonrpc) = (doors_at(base + at, tenant, DRAFT) for at in (path, "/v1" if path == "/" else path))
    return [rest, jsonrpc]


def old_doors_at(base: str, tenant: str = "") -> list[pb.AgentInterface]:
    """Return JSON-RPC first, the only binding of 0.2 (CONF-48). The slash makes the two URLs differ (LCRD-04)."""
    base = f"{base.rstrip('/')}/{quote(tenant, safe='')}".rstrip("/")
    return [
        pb.AgentInterface(url=base + "/", protocol_binding="JSONRPC", protocol_version=LEGACY),
        pb.AgentInterface(url=base, protocol_binding="HTTP+JSON", protocol_version=LEGACY),
    ]


def is_old(door: pb.AgentInterface) -> bool:
    """Whether an interface speaks 0.3; the patch number does not matter (VERS-04)."""
    return major_minor(door.protocol_version) == LEGACY


def is_http(door: pb.AgentInterface) -> bool:
    return door.protocol_binding in BINDINGS
