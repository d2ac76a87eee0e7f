"""What an SSE stream costs on which nothing happens."""

from __future__ import annotations

from collections.abc import Iterator

from a2a_proto import a2a_pb2 as pb
from tests.bench.audience import subscribed
from tests.bench.doors import REST, ask
from tests.bench.lab import Lab
from tests.bench.rows import ALONE, Row, Target

_WARM_UP = 200


def sse_idle(lab: Lab) -> Iterator[Row]:
    """Memory per subscriber of tasks that wait for input: 2,000 SSE streams, each with a task of its own."""
    count = lab.effort.size(2_000, 500)
    most = count + _WARM_UP
    bounds = f"[gateway]\nstreams_per_client = {most}\nconnections_per_client = {2 * most}\n"
    with lab.ours("memory", settings=bounds) as server:
        asked = [ask(REST, server, REST.send("ask"), pb.SendMessageResponse).task for _ in range(_WARM_UP + count)]
        requests = [REST.subscribe(task.id) for task in asked]
        with subscribed(server, requests[:_WARM_UP]):
            before = server.memory()
            with subscribed(server, requests[_WARM_UP:]):
                grown = server.memory() - before
    yield Row(
        section=ALONE,
        bench=f"{count:,} idle SSE streams",
        metric="KiB of RAM per stream",
        ours=[grown / count / 1024],
        target=Target("≤", 20),
    )
