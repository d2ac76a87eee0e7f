"""All ways to speak 0.3 that a gateway has, each with calls of its own (spec: LRES-05, XTRA-01, CONF-08, CONF-27)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from aiohttp import web
from multidict import MultiMapping

from gateway import dialects
from gateway.calls import Calls
from gateway.card_forms import Legacy
from gateway.dialects import Spelling
from gateway.dialects.evidence import Dialect
from gateway.dialects.tool_parts import URI
from gateway.headers import HeaderMap
from gateway.profiles import Profile
from gateway.streams import Writings
from gateway.v0_3 import profiles, respelling
from gateway.v0_3.answers import OTHERWISE
from gateway.v0_3.speech import Speech
from generated import a2a_pb2 as pb


class Speeches(NamedTuple):
    """One spelling, with and without the members that one source alone has."""

    plain: Speech
    extras: Speech

    def of(self, request: web.BaseRequest, message: Any) -> Speech:  # noqa: ANN401 - a request of any type
        """What the client reads: the extras, if it asks for them or has used them (XTRA-01)."""
        return self.extras if _uses_extras(request.headers, message) else self.plain


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
        return Speech(_speaking(calls, profiles.rest(spelling)), respelling.REST_KIND, cards.card_0_3, OTHERWISE)

    proto = _speaking(calls, profiles.rest(dialects.proto(wait=waits, raw_files=raw_files)))
    speech = Speech(proto, respelling.REST_PROTO, cards.card_0_3_both, OTHERWISE)
    return {"kind": Speeches(kind(plain), kind(extras)), "proto": Speeches(speech, speech)}


_URI = URI.encode()


def _speaking(calls: Calls, profile: Profile) -> Calls:
    options = calls.options
    header_map = HeaderMap(options.forward_headers, options.forward_well_known, profiles.RENAMED)
    return replace(calls, profile=profile, writings=Writings(profile.codec, profile.last), header_map=header_map)


def _uses_extras(headers: MultiMapping[str], message: Any) -> bool:  # noqa: ANN401 - as above
    for name in profiles.EXTENSIONS:
        if name in headers and any(URI in listed for listed in headers.getall(name)):
            return True
    if not isinstance(message, pb.SendMessageRequest):
        return False
    if _URI not in message.SerializeToString():  # which takes a fraction of the time that it takes to look for it
        return False
    said = message.message
    return URI in said.extensions or any(URI in part.metadata.fields for part in said.parts)
