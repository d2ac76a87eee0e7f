"""What a page costs when there are many tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from a2a_proto import a2a_pb2 as pb
from tests.bench import requests
from tests.bench.fill import fill
from tests.bench.lab import NAMES, VERSION, Engine, Lab, stub
from tests.bench.load import Load, Plan
from tests.bench.processes import Server
from tests.bench.rows import GROWTH, Row, Target

_SMALL = 10_000
_FIRST_PAGE = 50
_LATER_PAGE, _PAGES = 10, 100


def pages(lab: Lab) -> Iterator[Row]:
    """ListTasks, first page and page 100, with 1,000,000 stored tasks and with 10,000, on SQLite and on PostgreSQL."""
    large, small = lab.effort.size(1_000_000, 20_000), lab.effort.size(10_000, 1_000)
    with lab.postgres() as databases:
        engines: Mapping[Engine, Callable[[int], str | Path]] = {
            "sqlite": lambda count: lab.place(f"{count}.db"),
            "postgres": lambda _: databases.fresh(),
        }
        for engine, make in engines.items():
            yield from _grown(lab, engine, {count: make(count) for count in (large, small)})


def _grown(lab: Lab, engine: Engine, places: Mapping[int, str | Path]) -> Iterator[Row]:
    for count, place in places.items():
        fill(place, count)
    (large, over_many), (small, over_few) = places.items()
    with lab.ours(engine, place=over_many) as many, lab.ours(engine, place=over_few) as few:
        first = lab.compare({"many": (many, _first()), "few": (few, _first())})
        later = lab.compare({"many": (many, _later(many)), "few": (few, _later(few))})
    name = f"with {large:,} tasks ÷ with {small:,}, {NAMES[engine]}"
    yield from _rows(f"ListTasks, first page of {_FIRST_PAGE} {name}", first["many"], first["few"])
    yield from _rows(f"ListTasks, page {_PAGES} of {_LATER_PAGE} {name}", later["many"], later["few"])


def _first() -> Plan:
    return Plan("ListTasks", [requests.page(_FIRST_PAGE)], connections=2, depth=2)


def _later(server: Server) -> Plan:
    token = ""
    with stub(server) as client:
        for _ in range(_PAGES - 1):
            request = pb.ListTasksRequest(page_size=_LATER_PAGE, page_token=token)
            token = client.ListTasks(request, metadata=VERSION).next_page_token
    return Plan("ListTasks", [requests.page(_LATER_PAGE, token)], connections=2, depth=2)


def _rows(name: str, many: Sequence[Load], few: Sequence[Load]) -> Iterator[Row]:
    for metric, of in (
        ("server CPU µs/call", attrgetter("server_cpu")),
        ("elapsed µs/call", attrgetter("seconds")),
    ):
        ours, other = ([1e6 * of(load) / load.calls for load in loads] for loads in (many, few))
        yield Row(section=GROWTH, bench=name, metric=metric, ours=ours, other=other, target=Target("≤", 2))
