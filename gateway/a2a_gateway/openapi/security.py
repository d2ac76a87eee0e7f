"""Describes the security schemes of an agent card in the form of OpenAPI (spec: DOOR-03)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from a2a_proto import a2a_pb2 as pb

T = TypeVar("T")

_UNFIT = re.compile(r"[^A-Za-z0-9._-]")
_FLOWS: Final = {
    "authorization_code": "authorizationCode",
    "client_credentials": "clientCredentials",
    "implicit": "implicit",
    "password": "password",
    "device_code": "x-deviceAuthorization",  # a flow of its own in OpenAPI 3.2
}


def schemes_of(card: pb.AgentCard) -> dict[str, dict[str, Any]]:
    return {_key(name): _scheme(scheme) for name, scheme in _in_order(card.security_schemes)}


def requirements_of(card: pb.AgentCard) -> list[dict[str, list[str]]]:
    """Return what a caller needs: all schemes of any one entry. An entry without schemes admits everyone."""
    return [
        {_key(name): list(scopes.list) for name, scopes in _in_order(requirement.schemes)}
        for requirement in card.security_requirements
    ]


def _in_order(entries: Mapping[str, T]) -> list[tuple[str, T]]:
    """Return the entries of a map by name, because the order of a protobuf map differs between processes."""
    return [(name, entries[name]) for name in sorted(entries)]


def _key(name: str) -> str:
    """Replace the characters that OpenAPI does not allow in a name."""
    return _UNFIT.sub("_", name)


def _scheme(scheme: pb.SecurityScheme) -> dict[str, Any]:
    kind = scheme.WhichOneof("scheme") or "mtls_security_scheme"
    declared = getattr(scheme, kind)
    described = _FORMS[kind](declared)
    return {**described, "description": declared.description} if declared.description else described


def _http(scheme: pb.HTTPAuthSecurityScheme) -> dict[str, Any]:
    form = {"bearerFormat": scheme.bearer_format} if scheme.bearer_format else {}
    return {"type": "http", "scheme": scheme.scheme, **form}


def _flows(flows: pb.OAuthFlows) -> dict[str, Any]:
    kind = flows.WhichOneof("flow")
    if kind is None:
        return {}
    flow = getattr(flows, kind)
    urls = {field.json_name: value for field, value in flow.ListFields() if field.name.endswith("_url")}
    return {_FLOWS[kind]: {**urls, "scopes": dict(_in_order(flow.scopes))}}


_FORMS: Final[Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "api_key_security_scheme": lambda key: {"type": "apiKey", "in": key.location, "name": key.name},
    "http_auth_security_scheme": _http,
    "oauth2_security_scheme": lambda oauth: {"type": "oauth2", "flows": _flows(oauth.flows)},
    "open_id_connect_security_scheme": lambda connect: {
        "type": "openIdConnect",
        "openIdConnectUrl": connect.open_id_connect_url,
    },
    "mtls_security_scheme": lambda _: {"type": "mutualTLS"},
}
