"""Which door a request's path leads to: REST, JSON-RPC, older versions, pages (design 5; spec: DOOR-03, DOOR-07)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NoReturn

import orjson
from aiohttp import web
from google.protobuf.descriptor import ServiceDescriptor

from a2a_gateway import profiles
from a2a_gateway.calls import Calls, UnfinishedBodies, check_sender
from a2a_gateway.cards.agent_card import Cards, Legacy
from a2a_gateway.http.cors import ANYBODY, Cors
from a2a_gateway.http.long_texts import LongTexts
from a2a_gateway.http.replies import Reply, set_headers
from a2a_gateway.http.stream_slots import StreamSlots
from a2a_gateway.http.streams import EventCache
from a2a_gateway.jsonrpc import JsonRpc
from a2a_gateway.older.draft.doors import DraftDoors
from a2a_gateway.older.v0_3.doors import OldDoors, Place, Refusal
from a2a_gateway.older.v0_3.openapi import OldRoutes
from a2a_gateway.older.v0_3.rest import PREFIX
from a2a_gateway.openapi.document import OpenApiPage
from a2a_gateway.requests.headers import HeaderMap, check_head, is_misframed
from a2a_gateway.requests.proxies import Proxies
from a2a_gateway.rest import Rest
from a2a_gateway.routing.annotations import Area, Root, check_collisions, draft_area, old_areas
from a2a_gateway.routing.table import Table, Unknown, WrongVerb
from a2a_gateway.routing.template import Wild
from a2a_gateway.upstream import Upstream
from a2a_proto import a2a_pb2, discovery_pb2
from a2a_server.protocol.errors import A2AError, ErrorCodes, Reason
from a2a_server.protocol.large import LargeRequests
from a2a_server.protocol.names import JSON
from a2a_server.protocol.options import GatewayOptions

A2A: Final = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
DISCOVERY: Final = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"]

Page = Callable[[web.BaseRequest], Awaitable[Reply]]

_V1: Final = (PREFIX.strip("/"),)

_GET = ("GET", "HEAD", "OPTIONS")
_POST = ("OPTIONS", "POST")
_END_THE_CONNECTION = frozenset({Reason.HEADERS_TOO_LARGE, Reason.URI_TOO_LONG})
_ANY = ("DELETE", "GET", "HEAD", "OPTIONS", "POST")
"""All methods, for `OPTIONS *`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """What can be chosen about a gateway."""

    base: str
    """The URL of the gateway, for the card."""
    public_url: str = ""
    """The URL that clients use when a proxy stands between."""
    options: GatewayOptions = field(default_factory=GatewayOptions)
    codes: ErrorCodes = "1.0.1"
    services: Sequence[ServiceDescriptor] = (A2A,)
    """The services that are served, under the routes of their annotations."""
    tenants: bool = False
    """Whether clients of 0.3 may name a tenant in the path. Which there are is for the upstream to know (TENA-04)."""
    hosts: frozenset[str] | None = None
    """The only names that clients may call it by, beside those of this machine; None = every name will do."""
    legacy_cards: Legacy | None = None
    """How clients of 0.3 are served, and how cards are written for them. Without it 0.3 is not served."""
    documents: Mapping[str, bytes] = field(default_factory=dict)
    """Further pages of JSON by their paths, for anybody to read."""


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
        self._calls = _calls(upstream, config, streams)
        self._table = Table.of([*config.services, DISCOVERY])
        self._rest = Rest(self._calls, self._table)
        self._old_doors = OldDoors(self._calls, legacy, tenants=config.tenants) if legacy is not None else None
        self._draft = DraftDoors(self._calls, options.draft_path) if "draft" in options.profiles else None
        roots: Sequence[Root] = (_V1, (Wild.ONE, *_V1)) if config.tenants else (_V1,)
        self._own = Rest(self._calls, self._table.under(roots))
        """Serves the routes that services themselves have below the paths of 0.3."""
        self._draft_path = (options.draft_path,) if self._draft is not None else ()
        self._jsonrpc = JsonRpc.of(self._calls, config.services, self._old_doors.jsonrpc if self._old_doors else None)
        old_routes = [OldRoutes(self._old_doors.table)] if self._old_doors is not None else ()
        self._pages: dict[str, Page] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            **{path: partial(_shown, document) for path, document in config.documents.items()},
            "/openapi.json": OpenApiPage(self._calls, self._table, old_routes),
        }
        self._fixed: dict[str, Sequence[str]] = {**dict.fromkeys(self._pages, _GET), "/": _POST, "*": _ANY}
        check_collisions(self._table.routes, self._fixed, self._areas(roots, options.draft_path))

    def _areas(self, roots: Sequence[Root], draft_path: str) -> Sequence[Area]:
        """The paths that belong to older versions."""
        old = old_areas(self._old_doors.table.routes, roots) if self._old_doors is not None else ()
        return [*old, draft_area(draft_path)] if self._draft is not None else [*old]

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer one request. Errors are raised."""
        check_head(request, self._options)
        check_sender(request, self._hosts, self._cors.allows)
        path, query = self._target(request)
        verb = request.method
        if verb == "OPTIONS":
            return self._cors.preflight(request, self._verbs(path), public=self._is_public(path))
        if path == "/":
            return await self._jsonrpc(request, query) if verb == "POST" else _refuse(_POST)
        if (page := self._pages.get(path)) is not None:
            return await page(request) if verb in _GET else _refuse(_GET)
        if (PREFIX in path or path.startswith(self._draft_path)) and (place := self._place(path)) is not None:
            return await place.serve(request, query)
        try:
            return await self._rest(request, query, path)
        except Unknown as unknown:
            nowhere = unknown
        if (place := self._place(path)) is None:  # the root of a tenant of 0.3, or a card of 0.2
            raise nowhere
        return await place.serve(request, query)

    def refused(self, request: web.Request, error: Exception) -> Reply:
        """Answer an error in the form of the version to which the path belongs."""
        path, _ = self._target(request)
        answer = self._refusal(request, path, error)(request, error)
        if self._is_public(path):
            set_headers(answer, ANYBODY)
        if is_misframed(request) or (isinstance(error, A2AError) and error.reason in _END_THE_CONNECTION):
            answer.force_close()
        return answer

    def _target(self, request: web.Request) -> tuple[str, str]:
        """The path below that of the application, and the query."""
        path, _, query = request.raw_path.partition("?")
        if not path.startswith("/") and path != "*":  # the absolute form, as proxies send it
            path = request.rel_url.raw_path or "/"
        return (path.removeprefix(self.prefix) or "/") if self.prefix else path, query

    def _place(self, path: str) -> Place | None:
        """What is served at a path that belongs to an older version: its door, or the route of a service.

        Where they are not served it is nobody's tenant all the same (CONF-49).
        """
        if self._draft is not None and (place := self._draft.at(path)) is not None:
            return place
        if PREFIX not in path and (path in self._fixed or self._table.has(path)):
            return None
        old = self._old_doors.at(path) if self._old_doors is not None else None
        if PREFIX in path and (path.startswith(PREFIX) if old is None else self._own.table.has(path)):
            return Place(partial(self._own, path=path), self._own.refusal, partial(self._own.table.verbs, path))
        return old

    def _refusal(self, request: web.BaseRequest, path: str, error: Exception) -> Refusal:
        """What writes an error in the form of the version to which a path belongs, or seems to belong."""
        if path == "/" and request.method == "POST":
            return self._jsonrpc.refusal
        if (place := self._place(path)) is not None:
            return place.refusal
        if self._old_doors is not None and isinstance(error, Unknown) and self._old_doors.is_meant(path):
            return self._old_doors.refusal
        return self._rest.refusal

    def _is_public(self, path: str) -> bool:
        """Whether any page may read what is there (CONF-77)."""
        if (place := self._place(path)) is not None:
            return place.is_public()
        return self._table.is_public(path)

    def _verbs(self, path: str) -> Sequence[str]:
        if (verbs := self._fixed.get(path)) is not None:
            return verbs
        if (place := self._place(path)) is not None:
            return place.verbs()
        return self._table.verbs(path)

    async def _healthz(self, _: web.BaseRequest) -> Reply:
        """Alive: the process answers."""
        return _told({"status": "alive"})

    async def _readyz(self, _: web.BaseRequest) -> Reply:
        """Ready: calls would be served now."""
        if await self._upstream.ready():
            return _told({"status": "ready"})
        raise A2AError(Reason.UNAVAILABLE, "Calls would not be served now.", retry_after=1)


def _refuse(verbs: Sequence[str]) -> NoReturn:
    raise WrongVerb(verbs)


async def _shown(document: bytes, _: web.BaseRequest) -> Reply:
    return Reply(document, JSON, [("Cache-Control", "public, max-age=300")])


def _told(value: object) -> Reply:
    return Reply(orjson.dumps(value), JSON)


def _calls(upstream: Upstream, config: GatewayConfig, streams: StreamSlots) -> Calls:
    options = config.options
    proxies = Proxies(options.trusted_proxies, config.public_url, prefix=options.forwarded_prefix)
    cards = Cards(
        base=config.base,
        max_age=options.card_max_age,
        others=options.upstream_doors,
        form=options.card_form,
        legacy=config.legacy_cards,
        tenants=config.tenants,
        vary=proxies.vary,
    )
    return Calls(
        upstream=upstream,
        options=options,
        profile=replace(profiles.V1, codes=config.codes),
        header_map=HeaderMap(options.forward_headers, options.forward_well_known),
        proxies=proxies,
        streams=streams,
        cards=cards,
        events=EventCache(profiles.V1.codec, profiles.V1.last, LongTexts()),
        bodies=UnfinishedBodies(options.max_unfinished_bytes),
        large=LargeRequests(),
    )
