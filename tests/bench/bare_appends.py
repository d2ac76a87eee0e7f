"""What appending to PostgreSQL costs at least: connections that store groups of entries, each group in one commit."""

from __future__ import annotations

import asyncio
import sys
import time

import asyncpg
import uvloop

_TABLE = """CREATE TABLE IF NOT EXISTS bare (
    slot smallint, task text, number integer, at bigint, wire bytea, PRIMARY KEY (slot, task, number))"""
_APPEND = "INSERT INTO bare SELECT * FROM unnest($1::smallint[], $2::text[], $3::integer[], $4::bigint[], $5::bytea[])"
_WIRE = bytes(140)
"""As long as the entry of a chunk."""


async def append(dsn: str, writers: int, tasks: int, group: int, seconds: float) -> float:
    """Entries per second. Each writer has tasks of its own, and its groups hold entries of all of them."""
    connections = [await asyncpg.connect(dsn) for _ in range(writers)]
    await connections[0].execute(_TABLE)
    begun = time.perf_counter()
    counts = await asyncio.gather(*(write(one, tasks, group, begun + seconds) for one in connections))
    return sum(counts) / (time.perf_counter() - begun)


async def write(connection: asyncpg.Connection[asyncpg.Record], tasks: int, group: int, end: float) -> int:
    names = [f"{id(connection)}-{time.time_ns()}-{task}" for task in range(tasks)]
    count = 0
    while (now := time.perf_counter()) < end:
        numbers = range(count, count + group)
        await connection.execute(
            _APPEND,
            [number % tasks for number in numbers],
            [names[number % tasks] for number in numbers],
            [number // tasks for number in numbers],
            [int(now * 1000)] * group,
            [_WIRE] * group,
        )
        count += group
    return count


if __name__ == "__main__":
    place, writers, tasks, group, seconds = sys.argv[1:]
    rate = uvloop.run(append(place, int(writers), int(tasks), int(group), float(seconds)))
    sys.stdout.write(f"{rate}\n")
