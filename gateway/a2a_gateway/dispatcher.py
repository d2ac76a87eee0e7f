"""Finds what serves a path: REST, JSON-RPC, an older version or a page (design 5; spec: DOOR-03, DOOR-07)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NoReturn

import orjson
from aiohttp import web
from google.protobuf.descriptor import ServiceDescriptor

from a2a_gateway import profiles
from a2a_gateway.calls import Calls
from a2a_gateway.cards.agent_card import Cards, LegacyCards
from a2a_gateway.cards.resource_metadata import ResourcePage
from a2a_gateway.http.backlog import UnfinishedBodies
from a2a_gateway.http.cors import ANYBODY, Cors
from a2a_gateway.http.long_texts import LongTexts
from a2a_gateway.http.replies import Reply, set_headers
from a2a_gateway.http.stream_slots import StreamSlots
from a2a_gateway.http.streams import EventCache
from a2a_gateway.jsonrpc import JsonRpc
from a2a_gateway.older.draft.doors import DraftDoors
from a2a_gateway.older.v0_3.doors import OldDoors, PathHandler, Refusal
from a2a_gateway.older.v0_3.openapi import OldRoutes
from a2a_gateway.older.v0_3.rest import PREFIX
from a2a_gateway.openapi.document import OpenApiPage
from a2a_gateway.requests.api_keys import QueryOrCookieKey
from a2a_gateway.requests.headers import HeaderMap, check_head, check_sender, is_misframed
from a2a_gateway.requests.proxies import Proxies
from a2a_gateway.rest import Rest
from a2a_gateway.routing.annotations import ReservedPaths, Root, check_collisions, reserved_for_draft, reserved_for_v0_3
from a2a_gateway.routing.table import Table, UnknownPath, WrongVerb
from a2a_gateway.routing.template import Wildcard
from a2a_gateway.upstream import Upstream
from a2a_proto import a2a_pb2, discovery_pb2
from a2a_server.protocol.card_doors import CardOptions
from a2a_server.protocol.errors import A2AError, ErrorCodes, Reason
from a2a_server.protocol.large import LargeRequests
from a2a_server.protocol.names import DRAFT, JSON
from a2a_server.protocol.options import GatewayOptions, KeyPlace
from a2a_server.protocol.signed_cards import CardSigner

A2A: Final = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
DISCOVERY: Final = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"]

Page = Callable[[web.BaseRequest], Awaitable[Reply]]

_V1: Final = (PREFIX.strip("/"),)

_GET = ("GET", "HEAD", "OPTIONS")
_POST = ("OPTIONS", "POST")
_END_THE_CONNECTION = frozenset({Reason.HEADERS_TOO_LARGE, Reason.URI_TOO_LONG})
_DENIALS = frozenset({Reason.MISDIRECTED_REQUEST, Reason.PERMISSION_DENIED})
_ANY = ("DELETE", "GET", "HEAD", "OPTIONS", "POST")
"""The answer to `OPTIONS *`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The configuration of a gateway."""

    base: str
    """The URL of the gateway, for the card."""
    public_url: str = ""
    """The URL that clients use if there is a proxy in front."""
    card: CardOptions = field(default_factory=CardOptions)
    """Which interfaces the card lists."""
    card_signer: CardSigner | None = None
    """Signs cards, if there are keys."""
    options: GatewayOptions = field(default_factory=GatewayOptions)
    codes: ErrorCodes = "1.0.1"
    services: Sequence[ServiceDescriptor] = (A2A,)
    """The services that are served, at the routes of their annotations."""
    tenants: bool = False
    """Whether clients of 0.3 may name a tenant in the path. Only the upstream knows which tenants exist (TENA-04)."""
    keys: KeyPlace | None = None
    """Where API keys are, if they are in the query or a cookie."""
    hosts: frozenset[str] | None = None
    """The names that the Host header may have, besides those of this machine; None = any name."""
    legacy_cards: LegacyCards | None = None
    """Writes cards for clients of 0.3, and has the options for serving them; None = 0.3 is not served."""
    identity_headers: Sequence[str] = ()
    """Headers in which trusted proxies name the caller. The upstream decides which proxies it trusts."""
    documents: Mapping[str, bytes] = field(default_factory=dict)
    """More public JSON pages, by their paths."""
    denied: Callable[[str, Reason], None] | None = None
    """Called with the address and the reason when a request is refused for its origin or host."""


class Dispatcher:
    """Answers HTTP requests by calling an upstream."""

    def __init__(self, upstream: Upstream, config: GatewayConfig, streams: StreamSlots, cors: Cors) -> None:
        self.prefix = ""
        """The path under which another application has mounted this one."""
        options, legacy = config.options, config.legacy_cards
        self._upstream = upstream
        self._options = options
        self._cors = cors
        self._hosts = config.hosts
        self._denied = config.denied
        self._hsts = f"max-age={options.hsts}" if options.hsts else ""
        self._always_https = config.public_url.startswith("https:")
        self._calls = _calls(upstream, config, streams)
        self._table = Table.of([*config.services, DISCOVERY])
        self._rest = Rest(self._calls, self._table)
        self._old_doors = OldDoors(self._calls, legacy, tenants=config.tenants) if legacy is not None else None
        self._draft = DraftDoors(self._calls, options.draft_path) if DRAFT in options.profiles else None
        roots: Sequence[Root] = (_V1, (Wildcard.ONE, *_V1)) if config.tenants else (_V1,)
        self._services_below_v1 = Rest(self._calls, self._table.under(roots))
        """Serves the routes of services that are below the paths of 0.3."""
        self._jsonrpc = JsonRpc.of(self._calls, config.services, self._old_doors.jsonrpc if self._old_doors else None)
        self._resource = ResourcePage(upstream, self._calls.proxies, config.base, options.card_max_age)
        old_routes = [OldRoutes(self._old_doors.table)] if self._old_doors is not None else ()
        self._pages: dict[str, Page] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            **{path: partial(_static_page, document) for path, document in config.documents.items()},
            **dict.fromkeys(self._resource.paths, self._resource),
            "/openapi.json": OpenApiPage(self._calls, self._table, old_routes),
        }
        self._fixed: dict[str, Sequence[str]] = {**dict.fromkeys(self._pages, _GET), "/": _POST, "*": _ANY}
        check_collisions(self._table.routes, self._fixed, self._reserved_paths(roots, options.draft_path))

    def _reserved_paths(self, roots: Sequence[Root], draft_path: str) -> Sequence[ReservedPaths]:
        """Return the paths that belong to older versions."""
        old = reserved_for_v0_3(self._old_doors.table.routes, roots) if self._old_doors is not None else ()
        return [*old, *reserved_for_draft(draft_path)] if self._draft is not None else [*old]

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer one request. Errors are raised."""
        check_head(request, self._options)
        try:
            check_sender(request, self._hosts, self._cors.allows)
        except A2AError as error:
            if self._denied is not None and error.reason in _DENIALS:
                self._denied(self._calls.proxies.client(request), error.reason)
            raise
        path, query = self._target(request)
        verb = request.method
        if verb == "OPTIONS":
            return self._cors.preflight(request, self._verbs(path), public=self._is_public(path))
        if (page := self._pages.get(path)) is not None:
            return await page(request) if verb in _GET else _refuse(_GET)
        if (handler := self._older_handler(request, path, query)) is not None:
            return await handler.serve(request, query)
        if path == "/":
            return await self._jsonrpc(request, query) if verb == "POST" else _refuse(_POST)
        try:
            return await self._rest(request, query, path)
        except UnknownPath as unknown:
            nowhere = unknown
        if (handler := self._handler_at(path)) is None:  # the root of a tenant of 0.3, or a card of 0.2
            raise nowhere
        return await handler.serve(request, query)

    def error_reply(self, request: web.Request, error: Exception) -> Reply:
        """Return the answer for an error, in the form of the version to which the path belongs."""
        path, query = self._target(request)
        answer = self._refusal(request, path, query, error)(request, error)
        if self._is_public(path):
            set_headers(answer, ANYBODY)
        if is_misframed(request) or (isinstance(error, A2AError) and error.reason in _END_THE_CONNECTION):
            answer.force_close()
        return answer

    def hsts(self, request: web.Request) -> str:
        """Return the value of Strict-Transport-Security (SECR-06); empty if the client does not use HTTPS."""
        proxies = self._calls.proxies
        known = self._always_https or request.secure
        return self._hsts if known or (proxies.trusted and proxies.base(request).startswith("https:")) else ""

    def complete_challenge(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Add the URL of the resource metadata to an answer with status 401."""
        self._resource.add_to_challenge(request, answer)

    def _target(self, request: web.Request) -> tuple[str, str]:
        """Return the path inside this application, and the query."""
        path, _, query = request.raw_path.partition("?")
        if not path.startswith("/") and path != "*":  # the absolute form, as proxies send it
            path = request.rel_url.raw_path or "/"
        if self._calls.keys is not None:
            query = self._calls.keys.without_key(query)
        return (path.removeprefix(self.prefix) or "/") if self.prefix else path, query

    def _older_handler(self, request: web.BaseRequest, path: str, query: str) -> PathHandler | None:
        """Return the handler of an older version that takes precedence over 1.0 for this request."""
        if self._draft is not None and (handler := self._draft.at_root(request, path, query) or self._draft.at(path)):
            return handler
        return self._handler_at(path) if PREFIX in path else None

    def _handler_at(self, path: str) -> PathHandler | None:
        """Return the handler of an older version's path: the version's own, or the one of a service's route.

        Even if the older version is not served, its paths are not read as paths of a tenant (CONF-49).
        """
        if self._draft is not None and (handler := self._draft.at(path)) is not None:
            return handler
        if PREFIX not in path and (path in self._fixed or self._table.has(path)):
            return None
        old = self._old_doors.at(path) if self._old_doors is not None else None
        if PREFIX in path and (path.startswith(PREFIX) if old is None else self._services_below_v1.table.has(path)):
            return PathHandler(
                partial(self._services_below_v1, path=path),
                self._services_below_v1.refusal,
                partial(self._services_below_v1.table.verbs, path),
            )
        return old

    def _refusal(self, request: web.BaseRequest, path: str, query: str, error: Exception) -> Refusal:
        """Return the function that writes errors in the form of the version to which a path seems to belong."""
        if (handler := self._older_handler(request, path, query) or self._handler_at(path)) is not None:
            return handler.refusal
        if path == "/" and request.method == "POST":
            return self._jsonrpc.refusal
        if self._old_doors is not None and isinstance(error, UnknownPath) and self._old_doors.looks_like_tenant(path):
            return self._old_doors.refusal
        return self._rest.refusal

    def _is_public(self, path: str) -> bool:
        """Whether any web page may read the answers at a path (CONF-77)."""
        if (handler := self._handler_at(path)) is not None:
            return handler.is_public()
        return self._table.is_public(path)

    def _verbs(self, path: str) -> Sequence[str]:
        if (verbs := self._fixed.get(path)) is not None:
            return verbs
        if (handler := self._handler_at(path)) is not None:
            return handler.verbs()
        return self._table.verbs(path)

    async def _healthz(self, _: web.BaseRequest) -> Reply:
        """Answer that the process is alive."""
        return _json_reply({"status": "alive"})

    async def _readyz(self, _: web.BaseRequest) -> Reply:
        """Answer whether calls would be served now."""
        if await self._upstream.ready():
            return _json_reply({"status": "ready"})
        raise A2AError(Reason.UNAVAILABLE, "Calls would not be served now.", retry_after=1)


def _refuse(verbs: Sequence[str]) -> NoReturn:
    raise WrongVerb(verbs)


async def _static_page(document: bytes, _: web.BaseRequest) -> Reply:
    return Reply(document, JSON, [("Cache-Control", "public, max-age=300")])


def _json_reply(value: object) -> Reply:
    return Reply(orjson.dumps(value), JSON)


def _calls(upstream: Upstream, config: GatewayConfig, streams: StreamSlots) -> Calls:
    options = config.options
    proxies = Proxies(options.trusted_proxies, config.public_url, prefix=options.forwarded_prefix)
    cards = Cards(
        base=config.base,
        max_age=options.card_max_age,
        doors=config.card,
        draft=options.draft_path if DRAFT in options.profiles else None,
        keep_others=options.upstream_doors,
        form=options.card_form,
        legacy=config.legacy_cards,
        tenants=config.tenants,
        vary=proxies.vary,
        signer=config.card_signer,
    )
    return Calls(
        upstream=upstream,
        options=options,
        profile=replace(profiles.V1, codes=config.codes),
        header_map=HeaderMap(options.forward_headers, options.forward_well_known, identity=config.identity_headers),
        proxies=proxies,
        streams=streams,
        cards=cards,
        events=EventCache(profiles.V1.codec, profiles.V1.last, LongTexts()),
        bodies=UnfinishedBodies(options.max_unfinished_bytes),
        large=LargeRequests(),
        keys=None if config.keys is None else QueryOrCookieKey(config.keys),
    )
