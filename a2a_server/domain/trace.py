"""Reads and writes the trace of a caller, in W3C Trace Context level 1 (spec: TRAC-01).

The server makes no spans; it passes on what it was given. A malformed trace is ignored and never an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from a2a_server.protocol.names import TRACE_PARENT, TRACE_STATE

_FIELDS: Final = "-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_PARENT: Final = re.compile(
    f"00{_FIELDS}"  # version 00 has exactly these fields
    rf"|(?!00|ff)[0-9a-f]{{2}}{_FIELDS}(?:-(?:[ -~]*[!-~])?)?"  # later versions may add more after a hyphen
)
_LONGEST_PARENT: Final = 128
_LONGEST_STATE: Final = 512
"""Characters. W3C asks everybody to pass on at least as many."""


class Trace(NamedTuple):
    """A call's place in a trace, and what tracing systems have added to it."""

    parent: str
    state: str = ""

    def headers(self) -> dict[str, str]:
        """What to send along with requests that belong to the same trace."""
        return {TRACE_PARENT: self.parent, TRACE_STATE: self.state} if self.state else {TRACE_PARENT: self.parent}


def trace_of(metadata: Mapping[str, Sequence[str]]) -> Trace | None:
    """Read it. None unless there is exactly one well-formed parent. A malformed state alone is left out."""
    parents = metadata.get(TRACE_PARENT, ())
    if len(parents) != 1 or len(parents[0]) > _LONGEST_PARENT or not _PARENT.fullmatch(parents[0]):
        return None
    state = ",".join(filter(None, metadata.get(TRACE_STATE, ()))).strip(" ")
    sound = len(state) <= _LONGEST_STATE and state.isascii() and state.isprintable()
    return Trace(parents[0], state if sound else "")
