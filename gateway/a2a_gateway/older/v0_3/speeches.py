"""All ways to speak 0.3 that a gateway has, each with calls of its own.

Serves LRES-02, LRES-05, LPSH-04, XTRA-01, CONF-01, -02, -04, -08, -17, -19 and -27.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from aiohttp import web
from multidict import MultiMapping, istr

from a2a_gateway.calls import Calls
from a2a_gateway.cards.agent_card import Legacy
from a2a_gateway.http.streams import EventCache
from a2a_gateway.older.v0_3.answers import OTHERWISE, Speech
from a2a_gateway.older.v0_3.bodies import OldSpelling
from a2a_gateway.older.v0_3.errors import OldFailure
from a2a_gateway.profiles import Profile
from a2a_gateway.requests.headers import HeaderMap, plain_answer_type, plain_error_type
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec
from a2a_server.protocol.names import EXTENSIONS as EXTENSIONS_OF_1_0
from a2a_server.protocol.names import (
    EXTENSIONS_HEADER,
    MEMBERS_URI,
    OLD_EXTENSIONS,
    OLD_EXTENSIONS_HEADER,
    SPOKEN,
    VERSION,
)
from a2a_server.protocol.v0_3 import words
from a2a_server.protocol.v0_3.configs import JsonObject
from a2a_server.protocol.v0_3.extras import KINDS, MEMBER
from a2a_server.protocol.v0_3.json import Spelling, kind_json, proto_json
from a2a_server.protocol.v0_3.words import Words, renamed

EXTENSIONS: Final = istr(OLD_EXTENSIONS_HEADER), istr(EXTENSIONS_HEADER)
"""The headers for extensions, 0.3's own first."""
_RENAMED: Final = {OLD_EXTENSIONS: EXTENSIONS_OF_1_0}
"""Headers that become metadata of another name."""
_TOLD: Final = {SPOKEN: ("0.3",), VERSION: ("1.0",)}
"""The call itself is one of 1.0; without saying so, servers that go by the letter would take it for one of 0.3."""


class Speeches(NamedTuple):
    """One spelling, with and without the members that one source alone has."""

    plain: Speech
    extras: Speech

    def of(self, request: web.BaseRequest, message: Any, value: Any) -> Speech:  # noqa: ANN401 - a request of any type
        """What the client reads: the extras, if it has used them in the JSON of its request or asks for them (XTRA-01).

        To name the extension, or to use what it is carried by, means just that: official clients read nothing else.
        """
        if isinstance(message, pb.SendMessageRequest) and _uses_extras(value):
            return self.extras
        return self.extras if _asks_for_extras(request.headers) else self.plain


def jsonrpc(calls: Calls, cards: Legacy, *, waits: bool) -> Speeches:
    def speech(*, extras: bool) -> Speech:
        spelling = kind_json(wait=waits, extras=extras)
        speaking = _speaking(calls, profile(spelling.codec, spelling.last, words.KIND, "A method with a slash"))
        return Speech(speaking, _paths(words.IDS, spelling), cards.card_0_3, OTHERWISE)

    return Speeches(speech(extras=False), speech(extras=True))


def rest(calls: Calls, cards: Legacy, *, waits: bool, raw_files: bool) -> Mapping[OldSpelling, Speeches]:
    def speech(spelling: Spelling, said: Words, card: Callable[[pb.AgentCard], bytes]) -> Speech:
        speaking = _speaking(calls, profile(spelling.codec, spelling.last, said, "A path under /v1"))
        return Speech(speaking, _paths(words.RENAMED, spelling), card, OTHERWISE)

    plain, extras = (
        speech(kind_json(rest=True, wait=waits, extras=extras), words.KIND, cards.card_0_3) for extras in (False, True)
    )
    proto = speech(proto_json(wait=waits, raw_files=raw_files), words.PROTO, cards.card_0_3_both)
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
        refusal=plain_error_type,
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
    return replace(calls, profile=spoken, events=EventCache(spoken.codec, spoken.last), header_map=header_map)


def _asks_for_extras(headers: MultiMapping[str]) -> bool:
    for name in EXTENSIONS:
        if name in headers and any(MEMBERS_URI in map(str.strip, uris.split(",")) for uris in headers.getall(name)):
            return True
    return False


def _uses_extras(send: JsonObject) -> bool:
    """Whether a sound send makes such a request, or has parts of tools in a shape of their own."""
    message = send.get("message") or {}
    return message.get(MEMBER) is not None or any(part.get("kind") in KINDS for part in message.get("parts") or ())
