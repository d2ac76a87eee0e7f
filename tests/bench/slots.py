"""Writes per second with 1, 2 and 4 PostgreSQLs, and what that means for 100 machines: python -m tests.bench.slots.

All databases and the writer share this machine, so wall clocks say little: what counts is processor time per write, of
each database and of the process that writes. If neither grows with the number of databases, so many more databases do
so many times as much. `docs/scaling.md` has the assumptions of the projection.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from statistics import median

import click

from tests.conformance.authors import COMPLETED, Author
from tests.support.house import Ids, PostgresOptions, Scope, ShardedStore, ShardOptions, place_of
from tests.support.postgres import Cluster, cluster, make_tables

_TICKS = os.sysconf("SC_CLK_TCK")
_SLOTS = 4096
_LOOKS = 200
_LOOKS_PER_SECOND = 4
"""How often a server looks for turns that others have left."""
_HANDS = 24
"""Tasks that are written at the same time, for each database."""
_SCOPES = 1_000
_WRITES_PER_SEND = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """What one number of databases has done."""

    databases: int
    rate: float
    """Writes per second with load on all of them, on this machine."""
    database_cpu: float
    """Microseconds of a database per write, with load on it alone."""
    writer_cpu: float
    """Microseconds of the writing process per write."""
    look_cpu: float
    """Microseconds of a database for a server's look at it."""


def cpu_of(one: Cluster) -> float:
    """Processor seconds of a PostgreSQL: its first process, and those that this one has started."""
    first = int((one.data / "postmaster.pid").read_text().split()[0])
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(path.parent.name) == first:
            total += sum(map(int, fields[11:15]))  # with children that have ended
        elif int(fields[1]) == first:
            total += sum(map(int, fields[11:13]))
    return total / _TICKS


def shards_of(dsns: Sequence[str]) -> Sequence[ShardOptions]:
    width = _SLOTS // len(dsns)
    return [
        ShardOptions(f"d{number}", PostgresOptions(dsn=dsn, patience=30.0), frozenset(range(at, at + width)))
        for number, dsn in enumerate(dsns)
        for at in [number * width]
    ]


async def measure(clusters: Sequence[Cluster], seconds: float) -> Sample:
    dsns = [one.fresh() for one in clusters]
    for dsn in dsns:
        await make_tables(dsn)
    store, owners = ShardedStore(shards_of(dsns)), [f"owner {number}" for number in range(_SCOPES)]
    await store.open()
    await _write(store, owners, _HANDS * len(dsns), min(1.0, seconds))
    rate = await _write(store, owners, _HANDS * len(dsns), seconds) / seconds
    here = [owner for owner in owners if place_of(Scope("bench", owner)).slot < _SLOTS // len(dsns)]
    first, before, own = clusters[0], cpu_of(clusters[0]), time.process_time()
    writes = await _write(store, here, _HANDS, seconds)
    used, writer = cpu_of(first) - before, time.process_time() - own
    before = cpu_of(first)
    for _ in range(_LOOKS):
        await store.claim("nobody", 1)
    look = (cpu_of(first) - before) / _LOOKS
    await store.close()
    return Sample(len(dsns), rate, 1e6 * used / writes, 1e6 * writer / writes, 1e6 * look)


async def _write(store: ShardedStore, owners: Sequence[str], hands: int, seconds: float) -> int:
    """Let tasks of these owners begin, say something and end: a send's three writes. Returns how many writes."""
    ids, turn, written, end = Ids(), count(), 0, time.perf_counter() + seconds

    async def hand() -> None:
        nonlocal written
        while time.perf_counter() < end:
            scope = Scope("bench", owners[next(turn) % len(owners)])
            author = await Author(store, ids.new_task(scope), scope=scope).start()
            await author.chunk("some words of an answer " * 8)
            await author.become(COMPLETED, end=[1])
            written += _WRITES_PER_SEND

    await asyncio.gather(*(hand() for _ in range(hands)))
    return written


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """The machines of a projection."""

    machines: int
    cores: int
    busy: float
    """The part of the cores that may be busy."""
    send_cpu: float
    """Microseconds of a server per send, beside those for the store."""
    skew: float
    """How much more than an average database the busiest one has to do."""

    def sends(self, databases: int, sample: Sample) -> float:
        """Sends per second, with so many of the machines for databases."""
        servers, room = self.machines - databases, 1e6 * self.cores * self.busy
        looks = servers * _LOOKS_PER_SECOND * sample.look_cpu
        stored = databases * max(0.0, room - looks) / (sample.database_cpu * self.skew * _WRITES_PER_SEND)
        return min(stored, servers * room / (self.send_cpu + _WRITES_PER_SEND * sample.writer_cpu))

    def best(self, sample: Sample) -> int:
        """How many of the machines should be databases."""
        return max(range(1, self.machines), key=lambda databases: self.sends(databases, sample))


@click.command()
@click.option("--seconds", default=10.0, show_default=True, help="How long each number of databases is measured.")
@click.option("--rounds", default=3, show_default=True, help="How often; the median counts.")
@click.option("--machines", default=100, show_default=True, help="For how many machines to project.")
@click.option("--cores", default=8, show_default=True, help="The cores of each.")
@click.option("--busy", default=0.6, show_default=True, help="The part of them that may be busy.")
@click.option(
    "--send-cpu", default=400.0, show_default=True, help="Microseconds of a server per send, beside the store."
)
@click.option("--skew", default=1.3, show_default=True, help="Work of the busiest database, by that of an average one.")
@click.option("--json", "as_json", is_flag=True, help="Print every sample as JSON.")
def main(*, seconds: float, rounds: int, as_json: bool, **park: float) -> None:
    """Measure writes with 1, 2 and 4 databases, each a PostgreSQL of its own."""
    samples: list[Sample] = []
    with ExitStack() as stack:
        clusters = [stack.enter_context(cluster()) for _ in range(4)]
        for _ in range(rounds):
            samples += [asyncio.run(measure(clusters[:number], seconds)) for number in (1, 2, 4)]
    if as_json:
        click.echo(json.dumps([asdict(sample) for sample in samples]))
        return
    click.echo("databases  writes/s here  database µs/write  writer µs/write  database µs/look")
    for number in (1, 2, 4):
        middle = _median([one for one in samples if one.databases == number])
        rate, *costs = (f"{value:,.0f}" for value in list(asdict(middle).values())[1:])
        click.echo(f"{number:>9}{rate:>15}{costs[0]:>19}{costs[1]:>17}{costs[2]:>18}")
    told = Park(**park)  # type: ignore[arg-type]  # as the options are declared
    databases = told.best(middle)
    click.echo(
        f"{told.machines} machines: {databases} databases and {told.machines - databases} servers make "
        f"{told.sends(databases, middle):,.0f} sends per second"
    )


def _median(samples: Sequence[Sample]) -> Sample:
    columns = zip(*(asdict(sample).values() for sample in samples), strict=True)
    return Sample(*map(median, columns))


if __name__ == "__main__":
    main()
