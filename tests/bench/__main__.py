"""The command: choose benchmarks, run them, print what came out."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tests.bench import report
from tests.bench.cases import CASES
from tests.bench.exchange import Broken
from tests.bench.lab import Effort, Lab, Missing
from tests.bench.processes import CLIENT_CORE, NotStarted
from tests.bench.rows import Row

_QUICK = Effort(rounds=2, seconds=0.5, quick=True)
_FOLDER = Path("build")
_EPILOG = "\n\n".join(f"{name}: {(case.__doc__ or '').splitlines()[0]}" for name, case in CASES.items())


@click.command(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", multiple=True, type=click.Choice(list(CASES)), help="Run this one; may be given again.")
@click.option("--quick", is_flag=True, help="Little of everything: shows that it works, not how fast.")
@click.option("--rounds", type=click.IntRange(1), help="How often everything is measured.  [default: 5, quick: 2]")
@click.option("--seconds", type=click.FloatRange(0.05), help="How long each time.  [default: 1.5, quick: 0.5]")
@click.option("--json", "as_json", is_flag=True, help="Print every sample as JSON instead of tables.")
@click.option("--write", type=click.Path(exists=True, path_type=Path), help="Put the tables into this document, too.")
@click.option("--folder", type=click.Path(path_type=Path), default=_FOLDER, help="Where SQLite files go: a real disk.")
@click.option(
    "--home", type=click.Path(exists=True, path_type=Path), default=".", help="Where our packages are taken from."
)
def main(  # noqa: PLR0913 - the options
    only: Sequence[str],
    *,
    quick: bool,
    rounds: int | None,
    seconds: float | None,
    as_json: bool,
    write: Path | None,
    folder: Path,
    home: Path,
) -> None:
    """Measure a2ad against the official SDK, and against itself with more to do.

    Both servers run the same agent, each in a process of its own; all processes of servers share one core, of which one
    is busy at a time, and the load comes from the other core. Everything is measured in turns and repeatedly. Rates
    are what clients see (wall clock); "server CPU" is the processor time that the server's process used, whoever waited
    for whom. A number is the median of all rounds, a ratio the median of the rounds' ratios.
    """
    basis = _QUICK if quick else Effort()
    effort = Effort(rounds or basis.rounds, seconds or basis.seconds, quick)
    try:
        rows = run(only or list(CASES), effort, folder, home)
    except (Broken, NotStarted) as error:
        raise click.ClickException(str(error)) from None
    tables = report.as_markdown(rows, effort, home)
    click.echo(report.as_json(rows, effort) if as_json else tables)
    if write is not None:
        report.write_into(write, tables)


def run(names: Sequence[str], effort: Effort, folder: Path, home: Path = Path()) -> list[Row]:
    """Run benchmarks one after the other; their files are gone afterwards."""
    os.sched_setaffinity(0, {CLIENT_CORE})
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with TemporaryDirectory(prefix="bench-", dir=folder) as place:
        lab = Lab(Path(place).resolve(), effort, home)
        for name in names:
            begun = time.monotonic()
            try:
                rows += CASES[name](lab)
            except Missing as missing:
                click.echo(f"{name} is left out: {missing}", err=True)
                continue
            click.echo(f"{name} took {time.monotonic() - begun:.0f} s", err=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
