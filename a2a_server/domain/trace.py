"""Where a call stands in its caller's trace, as W3C Trace Context spells it, level 1 (spec: TRAC-01).

The server makes no spans, so that what it was given is passed on as it came. What is malformed is ignored and never an
error: a trace is a favour among programs, and no reason to refuse a call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from a2a_server.protocol.names import TRACE_PARENT, TRACE_STATE

_FIELDS: Final = "-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_PARENT: Final = re.compile(
    f"00{_FIELDS}"  # exactly these fields
    rf"|(?!00|ff)[0-9a-f]{{2}}{_FIELDS}(?:-(?:[ -~]*[!-~])?)?"  # what a later version adds comes behind a hyphen
)
_LONGEST_PARENT: Final = 128
_LONGEST_STATE: Final = 512
"""As much as W3C asks everybody to pass on."""


class Trace(NamedTuple):
    """A call's place in a trace, and what tracing systems have added to it."""

    parent: str
    state: str = ""

    def headers(self) -> dict[str, str]:
        """What to send along with requests that belong to the same trace."""
        return {TRACE_PARENT: self.parent, TRACE_STATE: self.state} if self.state else {TRACE_PARENT: self.parent}


def trace_of(metadata: Mapping[str, Sequence[str]]) -> Trace | None:
    """Read it; None unless there is exactly one well-formed parent. A malformed state is left out alone."""
    parents = metadata.get(TRACE_PARENT, ())
    if len(parents) != 1 or len(parents[0]) > _LONGEST_PARENT or not _PARENT.fullmatch(parents[0]):
        return None
    state = ",".join(filter(None, metadata.get(TRACE_STATE, ()))).strip(" ")
    sound = len(state) <= _LONGEST_STATE and state.isascii() and state.isprintable()
    return Trace(parents[0], state if sound else "")
