"""Reads agent cards of 0.3 and 0.2 as cards of 1.0 (spec: LCRD, LOLD; wire-0.3 5, 7 and 8).

Signatures stay behind: they cover the form that was signed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import major_minor
from a2a_server.protocol.names import LEGACY
from a2a_server.protocol.v0_3.cards import PROTO, TYPES, carry
from a2a_server.protocol.v0_3.configs import JsonObject

_ELSEWHERE: Final = (
    *("url", "preferred_transport", "additional_interfaces", "protocol_version", "security", "signatures"),
    *("supports_authenticated_extended_card", "icon_url"),
)
"""Members that have other numbers in 1.0, or none."""
_KINDS: Final = {kind: member for member, kind in TYPES.items()}


def upgrade_card(legacy: v03.AgentCard) -> pb.AgentCard:
    """Make the form of 1.0. An interface that names no transport speaks JSON-RPC, the only one until 0.2.4."""
    alike = v03.AgentCard()
    alike.CopyFrom(legacy)
    for member in _ELSEWHERE:
        alike.ClearField(member)
    card = pb.AgentCard()
    carry(alike, card)
    if legacy.icon_url:
        card.icon_url = legacy.icon_url
    if legacy.supports_authenticated_extended_card:
        card.capabilities.extended_agent_card = True
    card.capabilities.SetInParent()
    for requirement in legacy.security:
        carry(requirement, card.security_requirements.add())
    for url, transport in dict.fromkeys(_interfaces(legacy)):
        card.supported_interfaces.add(url=url, protocol_binding=transport, protocol_version=LEGACY)
    return card


def _interfaces(legacy: v03.AgentCard) -> Iterator[tuple[str, str]]:
    if legacy.url:
        yield legacy.url, legacy.preferred_transport or "JSONRPC"
    for interface in legacy.additional_interfaces:
        yield interface.url, interface.transport


def is_old(document: Mapping[str, Any]) -> bool:
    """Whether the JSON of a card is that of 0.3 or 0.2, which have one main URL; cards may be both, and are 1.0's."""
    return "supportedInterfaces" not in document and "supported_interfaces" not in document and "url" in document


def read_card(document: JsonObject) -> pb.AgentCard:
    """Read the JSON of 0.3's schema. Raises A2AError with what is wrong; unknown members are ignored."""
    spelt = {name: value for name, value in document.items() if name not in {"signatures", "protocolVersion"}}
    shaped = spelt | _with_security(spelt)
    if isinstance(schemes := spelt.get("securitySchemes"), dict):
        shaped["securitySchemes"] = dict(_schemes(schemes))
    if isinstance(skills := spelt.get("skills"), list):
        shaped["skills"] = [skill | _with_security(skill) if isinstance(skill, dict) else skill for skill in skills]
    return upgrade_card(PROTO.decode(shaped, v03.AgentCard))


def version_of(document: Mapping[str, Any]) -> str:
    """Return the version that the card of a server of 0.3 names; 0.2 is spoken as 0.3."""
    return major_minor(str(document.get("protocolVersion") or LEGACY))


def _with_security(holder: JsonObject) -> JsonObject:
    """Spell `security`, alternatives of scheme → scopes, as the proto does."""
    asked = holder.get("security")
    if not isinstance(asked, list):
        return {}
    alternatives = [one for one in asked if isinstance(one, dict)]
    return {"security": [{"schemes": {name: {"list": it} for name, it in one.items()}} for one in alternatives]}


def _schemes(schemes: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Spell schemes as the proto does. A scheme of an unknown type is left out; 1.0 has one flow for each scheme."""
    for name, scheme in schemes.items():
        member = _KINDS.get(str(scheme.get("type"))) if isinstance(scheme, dict) else None
        if member is None:
            continue
        held = {"location" if key == "in" else key: value for key, value in scheme.items() if key != "type"}
        flows = held.get("flows")
        if not isinstance(flows, dict) or len(flows) < 2:  # noqa: PLR2004 - several
            yield name, {member: held}
            continue
        for number, (flow, details) in enumerate(flows.items()):
            yield f"{name}-{flow}" if number else name, {member: held | {"flows": {flow: details}}}
