"""Ids for tasks, contexts, messages and configs: sortable by time, drawn from entropy in blocks (spec: CTX-07).

One call of the operating system per id was a fifth of a send; a block serves 256 of them.
"""

from __future__ import annotations

import os
import time

_NOISE = 18
"""Hexadecimal digits of an id that are random; of the 74 bits that may be, the two beside the variant are not."""
_BLOCK = 256 * _NOISE


class Ids:
    """Makes UUIDs of version 7: neighbours in time are neighbours in an index."""

    __slots__ = ("_at", "_block", "_head", "_ms")

    def __init__(self) -> None:
        self._block = ""
        self._at = 0
        self._ms = 0
        self._head = ""
        """What all ids of this millisecond begin with."""

    def new(self) -> str:
        """A fresh UUID."""
        block, at = self._block, self._at
        if at == len(block):
            block, at = os.urandom(_BLOCK // 2).hex(), 0
            self._block = block
        self._at = at + _NOISE
        now = time.time_ns() // 1_000_000
        if now != self._ms:
            stamp = f"{now:012x}"
            self._ms, self._head = now, f"{stamp[:8]}-{stamp[8:]}-7"
        return f"{self._head}{block[at : at + 3]}-8{block[at + 3 : at + 6]}-{block[at + 6 : at + 18]}"
