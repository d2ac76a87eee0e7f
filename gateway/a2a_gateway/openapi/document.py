"""Makes the OpenAPI document, and serves it at `GET /openapi.json` (spec: DOOR-03)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson
from aiohttp import hdrs, web

from a2a_gateway.calls import Calls
from a2a_gateway.cards.agent_card import public_card
from a2a_gateway.http.replies import Reply
from a2a_gateway.openapi.operations import ERROR, PARAMETERS, error_responses, named_operations, operation_of
from a2a_gateway.openapi.parameters import OpenApiPath, path_of
from a2a_gateway.openapi.schemas import Schemas
from a2a_gateway.openapi.security import requirements_of, schemes_of
from a2a_gateway.routing.table import Table
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import ErrorCodes
from a2a_server.protocol.names import JSON

_VERBS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
_OTHER: Final = "x-additional-operations"
"""For custom verbs and `*`, which OpenAPI has since 3.2 only."""

_NO_CARD: Final = {
    "title": "A2A",
    "version": "1.0",
    "description": "The agent's card is not available here, so this document lacks its name and its security schemes.",
}

Addition = Callable[[dict[str, Any], Schemas], None]
"""Adds the routes of other versions to a document."""


def document(
    table: Table,
    *,
    card: pb.AgentCard | None = None,
    server: str = "",
    codes: ErrorCodes = "1.0.1",
    more: Iterable[Addition] = (),
) -> dict[str, Any]:
    """Describe all routes of a table, served at the URL `server`. `card` is the agent's card, if it is known."""
    schemas = Schemas(Error=ERROR)
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": _NO_CARD,
        "paths": _paths(table, schemas, codes),
        "components": {"schemas": schemas.components, "parameters": PARAMETERS, "responses": error_responses(codes)},
    }
    if card is not None:
        title, version = card.name or "A2A", card.version or "1.0"
        described["info"] = {"title": title, "version": version, "description": card.description}
        described["components"]["securitySchemes"] = schemes_of(card)
        described["security"] = requirements_of(card)
    if server:
        described["servers"] = [{"url": server}]
    for add in more:
        add(described, schemas)
    return described


def _paths(table: Table, schemas: Schemas, codes: ErrorCodes) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    # In OpenAPI, paths that differ only in the names of parameters are the same. The names of the first are used.
    shapes: dict[object, OpenApiPath] = {}
    for name, route in named_operations(table):
        template = route.template
        path = shapes.setdefault((template.segments, template.suffix), path_of(route, schemas))
        operation = {"operationId": name, **operation_of(route, path.parameters, schemas, codes)}
        operations = paths.setdefault(path.text, {})
        if route.verb in _VERBS:
            operations[route.verb.lower()] = operation
        else:
            operations.setdefault(_OTHER, {})[route.verb] = operation
    return paths


class OpenApiPage:
    """Serves the document. It is made again only when the card or the URL changes."""

    def __init__(self, calls: Calls, table: Table, more: Sequence[Addition] = ()) -> None:
        self._calls = calls
        self._table = table
        self._more = more
        self._described = lru_cache(maxsize=4)(self._describe)
        self._fields = [(hdrs.CACHE_CONTROL, f"public, max-age={calls.options.card_max_age}")]
        if calls.proxies.vary:  # the document contains its URL
            self._fields.append((hdrs.VARY, ", ".join(calls.proxies.vary)))

    async def __call__(self, request: web.BaseRequest) -> Reply:
        base = self._calls.proxies.base(request) or self._calls.cards.base
        card = await public_card(self._calls.upstream)
        known = None if card is None else card.SerializeToString(deterministic=True)
        return Reply(self._described(known, base), JSON, () if card is None else self._fields)

    def _describe(self, card: bytes | None, base: str) -> bytes:
        read = None if card is None else pb.AgentCard.FromString(card)
        codes = self._calls.profile.codes
        return orjson.dumps(document(self._table, card=read, server=base, codes=codes, more=self._more))
