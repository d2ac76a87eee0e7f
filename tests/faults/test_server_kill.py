"""kill -9 at any moment under load: what clients were told is there afterwards (spec: DURA-01, DURA-02)."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.e2e.processes import serving
from tests.support.effort import effort
from tests.support.postgres import execute
from tests.support.stage import texts
from tests.support.victim import CHUNKS
from tests.support.world import say

ROUNDS = effort(4, everything=20)
LOUDEST = 0.3
"""The longest that a server lives under load, in seconds."""

VICTIM = str(Path(__file__).parents[1] / "support" / "victim.py")
ACTIVE = (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING)
TERMINAL = (pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED)
ALL = "".join(f"{number};" for number in range(1, CHUNKS + 1))


@dataclass
class Told:
    """What clients have heard about tasks."""

    states: dict[str, int] = field(default_factory=dict)
    """The latest state of each task."""
    chunks: dict[str, str] = field(default_factory=dict)
    """All text of its artifacts."""
    histories: dict[str, list[str]] = field(default_factory=dict)
    """The ids of its messages."""
    results: dict[str, str] = field(default_factory=dict)
    """Idempotency key → task id."""
    finished: dict[str, pb.Task] = field(default_factory=dict)
    """Finished tasks as lists have shown them."""

    def task(self, task: pb.Task) -> None:
        self.states[task.id] = task.status.state
        self.chunks[task.id] = "".join(texts(task))
        self.histories[task.id] = [message.message_id for message in task.history]

    def item(self, item: pb.StreamResponse) -> None:
        match item.WhichOneof("payload"):
            case "task":
                self.task(item.task)
            case "status_update":
                self.states[item.status_update.task_id] = item.status_update.status.state
            case "artifact_update":
                update = item.artifact_update
                self.chunks[update.task_id] += "".join(part.text for part in update.artifact.parts)


class Load:
    """Clients that never stop, until their server does."""

    def __init__(self, stub: Any, told: Told, run: int) -> None:
        self._stub = stub
        self._told = told
        self._run = run
        self._numbers = count()

    async def press(self) -> None:
        """Returns when the server is dead."""
        clients = (self.send, self.stream, self.stream, self.rerun, self.talk, self.read)
        await asyncio.gather(*(self._for_ever(client) for client in clients for _ in range(2)))

    async def _for_ever(self, client: Any) -> None:
        while True:
            try:
                await client(f"{self._run}-{next(self._numbers)}")
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    return
                raise

    async def send(self, name: str) -> None:
        key = (("idempotency-key", name),)
        request = say(name, message_id=name, skill="chunks", configuration={"return_immediately": True})
        task = (await self._stub.SendMessage(request, metadata=key)).task
        self._told.task(task)
        self._told.results[name] = task.id
        self._told.task((await self._stub.SendMessage(say(name, message_id=name), metadata=())).task)

    async def stream(self, name: str) -> None:
        async for item in self._stub.SendStreamingMessage(say(name, message_id=name, skill="chunks")):
            self._told.item(item)

    async def rerun(self, name: str) -> None:
        async for item in self._stub.SendStreamingMessage(say(name, message_id=f"laps-{name}", skill="laps")):
            self._told.item(item)

    async def talk(self, name: str) -> None:
        task = (await self._stub.SendMessage(say(name, message_id=name, skill="ask"))).task
        self._told.task(task)
        task = (await self._stub.SendMessage(say("then", message_id=f"{name}'", task_id=task.id))).task
        assert texts(task) == [f"{name} then"]
        self._told.task(task)

    async def read(self, name: str) -> None:
        del name
        for task in (await self._stub.ListTasks(pb.ListTasksRequest(page_size=5, include_artifacts=True))).tasks:
            if task.status.state in TERMINAL:
                self._told.finished[task.id] = task
        await asyncio.sleep(0.01)


class Kept:
    """A store that outlives its servers."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.shared = url.startswith("postgresql:")

    def wait(self) -> None:
        """As if so much time had passed that the sessions of servers which were killed are over."""
        if self.shared:
            execute(self.url, "UPDATE a2ad.sessions SET until = '-infinity'")

    def check(self) -> None:
        """It is whole, and its logs have no gaps."""
        gaps = (
            "SELECT task, count(*), min(number), max(number) FROM {}events GROUP BY task "
            "HAVING min(number) <> 1 OR max(number) <> count(*)"
        )
        if self.shared:
            assert execute(self.url, gaps.format("a2ad.")) == []
            assert execute(self.url, "SELECT count(*) FROM a2ad.turns") == [(0,)]
            assert execute(self.url, "SELECT count(*) FROM a2ad.fences WHERE busy") == [(0,)]
            return
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute(gaps.format("")).fetchall() == []
            assert connection.execute("SELECT count(*) FROM turns").fetchone() == (0,)


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    if request.param == "postgres":
        return Kept(request.getfixturevalue("postgres"), tmp_path)
    return Kept(f"sqlite:///{tmp_path}/a2a.db", tmp_path)


@asynccontextmanager
async def served(kept: Kept) -> AsyncIterator[tuple[Any, Any]]:
    """A server process over the store, and a stub."""
    kept.wait()
    options = (VICTIM, "--store", kept.url, "--log-level", "error")
    with serving(*options, cwd=kept.folder, A2A_LIMITS__RUNNING_TURNS="8") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield server.process, a2a_pb2_grpc.A2AServiceStub(channel)


async def check(stub: Any, told: Told) -> None:
    """Everything that was told is true, and nobody is at work who has no turn."""
    for task_id, state in told.states.items():
        task = await stub.GetTask(pb.GetTaskRequest(id=task_id))
        found, heard = "".join(texts(task)), told.chunks[task_id]
        assert found.startswith(heard), (task_id, heard, found)
        history = told.histories[task_id]
        assert [message.message_id for message in task.history][: len(history)] == history
        if state in TERMINAL:
            assert task.status.state == state
            assert found == heard
    for task_id, seen in told.finished.items():
        assert await stub.GetTask(pb.GetTaskRequest(id=task_id)) == seen
    for key, task_id in told.results.items():
        request = say(key, message_id=key, skill="chunks", configuration={"return_immediately": True})
        assert (await stub.SendMessage(request, metadata=(("idempotency-key", key),))).task.id == task_id


async def check_active(kept: Kept, stub: Any) -> None:
    """Nobody has sent anything yet: whatever is at work is a restartable turn, running again.

    A database may still store the last that a killed server has sent, when the next one has started.
    """
    async with asyncio.timeout(30):
        while (found := await lost_tasks(stub)) and kept.shared:  # noqa: ASYNC110 - as a client polls
            await asyncio.sleep(0.05)
    assert not found


async def lost_tasks(stub: Any) -> list[pb.Task]:
    """Tasks that nobody will end."""
    pages = [await stub.ListTasks(pb.ListTasksRequest(status=state, page_size=100)) for state in ACTIVE]
    return [task for page in pages for task in page.tasks if not task.history[0].message_id.startswith("laps-")]


async def settled(stub: Any) -> None:
    """Whatever is active after a restart comes to its end by itself: it has a turn."""
    async with asyncio.timeout(20):
        for state in ACTIVE:
            while (await stub.ListTasks(pb.ListTasksRequest(status=state, page_size=1))).total_size:  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # as a client polls
    token = ""
    while True:
        page = await stub.ListTasks(pb.ListTasksRequest(page_size=100, page_token=token, include_artifacts=True))
        for task in page.tasks:
            check_end(task)
        if not (token := page.next_page_token):
            return


def check_end(task: pb.Task) -> None:
    """A task that rests is whole, or says why it is not."""
    found = "".join(texts(task))
    match task.status.state:
        case pb.TASK_STATE_COMPLETED:
            assert found in {ALL, f"{task.history[0].parts[0].text} then"}, task
        case pb.TASK_STATE_FAILED:
            assert ALL.startswith(found)
            assert task.status.message.metadata.fields["reason"].string_value == "SERVER_INTERRUPTED"
        case _:
            assert task.status.state == pb.TASK_STATE_INPUT_REQUIRED


@pytest.mark.req("DURA-01", "DURA-02", "DURA-06", "ONCE-01", "ORDR-01")
async def test_nothing_that_was_told_is_lost_by_kill_9(kept: Kept) -> None:
    """One store through many deaths, so that each server settles what the one before it left."""
    dice, told = random.Random(1984), Told()
    for run in range(ROUNDS):
        async with served(kept) as (process, stub):
            await check(stub, told)
            await check_active(kept, stub)
            loading = asyncio.ensure_future(Load(stub, told, run).press())
            await asyncio.wait([loading], timeout=dice.uniform(0.02, LOUDEST))
            process.kill()
            await loading
    assert len(told.states) > ROUNDS
    async with served(kept) as (process, stub):
        await check(stub, told)
        await settled(stub)
        process.terminate()
        assert await asyncio.to_thread(process.wait, 10) == 0
    kept.check()


@pytest.mark.req("AGNT-06", "DURA-01")
async def test_the_state_of_a_context_is_as_durable_as_the_tasks_that_saved_it(kept: Kept) -> None:
    """Each task that is completed has counted once, and no other has."""
    dice, told = random.Random(1984), 0

    async def press(stub: Any) -> None:
        nonlocal told
        while True:
            try:
                answer = await stub.SendMessage(say(skill="count", context_id="c"))
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    return
                raise
            assert texts(answer.task) == [str(told + 1)]
            told += 1

    for _ in range(ROUNDS):
        async with served(kept) as (process, stub):
            listing = pb.ListTasksRequest(context_id="c", status=pb.TASK_STATE_COMPLETED)
            completed = (await stub.ListTasks(listing)).total_size
            assert completed in {told, told + 1}  # the last may have been stored without anybody hearing of it
            told = completed
            pressing = asyncio.ensure_future(press(stub))
            await asyncio.wait([pressing], timeout=dice.uniform(0.02, LOUDEST))
            process.kill()
            await pressing
    assert told


@pytest.mark.req("AGNT-06", "DURA-02")
async def test_a_turn_that_runs_again_finds_the_state_of_its_last_checkpoint(kept: Kept) -> None:
    dice = random.Random(1984)
    for run in range(ROUNDS):
        request = say(skill="strides", context_id=f"c-{run}", configuration={"return_immediately": True})
        async with served(kept) as (process, stub):
            task = (await stub.SendMessage(request)).task
            await asyncio.sleep(dice.uniform(0, 0.06))
            process.kill()
        async with served(kept) as (_, stub):
            await settled_task(stub, task.id)


async def settled_task(stub: Any, task_id: str) -> None:
    async with asyncio.timeout(20):
        while (task := await stub.GetTask(pb.GetTaskRequest(id=task_id))).status.state in ACTIVE:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # as a client polls
    assert (task.status.state, "".join(texts(task))) == (pb.TASK_STATE_COMPLETED, ALL)
