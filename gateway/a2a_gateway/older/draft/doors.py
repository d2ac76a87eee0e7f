"""Where the draft is served: under one path, which nothing else has (spec: DRFT-01, CONF-49, CONF-70)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from aiohttp import web

from a2a_gateway.calls import Calls
from a2a_gateway.cards.agent_card import CardWriter
from a2a_gateway.http.streams import EventCache
from a2a_gateway.older.draft import routes
from a2a_gateway.older.draft.cards import CARDS, OwnDoors
from a2a_gateway.older.draft.jsonrpc import DraftJsonRpc
from a2a_gateway.older.draft.profile import PROFILE
from a2a_gateway.older.draft.respelling import RULES
from a2a_gateway.older.draft.rest import DraftRest
from a2a_gateway.older.v0_3.doors import Place
from a2a_gateway.older.v0_3.speech import Speech
from a2a_gateway.routing.table import WrongVerb
from a2a_server.protocol.dialects import draft_cards

_POST: Final = ("OPTIONS", "POST")


class DraftDoors:
    """REST and JSON-RPC of the draft."""

    def __init__(self, calls: Calls, path: str) -> None:
        speaking = replace(calls, profile=PROFILE, events=EventCache(PROFILE.codec, PROFILE.last))
        card = OwnDoors(path)
        speech = Speech(speaking, RULES, CardWriter(draft_cards.written), dict.fromkeys(CARDS, card))
        self._path = path
        self._jsonrpc = DraftJsonRpc(speech)
        self._rest = DraftRest(speech, routes.table())

    def at(self, path: str) -> Place | None:
        """What the draft has at a path; None if that is none of its own."""
        if path in {self._path, f"{self._path}/"}:
            return Place(self._call, self._rest.refusal, lambda: _POST)
        if not path.startswith(f"{self._path}/"):
            return None
        inner = path.removeprefix(self._path)
        serve = partial(self._serve, path=inner)
        return Place(serve, self._rest.refusal, partial(self._rest.verbs, inner), partial(self._rest.is_public, inner))

    async def _serve(self, request: web.BaseRequest, query: str, path: str) -> web.StreamResponse:
        return await self._rest(request, path, query)

    async def _call(self, request: web.BaseRequest, query: str) -> web.StreamResponse:
        if request.method != "POST":
            raise WrongVerb(_POST)
        return await self._jsonrpc(request, query)
