"""SendStreamingMessage with an answer in many chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.bench import equality, requests
from tests.bench.doors import DOORS
from tests.bench.http1 import DONE, HttpPlan
from tests.bench.lab import Lab
from tests.bench.load import Load, Plan
from tests.bench.rows import SDK, Row, Target, cost, rate

_CHUNKS = 200
FRAME = 3
"""What comes with the chunks: the task, WORKING, COMPLETED."""


def stream(lab: Lab) -> Iterator[Row]:
    """SendStreamingMessage with 200 chunks: events per second, and the time to the first event."""
    body, messages = requests.send("chunks", str(_CHUNKS)), _CHUNKS + FRAME
    many = Plan("SendStreamingMessage", [body], connections=4, depth=2, messages=messages)
    alone = Plan("SendStreamingMessage", [body], connections=1, depth=1, messages=messages)
    with lab.ours("memory") as ours, lab.ours("sqlite") as ours_on_disk, lab.sdk("memory") as sdk:
        equality.check(ours, ours_on_disk, sdk)
        servers = {"ours": ours, "ours/sqlite": ours_on_disk, "sdk": sdk}
        loads = lab.compare({name: (server, many) for name, server in servers.items()})
        calm = lab.compare({name: (server, alone) for name, server in servers.items()})
    yield from events("8 streams, both in memory", loads["ours"], loads["sdk"], 5)
    yield from events("8 streams, ours on SQLite, SDK in memory", loads["ours/sqlite"], loads["sdk"])
    yield first("1 stream, both in memory", calm["ours"], calm["sdk"], 5)
    yield first("1 stream, ours on SQLite, SDK in memory", calm["ours/sqlite"], calm["sdk"])


def http_stream(lab: Lab) -> Iterator[Row]:
    """SSE of 200 chunks over REST and JSON-RPC: events per second, and the time to the first event."""
    with lab.ours("memory") as ours, lab.ours("sqlite") as ours_on_disk, lab.sdk("memory", http=True) as sdk:
        servers = {"ours": ours, "ours/sqlite": ours_on_disk, "sdk": sdk}
        equality.check(*servers.values(), doors=DOORS)
        for door in DOORS:
            request = door.stream("chunks", str(_CHUNKS)).raw()
            many = HttpPlan("SendStreamingMessage", [request], DONE, connections=8, messages=_CHUNKS + FRAME)
            alone = replace(many, connections=1)
            loads = lab.compare({name: (server, many) for name, server in servers.items()})
            calm = lab.compare({name: (server, alone) for name, server in servers.items()})
            yield from events(f"8 streams over {door.name}, both in memory", loads["ours"], loads["sdk"], 7)
            name = f"over {door.name}, ours on SQLite, SDK in memory"
            yield from events(f"8 streams {name}", loads["ours/sqlite"], loads["sdk"])
            yield first(f"1 stream over {door.name}, both in memory", calm["ours"], calm["sdk"], 5)
            yield first(f"1 stream {name}", calm["ours/sqlite"], calm["sdk"])


def events(name: str, ours: Sequence[Load], sdk: Sequence[Load], target: float | None = None) -> Iterator[Row]:
    yield rate(name, "events/s", lambda load: load.message_rate, ours, sdk, target)
    yield cost(name, "event", lambda load: load.messages, ours, sdk)


def first(name: str, ours: Sequence[Load], sdk: Sequence[Load], target: float | None = None) -> Row:
    return Row(
        section=SDK,
        bench=name,
        metric="ms to the first event",
        ours=[1e3 * load.first for load in ours],
        other=[1e3 * load.first for load in sdk],
        target=None if target is None else Target("≥", target),
    )
