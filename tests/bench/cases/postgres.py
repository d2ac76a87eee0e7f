"""One server on PostgreSQL."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from time import sleep

from tests.bench import equality, requests
from tests.bench.cases.streams import FRAME, events
from tests.bench.doors import REST
from tests.bench.http1 import DONE, HttpPlan
from tests.bench.lab import Lab
from tests.bench.load import Load, Plan, drive
from tests.bench.processes import SERVER_CORE, Server, on_core, python
from tests.bench.rows import STORE, Row, Target, against
from tests.support.postgres import Cluster

_CHUNKS, _STREAMS = 200, 16
_SENDS = Plan("SendMessage", [requests.send("echo")])
_STREAMED = Plan(
    "SendStreamingMessage",
    [requests.send("chunks", str(_CHUNKS))],
    connections=4,
    depth=_STREAMS // 4,
    messages=_CHUNKS + FRAME,
)
_STREAMED_REST = HttpPlan(
    "SendStreamingMessage",
    [REST.stream("chunks", str(_CHUNKS)).raw()],
    DONE,
    connections=_STREAMS,
    messages=_CHUNKS + FRAME,
)
_COUNTED = 1.5
"""Seconds after which PostgreSQL has counted the commits of connections that rest."""


def postgres(lab: Lab) -> Iterator[Row]:
    """SendMessage and 16 streams on PostgreSQL, against the SDK's database store and a loop that only appends."""
    with ExitStack() as stack:
        databases = stack.enter_context(lab.postgres())
        place = databases.fresh()
        ours = stack.enter_context(lab.ours("postgres", place=place))
        sdk = stack.enter_context(lab.sdk("postgres", place=databases.fresh()))
        equality.check(ours, sdk)
        sends = lab.compare({"ours": (ours, _SENDS), "sdk": (sdk, _SENDS)})
        streams = lab.compare({"ours": (ours, _STREAMED), "sdk": (sdk, _STREAMED)})
        yield from against("SendMessage, both on PostgreSQL", sends["ours"], sends["sdk"], 8)
        yield from events(f"{_STREAMS} streams, both on PostgreSQL", streams["ours"], streams["sdk"], 5)
        yield from _shares(lab, databases, ours, place)


def _shares(lab: Lab, databases: Cluster, ours: Server, place: str) -> Iterator[Row]:
    """Of the events that loops append which do nothing else: a writer for each task, or all tasks in one group."""
    group = _entries_per_commit(lab, databases, ours, place)
    each = max(1, round(group / _STREAMS))
    dsn, seconds = databases.fresh(), lab.effort.seconds
    measures: Mapping[str, Callable[[], float]] = {
        "gRPC": lambda: drive(ours, _STREAMED, seconds=seconds).message_rate,
        "REST": lambda: drive(ours, _STREAMED_REST, seconds=seconds).message_rate,
        "writers": partial(_appended, dsn, _STREAMS, 1, each, seconds),
        "one": partial(_appended, dsn, 1, _STREAMS, group, seconds),
    }
    rates = lab.take_turns(measures)
    writers, one = f"a writer for each, {each} events per commit", f"one writer for all, {group} events per commit"
    for door, name, of, target in (
        ("gRPC", writers, "writers", Target("≥", 0.5)),
        ("REST", writers, "writers", Target("≥", 0.5)),
        ("gRPC", one, "one", None),
        ("REST", one, "one", None),
    ):
        yield Row(
            section=STORE,
            bench=f"{_STREAMS} streams over {door} ÷ {name}",
            metric="events/s",
            ours=rates[door],
            other=rates[of],
            higher_is_better=True,
            target=target,
        )


def _entries_per_commit(lab: Lab, databases: Cluster, ours: Server, place: str) -> int:
    sleep(_COUNTED)
    before = _commits(databases, place)
    load: Load = drive(ours, _STREAMED, seconds=lab.effort.seconds)
    sleep(_COUNTED)
    return max(1, round(load.messages / (_commits(databases, place) - before)))


def _commits(databases: Cluster, place: str) -> int:
    name = place.rpartition("/")[2]
    ((count,),) = databases.execute(f"SELECT xact_commit FROM pg_stat_database WHERE datname = '{name}'")  # noqa: S608
    return int(count)


def _appended(dsn: str, writers: int, tasks: int, group: int, seconds: float) -> float:
    """Entries per second, by a process on the servers' core."""
    command = python("-m", "tests.bench.bare_appends", dsn, *map(str, (writers, tasks, group, seconds)))
    with on_core(SERVER_CORE):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)
