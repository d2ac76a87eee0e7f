"""What operators see of a store on several databases, and how they move slots (spec: SCAL-05)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol


class Load(NamedTuple):
    """What is stored in a slot, or in several."""

    tasks: int = 0
    bytes: int = 0

    def plus(self, other: Load) -> Load:
        return Load(self.tasks + other.tasks, self.bytes + other.bytes)


class ShardLoad(NamedTuple):
    """What is in one of the databases."""

    name: str
    slots: frozenset[int]
    loads: Mapping[int, Load]
    """By slot; empty slots are left out."""
    disk_bytes: int
    moving: frozenset[int]
    """Slots that a command moves from or to here, or that it has left on their way."""

    def load_of(self, slots: frozenset[int]) -> Load:
        total = Load()
        for slot in slots & self.loads.keys():
            total = total.plus(self.loads[slot])
        return total


class ShardAdmin(Protocol):
    """Moves slots while servers use the store. Methods raise `StoreRefused` or `StoreUnavailable`."""

    def look(self) -> Sequence[ShardLoad]:
        """What is where."""
        ...

    def move(self, slots: frozenset[int], to: str, tell: Callable[[str], None]) -> int:
        """Move slots to the database with this name. Returns how many were not there. `tell` gets lines of progress.

        What a killed command has left is settled first, as by `settle`.
        """
        ...

    def settle(self, tell: Callable[[str], None]) -> None:
        """End what a killed command has left: slots that have arrived stay, and others go back."""
        ...
