"""Where a slot is, while databases that answer at different moments are asked (spec: SCAL-05)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from tests.support.house import PostgresDatabase
from tests.support.house import postgres_shard_map as shard_map

SLOT = 7
EVERY = frozenset(range(4096))


class Said:
    """A database that says which slots it has, as soon as it may."""

    def __init__(self, slots: frozenset[int]) -> None:
        self.id: UUID = uuid4()
        self.version = 1
        self.slots = slots
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def become(self, slots: frozenset[int]) -> None:
        self.slots, self.version = slots, self.version + 1

    async def fetch(self, query: str) -> Sequence[tuple[Any, ...]]:
        await self.may_answer.wait()
        if query == shard_map.SQL["version"]:
            return [(self.version,)]
        assert query == shard_map.SQL["held"]
        return [(self.id, self.version, shard_map.bits_of(self.slots), self.id, [], None)]


@pytest.mark.req("SCAL-05")
async def test_an_old_place_never_comes_with_a_new_version() -> None:
    """A read there would find nothing, and would be believed."""
    source, target = Said(EVERY), Said(frozenset())
    shards = [shard_map.Shard(name, cast("PostgresDatabase", one)) for name, one in (("a", source), ("b", target))]
    here, there = shards
    places = shard_map.ShardMap(shards, patience=30)
    await places.check()
    assert await places.shard_of(SLOT) == (here, 1, 1)

    source.become(EVERY - {SLOT})
    target.become(frozenset({SLOT}))
    target.may_answer.clear()
    renewing = asyncio.create_task(places.renew())
    await asyncio.sleep(0.05)  # the source has answered, the target has not
    shard, version, _ = await places.shard_of(SLOT)
    assert shard is here
    assert not await shard.still_says(version)

    target.may_answer.set()
    assert await places.shard_of(SLOT) == (here, 1, 1)
    await renewing
    assert await places.shard_of(SLOT) == (there, 2, 2)
