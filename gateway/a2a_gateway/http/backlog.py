"""Counts and bounds the bytes that are held for slow clients, for all clients together (spec: DOOR-04, RPLY-06).

`Backlog` counts answers that clients have not read yet, `UnfinishedBodies` request bodies that are still incomplete.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from a2a_server.protocol.errors import A2AError, Reason

STALLED_SECONDS: Final = 1.0
"""A client that has read nothing for this many seconds is dropped first, even if others have more unread bytes."""


class SharedText:
    """JSON that is too long to copy for each reader. All connections that send it share it."""

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
        """How many bytes its transport has not sent yet."""
        ...

    @property
    def text(self) -> SharedText:
        """The long text that is being sent to it."""
        ...

    def cut_off(self) -> None:
        """Drop the connection soon."""
        ...


class UnsentBytes(NamedTuple):
    """The bytes that one client has not read yet."""

    own: int
    text: SharedText
    since: float
    """When the client last read something."""

    @property
    def size(self) -> int:
        return self.own + self.text.kept


class Backlog:
    """Counts the unread bytes of all slow clients. When there are too many, it drops the clients with most of them.

    Clients that have read nothing for a while are dropped first.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._waiting: dict[SlowClient, UnsentBytes] = {}
        self._holders: Counter[SharedText] = Counter()
        self.size = 0
        """How many bytes are kept; a text that is sent to several clients counts once."""

    def add(self, client: SlowClient) -> None:
        """Count a client that reads slowly. A single client may exceed the bound."""
        now, own, text, old = time.monotonic(), client.unsent, client.text, self._waiting.get(client)
        self.remove(client)
        self._waiting[client] = UnsentBytes(own, text, now if old is None or own < old.own else old.since)
        self.size += own if self._holders[text] else own + text.kept
        self._holders[text] += 1
        while self.size > self._room and len(self._waiting) > 1:
            line = now - STALLED_SECONDS
            worst = max(self._waiting, key=lambda one: (self._waiting[one].since < line, self._waiting[one].size))
            self.remove(worst)
            worst.cut_off()

    def remove(self, client: SlowClient) -> None:
        """Stop counting a client, because it has read everything or has left."""
        if (waiting := self._waiting.pop(client, None)) is None:
            return
        self.size -= waiting.own
        self._holders[waiting.text] -= 1
        if not self._holders[waiting.text]:
            del self._holders[waiting.text]
            self.size -= waiting.text.kept


class UnfinishedBodies:
    """Counts the bytes of incomplete request bodies, in total and per sender (an address, or a known caller)."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._by_sender: dict[str, int] = {}

    def add(self, senders: Sequence[str], size: int) -> None:
        """Count bytes that have arrived; raise an error if there are too many. They count until `drop`, even then."""
        self._total += size
        for sender in senders:
            self._by_sender[sender] = self._by_sender.get(sender, 0) + size
        if self._total > self._most or max([self._by_sender[sender] for sender in senders]) > self._most // 2:
            half = "half of them from one address or caller"
            text = f"Too much is being sent at once: at most {self._most} bytes, and {half}."
            raise A2AError(Reason.OVERLOADED, text, retry_after=1)

    def drop(self, senders: Sequence[str], size: int) -> None:
        self._total -= size
        for sender in senders:
            if left := self._by_sender.pop(sender, 0) - size:
                self._by_sender[sender] = left
