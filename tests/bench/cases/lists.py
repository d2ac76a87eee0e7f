"""What a page costs when there are many tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from a2a_proto import a2a_pb2 as pb
from tests.bench import requests
from tests.bench.fill import fill
from tests.bench.lab import VERSION, Lab, stub
from tests.bench.load import Load, Plan
from tests.bench.processes import Server
from tests.bench.rows import GROWTH, Row, Target

_SMALL = 1_000
_FIRST_PAGE = 50
_LATER_PAGE, _PAGES = 10, 100  # of a thousand tasks the hundredth page of ten is the last


def pages(lab: Lab) -> Iterator[Row]:
    """ListTasks, first page and page 100, with 100,000 stored tasks and with 1,000, on SQLite."""
    large = lab.effort.size(100_000, 20_000)
    files = {count: lab.place(f"{count}.db") for count in (large, _SMALL)}
    for count, path in files.items():
        fill(path, count)
    with lab.ours("sqlite", file=files[large]) as many, lab.ours("sqlite", file=files[_SMALL]) as few:
        first = lab.compare({"many": (many, _first()), "few": (few, _first())})
        later = lab.compare({"many": (many, _later(many)), "few": (few, _later(few))})
    name = f"with {large:,} tasks ÷ with {_SMALL:,}, SQLite"
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
        yield Row(section=GROWTH, bench=name, metric=metric, ours=ours, other=other, target=Target("≤", 3))
