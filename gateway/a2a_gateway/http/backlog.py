"""Bytes that wait for clients that read slowly: counted, and bounded for all clients together (DOOR-04, RPLY-06)."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final, NamedTuple, Protocol

PATIENCE: Final = 1.0
"""A client that has taken nothing for so many seconds is cut before others for whom more waits."""


class SharedText:
    """JSON that is too long for a copy per reader: all connections that send it share one, freed with the last."""

    __slots__ = ("__weakref__", "json", "kept")

    def __init__(self, json: bytes, beside: int = 0) -> None:
        """`beside` is the size of what else is kept for as long as the text is."""
        self.json = json
        self.kept = len(json) + beside


NO_TEXT: Final = SharedText(b"")


class SlowClient(Protocol):
    """A connection whose client reads slowly."""

    @property
    def unsent(self) -> int:
        """How many bytes its transport holds."""
        ...

    @property
    def text(self) -> SharedText:
        """The long text that is being sent to it."""
        ...

    def cut_off(self) -> None:
        """Drop the connection soon."""
        ...


class UnsentBytes(NamedTuple):
    """What waits for one client."""

    own: int
    text: SharedText
    since: float
    """When the client was last seen to take something."""

    @property
    def size(self) -> int:
        return self.own + self.text.kept


class Backlog:
    """All that waits for clients. When it grows too large, the clients for whom most is kept are cut.

    Those that have taken nothing for a while are cut first.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._waiting: dict[SlowClient, UnsentBytes] = {}
        self._holders: Counter[SharedText] = Counter()
        self.size = 0
        """How many bytes are kept; a text that is sent to several clients counts once."""

    def wait(self, client: SlowClient) -> None:
        """Enter a client that has to be waited for. What waits for a single client may exceed the bound."""
        now, own, text, old = time.monotonic(), client.unsent, client.text, self._waiting.get(client)
        self.go_on(client)
        self._waiting[client] = UnsentBytes(own, text, now if old is None or own < old.own else old.since)
        self.size += own if self._holders[text] else own + text.kept
        self._holders[text] += 1
        while self.size > self._room and len(self._waiting) > 1:
            line = now - PATIENCE
            worst = max(self._waiting, key=lambda one: (self._waiting[one].since < line, self._waiting[one].size))
            self.go_on(worst)
            worst.cut_off()

    def go_on(self, client: SlowClient) -> None:
        """Remove a client that is not waited for any more."""
        if (waiting := self._waiting.pop(client, None)) is None:
            return
        self.size -= waiting.own
        self._holders[waiting.text] -= 1
        if not self._holders[waiting.text]:
            del self._holders[waiting.text]
            self.size -= waiting.text.kept
