"""Where older versions are served: 0.3 under /v1 and behind its tenants, and the cards of 0.2.

0.3 is beside 1.0, under /v1, and, if the settings list tenants, behind every name that a tenant could have (LRES-01,
CONF-50, TENA-04). Clients of 0.2 look for cards at the routes of OldDiscovery, which are answered in the form of 0.3
(LOLD-01, -02).
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
from a2a_gateway.cards.agent_card import Legacy
from a2a_gateway.http.replies import Reply
from a2a_gateway.http.streams import EventCache
from a2a_gateway.jsonrpc import NULL
from a2a_gateway.older.errors import OldFailure
from a2a_gateway.older.v0_3 import rest
from a2a_gateway.older.v0_3.answers import EXTENSIONS, OTHERWISE, RPCS, Ask, Speech, Speeches
from a2a_gateway.older.v0_3.jsonrpc import OldJsonRpc
from a2a_gateway.older.v0_3.requests import OldSpelling
from a2a_gateway.older.v0_3.rest import OldRest
from a2a_gateway.profiles import Profile
from a2a_gateway.requests.binding import bind
from a2a_gateway.requests.headers import HeaderMap, accepted_types, plain_answer_type
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
from a2a_server.protocol.v0_3 import words
from a2a_server.protocol.v0_3.json import Spelling, kind_json, proto_json
from a2a_server.protocol.v0_3.words import Words, renamed

_POST = ("OPTIONS", "POST")
_OF_TENANT = re.compile(rf"/([^/]+)(/?|{rest.PREFIX}.*)").fullmatch

Serve = Callable[[web.BaseRequest, str], Awaitable[web.StreamResponse]]
"""Answers a request that has this query; what is wrong with it is raised."""
Refusal = Callable[[web.BaseRequest, Exception], Reply]


class Place(NamedTuple):
    """What is served at a path."""

    serve: Serve
    refusal: Refusal
    """Says what is wrong with a request."""
    verbs: Callable[[], Sequence[str]]
    """What it answers to; none, if there is nothing."""
    is_public: Callable[[], bool] = lambda: False
    """Whether any page may read what is there (CONF-77)."""


def posted(serve: Serve, refusal: Refusal, posted_refusal: Callable[[Exception, bytes], Reply]) -> Place:
    """A URL of JSON-RPC. `refusal` answers other methods than POST."""

    def refuse(request: web.BaseRequest, error: Exception) -> Reply:
        return posted_refusal(error, NULL) if request.method == "POST" else refusal(request, error)

    async def serve_post(request: web.BaseRequest, query: str) -> web.StreamResponse:
        if request.method != "POST":
            raise WrongVerb(_POST)
        return await serve(request, query)

    return Place(serve_post, refuse, lambda: _POST)


class OldDoors:
    """REST and JSON-RPC of 0.3, and the cards of 0.2."""

    def __init__(self, calls: Calls, cards: Legacy, *, tenants: bool = False) -> None:
        waits = cards.options.wait != "never"
        self.jsonrpc = OldJsonRpc(_jsonrpc(calls, cards, waits=waits))
        """Serves at the URL of 1.0, too."""
        spellings = _rest(calls, cards, waits=waits)
        self.table = rest.routes()
        self._rest = OldRest(spellings, calls.options.legacy_json, self.table)
        self._cards = OldCards(calls, cards)
        self._tenants = tenants
        self.refusal = self._rest.refusal

    def at(self, path: str) -> Place | None:
        if path.startswith(rest.PREFIX):
            return self._place(path, "")
        tenant, inner = _named(path) if self._tenants else ("", "")
        if not tenant:
            return self._cards.at(path)
        if inner in {"", "/"}:  # CONF-70
            return posted(partial(self.jsonrpc, tenant=tenant), self._rest.refusal, self.jsonrpc.refusal)
        return self._place(inner, tenant)

    def is_meant(self, path: str) -> bool:
        """Whether a path where nothing is looks like one of a tenant's, where there are none."""
        return _named(path)[1].startswith(rest.PREFIX)

    def _place(self, path: str, tenant: str) -> Place:
        serve = partial(self._rest, path=path, tenant=tenant)
        return Place(serve, self._rest.refusal, partial(self._rest.table.verbs, path))


def _named(path: str) -> tuple[str, str]:
    """The name in a path of a tenant's, be there such a tenant or not, and what follows; empty in any other path."""
    if (found := _OF_TENANT(path)) is None:
        return "", ""
    try:
        name = decode(found[1])
    except ValueError:
        return "", ""
    return (name, found[2]) if may_be_tenant(name) else ("", "")


# -- each spelling, with calls of its own

_RENAMED: Final = {OLD_EXTENSIONS: EXTENSIONS_OF_1_0}
"""Headers that become metadata of another name."""
_TOLD: Final = {SPOKEN: ("0.3",), VERSION: ("1.0",)}
"""The call itself is one of 1.0; without saying so, servers that go by the letter would take it for one of 0.3."""


def _jsonrpc(calls: Calls, cards: Legacy, *, waits: bool) -> Speeches:
    def speech(spelling: Spelling) -> Speech:
        speaking = _speaking(calls, profile(spelling.codec, spelling.last, words.KIND, "A method with a slash"))
        return Speech(speaking, _paths(words.IDS, spelling), cards.card_0_3, OTHERWISE)

    return Speeches(*(speech(kind_json(wait=waits, extras=extras)) for extras in (False, True)))


def _rest(calls: Calls, cards: Legacy, *, waits: bool) -> Mapping[OldSpelling, Speeches]:
    def speech(spelling: Spelling, said: Words, card: Callable[[pb.AgentCard], bytes]) -> Speech:
        speaking = _speaking(calls, profile(spelling.codec, spelling.last, said, "A path under /v1"))
        return Speech(speaking, _paths(words.RENAMED, spelling), card, OTHERWISE)

    plain, extras = (
        speech(kind_json(rest=True, wait=waits, extras=extras), words.KIND, cards.card_0_3) for extras in (False, True)
    )
    proto = speech(proto_json(wait=waits, raw_files=cards.options.raw_files), words.PROTO, cards.card_0_3_both)
    return {"kind": Speeches(plain, extras), "proto": Speeches(proto, proto)}


def profile(codec: Codec, last: Codec, said: Words, signs: str) -> Profile:
    """What is particular about 0.3 in JSON, whatever its spelling."""
    return Profile(
        spoken="0.3",
        codec=codec,
        last=last,
        codes="1.0.0",
        failure=OldFailure,
        unary=plain_answer_type,
        refusal=lambda _: JSON,
        extensions=EXTENSIONS,
        metadata=_TOLD,
        accepts="0.3",
        signs=signs,
        words=said,
    )


def _paths(renames: Mapping[str, words.Renames], spelling: Spelling) -> Mapping[str, Words]:
    sends = dict.fromkeys(("SendMessage", "SendStreamingMessage"), spelling.sent)
    return {**{rpc: partial(renamed, rules=rules) for rpc, rules in renames.items()}, **sends}


def _speaking(calls: Calls, spoken: Profile) -> Calls:
    options = calls.options
    header_map = HeaderMap(options.forward_headers, options.forward_well_known, _RENAMED)
    events = EventCache(spoken.codec, spoken.last, calls.events.texts)
    return replace(calls, profile=spoken, events=events, header_map=header_map)


# -- cards of 0.2

OLD_DISCOVERY: Final = discovery_pb2.DESCRIPTOR.services_by_name["OldDiscovery"]
_PUBLIC: Final = OLD_DISCOVERY.methods_by_name["GetAgentCard"]

_MEANT: Final[Mapping[MethodDescriptor, MethodDescriptor]] = {
    _PUBLIC: discovery_pb2.DESCRIPTOR.services_by_name["Discovery"].methods_by_name["GetAgentCard"],
    OLD_DISCOVERY.methods_by_name["GetExtendedAgentCard"]: RPCS["GetExtendedAgentCard"],
}
"""The RPCs that are called."""


class OldCards:
    """Serves every route of OldDiscovery."""

    def __init__(self, calls: Calls, legacy: Legacy) -> None:
        speaking = profile(V1, V1, words.KIND, "This path")  # no request has a body to be spelt
        self._speech = Speech(replace(calls, profile=speaking), {}, legacy.card_0_3, OTHERWISE)
        self._table = Table.of([OLD_DISCOVERY])

    def at(self, path: str) -> Place | None:
        """What is served at a path; None if it is none of these."""
        if not self._table.has(path):
            return None
        serve, public = partial(self._serve, path=path), partial(self._table.is_public, path)
        return Place(serve, self._refusal, partial(self._table.verbs, path), public)

    async def _serve(self, request: web.BaseRequest, query: str, path: str) -> Reply:
        match, calls, parameters = self._table.match(request.method, path), self._speech.calls, query_of(query)
        method = match.route.method
        calls.profile.check(versions_asked(request, parameters))
        kind = calls.profile.unary(None if method is _PUBLIC else accepted_types(request.headers))
        message = bind(match, parameters, b"", calls.profile.codec, max_depth=calls.options.max_depth)
        told = await self._speech.answer(Ask(request, parameters, _MEANT[method], message))
        if method is not _PUBLIC:
            return Reply(told.json, kind, told.headers)
        assert isinstance(told.message, pb.AgentCard)  # noqa: S101 - all that can be discovered
        return calls.cards.answer(request, told.message, self._speech.card(told.message), told.headers)

    def _refusal(self, request: web.BaseRequest, error: Exception) -> Reply:
        if isinstance(error, WrongVerb):
            return rest_refusal(self._speech.calls.profile, request, error)
        failure = self._speech.calls.profile.explain(error)
        if failure.reason is Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED:  # which 0.2 knows by its HTTP status only
            failure = replace(failure, http=HTTPStatus.NOT_FOUND, code=code_pb2.NOT_FOUND)
        return Reply(failure.rest(), JSON, failure.headers, status=failure.http)
