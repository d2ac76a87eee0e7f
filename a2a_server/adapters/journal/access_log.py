"""The access log: lines of JSON, written in batches (spec: OPER-08)."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from typing import TextIO

from a2a_server.adapters.journal.lines import json_of, stamp_of
from a2a_server.ports.journal import CallRecord

_PAUSE = 0.2
_MOST = 512
_LONGEST = 128
"""Characters of a request id, which is the client's."""


class AccessLines:
    """Writes one line per call, a few times per second. Lines of a `worker` have its number."""

    def __init__(self, out: TextIO, worker: int = 0) -> None:
        self._out = out
        self._more = f',"worker":{worker}' if worker else ""
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def ended(self, call: CallRecord) -> None:
        self._lines.append(_line(call, int(time.time() * 1000), self._more))
        if len(self._lines) >= _MOST:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self.flush)

    def flush(self) -> None:
        """Write what has come."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines = self._lines
        self._lines = []
        with suppress(OSError, ValueError):  # nobody reads it any more
            while lines:
                count = _whole(lines)
                self._out.write("".join(lines[:count]))
                self._out.flush()
                del lines[:count]


def _whole(lines: Sequence[str]) -> int:
    """How many lines fit into one write that no other process can interrupt, also when they share a pipe; one at least.

    Lines are ASCII.
    """
    for count, size in enumerate(accumulate(map(len, lines))):
        if size > select.PIPE_BUF:
            return max(count, 1)
    return len(lines)


def _line(call: CallRecord, millis: int, more: str) -> str:
    if call.events is not None:
        more += f',"events":{call.events}'
    if call.trace:
        more += f',"trace_id":"{call.trace[3:35]}"'
    if call.request_id:
        more += f',"request_id":{_text(call.request_id[:_LONGEST])}'
    return f'{{"timestamp":"{stamp_of(millis)}",{_usual(*call[:7])},"ms":{call.seconds * 1000:.3f}{more}}}\n'


@lru_cache(maxsize=1024)
def _usual(*known: str) -> str:
    """What most calls of one caller have in common, as the inside of an object."""
    fields = dict(zip(CallRecord._fields, known, strict=False))
    if not fields["tenant"]:
        del fields["tenant"]
    return json_of({"level": "info", "event": "call", **fields})[1:-1]


def _text(value: str) -> str:
    return json_of({"": value})[4:-1]
