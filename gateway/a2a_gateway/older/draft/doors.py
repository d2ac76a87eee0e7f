"""Where the draft is served: under one path, which nothing else has, with routes, cards and a profile of its own.

Serves DRFT-01, -02, -03 and -05, CARD-03, CONF-01 to -04, -12, -17, -49, -50 and -70.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, cast

from a2a_gateway.calls import Calls, Told
from a2a_gateway.cards.agent_card import CardWriter, doors_at, tenants_of
from a2a_gateway.http.streams import EventCache
from a2a_gateway.older.draft.bindings import A2A, CONFIG, DISCOVERY, DraftJsonRpc, DraftRest
from a2a_gateway.older.errors import DRAFT_CODES, DraftFailure
from a2a_gateway.older.v0_3.answers import Ask, Speech
from a2a_gateway.older.v0_3.doors import Place, posted
from a2a_gateway.profiles import Profile
from a2a_gateway.routing.annotations import ALIASES, Route, routes_of
from a2a_gateway.routing.table import Table
from a2a_gateway.routing.template import parse
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.draft.json import DRAFT, card_json
from a2a_server.protocol.names import PROBLEM_JSON, SPOKEN, VERSION
from a2a_server.protocol.v0_3 import words
from a2a_server.protocol.v0_3.words import Words, renamed, renames

_CARDS: Final = "GetAgentCard", "GetExtendedAgentCard"
"""The RPCs that answer with a card."""

PROFILE: Final = Profile(
    spoken="draft",
    codec=DRAFT.codec,
    last=DRAFT.last,
    codes=DRAFT_CODES,
    failure=DraftFailure,
    refusal=lambda _: PROBLEM_JSON,  # a client that does not accept it gets it all the same
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
        events = EventCache(PROFILE.codec, PROFILE.last, calls.events.texts)
        speaking = replace(calls, profile=PROFILE, events=events)
        speech = Speech(speaking, _PATHS, CardWriter(card_json), dict.fromkeys(_CARDS, self._card))
        self._path = path
        self._jsonrpc = DraftJsonRpc(speech)
        self._rest = DraftRest(speech, routes())

    def at(self, path: str) -> Place | None:
        """What the draft has at a path; None if that is none of its own."""
        if path in {self._path, f"{self._path}/"}:
            return posted(self._jsonrpc, self._rest.refusal, self._jsonrpc.refusal)
        if not path.startswith(f"{self._path}/"):
            return None
        inner = path.removeprefix(self._path)
        serve = partial(self._rest, path=inner)
        table = self._rest.table
        return Place(serve, self._rest.refusal, partial(table.verbs, inner), partial(table.is_public, inner))

    async def _card(self, speech: Speech, ask: Ask) -> Told:
        """Answer with a card that tells of the draft's doors, and of no others: none speaks it."""
        calls = speech.calls
        answer = await calls.upstream.unary(ask.method, ask.message, calls.context(ask.request, ask.query))
        base = (calls.proxies.base(ask.request) or calls.cards.base).rstrip("/")
        card = cast("pb.AgentCard", answer.message)
        shown = pb.AgentCard()
        shown.CopyFrom(card)
        del shown.supported_interfaces[:]
        for tenant in tenants_of(card):
            shown.supported_interfaces.extend(doors_at(base + self._path, tenant))
        return Told(speech.card(shown), shown, calls.fields(ask.request, answer))


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
