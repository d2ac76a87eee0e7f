"""Where an agent is reached: 0.3 has one main URL and others beside (spec: LCRD-02 to LCRD-04, CONF-46, CONF-69)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.v0_3.options import Options

LEGACY_VERSION: Final = "0.3"
CARD_VERSION: Final = "0.3.0"
"""What 0.3 cards call it: with a patch, which 1.0 never writes (CONF-17)."""

_IMPLIED_TRANSPORT: Final = "JSONRPC"
_IS_LEGACY: Final = re.compile(r"0\.3(\.\d+)?").fullmatch
_VERSION: Final = re.compile(r"(\d+\.\d+)(\.\d+)?").fullmatch


class Door(NamedTuple):
    url: str
    transport: str


def upgrade(card: pb.AgentCard, legacy: v03.AgentCard) -> None:
    """List the main interface first, and none twice."""
    match = _VERSION(legacy.protocol_version)
    version = match[1] if match else legacy.protocol_version or LEGACY_VERSION
    main = Door(legacy.url, legacy.preferred_transport or _IMPLIED_TRANSPORT)
    more = [Door(interface.url, interface.transport) for interface in legacy.additional_interfaces]
    for url, transport in dict.fromkeys([main, *more] if main.url else more):
        card.supported_interfaces.add(url=url, protocol_binding=transport, protocol_version=version)


def downgrade(legacy: v03.AgentCard, card: pb.AgentCard, options: Options) -> None:
    """Name the interfaces that speak 0.3, in order of preference."""
    doors = _without_conflicts(_doors(card, options))
    if not doors:
        raise A2AError(Reason.VERSION_NOT_SUPPORTED, f"This agent has no interface that speaks A2A {LEGACY_VERSION}.")
    legacy.protocol_version = CARD_VERSION
    legacy.url, legacy.preferred_transport = doors[0]
    for url, transport in doors:
        legacy.additional_interfaces.add(url=url, transport=transport)


def _doors(card: pb.AgentCard, options: Options) -> Iterable[Door]:
    for interface in card.supported_interfaces:
        if _IS_LEGACY(interface.protocol_version):
            yield Door(_address(interface, options), interface.protocol_binding)


def _address(interface: pb.AgentInterface, options: Options) -> str:
    bare = options.grpc_urls and interface.protocol_binding == "GRPC" and "://" not in interface.url
    return f"{'https' if options.grpc_tls else 'http'}://{interface.url}" if bare else interface.url


def _without_conflicts(doors: Iterable[Door]) -> Sequence[Door]:
    """One URL has one transport: the one that is preferred (LCRD-04)."""
    chosen: dict[str, Door] = {}
    for door in doors:
        chosen.setdefault(door.url, door)
    return [*chosen.values()]
