"""What a task costs that waits for its client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench import requests
from tests.bench.lab import VERSION, Lab, stub
from tests.bench.load import Plan, drive
from tests.bench.processes import Server
from tests.bench.rows import ALONE, Row, Target

_ASK = Plan("SendMessage", [requests.send("ask")])


@dataclass(frozen=True, slots=True)
class _Census:
    objects: int
    coroutines: int
    memory: int


def idle(lab: Lab) -> Iterator[Row]:
    """Memory held by 20,000 tasks that wait in INPUT_REQUIRED, on SQLite."""
    count = lab.effort.size(20_000, 5_000)
    with lab.ours("sqlite") as server:
        drive(server, _ASK, calls=lab.effort.size(10_000, 5_000))  # until SQLite's caches are full
        before = _census(server)
        drive(server, _ASK, calls=count)
        after = _census(server)
    name = f"{count:,} tasks waiting for input, SQLite"
    for metric, grown, bound in (
        ("Python objects per task", after.objects - before.objects, 0.01),
        ("coroutines per task", after.coroutines - before.coroutines, 0.0),
        ("bytes of RAM per task", after.memory - before.memory, None),
    ):
        target = None if bound is None else Target("≤", bound)
        yield Row(section=ALONE, bench=name, metric=metric, ours=[grown / count], target=target)


def _census(server: Server) -> _Census:
    """Counted inside the server, by a skill of its agent; the first census pays for what only censuses need."""
    with stub(server) as client:
        for _ in range(2):
            task = client.SendMessage(requests.message("census"), metadata=VERSION).task
    objects, coroutines = map(int, task.artifacts[0].parts[0].text.split())
    return _Census(objects, coroutines, server.memory())
