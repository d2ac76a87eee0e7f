"""The scope of a call: whose tasks and configs it can see; and how owners share (spec: AUTZ-02, TENA-05, LIMT-02)."""

from __future__ import annotations

from typing import NamedTuple


class Scope(NamedTuple):
    """Part of every lookup. For the caller, nothing exists outside of it."""

    # A tuple, because it is part of many keys: hashed and compared several times per call.
    tenant: str
    owner: str


class Shares:
    """Places that owners share. One alone may have all; beside others, each is sure of an equal part, at least one."""

    __slots__ = ("_owners", "places", "taken")

    def __init__(self, places: int) -> None:
        self.places = places
        self._owners: dict[str, int] = {}
        self.taken = 0

    def room(self, owner: str) -> int:
        """How many more places the owner may take now."""
        own = self._owners.get(owner, 0)
        part = max(1, self.places // (len(self._owners) + (not own)))
        return max(0, self.places - self.taken, part - own)

    def take(self, owner: str, number: int = 1) -> None:
        self._owners[owner] = self._owners.get(owner, 0) + number
        self.taken += number

    def leave(self, owner: str, number: int = 1) -> None:
        self._owners[owner] -= number
        self.taken -= number
        if not self._owners[owner]:
            del self._owners[owner]
