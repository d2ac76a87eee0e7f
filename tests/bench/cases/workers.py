"""Two workers that share a port, against one server alone, on the same PostgreSQL."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import mean

from tests.bench import requests
from tests.bench.cases.networked import Busiest
from tests.bench.exchange import Line
from tests.bench.lab import Lab, finished_ids
from tests.bench.load import Plan, drive
from tests.bench.processes import GATEWAY_CORE, SERVER_CORE, NotStarted, Server, cpu_of
from tests.bench.rows import WORKERS, Row, Target
from tests.support.postgres import quick_cluster

_SPREAD = 64
_COUNT = 2
_START = 60.0
_TABLES = Path("/proc/net/tcp"), Path("/proc/net/tcp6")


@dataclass(frozen=True, slots=True)
class _Even(Plan):
    """Calls on connections of which each process of a server has as many as the others."""

    turns: Iterator[int] = field(kw_only=True)
    """The process that gets the next connection."""

    def connect(self, server: Server) -> Line:
        """Connect until the kernel, which chooses by chance, has chosen the right one."""
        pid = next(self.turns)
        while True:
            line = Plan.connect(self, server)
            if _has(pid, server.port, line.socket.getsockname()[1]):
                return line
            line.close()


def workers(lab: Lab) -> Iterator[Row]:
    """GetTask on PostgreSQL with two workers, against one server without."""
    with ExitStack() as stack:
        dsn = stack.enter_context(quick_cluster()).fresh()
        one = stack.enter_context(lab.ours("postgres", place=dsn))
        two = stack.enter_context(lab.ours("postgres", place=dsn, settings=f"workers = {_COUNT}"))
        bodies = [requests.get(task_id) for task_id in finished_ids(one, requests.message("echo"), _SPREAD)]
        sides = {
            name: partial(_drive, lab, server, bodies, pids)
            for name, server, pids in (("one", one, [one.process.pid]), ("two", two, _children(two.process.pid)))
        }
        for warm_up in sides.values():
            warm_up()
        loads = lab.take_turns(sides)
    yield _row("calls/s, with database and load on their cores", loads, lambda found: found.load.rate)
    yield _row("calls/s, if each process had a core", loads, lambda found: found.limit, Target("≥", 1.8))


def _row(
    metric: str, loads: Mapping[str, Sequence[Busiest]], of: Callable[[Busiest], float], target: Target | None = None
) -> Row:
    return Row(
        section=WORKERS,
        bench="GetTask on PostgreSQL",
        metric=metric,
        ours=[of(found) for found in loads["two"]],
        other=[of(found) for found in loads["one"]],
        higher_is_better=True,
        target=target,
    )


def _drive(lab: Lab, server: Server, bodies: Sequence[bytes], pids: Sequence[int]) -> Busiest:
    """Every process has a core, and as many open calls as the others.

    Where there are but two cores, the load and the database share the second one.
    """
    for pid, core in zip(pids, (SERVER_CORE, GATEWAY_CORE), strict=False):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names, not paths
            os.sched_setaffinity(int(thread), {core})
    plan = _Even("GetTask", bodies, connections=8 * len(pids), depth=4, turns=cycle(pids))
    before = [cpu_of(pid) for pid in pids]
    load = drive(server, plan, seconds=lab.effort.seconds)
    # On average: who has a core alone gets more of the calls than who shares one.
    return Busiest(load, mean(cpu_of(pid) - began for pid, began in zip(pids, before, strict=True)))


def _children(pid: int) -> Sequence[int]:
    """The workers of a supervisor, which starts the second one when the first one serves."""
    place, end = Path(f"/proc/{pid}/task/{pid}/children"), time.monotonic() + _START
    while len(found := place.read_text("ascii").split()) < _COUNT:
        if time.monotonic() > end:
            raise NotStarted(f"there are {len(found)} workers instead of {_COUNT}")
        time.sleep(0.05)
    return [int(text) for text in found]


def _has(pid: int, port: int, client: int) -> bool:
    """Whether a process has the server's end of a connection."""
    ends = f":{port:04X}", f":{client:04X}"
    for line in (line for table in _TABLES for line in table.read_text("ascii").splitlines()):
        fields = line.split()
        if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
            return f"socket:[{fields[9]}]" in _links(pid)
    return False


def _links(pid: int) -> Iterator[str]:
    for place in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            yield str(place.readlink())
