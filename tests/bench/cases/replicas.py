"""What servers on one PostgreSQL database cost each other, and how soon one shows what another has written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Final

import grpc

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.bench import requests
from tests.bench.audience import gate
from tests.bench.exchange import Broken
from tests.bench.lab import VERSION, Lab
from tests.bench.load import Plan
from tests.bench.processes import GATEWAY_CORE, SERVER_CORE, Server
from tests.bench.requests import Show
from tests.bench.rows import ALONE, NOTIFIED, Row, Target
from tests.support.postgres import Cluster, cluster

_SEND: Final = Plan("SendMessage", [requests.send("echo")])
_PAUSE: Final = 0.02
_WARM: Final = 10
"""Events that do not count: the first ones come before the servers know of each other's readers."""
_LATEST_MS: Final = {"postgres": 3.0, "peers": 1.0, "none": None}
_PATIENCE: Final = 60.0


def replicas(lab: Lab) -> Iterator[Row]:
    """Two servers on one PostgreSQL: when the other one shows an event, by each way, and what a commit costs."""
    with cluster() as made:
        yield from _lags(lab, made)
        yield from _commits(lab, made)


@contextmanager
def _servers(lab: Lab, made: Cluster, way: str, count: int) -> Iterator[list[Server]]:
    """Servers on a database of their own."""
    dsn, settings = made.fresh(), f'wakeups = "{way}"\n'
    with ExitStack() as stack:
        cores = (SERVER_CORE, GATEWAY_CORE)[:count]
        yield [stack.enter_context(lab.ours("postgres", place=dsn, settings=settings, core=core)) for core in cores]


def _lags(lab: Lab, made: Cluster) -> Iterator[Row]:
    """How much later a subscriber of the other server gets an event than one of the server that has written it."""
    count = lab.effort.size(100, 20)
    with ExitStack() as stack:
        pairs = {way: stack.enter_context(_servers(lab, made, way, 2)) for way in _LATEST_MS}
        time.sleep(2.0)  # until they have found each other
        found = lab.take_turns({way: partial(_lag, pair, count) for way, pair in pairs.items()})
    for way, lags in found.items():
        most = _LATEST_MS[way]
        yield Row(
            section=ALONE,
            bench=f"an event of another server, wakeups = {way}",
            metric="ms later than on its own (median)",
            ours=lags,
            target=None if most is None else Target("≤", most),
        )


def _lag(pair: Sequence[Server], count: int) -> float:
    here, there = pair
    return asyncio.run(_watch(here, there, Show(gate(), count + _WARM, pause=_PAUSE)))


async def _watch(here: Server, there: Server, show: Show) -> float:
    """The median in milliseconds, of one client that subscribes to a task on both servers."""
    async with (
        grpc.aio.insecure_channel(f"127.0.0.1:{here.port}") as near,
        grpc.aio.insecure_channel(f"127.0.0.1:{there.port}") as far,
    ):
        own, other = (a2a_pb2_grpc.A2AServiceStub(channel) for channel in (near, far))
        begin = requests.message("show", str(show))
        begin.configuration.return_immediately = True
        task = (await own.SendMessage(begin, metadata=VERSION)).task
        streams = [
            stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task.id), metadata=VERSION) for stub in (own, other)
        ]
        items = [aiter(stream) for stream in streams]
        for first in items:
            await anext(first)
        watching = [asyncio.create_task(_times(rest)) for rest in items]
        await own.SendMessage(requests.message("open", show.gate), metadata=VERSION)
        async with asyncio.timeout(_PATIENCE + show.count * show.pause):
            shown, shown_there = await asyncio.gather(*watching)
    if len(shown) < show.count or len(shown) != len(shown_there):
        raise Broken(f"{len(shown)} and {len(shown_there)} events of {show.count}")
    lags = [late - soon for soon, late in zip(shown, shown_there, strict=True)]
    return 1e3 * median(lags[_WARM:])


async def _times(items: AsyncIterator[pb.StreamResponse]) -> list[float]:
    """When each chunk came."""
    return [time.perf_counter() async for item in items if item.HasField("artifact_update")]


def _commits(lab: Lab, made: Cluster) -> Iterator[Row]:
    """Sends per second of a server that tells others of every commit, against one that tells nobody."""
    with ExitStack() as stack:
        servers = {way: stack.enter_context(_servers(lab, made, way, 1))[0] for way in _LATEST_MS}
        loads = lab.compare({way: (server, _SEND) for way, server in servers.items()})
    for way in ("postgres", "peers"):
        yield Row(
            section=NOTIFIED,
            bench=f"SendMessage on PostgreSQL, wakeups = {way} ÷ none",
            metric="calls/s",
            ours=[load.rate for load in loads[way]],
            other=[load.rate for load in loads["none"]],
            higher_is_better=True,
            target=Target("≥", 0.9),
        )
