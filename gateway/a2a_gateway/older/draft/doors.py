"""Finds the handler of a path of the draft, and has the draft's routes, cards and profile.

The draft is served under a path of its own. If that is the root, paths with `/v1` are the draft's; other paths are the
draft's for clients that ask for its version.

Serves DRFT-01, -02, -03 and -05, CARD-03, CONF-01 to -04, -12, -17, -49, -50 and -70.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, cast

from aiohttp import web

from a2a_gateway.calls import Calls, UnaryResult, query_of, versions_asked
from a2a_gateway.cards.agent_card import CardMembers, CardWriter, sign_other_form
from a2a_gateway.http.streams import EventCache
from a2a_gateway.older.draft.bindings import A2A, CONFIG, DISCOVERY, DraftJsonRpc, DraftRest
from a2a_gateway.older.errors import DRAFT_CODES, DraftFailure
from a2a_gateway.older.v0_3.answers import OldCall, OldCalls
from a2a_gateway.older.v0_3.doors import PathHandler, jsonrpc_handler, tenant_in
from a2a_gateway.profiles import Profile
from a2a_gateway.routing.annotations import ALIASES, Route, routes_of
from a2a_gateway.routing.table import Table
from a2a_gateway.routing.template import parse
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.draft.json import DRAFT, card_json
from a2a_server.protocol.errors import A2AError, major_minor
from a2a_server.protocol.names import LEGACY, PROBLEM_JSON, SPOKEN, VERSION
from a2a_server.protocol.v0_3 import error_words
from a2a_server.protocol.v0_3.error_words import Words, renamed, renames

_CARDS: Final = "GetAgentCard", "GetExtendedAgentCard"
"""The RPCs that answer with a card."""

PROFILE: Final = Profile(
    spoken="draft",
    codec=DRAFT.codec,
    last=DRAFT.last,
    codes=DRAFT_CODES,
    failure=DraftFailure,
    refusal=lambda _: PROBLEM_JSON,  # even if the client does not accept this type
    # The call is one of 1.0. Without a version, a strict server would read it as one of 0.3.
    metadata={SPOKEN: ("draft",), VERSION: ("1.0",)},
    accepts="0.3",
    recognised_by="The draft profile",
    error_words=error_words.DRAFT,
)
_PATHS: Final[Mapping[str, Words]] = MappingProxyType(
    {
        "SendMessage": DRAFT.sent,
        "SendStreamingMessage": DRAFT.sent,
        "ListTasks": partial(renamed, rules=renames(status_timestamp_after="last_updated_after")),
        "CreateTaskPushNotificationConfig": CONFIG,
    }
)
"""Renames fields of 1.0 to those of the draft, by RPC. The fields of other RPCs have the same names."""


class DraftDoors:
    """Serves REST and JSON-RPC of the draft."""

    def __init__(self, calls: Calls, path: str) -> None:
        events = EventCache(PROFILE.codec, PROFILE.last, calls.events.texts)
        speaking = replace(calls, profile=PROFILE, events=events)
        old_calls = OldCalls(speaking, _PATHS, CardWriter(partial(_signed, calls)), dict.fromkeys(_CARDS, _get_card))
        self._path = path.rstrip("/")
        root = self._path or _V1
        self._roots = root, f"{root}/"
        self._jsonrpc = DraftJsonRpc(replace(old_calls, calls=replace(speaking, door="jsonrpc")))
        self._rest = DraftRest(old_calls, routes())

    def at(self, path: str) -> PathHandler | None:
        """Return the handler of a path that belongs to the draft; None for other paths."""
        if path in self._roots:
            return jsonrpc_handler(self._jsonrpc, self._rest.refusal, self._jsonrpc.refusal)
        below = path.startswith(self._roots[1]) or (not self._path and tenant_in(path)[1].startswith(self._roots[1]))
        return self._handler_below(path.removeprefix(self._path)) if below else None

    def at_root(self, request: web.BaseRequest, path: str, query: str) -> PathHandler | None:
        """Return the handler of a path of 1.0, if the draft is at the root and the client asks for its version."""
        if self._path or not _asks_for_draft(request, query):
            return None
        return self.at(_V1 if path == "/" else path) or self._handler_below(path)

    def _handler_below(self, inner: str) -> PathHandler:
        serve = partial(self._rest, path=inner)
        table = self._rest.table
        return PathHandler(serve, self._rest.refusal, partial(table.verbs, inner), partial(table.is_public, inner))


def _asks_for_draft(request: web.BaseRequest, query: str) -> bool:
    try:
        return {major_minor(text.strip()) for text in versions_asked(request, query_of(query))} == {LEGACY}
    except A2AError:  # the query cannot be read; the handler of 1.0 will refuse it
        return False


def _signed(calls: Calls, card: pb.AgentCard) -> CardMembers:
    return sign_other_form(calls.cards.signer, card_json(card), card)


async def _get_card(old_calls: OldCalls, call: OldCall) -> UnaryResult:
    calls = old_calls.calls
    answer = await calls.upstream.unary(call.method, call.message, calls.context(call.request, call.query))
    card = cast("pb.AgentCard", answer.message)
    shown = calls.cards.draft_card(card, calls.proxies.base(call.request), call.message.tenant)
    return UnaryResult(old_calls.card(shown), shown, calls.reply_headers(call.request, answer))


# -- routes: those of 1.0, each with /v1 and without

_V1: Final = "/v1"
_TENANT: Final = "/{tenant}"


def routes() -> Table:
    """Return the routes, relative to the draft's path."""
    known = [route for route in routes_of(A2A) if not route.method.client_streaming]  # the draft has no such method
    return Table([*(spelt for route in known for spelt in _spellings(route)), *routes_of(DISCOVERY)], ALIASES)


def _spellings(route: Route) -> Iterator[Route]:
    """Yield a route with `/v1`, which comes after the tenant, and without."""
    text = route.template.text
    tenant = _TENANT if text.startswith(f"{_TENANT}/") else ""
    yield replace(route, template=parse(f"{tenant}{_V1}{text.removeprefix(tenant)}"))
    yield route
