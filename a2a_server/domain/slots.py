"""Slots of scopes: by them tasks are spread over databases, and each task's id carries its own (spec: SCAL-05)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from a2a_server.domain.scope import Scope

SLOTS: Final = 4096

_SPARE_BITS: Final = 4
_KNOWN_PLACES: Final = 10_000
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8([0-9a-f]{3})-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_RANGE = re.compile(r"\s*(\d{1,4})(?:\s*-\s*(\d{1,4}))?\s*")


class ScopePlace(NamedTuple):
    """Where the rows of a scope are."""

    slot: int
    """12 bits of the hash. It leads every key, so that slots can be spread over databases."""
    scope: UUID
    """The whole hash."""


@lru_cache(_KNOWN_PLACES)
def place_of(scope: Scope) -> ScopePlace:
    digest = blake2b(f"{len(scope.tenant)}:{scope.tenant}{scope.owner}".encode(), digest_size=16).digest()
    return ScopePlace(slot_of(digest), UUID(bytes=digest))


def slot_of(digest: bytes) -> int:
    """The slot that a hash stands for."""
    return int.from_bytes(digest[:2]) >> _SPARE_BITS


def slot_in(task_id: str) -> int | None:
    """The slot that an id carries. None if a server of before has made it, whose ids are UUIDs of version 7."""
    found = _ID.fullmatch(task_id)
    return int(found[1], 16) if found else None


def slots_in(text: str) -> frozenset[int]:
    """Read a list of slots such as `0-2047,3000`; an empty one has none. Raises `ValueError`."""
    slots: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        found = _RANGE.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < SLOTS:
            raise ValueError(f"{part.strip()!r} must be slots from 0 to {SLOTS - 1}, such as 0-2047,3000")
        slots.update(range(first, last + 1))
    return frozenset(slots)


def slots_text(slots: Iterable[int]) -> str:
    """The opposite of `slots_in`."""
    runs = groupby(enumerate(sorted(slots)), lambda pair: pair[1] - pair[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(run) for _, run in runs)]
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ends)


class SlotMove(NamedTuple):
    """Slots that are to go from one database to another."""

    slots: frozenset[int]
    source: str
    target: str


def evenly(weights: Mapping[str, Mapping[int, int]]) -> Sequence[SlotMove]:
    """How to spread slots so that all databases have about the same weight. `weights`: of each slot, by database."""
    sums = {name: sum(slots.values()) for name, slots in weights.items()}
    fair = sum(sums.values()) / len(sums)
    moves: dict[tuple[str, str], set[int]] = {}
    for source, slots in weights.items():
        for slot in sorted(slots, reverse=True):
            weight, target = slots[slot], min(sums, key=lambda name: (sums[name], name))
            if sums[source] - weight / 2 < fair or sums[target] + weight / 2 > fair:
                continue  # it would be as far from even as before
            moves.setdefault((source, target), set()).add(slot)
            sums[source] -= weight
            sums[target] += weight
    return [SlotMove(frozenset(some), *names) for names, some in moves.items()]
