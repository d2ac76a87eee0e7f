"""Agent cards for clients of 0.3: one main URL and others beside it, and JSON as 0.3's schema has it.

Serves LCRD, CONF-40 to -42, -46 to -48, -68 and -69; wire-0.3 4 and 5.
Signatures stay behind: they are computed over one form, and would be wrong over the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec import Codec, Dialect
from a2a_server.protocol.errors import A2AError, Reason, major_minor
from a2a_server.protocol.names import LEGACY
from a2a_server.protocol.options import LEGACY_DEFAULT, LegacyOptions
from a2a_server.protocol.spellings import is_required_by_1_0
from a2a_server.protocol.v0_3.configs import JsonObject

_CARD_VERSION: Final = "0.3.0"
"""What 0.3 cards call it: with a patch, which 1.0 never writes (CONF-17)."""


_ELSEWHERE: Final = "supported_interfaces", "security_requirements", "signatures", "icon_url"
"""Members of a card that have other numbers in 0.3, or other types."""


def downgrade(card: pb.AgentCard, options: LegacyOptions = LEGACY_DEFAULT) -> v03.AgentCard:
    """Make the 0.3 form; VERSION_NOT_SUPPORTED if no interface speaks it."""
    alike = pb.AgentCard()
    alike.CopyFrom(card)
    for member in _ELSEWHERE:
        alike.ClearField(member)
    legacy = v03.AgentCard()
    carry(alike, legacy)
    legacy.capabilities.SetInParent()  # 0.3 requires them
    legacy.icon_url = card.icon_url
    legacy.supports_authenticated_extended_card = card.capabilities.extended_agent_card
    _add_interfaces(legacy, card, options)
    for requirement in card.security_requirements:
        carry(requirement, legacy.security.add())
    return legacy


def carry(source: Message, target: Message) -> None:
    """Copy a message that has the same members under the same numbers in both versions, as bytes.

    What only one version knows (PKCE, the device flow) is an unknown field of the other, and discarded. The empty
    `target` is present afterwards even if `source` is empty.
    """
    known = type(source)()
    known.CopyFrom(source)
    known.DiscardUnknownFields()  # they would get a meaning
    target.MergeFromString(known.SerializeToString())  # of nothing, too, which makes it present
    target.DiscardUnknownFields()


def _add_interfaces(legacy: v03.AgentCard, card: pb.AgentCard, options: LegacyOptions) -> None:
    """Name the interfaces that speak 0.3, in order of preference; of two with one URL the first (LCRD-04)."""
    doors: dict[str, str] = {}
    for url, transport in _interfaces(card, options):
        doors.setdefault(url, transport)
    if not doors:
        raise A2AError(Reason.VERSION_NOT_SUPPORTED, "This agent has no interface that speaks A2A 0.3.")
    legacy.protocol_version = _CARD_VERSION
    legacy.url, legacy.preferred_transport = next(iter(doors.items()))
    for url, transport in doors.items():
        legacy.additional_interfaces.add(url=url, transport=transport)


def _interfaces(card: pb.AgentCard, options: LegacyOptions) -> Iterable[tuple[str, str]]:
    for interface in card.supported_interfaces:
        if major_minor(interface.protocol_version) == LEGACY:
            bare = options.grpc_urls and interface.protocol_binding == "GRPC" and "://" not in interface.url
            yield f"https://{interface.url}" if bare else interface.url, interface.protocol_binding


# -- JSON, as the schema has it, made of ProtoJSON

_ALWAYS: Final = {
    *("a2a.v1.AgentCard.protocol_version", "a2a.v1.AgentCard.url", "a2a.v1.AgentCard.preferred_transport"),
    "a2a.v1.AgentCard.supports_authenticated_extended_card",
    *("a2a.v1.AgentCapabilities.streaming", "a2a.v1.AgentCapabilities.push_notifications"),
    *("a2a.v1.AgentExtension.uri", "a2a.v1.AgentInterface.transport", "a2a.v1.StringList.list"),
    *("a2a.v1.ImplicitOAuthFlow.authorization_url", "a2a.v1.ImplicitOAuthFlow.scopes"),
    *("a2a.v1.PasswordOAuthFlow.token_url", "a2a.v1.PasswordOAuthFlow.scopes"),
}
"""What the schema requires beside what 1.0 does, or says about every agent."""

TYPES: Final = {
    "apiKeySecurityScheme": "apiKey",
    "httpAuthSecurityScheme": "http",
    "oauth2SecurityScheme": "oauth2",
    "openIdConnectSecurityScheme": "openIdConnect",
    "mtlsSecurityScheme": "mutualTLS",
}

OLD_CAPABILITIES: Final[JsonObject] = {"stateTransitionHistory": False}
"""What only 0.3 has; no server keeps such a history (CONF-47)."""

PROTO: Final = Codec(
    Dialect(always=lambda field: is_required_by_1_0(field) or field.full_name in _ALWAYS, ordered=True)
)
"""ProtoJSON of the 0.3 message, with all that the schema requires."""


def in_schema(card: JsonObject) -> JsonObject:
    """Spell a whole card, which `PROTO` has written, as the schema does."""
    shown = _with_security(card)
    shown["capabilities"] = card["capabilities"] | OLD_CAPABILITIES
    shown["skills"] = [_with_security(skill) for skill in card["skills"]]
    if "securitySchemes" in card:
        shown["securitySchemes"] = schemes(card["securitySchemes"])
    return shown


def schemes(wrapped: JsonObject) -> JsonObject:
    """Spell security schemes as the schema does; those of 1.0 differ only in what they may hold."""
    return {name: _scheme(scheme) for name, scheme in wrapped.items() if scheme}


def _scheme(wrapped: JsonObject) -> JsonObject:
    [(kind, scheme)] = wrapped.items()
    renamed = {"in" if name == "location" else name: value for name, value in scheme.items()}
    return {"type": TYPES[kind]} | renamed


def _with_security(holder: JsonObject) -> JsonObject:
    """Spell `security`, if there is any, as alternatives of scheme → scopes."""
    if "security" not in holder:
        return dict(holder)
    return holder | {"security": [_scopes(security) for security in holder["security"]]}


def _scopes(security: JsonObject) -> JsonObject:
    return {name: scopes["list"] for name, scopes in security.get("schemes", {}).items()}


def superset(card: Mapping[str, object], legacy: Mapping[str, object]) -> dict[str, object]:
    """Join the JSON of a card's 1.0 form and of its 0.3 form, for readers who asked for no version (CONF-42, CONF-68).

    No member means different things in the two, so every object gets the members of both, skills and security schemes
    included; where both have a value, it is 1.0's that stands.
    """
    joined = {name: _join(value, legacy[name]) if name in legacy else value for name, value in card.items()}
    return joined | {name: value for name, value in legacy.items() if name not in card}


def _join(value: object, legacy: object) -> object:
    if isinstance(value, Mapping) and isinstance(legacy, Mapping):
        return superset(value, legacy)
    if isinstance(value, list) and isinstance(legacy, list) and len(value) == len(legacy):
        return [_join(one, other) for one, other in zip(value, legacy, strict=True)]
    return value
