"""What waits for clients that do not take it: counted, and bounded in all (spec: DOOR-04, RPLY-06)."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final, NamedTuple, Protocol

PATIENCE: Final = 1.0
"""After how many seconds in which it took nothing a client goes before others that owe more."""


class SharedText:
    """JSON that is too long for a copy per reader: all connections that send it share one, freed with the last."""

    __slots__ = ("__weakref__", "json", "kept")

    def __init__(self, json: bytes, beside: int = 0) -> None:
        """`beside` is what else is kept for as long as the text is."""
        self.json = json
        self.kept = len(json) + beside


NO_TEXT: Final = SharedText(b"")


class Debtor(Protocol):
    """A connection whose client is slow."""

    @property
    def unsent(self) -> int:
        """How many bytes its transport holds."""
        ...

    @property
    def text(self) -> SharedText:
        """What it is in the middle of sending, beside these."""
        ...

    def cut_off(self) -> None:
        """Drop the connection soon."""
        ...


class Debt(NamedTuple):
    """What one client has not taken."""

    own: int
    text: SharedText
    since: float
    """When it was last seen to take something."""

    @property
    def size(self) -> int:
        return self.own + self.text.kept


class Backlog:
    """All that clients have not taken. When it is too much, those have to go for whom the most is kept.

    Nobody who has just been sent something goes before those who have taken nothing for a while.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._debts: dict[Debtor, Debt] = {}
        self._holders: Counter[SharedText] = Counter()
        self.size = 0
        """How many bytes are kept; what several are sent counts once."""

    def wait(self, debtor: Debtor) -> None:
        """Note that a client has to be waited for. One alone may owe more than there is room for."""
        now, own, text, old = time.monotonic(), debtor.unsent, debtor.text, self._debts.get(debtor)
        self.go_on(debtor)
        self._debts[debtor] = Debt(own, text, now if old is None or own < old.own else old.since)
        self.size += own if self._holders[text] else own + text.kept
        self._holders[text] += 1
        while self.size > self._room and len(self._debts) > 1:
            line = now - PATIENCE
            worst = max(self._debts, key=lambda one: (self._debts[one].since < line, self._debts[one].size))
            self.go_on(worst)
            worst.cut_off()

    def go_on(self, debtor: Debtor) -> None:
        """Note that a client is not waited for any more."""
        if (debt := self._debts.pop(debtor, None)) is None:
            return
        self.size -= debt.own
        self._holders[debt.text] -= 1
        if not self._holders[debt.text]:
            del self._holders[debt.text]
            self.size -= debt.text.kept
