"""The agent card as 0.3's JSON schema has it, made of its ProtoJSON (spec: LCRD; wire-0.3 4, 5; CONF-41, -47, -48)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from a2a_server.protocol.codec import Codec, Dialect

Json = dict[str, Any]

_REQUIRED: Final[Mapping[str, frozenset[str]]] = {
    "AgentCard": frozenset(
        (
            *("protocol_version", "name", "description", "url", "preferred_transport", "version", "capabilities"),
            *("default_input_modes", "default_output_modes", "skills", "supports_authenticated_extended_card"),
        )
    ),
    "AgentCapabilities": frozenset({"streaming", "push_notifications"}),
    "AgentCardSignature": frozenset({"protected", "signature"}),
    "AgentExtension": frozenset({"uri"}),
    "AgentInterface": frozenset({"url", "transport"}),
    "AgentProvider": frozenset({"organization", "url"}),
    "AgentSkill": frozenset({"id", "name", "description", "tags"}),
    "APIKeySecurityScheme": frozenset({"location", "name"}),
    "HTTPAuthSecurityScheme": frozenset({"scheme"}),
    "OAuth2SecurityScheme": frozenset({"flows"}),
    "OpenIdConnectSecurityScheme": frozenset({"open_id_connect_url"}),
    "AuthorizationCodeOAuthFlow": frozenset({"authorization_url", "token_url", "scopes"}),
    "ClientCredentialsOAuthFlow": frozenset({"token_url", "scopes"}),
    "ImplicitOAuthFlow": frozenset({"authorization_url", "scopes"}),
    "PasswordOAuthFlow": frozenset({"token_url", "scopes"}),
    "StringList": frozenset({"list"}),
}
"""What the schema requires, or says about every agent. The proto has hardly any such mark."""

_TYPES: Final = {
    "apiKeySecurityScheme": "apiKey",
    "httpAuthSecurityScheme": "http",
    "oauth2SecurityScheme": "oauth2",
    "openIdConnectSecurityScheme": "openIdConnect",
    "mtlsSecurityScheme": "mutualTLS",
}

OLD_CAPABILITIES: Final[Json] = {"stateTransitionHistory": False}
"""What only 0.3 has; no server keeps such a history (CONF-47)."""


def _is_required(field: FieldDescriptor) -> bool:
    kind = field.containing_type
    return kind is not None and field.name in _REQUIRED.get(kind.name, ())


PROTO: Final = Codec(Dialect(always=_is_required, ordered=True))
"""ProtoJSON of the 0.3 message, with all that the schema requires."""


def in_schema(card: Json) -> Json:
    """Spell a whole card, which `PROTO` has written, as the schema does."""
    shown = _with_security(card)
    shown["capabilities"] = card["capabilities"] | OLD_CAPABILITIES
    shown["skills"] = [_with_security(skill) for skill in card["skills"]]
    if "securitySchemes" in card:
        shown["securitySchemes"] = schemes(card["securitySchemes"])
    return shown


def schemes(wrapped: Json) -> Json:
    """Spell security schemes as the schema does; those of 1.0 differ only in what they may hold."""
    return {name: _scheme(scheme) for name, scheme in wrapped.items() if scheme}


def _scheme(wrapped: Json) -> Json:
    [(kind, scheme)] = wrapped.items()
    renamed = {"in" if name == "location" else name: value for name, value in scheme.items()}
    return {"type": _TYPES[kind]} | renamed


def _with_security(holder: Json) -> Json:
    """Spell `security`, if there is any, as alternatives of scheme → scopes."""
    if "security" not in holder:
        return dict(holder)
    return holder | {"security": [_scopes(security) for security in holder["security"]]}


def _scopes(security: Json) -> Json:
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
