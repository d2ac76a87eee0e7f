"""What a chunk costs when there are many before it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import attrgetter

from tests.bench import requests
from tests.bench.cases.streams import FRAME
from tests.bench.lab import Lab
from tests.bench.load import Plan, drive
from tests.bench.rows import GROWTH, Row, Target

_SMALL = 100


def chunks(lab: Lab) -> Iterator[Row]:
    """Cost of a chunk of a 10,000-chunk answer and of a 100-chunk answer, on SQLite."""
    large = lab.effort.size(10_000, 2_000)
    repeats = large // _SMALL
    with lab.ours("sqlite") as server:
        drive(server, _plan(_SMALL), calls=repeats)
        loads = lab.take_turns(
            {
                "large": partial(drive, server, _plan(large), calls=1),
                "small": partial(drive, server, _plan(_SMALL), calls=repeats),
            }
        )
    name = f"{large:,} chunks in 1 answer ÷ in {repeats} answers, SQLite"
    for metric, of in (
        ("server CPU µs/chunk", attrgetter("server_cpu")),
        ("elapsed µs/chunk", attrgetter("seconds")),
    ):
        ours, other = ([1e6 * of(load) / large for load in loads[side]] for side in ("large", "small"))
        yield Row(section=GROWTH, bench=name, metric=metric, ours=ours, other=other, target=Target("≤", 1.2))


def _plan(count: int) -> Plan:
    body = requests.send("chunks", str(count))
    return Plan("SendStreamingMessage", [body], connections=1, depth=1, messages=count + FRAME)
