"""What is particular about the draft in JSON (spec: DRFT-02, DRFT-03, CONF-01, -02, -03, -04, -17)."""

from __future__ import annotations

from typing import Final

from a2a_gateway.older.draft.errors import CODES, DraftFailure
from a2a_gateway.profiles import Profile
from a2a_server.protocol.dialects import DRAFT, words
from a2a_server.protocol.names import PROBLEM_JSON, SPOKEN, VERSION


def _problem(accept: str | None) -> str:
    """A client that does not accept explanations gets one all the same."""
    del accept
    return PROBLEM_JSON


PROFILE: Final = Profile(
    spoken="draft",
    codec=DRAFT.codec,
    last=DRAFT.last,
    codes=CODES,
    failure=DraftFailure,
    refusal=_problem,
    # The call itself is one of 1.0; without saying so, servers that go by the letter would take it for one of 0.3.
    metadata={SPOKEN: ("draft",), VERSION: ("1.0",)},
    accepts="0.3",
    signs="The draft profile",
    words=words.DRAFT,
)
