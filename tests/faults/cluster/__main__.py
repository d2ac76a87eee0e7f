"""The command: play long fault runs, print their figures, and put them into docs/faults.md (`make faults`)."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tests.faults.cluster import faults
from tests.faults.cluster.faults import Grounds, small_disk
from tests.faults.cluster.scene import Figures, Outcome
from tests.support.postgres import cluster

HEAD = (
    "fault", "rounds", "minutes", "tasks", "events", "seen by readers", "acknowledged", "retries", "webhooks",
    "servers started", "taken over", "median s", "longest s", "findings", "seed", "day",
)  # fmt: skip
_TABLE = "| " + " | ".join(HEAD) + " |"


@dataclass(frozen=True, slots=True)
class Long:
    """A long run: what happens, how often, and with what pauses."""

    play: faults.Play
    rounds: int
    pause: tuple[float, float] = (1.0, 3.0)


RUNS = {
    "kill": Long(faults.kills, 100),
    "pause": Long(faults.pauses, 50),
    "rolling": Long(faults.rolling, 10),
    "clocks": Long(faults.clocks, 10),
    "restart": Long(faults.restarts, 27, (5.0, 40.0)),
    "disk": Long(faults.full_disk, 10),
    "failover": Long(faults.failover, 10),
    "conflicts": Long(faults.conflicts, 60),
    "network": Long(faults.network, 45),
    "pooler": Long(faults.pooler, 20),
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(RUNS)))
@click.option("--seed", type=int, help="Repeat a run that began with this seed.")
@click.option("--rounds", type=click.IntRange(1), help="How often it happens.  [default: depends on the fault]")
@click.option("--clients", type=click.IntRange(1), default=1, help="How many clients of each kind.")
@click.option("--write", type=click.Path(exists=True, path_type=Path), help="Put the figures into this document, too.")
def main(names: Sequence[str], *, seed: int | None, rounds: int | None, clients: int, write: Path | None) -> None:
    """Play fault runs. Without a name, all of them, one after the other."""
    failed = False
    for name in names or list(RUNS):
        begun, chosen = time.monotonic(), random.randrange(1 << 32) if seed is None else seed
        click.echo(f"{name}: --seed {chosen}")
        count = rounds or RUNS[name].rounds
        outcome = play(name, count, chosen, clients)
        for finding in outcome.findings:
            click.echo(f"  {finding}")
        row = row_of(name, count, (time.monotonic() - begun) / 60, chosen, outcome)
        click.echo(f"{_TABLE}\n{row}")
        if write is not None:
            put(write, name, row)
        failed = failed or bool(outcome.findings)
    raise SystemExit(failed)


def play(name: str, rounds: int, seed: int, clients: int) -> Outcome:
    long = RUNS[name]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="a2ad-faults-")))
        place = stack.enter_context(small_disk(1024)) if name == "disk" else None
        database = stack.enter_context(cluster("fsync=off", place=place))
        standby = stack.enter_context(cluster("fsync=off", primary=database)) if name == "failover" else None
        grounds = Grounds(database, folder, seed, rounds, clients, long.pause, standby)
        return asyncio.run(long.play(grounds))


def row_of(name: str, rounds: int, minutes: float, seed: int, outcome: Outcome) -> str:
    figures = outcome.figures
    assert figures is not None
    about = len(outcome.findings), seed, f"{datetime.now(UTC):%Y-%m-%d}"
    cells = [name, rounds, f"{minutes:.1f}", *_cells(figures), *about]
    return "| " + " | ".join(map(str, cells)) + " |"


def _cells(figures: Figures) -> list[object]:
    took = figures.takeovers
    middle, longest = (f"{statistics.median(took):.1f}", f"{max(took):.1f}") if took else ("-", "-")
    counts = (figures.tasks, figures.events, figures.heard, figures.acknowledged, figures.retries, figures.webhooks)
    return [*(f"{count:,}" for count in counts), figures.starts, len(took), middle, longest]


def put(document: Path, name: str, row: str) -> None:
    """Replace the row of a fault in the table, or add it."""
    lines = document.read_text("utf-8").splitlines()
    begin = lines.index(_TABLE) + 2
    end = next((place for place in range(begin, len(lines)) if not lines[place].startswith("|")), len(lines))
    rows = [line for line in lines[begin:end] if not line.startswith(f"| {name} ")]
    order = list(RUNS)
    rows = sorted([*rows, row], key=lambda line: order.index(line.split()[1]))
    document.write_text("\n".join([*lines[:begin], *rows, *lines[end:]]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
