"""kill -9 during delivery: every webhook arrives at least once, each config's in order (spec: PAID-01, PAID-02)."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import web

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.ports.authenticator import ANONYMOUS
from a2a_server.ports.push import ConfigFilter
from a2a_server.ports.store import TaskQuery
from tests.e2e.processes import serving
from tests.support.effort import effort
from tests.support.house import Scope, SqlitePushAdmin, SqliteStore, TaskFilter
from tests.support.receivers import Received, Receiver, receiver
from tests.support.world import say

ROUNDS = effort(4, everything=20)
LONGEST = 0.4
"""The longest that a server lives under load, in seconds."""
CLIENTS = 4

VICTIM = str(Path(__file__).parents[1] / "support" / "victim.py")
SETTINGS = {
    "A2A_PUSH__ALLOW_LOOPBACK": "true",
    "A2A_PUSH__RETRY_FIRST": "0.02",
    "A2A_PUSH__RETRY_MOST": "0.05",
    "A2A_PUSH__GIVE_UP_AFTER": "1000000",
}

Places = dict[tuple[str, str], list[int]]
"""Numbers of events by task and config, in the order in which they were received."""


class Moody:
    """A receiver that is slow now and then, and refuses now and then."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.places: Places = defaultdict(list)
        self.acknowledged: dict[tuple[str, str], set[int]] = defaultdict(set)

    async def __call__(self, one: Received) -> web.StreamResponse:
        place, number = (one.headers["A2A-Task-Id"], one.target), int(one.headers["A2A-Event-Number"])
        self.places[place].append(number)
        chance = self._dice.random()
        if chance < 0.1:
            await asyncio.sleep(0.02)
        if chance > 0.9:
            return web.Response(status=500)
        self.acknowledged[place].add(number)
        return web.Response(status=204)


class Picky:
    """A receiver that rejects every artifact, and has the server killed at the n-th request about the first one."""

    def __init__(self, deadly: int, *, answers: bool) -> None:
        self._deadly = deadly
        self._answers = answers
        self.kill: Callable[[], None] = lambda: None
        self.requests: dict[int, int] = defaultdict(int)
        self.numbers: list[int] = []
        self.accepted: list[int] = []

    async def __call__(self, one: Received) -> web.StreamResponse:
        number = int(one.headers["A2A-Event-Number"])
        self.numbers.append(number)
        if "artifactUpdate" not in json.loads(one.body):
            self.accepted.append(number)
            return web.Response(status=204)
        self.requests[number] += 1
        if len(self.requests) == 1 and self.requests[number] == self._deadly:
            if self._answers:
                asyncio.get_running_loop().call_later(0.001, self.kill)
            else:
                self.kill()
        return web.Response(status=400)


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[tuple[Any, Any]]:
    """A server process over the file, and a stub."""
    with serving(VICTIM, "--store", f"sqlite:///{path}", "--log-level", "error", cwd=path.parent, **SETTINGS) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield server.process, a2a_pb2_grpc.A2AServiceStub(channel)


async def press(stub: Any, client: Receiver, names: Callable[[], int]) -> None:
    """Send, with configs, until the server is dead."""

    async def for_ever() -> None:
        while True:
            name = f"c{names()}"
            inline = {"id": name, "url": f"{client.url}/{name}"}
            request = say(name, skill="chunks", configuration={"task_push_notification_config": inline})
            try:
                task = (await stub.SendMessage(request)).task
                more = pb.TaskPushNotificationConfig(task_id=task.id, id=f"late-{name}", url=client.url)
                await stub.CreateTaskPushNotificationConfig(more)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    return
                raise

    await asyncio.gather(*(for_ever() for _ in range(CLIENTS)))


async def paid(path: Path) -> None:
    """Wait until nothing is owed any more."""
    async with asyncio.timeout(60):
        while SqlitePushAdmin(path).status(ConfigFilter(), 1):  # noqa: ASYNC110 - as an operator looks
            await asyncio.sleep(0.05)


async def owed(path: Path) -> dict[tuple[str, str], list[int]]:
    """What each config was to be told, by the logs of the tasks."""
    store, admin, scope = SqliteStore(path), SqlitePushAdmin(path), Scope("", ANONYMOUS)
    await store.open()
    try:
        found = {}
        for account in [one for task_id in await task_ids(store) for one in admin.status(ConfigFilter(task_id), 100)]:
            entries = await store.entries(account.task_id, 0, 1_000)
            assert await store.get_config(scope, account.task_id, account.config_id) is not None
            told = [entry.number for entry in entries if not entry.event.HasField("message")]
            if not account.config_id.startswith("late"):  # those were made when everything had been said
                found[account.task_id, f"/hook/{account.config_id}"] = told
        return found
    finally:
        await store.close()


async def task_ids(store: SqliteStore) -> list[str]:
    query = TaskQuery(Scope("", ANONYMOUS), TaskFilter(), None, 100_000, include_artifacts=False)
    return [task.id for task in (await store.page(query)).tasks]


@pytest.mark.req("PAID-01", "PAID-02", "DELV-01", "DURA-01")
async def test_every_event_arrives_in_order_whenever_the_server_dies(tmp_path: Path) -> None:
    """One file through many deaths, so that each server pays what the one before it left."""
    path, dice, names = tmp_path / "a2a.db", random.Random(1848), count().__next__
    moody = Moody(dice)
    async with receiver(moody) as client:
        for _ in range(ROUNDS):
            async with served(path) as (process, stub):
                pressing = asyncio.ensure_future(press(stub, client, names))
                await asyncio.wait([pressing], timeout=dice.uniform(0.05, LONGEST))
                process.kill()
                await pressing
        async with served(path) as (process, _):
            await paid(path)
            process.terminate()
            assert await asyncio.to_thread(process.wait, 10) == 0
    expected = await owed(path)
    assert len(expected) > ROUNDS
    for place, events in expected.items():
        got = moody.places[place]
        assert moody.acknowledged[place] == set(events), place
        assert got == sorted(got), place
    assert sum(map(len, moody.places.values())) > sum(map(len, expected.values()))  # some came more than once


@pytest.mark.req("CONF-81", "DURA-01")
@pytest.mark.parametrize(
    ("deadly", "answers"), [(3, False), (2, True)], ids=["before the third answer", "at the second answer"]
)
async def test_three_rejections_are_counted_across_a_death(tmp_path: Path, deadly: int, *, answers: bool) -> None:
    """What the receiver has answered is counted as soon as it is stored; a death adds at most one request."""
    path, picky = tmp_path / "a2a.db", Picky(deadly, answers=answers)
    async with receiver(picky) as client:
        async with served(path) as (process, stub):
            picky.kill = process.kill
            inline = {"id": "c", "url": client.url}
            request = say("go", skill="laps", configuration={"task_push_notification_config": inline})
            with suppress(grpc.aio.AioRpcError):
                await stub.SendMessage(request)
            assert await asyncio.to_thread(process.wait, 10) == -signal.SIGKILL
        picky.kill = lambda: None
        async with served(path):
            await paid(path)
    counts = list(picky.requests.values())
    assert len(counts) > 2
    assert set(counts) <= {3, 4}
    if answers:
        assert counts.count(4) <= 1  # whichever was under way
    else:
        assert counts == [4, *[3] * (len(counts) - 1)]
    assert picky.numbers == sorted(picky.numbers)
    assert picky.numbers[-1] == picky.accepted[-1] == max(picky.numbers)  # the completion has arrived
