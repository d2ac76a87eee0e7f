"""What is particular about the draft in JSON (spec: DRFT-02, DRFT-03, CONF-01, -02, -03, -04, -17)."""

from __future__ import annotations

from typing import Final

from gateway.dialects import DRAFT, words
from gateway.draft.errors import CODES, PROBLEM, DraftFailure
from gateway.headers import SPOKEN, VERSION
from gateway.profiles import Profile


def _problem(accept: str | None) -> str:
    """A client that does not accept explanations gets one all the same."""
    del accept
    return PROBLEM


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
