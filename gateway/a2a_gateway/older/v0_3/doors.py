"""Finds the handler of a path of 0.3, or of a card of 0.2.

0.3 is served under /v1. If the settings list tenants, it is also served below every name that a tenant could have
(LRES-01, CONF-50, TENA-04). Clients of 0.2 get their cards at the routes of OldDiscovery, in the form of 0.3 (LOLD-01,
-02).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor
from google.rpc import code_pb2

from a2a_gateway.calls import Calls, query_of, versions_asked
from a2a_gateway.cards.agent_card import LegacyCards
from a2a_gateway.http.replies import Reply
from a2a_gateway.http.streams import EventCache
from a2a_gateway.jsonrpc import NULL
from a2a_gateway.older.errors import OldFailure
from a2a_gateway.older.v0_3 import rest
from a2a_gateway.older.v0_3.answers import EXTENSIONS, RPCS, SPECIAL_CALLS, OldCall, OldCalls, OldCallsPair
from a2a_gateway.older.v0_3.jsonrpc import OldJsonRpc
from a2a_gateway.older.v0_3.requests import OldSpelling
from a2a_gateway.older.v0_3.rest import OldRest
from a2a_gateway.profiles import Profile
from a2a_gateway.requests.binding import bind
from a2a_gateway.requests.headers import HeaderMap
from a2a_gateway.requests.media_types import accepted_types, plain_answer_type
from a2a_gateway.rest import refusal as rest_refusal
from a2a_gateway.routing.table import Table, WrongVerb
from a2a_gateway.routing.template import decode
from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.protocol.codec import Codec
from a2a_server.protocol.errors import Reason
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import EXTENSIONS as EXTENSIONS_OF_1_0
from a2a_server.protocol.names import JSON, OLD_EXTENSIONS, SPOKEN, VERSION, may_be_tenant
from a2a_server.protocol.v0_3 import error_words
from a2a_server.protocol.v0_3.error_words import Words, renamed
from a2a_server.protocol.v0_3.json import Spelling, kind_json, proto_json

_POST = ("OPTIONS", "POST")
_OF_TENANT = re.compile(rf"/([^/]+)(/?|{rest.PREFIX}.*)").fullmatch

Serve = Callable[[web.BaseRequest, str], Awaitable[web.StreamResponse]]
"""Answers a request with this query. Errors are raised."""
Refusal = Callable[[web.BaseRequest, Exception], Reply]


class PathHandler(NamedTuple):
    """The functions that serve a path."""

    serve: Serve
    refusal: Refusal
    """Turns an error into an answer."""
    verbs: Callable[[], Sequence[str]]
    """Returns the HTTP methods of the path."""
    is_public: Callable[[], bool] = lambda: False
    """Whether any web page may read the answers (CONF-77)."""


def jsonrpc_handler(serve: Serve, refusal: Refusal, jsonrpc_error: Callable[[Exception, bytes], Reply]) -> PathHandler:
    """Return the handler of a JSON-RPC URL. `refusal` answers errors of methods other than POST."""

    def refuse(request: web.BaseRequest, error: Exception) -> Reply:
        return jsonrpc_error(error, NULL) if request.method == "POST" else refusal(request, error)

    async def serve_post(request: web.BaseRequest, query: str) -> web.StreamResponse:
        if request.method != "POST":
            raise WrongVerb(_POST)
        return await serve(request, query)

    return PathHandler(serve_post, refuse, lambda: _POST)


class OldDoors:
    """Serves REST and JSON-RPC of 0.3, and the cards of 0.2."""

    def __init__(self, calls: Calls, cards: LegacyCards, *, tenants: bool = False) -> None:
        waits = cards.options.wait != "never"
        self.jsonrpc = OldJsonRpc(_jsonrpc(replace(calls, door="jsonrpc"), cards, waits=waits))
        """Also serves the methods of 0.3 at the URL of 1.0."""
        spellings = _rest(calls, cards, waits=waits)
        self.table = rest.routes()
        self._rest = OldRest(spellings, calls.options.legacy_json, self.table)
        self._cards = OldCards(calls, cards)
        self._tenants = tenants
        self.refusal = self._rest.refusal

    def at(self, path: str) -> PathHandler | None:
        if path.startswith(rest.PREFIX):
            return self._rest_handler(path, "")
        tenant, inner = tenant_in(path) if self._tenants else ("", "")
        if not tenant:
            return self._cards.at(path)
        if inner in {"", "/"}:  # CONF-70
            return jsonrpc_handler(partial(self.jsonrpc, tenant=tenant), self._rest.refusal, self.jsonrpc.refusal)
        return self._rest_handler(inner, tenant)

    def looks_like_tenant(self, path: str) -> bool:
        """Whether a path that is not served looks like one below a tenant."""
        return tenant_in(path)[1].startswith(rest.PREFIX)

    def _rest_handler(self, path: str, tenant: str) -> PathHandler:
        serve = partial(self._rest, path=path, tenant=tenant)
        return PathHandler(serve, self._rest.refusal, partial(self._rest.table.verbs, path))


def tenant_in(path: str) -> tuple[str, str]:
    """Return the tenant of a path, whether or not it exists, and the rest of the path; empty if there is no tenant."""
    if (found := _OF_TENANT(path)) is None:
        return "", ""
    try:
        name = decode(found[1])
    except ValueError:
        return "", ""
    return (name, found[2]) if may_be_tenant(name) else ("", "")


# -- the calls of each spelling

_RENAMED: Final = {OLD_EXTENSIONS: EXTENSIONS_OF_1_0}
"""Headers that become metadata with another name."""
_METADATA: Final = {SPOKEN: ("0.3",), VERSION: ("1.0",)}
"""The call is one of 1.0. Without a version, a strict server would read it as one of 0.3."""


def _jsonrpc(calls: Calls, cards: LegacyCards, *, waits: bool) -> OldCallsPair:
    def old_calls(spelling: Spelling) -> OldCalls:
        speaking = _calls_for(calls, profile(spelling.codec, spelling.last, error_words.KIND, "A method with a slash"))
        return OldCalls(speaking, _paths(error_words.IDS, spelling), cards.card_0_3, SPECIAL_CALLS)

    forms = cards.options.writes_members, True
    return OldCallsPair(*(old_calls(kind_json(wait=waits, extras=extras)) for extras in forms))


def _rest(calls: Calls, cards: LegacyCards, *, waits: bool) -> Mapping[OldSpelling, OldCallsPair]:
    def old_calls(spelling: Spelling, said: Words, card: Callable[[pb.AgentCard], bytes]) -> OldCalls:
        speaking = _calls_for(calls, profile(spelling.codec, spelling.last, said, "A path under /v1"))
        return OldCalls(speaking, _paths(error_words.RENAMED, spelling), card, SPECIAL_CALLS)

    plain, extras = (
        old_calls(kind_json(rest=True, wait=waits, extras=extras), error_words.KIND, cards.card_0_3)
        for extras in (cards.options.writes_members, True)
    )
    proto = old_calls(proto_json(wait=waits, raw_files=cards.options.raw_files), error_words.PROTO, cards.card_0_3_both)
    return {"kind": OldCallsPair(plain, extras), "proto": OldCallsPair(proto, proto)}


def profile(codec: Codec, last: Codec, said: Words, recognised_by: str) -> Profile:
    """Return the profile of 0.3 over HTTP, for one spelling."""
    return Profile(
        spoken="0.3",
        codec=codec,
        last=last,
        codes="1.0.0",
        failure=OldFailure,
        unary=plain_answer_type,
        refusal=lambda _: JSON,
        extensions=EXTENSIONS,
        metadata=_METADATA,
        accepts="0.3",
        recognised_by=recognised_by,
        error_words=said,
    )


def _paths(renames: Mapping[str, error_words.Renames], spelling: Spelling) -> Mapping[str, Words]:
    sends = dict.fromkeys(("SendMessage", "SendStreamingMessage"), spelling.sent)
    return {**{rpc: partial(renamed, rules=rules) for rpc, rules in renames.items()}, **sends}


def _calls_for(calls: Calls, spoken: Profile) -> Calls:
    options = calls.options
    header_map = HeaderMap(options.forward_headers, options.forward_well_known, _RENAMED, calls.header_map.identity)
    events = EventCache(spoken.codec, spoken.last, calls.events.texts)
    return replace(calls, profile=spoken, events=events, header_map=header_map)


# -- cards of 0.2

OLD_DISCOVERY: Final = discovery_pb2.DESCRIPTOR.services_by_name["OldDiscovery"]
_PUBLIC: Final = OLD_DISCOVERY.methods_by_name["GetAgentCard"]

_CURRENT_RPCS: Final[Mapping[MethodDescriptor, MethodDescriptor]] = {
    _PUBLIC: discovery_pb2.DESCRIPTOR.services_by_name["Discovery"].methods_by_name["GetAgentCard"],
    OLD_DISCOVERY.methods_by_name["GetExtendedAgentCard"]: RPCS["GetExtendedAgentCard"],
}
"""The RPC that is called for each one of OldDiscovery."""


class OldCards:
    """Serves every route of OldDiscovery."""

    def __init__(self, calls: Calls, legacy: LegacyCards) -> None:
        speaking = profile(V1, V1, error_words.KIND, "This path")  # these requests have no body
        self._speech = OldCalls(replace(calls, profile=speaking), {}, legacy.card_0_3, SPECIAL_CALLS)
        self._table = Table.of([OLD_DISCOVERY])

    def at(self, path: str) -> PathHandler | None:
        """Return the handler of a path; None for other paths."""
        if not self._table.has(path):
            return None
        serve, public = partial(self._serve, path=path), partial(self._table.is_public, path)
        return PathHandler(serve, self._refusal, partial(self._table.verbs, path), public)

    async def _serve(self, request: web.BaseRequest, query: str, path: str) -> Reply:
        match, calls, parameters = self._table.match(request.method, path), self._speech.calls, query_of(query)
        method = match.route.method
        calls.profile.check(versions_asked(request, parameters))
        kind = calls.profile.unary(None if method is _PUBLIC else accepted_types(request.headers))
        message = bind(match, parameters, b"", calls.profile.codec, max_depth=calls.options.max_depth)
        told = await self._speech.answer(OldCall(request, parameters, _CURRENT_RPCS[method], message))
        if method is not _PUBLIC:
            return Reply(told.json, kind, told.headers)
        assert isinstance(told.message, pb.AgentCard)  # noqa: S101 - the only public answer
        return calls.cards.answer(request, told.message, self._speech.card(told.message), told.headers)

    def _refusal(self, request: web.BaseRequest, error: Exception) -> Reply:
        if isinstance(error, WrongVerb):
            return rest_refusal(self._speech.calls.profile, request, error)
        failure = self._speech.calls.profile.explain(error)
        if failure.reason is Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED:  # 0.2 identifies this error by its HTTP status
            failure = replace(failure, http=HTTPStatus.NOT_FOUND, code=code_pb2.NOT_FOUND)
        return Reply(failure.rest(), JSON, failure.headers, status=failure.http)
