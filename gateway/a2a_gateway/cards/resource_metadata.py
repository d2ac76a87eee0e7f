"""Protected Resource Metadata: which authorization servers' tokens the agent accepts (spec: GATE-06; RFC 9728).

It is made from the card, so a gateway in its own process needs no settings for it. A challenge for bearer tokens has
the metadata's URL as this gateway's client sees it; a URL that the upstream put there is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import orjson
from aiohttp import hdrs, web

from a2a_gateway.cards.agent_card import public_card
from a2a_gateway.http.cors import ANYBODY
from a2a_gateway.http.replies import Reply
from a2a_gateway.requests.proxies import Proxies
from a2a_gateway.routing.table import UnknownPath
from a2a_gateway.upstream import Upstream
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.names import CHALLENGE_HEADER, JSON, RESOURCE_METADATA, resource_metadata_url

_BEARER: Final = re.compile(r'(?:^|(?<=, ))Bearer((?: *,? *[a-z_]+="[^"]*")*)(?=,|$)', re.IGNORECASE)
"""The challenge for bearer tokens with its parameters, in a list of challenges."""
_NAMED: Final = re.compile(r'\bresource_metadata="[^"]*"')
_CONNECT: Final = "/.well-known/openid-configuration"
_OAUTH: Final = "/.well-known/oauth-authorization-server"


@dataclass(frozen=True, slots=True)
class ResourcePage:
    """Serves the metadata, and adds its URL to challenges."""

    upstream: Upstream
    proxies: Proxies
    base: str
    """The gateway's URL, unless a trusted proxy reports another."""
    max_age: int

    @property
    def paths(self) -> Iterable[str]:
        """The paths of the page: followed by the path of the public URL, and without it for proxies that remove it."""
        url = resource_metadata_url(self.proxies.public_url or self.base)
        return dict.fromkeys((RESOURCE_METADATA, url[url.index(RESOURCE_METADATA) :]))

    async def __call__(self, request: web.BaseRequest) -> Reply:
        card = await public_card(self.upstream)
        told = None if card is None else resource_metadata(card, self._url(request))
        if told is None:
            raise UnknownPath(f"{request.path} is not served: this agent does not use bearer tokens.")
        fields = [(hdrs.CACHE_CONTROL, f"public, max-age={self.max_age}"), *ANYBODY]
        if self.proxies.vary:  # the document contains its URL
            fields.append((hdrs.VARY, ", ".join(self.proxies.vary)))
        return Reply(orjson.dumps(told), JSON, fields)

    def add_to_challenge(self, request: web.BaseRequest, answer: web.StreamResponse) -> None:
        """Add the metadata's URL to the challenge for bearer tokens, if there is one."""
        if challenge := answer.headers.get(CHALLENGE_HEADER):
            answer.headers[CHALLENGE_HEADER] = with_metadata(challenge, resource_metadata_url(self._url(request)))

    def _url(self, request: web.BaseRequest) -> str:
        return self.proxies.base(request) or self.base


def resource_metadata(card: pb.AgentCard, resource: str) -> dict[str, Any] | None:
    """Return the metadata of a resource; None if it does not accept tokens."""
    schemes = {name: scheme for name, scheme in sorted(card.security_schemes.items()) if _takes_tokens(scheme)}
    if not schemes:
        return None
    told = {
        "resource": resource,
        "authorization_servers": list(dict.fromkeys(filter(None, map(_issuer, schemes.values())))),
        "scopes_supported": _scopes(card, schemes),
        "bearer_methods_supported": ["header"],
        "resource_name": card.name,
        "resource_documentation": card.documentation_url,
    }
    return {name: value for name, value in told.items() if value}


def with_metadata(challenge: str, url: str) -> str:
    """Return a challenge for bearer tokens with this metadata URL, and no other."""
    named = f'resource_metadata="{url}"'
    if _NAMED.search(challenge):
        return _NAMED.sub(lambda _: named, challenge)
    return _BEARER.sub(lambda found: f"{found[0]}{',' if found[1] else ''} {named}", challenge, count=1)


def _takes_tokens(scheme: pb.SecurityScheme) -> bool:
    http = scheme.http_auth_security_scheme.scheme.lower() == "bearer"
    return http or scheme.WhichOneof("scheme") in ("oauth2_security_scheme", "open_id_connect_security_scheme")


def _issuer(scheme: pb.SecurityScheme) -> str:
    """Return the issuer whose metadata URL is in the card; empty if there is none."""
    connect = scheme.open_id_connect_security_scheme.open_id_connect_url
    if connect.endswith(_CONNECT):
        return connect.removesuffix(_CONNECT)
    host, found, path = scheme.oauth2_security_scheme.oauth2_metadata_url.partition(_OAUTH)
    return host + path if found else ""


def _scopes(card: pb.AgentCard, schemes: Mapping[str, pb.SecurityScheme]) -> list[str]:
    """Return the scopes of the OAuth flows, and those that the card requires."""
    found: set[str] = set()
    for scheme in schemes.values():
        flows = scheme.oauth2_security_scheme.flows
        if flow := flows.WhichOneof("flow"):
            found.update(getattr(flows, flow).scopes)
    for requirement in chain(card.security_requirements, *(skill.security_requirements for skill in card.skills)):
        for name in requirement.schemes.keys() & schemes:
            found.update(requirement.schemes[name].list)
    return sorted(found)
