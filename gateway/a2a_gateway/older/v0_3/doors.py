"""Where 0.3 is served beside 1.0: under /v1, and behind the tenants that the settings name (LRES-01, CONF-50)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

from aiohttp import web

from a2a_gateway.calls import Calls
from a2a_gateway.cards.agent_card import Legacy
from a2a_gateway.http.replies import Reply
from a2a_gateway.older.v0_3 import rest, speeches
from a2a_gateway.older.v0_3.jsonrpc import OldJsonRpc
from a2a_gateway.older.v0_3.rest import OldRest
from a2a_gateway.routing.table import WrongVerb

_POST = ("OPTIONS", "POST")
_OF_TENANTS = re.compile(rf"/(?!tasks/)[^/]+{rest.PREFIX}.*").fullmatch
"""Behind /tasks/ are those of 1.0, whose task may well be called v1."""


class Place(NamedTuple):
    """What is served at a path."""

    serve: Callable[[web.BaseRequest, str], Awaitable[web.StreamResponse]]
    """Answers a request that has this query; what is wrong with it is raised, and `refusal` says it."""
    refusal: Callable[[web.BaseRequest, Exception], Reply]
    verbs: Callable[[], Sequence[str]]
    """What it answers to; none, if there is nothing."""
    is_public: Callable[[], bool] = lambda: False
    """Whether any page may read what is there (CONF-77)."""


class OldDoors:
    """REST and JSON-RPC of 0.3."""

    def __init__(
        self, calls: Calls, cards: Legacy, *, tenants: Iterable[str] = (), waits: bool = True, raw_files: bool = False
    ) -> None:
        """`waits`: what sends do that say nothing of it. `raw_files`: for JavaScript's clients (CONF-66)."""
        self.jsonrpc = OldJsonRpc(speeches.jsonrpc(calls, cards, waits=waits))
        """Serves at the URL of 1.0, too."""
        spellings = speeches.rest(calls, cards, waits=waits, raw_files=raw_files)
        self.table = rest.routes()
        self._rest = OldRest(spellings, calls.options.legacy_json, self.table)
        self._tenants = {f"/{quote(tenant, safe='')}": tenant for tenant in tenants}
        self.prefixes = (rest.PREFIX, *(f"{root}/" for root in self._tenants))
        """The beginnings of all its paths, and of some others; JSON-RPC has the roots of tenants, too."""
        self.refusal = self._rest.refusal

    def at(self, path: str) -> Place | None:
        """What 0.3 has at a path."""
        if path.startswith(rest.PREFIX):
            return self._place(path, "")
        root = f"/{path[1:].partition('/')[0]}"
        if (tenant := self._tenants.get(root)) is None:
            return None
        inner = path.removeprefix(root)
        if inner in {"", "/"}:  # CONF-70
            serve = partial(self._serve_jsonrpc, tenant=tenant)
            return Place(serve, self._rest.refusal, lambda: _POST)
        return self._place(inner, tenant) if inner.startswith(rest.PREFIX) else None

    def is_meant(self, path: str) -> bool:
        """Whether a path where nothing is looks like one of a tenant's, who then is none."""
        return _OF_TENANTS(path) is not None

    def _place(self, path: str, tenant: str) -> Place:
        async def serve(request: web.BaseRequest, query: str) -> web.StreamResponse:
            return await self._rest(request, path, query, tenant)

        return Place(serve, self._rest.refusal, partial(self._rest.table.verbs, path))

    async def _serve_jsonrpc(self, request: web.BaseRequest, query: str, tenant: str) -> web.StreamResponse:
        if request.method != "POST":
            raise WrongVerb(_POST)
        return await self.jsonrpc(request, query, tenant)
