"""Where the draft is served: under one path, which nothing else has (spec: DRFT-01, CONF-49, CONF-70)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from aiohttp import web

from gateway.calls import Calls
from gateway.card_forms import Kept
from gateway.dialects import draft_cards
from gateway.draft import routes
from gateway.draft.cards import CARDS, OwnDoors
from gateway.draft.jsonrpc import DraftJsonRpc
from gateway.draft.profile import PROFILE
from gateway.draft.respelling import RULES
from gateway.draft.rest import DraftRest
from gateway.replies import Answering
from gateway.routes import WrongVerb
from gateway.streams import Writings
from gateway.v0_3.doors import Place
from gateway.v0_3.speech import Speech

_POST: Final = ("OPTIONS", "POST")


class DraftDoors:
    """REST and JSON-RPC of the draft."""

    def __init__(self, calls: Calls, path: str) -> None:
        speaking = replace(calls, profile=PROFILE, writings=Writings(PROFILE.codec, PROFILE.last))
        card = OwnDoors(path)
        speech = Speech(speaking, RULES, Kept(draft_cards.written), dict.fromkeys(CARDS, card))
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

    async def _serve(self, request: web.BaseRequest, query: str, path: str) -> Answering:
        return await self._rest(request, path, query)

    async def _call(self, request: web.BaseRequest, query: str) -> Answering:
        if request.method != "POST":
            raise WrongVerb(_POST)
        return await self._jsonrpc(request, query)
