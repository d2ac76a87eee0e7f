"""All ways to speak 0.3 that a gateway has, each with calls of its own (spec: LRES-05, XTRA-01, CONF-08, CONF-27)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from aiohttp import web
from multidict import MultiMapping

from a2a_gateway.calls import Calls
from a2a_gateway.cards.agent_card import Legacy
from a2a_gateway.http.streams import EventCache
from a2a_gateway.older.v0_3 import profiles, respelling
from a2a_gateway.older.v0_3.answers import OTHERWISE
from a2a_gateway.older.v0_3.speech import Speech
from a2a_gateway.profiles import Profile
from a2a_gateway.requests.headers import HeaderMap
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol import dialects
from a2a_server.protocol.dialects import Spelling, input_requests, words
from a2a_server.protocol.dialects.evidence import Dialect
from a2a_server.protocol.names import MEMBERS_URI


class Speeches(NamedTuple):
    """One spelling, with and without the members that one source alone has."""

    plain: Speech
    extras: Speech

    def of(self, request: web.BaseRequest, message: Any, value: Any) -> Speech:  # noqa: ANN401 - a request of any type
        """What the client reads: the extras, if it has used them in the JSON of its request or asks for them (XTRA-01).

        To name the extension, or to use what it is carried by, means just that: official clients read nothing else.
        """
        if isinstance(message, pb.SendMessageRequest) and input_requests.is_used(value):
            return self.extras
        return self.extras if _asks_for_extras(request.headers) else self.plain


def jsonrpc(calls: Calls, cards: Legacy, *, waits: bool) -> Speeches:
    plain, extras = dialects.kind(wait=waits), dialects.kind(wait=waits, extras=True)
    return Speeches(
        *(
            Speech(_speaking(calls, profiles.jsonrpc(spelling)), respelling.JSONRPC, cards.card_0_3, OTHERWISE)
            for spelling in (plain, extras)
        )
    )


def rest(calls: Calls, cards: Legacy, *, waits: bool, raw_files: bool) -> Mapping[Dialect, Speeches]:
    plain, extras = dialects.kind(rest=True, wait=waits), dialects.kind(rest=True, wait=waits, extras=True)

    def kind(spelling: Spelling) -> Speech:
        return Speech(
            _speaking(calls, profiles.rest(spelling, words.KIND)), respelling.REST_KIND, cards.card_0_3, OTHERWISE
        )

    proto = _speaking(calls, profiles.rest(dialects.proto(wait=waits, raw_files=raw_files), words.PROTO))
    speech = Speech(proto, respelling.REST_PROTO, cards.card_0_3_both, OTHERWISE)
    return {"kind": Speeches(kind(plain), kind(extras)), "proto": Speeches(speech, speech)}


def _speaking(calls: Calls, profile: Profile) -> Calls:
    options = calls.options
    header_map = HeaderMap(options.forward_headers, options.forward_well_known, profiles.RENAMED)
    return replace(calls, profile=profile, events=EventCache(profile.codec, profile.last), header_map=header_map)


def _asks_for_extras(headers: MultiMapping[str]) -> bool:
    for name in profiles.EXTENSIONS:
        if name in headers and any(MEMBERS_URI in map(str.strip, uris.split(",")) for uris in headers.getall(name)):
            return True
    return False
