"""Where the draft is served: under one path, which nothing else has, with routes, cards and a profile of its own.

Serves DRFT-01, -02, -03 and -05, CARD-03, CONF-01 to -04, -12, -17, -49, -50 and -70.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final, cast

from aiohttp import web

from a2a_gateway.calls import Calls, Told
from a2a_gateway.cards.agent_card import CardWriter, doors_at, tenants_of
from a2a_gateway.http.streams import EventCache
from a2a_gateway.older.draft.bindings import A2A, CONFIG, DISCOVERY, DraftJsonRpc, DraftRest
from a2a_gateway.older.errors import DRAFT_CODES, DraftFailure
from a2a_gateway.older.v0_3.answers import Ask, Speech
from a2a_gateway.older.v0_3.doors import Place
from a2a_gateway.profiles import Profile
from a2a_gateway.routing.annotations import ALIASES, Route, routes_of
from a2a_gateway.routing.table import Table, WrongVerb
from a2a_gateway.routing.template import parse
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.draft import cards
from a2a_server.protocol.draft.json import DRAFT
from a2a_server.protocol.names import PROBLEM_JSON, SPOKEN, VERSION
from a2a_server.protocol.v0_3 import words
from a2a_server.protocol.v0_3.words import Words, renamed, renames

_POST: Final = ("OPTIONS", "POST")


def _problem(accept: str | None) -> str:
    """A client that does not accept explanations gets one all the same."""
    del accept
    return PROBLEM_JSON


PROFILE: Final = Profile(
    spoken="draft",
    codec=DRAFT.codec,
    last=DRAFT.last,
    codes=DRAFT_CODES,
    failure=DraftFailure,
    refusal=_problem,
    # The call itself is one of 1.0; without saying so, servers that go by the letter would take it for one of 0.3.
    metadata={SPOKEN: ("draft",), VERSION: ("1.0",)},
    accepts="0.3",
    signs="The draft profile",
    words=words.DRAFT,
)
_PATHS: Final[Mapping[str, Words]] = MappingProxyType(
    {
        "SendMessage": DRAFT.sent,
        "SendStreamingMessage": DRAFT.sent,
        "ListTasks": partial(renamed, rules=renames(status_timestamp_after="last_updated_after")),
        "CreateTaskPushNotificationConfig": CONFIG,
    }
)
"""What fields of 1.0 are called in the draft, by the RPC; what is not here is called the same."""


class DraftDoors:
    """REST and JSON-RPC of the draft."""

    def __init__(self, calls: Calls, path: str) -> None:
        speaking = replace(calls, profile=PROFILE, events=EventCache(PROFILE.codec, PROFILE.last))
        card = OwnDoors(path)
        speech = Speech(speaking, _PATHS, CardWriter(cards.written), dict.fromkeys(_CARDS, card))
        self._path = path
        self._jsonrpc = DraftJsonRpc(speech)
        self._rest = DraftRest(speech, routes())

    def at(self, path: str) -> Place | None:
        """What the draft has at a path; None if that is none of its own."""
        if path in {self._path, f"{self._path}/"}:
            return Place(self._call, self._rest.refusal, lambda: _POST)
        if not path.startswith(f"{self._path}/"):
            return None
        inner = path.removeprefix(self._path)
        serve = partial(self._rest, path=inner)
        return Place(
            serve, self._rest.refusal, partial(self._rest.table.verbs, inner), partial(self._rest.is_public, inner)
        )

    async def _call(self, request: web.BaseRequest, query: str) -> web.StreamResponse:
        if request.method != "POST":
            raise WrongVerb(_POST)
        return await self._jsonrpc(request, query)


# -- routes: those of 1.0, each with /v1 and without

_V1: Final = "/v1"
_TENANT: Final = "/{tenant}"


def routes() -> Table:
    """Paths begin behind the one where the draft is served."""
    return Table([*(spelt for route in routes_of(A2A) for spelt in _spellings(route)), *routes_of(DISCOVERY)], ALIASES)


def _spellings(route: Route) -> Iterator[Route]:
    """The version stands behind the tenant."""
    text = route.template.text
    tenant = _TENANT if text.startswith(f"{_TENANT}/") else ""
    yield replace(route, template=parse(f"{tenant}{_V1}{text.removeprefix(tenant)}"))
    yield route


# -- cards

_CARDS: Final = "GetAgentCard", "GetExtendedAgentCard"
"""The RPCs that answer with one."""


@dataclass(frozen=True, slots=True)
class OwnDoors:
    """Answers for cards that tell of the draft's doors, and of no others: none speaks it."""

    path: str

    async def __call__(self, speech: Speech, ask: Ask) -> Told:
        calls = speech.calls
        answer = await calls.upstream.unary(ask.method, ask.message, calls.context(ask.request, ask.query))
        base = calls.proxies.base(ask.request) or calls.cards.base
        card = self._shown(cast("pb.AgentCard", answer.message), base)
        return Told(speech.card(card), card, calls.fields(ask.request, answer))

    def _shown(self, card: pb.AgentCard, base: str) -> pb.AgentCard:
        shown = pb.AgentCard()
        shown.CopyFrom(card)
        del shown.supported_interfaces[:]
        shown.supported_interfaces.extend(self._doors(card, base))
        return shown

    def _doors(self, card: pb.AgentCard, base: str) -> Iterator[pb.AgentInterface]:
        for tenant in tenants_of(card):
            yield from doors_at(base.rstrip("/") + self.path, tenant)
