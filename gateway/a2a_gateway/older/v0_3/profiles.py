"""What is particular about 0.3 in JSON, whatever its spelling (spec: LRES-02, LPSH-04, CONF-01, -02, -04, -17, -19)."""

from __future__ import annotations

from typing import Final

from multidict import istr

from a2a_gateway.older.v0_3.errors import OldFailure
from a2a_gateway.profiles import Profile
from a2a_gateway.requests.headers import plain_answer_type, plain_error_type
from a2a_server.protocol.dialects import Spelling, words
from a2a_server.protocol.dialects.words import Words
from a2a_server.protocol.names import EXTENSIONS as EXTENSIONS_OF_1_0
from a2a_server.protocol.names import EXTENSIONS_HEADER, OLD_EXTENSIONS, OLD_EXTENSIONS_HEADER, SPOKEN, VERSION

EXTENSIONS: Final = istr(OLD_EXTENSIONS_HEADER), istr(EXTENSIONS_HEADER)
"""The headers for extensions, 0.3's own first."""
RENAMED: Final = {OLD_EXTENSIONS: EXTENSIONS_OF_1_0}
"""Headers that become metadata of another name."""

_TOLD: Final = {SPOKEN: ("0.3",), VERSION: ("1.0",)}
"""The call itself is one of 1.0; without saying so, servers that go by the letter would take it for one of 0.3."""


def jsonrpc(spelling: Spelling) -> Profile:
    return _profile(spelling, words.KIND, "A method with a slash")


def rest(spelling: Spelling, told: Words) -> Profile:
    return _profile(spelling, told, "A path under /v1")


def _profile(spelling: Spelling, told: Words, signs: str) -> Profile:
    return Profile(
        spoken="0.3",
        codec=spelling.codec,
        last=spelling.last,
        codes="1.0.0",
        failure=OldFailure,
        unary=plain_answer_type,
        refusal=plain_error_type,
        extensions=EXTENSIONS,
        metadata=_TOLD,
        accepts="0.3",
        signs=signs,
        words=told,
    )
