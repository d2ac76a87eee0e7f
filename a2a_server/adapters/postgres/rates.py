"""Token buckets that servers share: a row says by the database's clock when a bucket will be full (spec: GATE-05).

A bucket that is full has no row. Rows change in place and are in no other index, so that a busy one costs little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from a2a_server.adapters.postgres.database import Database
from a2a_server.adapters.postgres.schema import queries
from a2a_server.domain.slots import SLOTS, slot_of

_SQL = queries("rates.sql")
_LONGEST: Final = 1e9
"""Seconds that one statement adds to a bucket; a sum of these fits into a timestamp."""
_AT_ONCE: Final = 256
"""Slots whose full buckets one statement removes."""


async def spend(database: Database, spent: Mapping[bytes, float]) -> Mapping[bytes, float]:
    slots = [slot_of(name) for name in spent]
    buckets = [UUID(bytes=name) for name in spent]
    seconds = [min(taken, _LONGEST) for taken in spent.values()]
    rows = await database.fetch(_SQL["spend"], slots, buckets, seconds)
    return {row["bucket"].bytes: row["seconds"] for row in rows}


async def forget_full(database: Database) -> None:
    for first in range(0, SLOTS, _AT_ONCE):
        await database.fetch(_SQL["forget_full"], first, first + _AT_ONCE - 1)
