"""Three servers on one PostgreSQL: any answers for all, and none is missed (spec: DURA-02 to -04, SCAL-01, -03)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.ports.authenticator import ANONYMOUS
from tests.e2e.processes import Running, serving
from tests.support.cluster_agent import CHUNKS
from tests.support.house import Scope, place_of, slots_text
from tests.support.postgres import execute
from tests.support.relay import broken_relay
from tests.support.stage import texts
from tests.support.world import kinds, say

AGENT = str(Path(__file__).parents[1] / "support" / "cluster_agent.py")
SESSION = 4
NOW = {"return_immediately": True}
SOON = SESSION + 1 + 10
"""Seconds in which others take over, with room for a machine that is busy."""
GAPS = (
    "SELECT task FROM a2ad.events GROUP BY task HAVING min(number) <> 1 OR max(number) <> count(*) "
    "OR max(number) <> (SELECT number FROM a2ad.fences WHERE fences.task = events.task)"
)


TWO = pytest.mark.parametrize("cluster", [(2, "postgres")], indirect=True, ids=str)


@dataclass(slots=True)
class Member:
    """One server, and a client of it."""

    running: Running
    stub: Any

    @property
    def pid(self) -> str:
        return str(self.running.process.pid)

    def signal(self, number: signal.Signals) -> None:
        self.running.process.send_signal(number)

    async def start(self, text: str, skill: str) -> str:
        """The id of a task that works there. A server without a session refuses, until it has one."""
        async with asyncio.timeout(SOON):
            while True:
                try:
                    task = (await self.stub.SendMessage(say(text, skill=skill, configuration=NOW))).task
                    break
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise
                    await asyncio.sleep(0.05)
        await self.reaches(task.id, lambda task: task.status.state == pb.TASK_STATE_WORKING)
        return str(task.id)

    async def get(self, task_id: str) -> pb.Task:
        task: pb.Task = await self.stub.GetTask(pb.GetTaskRequest(id=task_id))
        return task

    async def reaches(self, task_id: str, wanted: Callable[[pb.Task], bool]) -> pb.Task:
        async with asyncio.timeout(SOON):
            while not wanted(task := await self.get(task_id)):  # noqa: ASYNC110 - as a client polls
                await asyncio.sleep(0.02)
        return task

    async def works_on(self, task_id: str, *, without: Member) -> pb.Task:
        """The task, as soon as another server than this one works on it."""
        return await self.reaches(task_id, lambda task: said(task) not in {"", without.pid})


@dataclass(slots=True)
class Cluster:
    members: list[Member]
    dsn: str
    folder: Path

    def open_gate(self) -> None:
        (self.folder / "gate").touch()

    def check(self) -> None:
        """All logs are whole, and nobody is at work."""
        assert execute(self.dsn, GAPS) == []
        assert execute(self.dsn, "SELECT count(*) FROM a2ad.turns") == [(0,)]


def said(task: pb.Task) -> str:
    return task.status.message.parts[0].text if task.status.message.parts else ""


WAYS = {
    "postgres": {},
    "peers": {"A2A_WAKEUPS": "peers", "A2A_PEERS__SHARED_KEY": "known to all servers of this test"},
    "none": {"A2A_WAKEUPS": "none"},
}
WAYS["broken peers"] = WAYS["peers"]
"""How servers tell each other of new events."""
NOTIFY, PEERS = (pytest.param((3, way), id=way) for way in ("postgres", "peers"))
NONE, PEERS_AT_LENGTH, BROKEN = (
    pytest.param((3, way), id=way, marks=pytest.mark.long) for way in ("none", "peers", "broken peers")
)


@contextmanager
def servers(dsn: str, folder: Path, each: Sequence[Mapping[str, str]]) -> Iterator[list[Running]]:
    """Several that start at the same time, with variables of their own."""
    variables = {
        "A2A_POSTGRESQL__SESSION": str(SESSION),
        "A2A_POSTGRESQL__CONNECTIONS": "5",
        "A2A_LIMITS__DRAIN_GRACE": "0.2",
    }
    line = AGENT, "--store", dsn, "--log-level", "error"
    opening = [serving(*line, cwd=folder, **variables, **own) for own in each]
    with ExitStack() as stack, ThreadPoolExecutor(len(each)) as threads:
        started = [threads.submit(one.__enter__) for one in opening]
        for one in opening:
            stack.push(one.__exit__)
        yield [one.result() for one in started]


async def between(stack: AsyncExitStack) -> Mapping[str, str]:
    """Variables of a server that the others reach over a network that breaks all the time."""
    one = await stack.enter_async_context(broken_relay())
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        one.target = free.getsockname()[1]
    return {"A2A_PEERS__LISTEN": f"127.0.0.1:{one.target}", "A2A_PEERS__ADVERTISE": one.address}


@pytest.fixture
async def cluster(request: pytest.FixtureRequest, own_postgres: str, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Three servers, or as many as a test says, that have started on an empty database at once."""
    count, way = getattr(request, "param", (3, "postgres"))
    async with AsyncExitStack() as stack:
        own = [await between(stack) if way == "broken peers" else {} for _ in range(count)]
        started = servers(own_postgres, tmp_path, [{**WAYS[way], **each} for each in own])
        running = await asyncio.to_thread(stack.enter_context, started)  # relays go on meanwhile
        yield Cluster(await members_of(running, stack), own_postgres, tmp_path)


async def members_of(running: Sequence[Running], stack: AsyncExitStack) -> list[Member]:
    channels = [await stack.enter_async_context(grpc.aio.insecure_channel(one.address)) for one in running]
    return [Member(one, a2a_pb2_grpc.A2AServiceStub(channel)) for one, channel in zip(running, channels, strict=True)]


@pytest.mark.req("DURA-04", "SCAL-01")
@pytest.mark.parametrize("cluster", [NOTIFY, PEERS, BROKEN, NONE], indirect=True)
async def test_whatever_is_asked_of_one_is_true_on_the_others(cluster: Cluster) -> None:
    here, there, third = cluster.members
    streamed, talked, canceled = [await here.start("one", skill) for skill in ("chunks", "hold", "hold")]
    items = there.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=streamed))
    seen = [await anext(aiter(items))]
    sending = asyncio.ensure_future(there.stub.SendMessage(say("two", task_id=talked)))
    await third.reaches(talked, lambda task: len(task.history) > 1)
    assert (await third.stub.CancelTask(pb.CancelTaskRequest(id=canceled))).status.state == pb.TASK_STATE_CANCELED
    cluster.open_gate()
    seen += [item async for item in items]
    assert kinds(seen) == ["task", *["artifact_update"] * (len(seen) - 2), "COMPLETED"]
    chunks = [part.text for item in seen for part in item.artifact_update.artifact.parts]
    assert "".join(chunks) == "".join(f"{number};" for number in range(CHUNKS))
    answer = (await sending).task
    assert (answer.status.state, texts(answer)) == (pb.TASK_STATE_COMPLETED, ["one", "two"])
    for task_id in (streamed, talked, canceled):
        assert await here.get(task_id) == await there.get(task_id) == await third.get(task_id)
    cluster.check()


@pytest.mark.req("DURA-02", "DURA-03", "SCAL-01", "SCAL-03")
@pytest.mark.parametrize("cluster", [NOTIFY, PEERS_AT_LENGTH], indirect=True)
async def test_others_take_over_what_a_killed_server_leaves(cluster: Cluster) -> None:
    here, there, third = cluster.members
    left, lost = await here.start("go on", "hold-on"), await here.start("stop", "hold")
    streams = [
        there.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=lost)),
        third.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=left)),
    ]
    assert [kinds([await anext(aiter(stream))]) for stream in streams] == [["task"], ["task"]]
    here.signal(signal.SIGKILL)
    async with asyncio.timeout(SOON):
        (failed,) = [item async for item in streams[0]]
    assert failed.status_update.status.state == pb.TASK_STATE_FAILED
    reason = failed.status_update.status.message.metadata.fields["reason"].string_value
    assert reason == "SERVER_INTERRUPTED"
    await there.works_on(left, without=here)
    cluster.open_gate()
    assert kinds([item async for item in streams[1]])[-1] == "COMPLETED"
    assert texts(await there.get(left)) == ["go on"]
    cluster.check()


@pytest.mark.req("DURA-03", "SCAL-04")
@TWO
async def test_a_server_that_was_stopped_for_too_long_writes_nothing(cluster: Cluster) -> None:
    here, there = cluster.members
    task_id = await here.start("drip", "drip")
    await there.reaches(task_id, lambda task: len(task.artifacts) > 1)
    here.signal(signal.SIGSTOP)
    try:
        await there.reaches(task_id, lambda task: texts(task)[-1] != here.pid)
    finally:
        here.signal(signal.SIGCONT)
    again = await here.start("again", "hold")
    count = len((await there.get(task_id)).artifacts)
    await there.reaches(task_id, lambda task: len(task.artifacts) > count + 5)
    cluster.open_gate()
    done = await here.reaches(task_id, lambda task: task.status.state == pb.TASK_STATE_COMPLETED)
    writers = [pid for pid, _ in groupby(texts(done))]
    assert writers == [here.pid, there.pid]
    await there.reaches(again, lambda task: task.status.state == pb.TASK_STATE_COMPLETED)
    cluster.check()


@pytest.mark.req("DURA-08", "SCAL-03")
@TWO
async def test_a_server_that_is_told_to_stop_hands_over(cluster: Cluster) -> None:
    here, there = cluster.members
    task_id = await here.start("go on", "hold-on")
    here.signal(signal.SIGTERM)
    await there.works_on(task_id, without=here)
    assert await asyncio.to_thread(here.running.process.wait, 30) == 0
    cluster.open_gate()
    done = await there.reaches(task_id, lambda task: task.status.state == pb.TASK_STATE_COMPLETED)
    assert texts(done) == ["go on"]
    cluster.check()


@pytest.mark.req("GATE-05")
async def test_processes_share_rates_also_with_one_that_replaces_a_killed_one(
    own_postgres: str, tmp_path: Path
) -> None:
    """40 calls, and five more for each further server; whoever starts late exceeds the empty bucket by five, too."""

    async def let_through(running: Running) -> int:
        """How many of 60 calls, six at once."""

        async def call() -> int:
            codes = []
            for _ in range(10):
                with pytest.raises(grpc.aio.AioRpcError) as told:
                    await stub.GetTask(pb.GetTaskRequest(id="nobodys"))
                codes.append(told.value.code())
            assert set(codes) <= {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED}
            return codes.count(grpc.StatusCode.NOT_FOUND)

        async with grpc.aio.insecure_channel(running.address) as channel:
            stub = a2a_pb2_grpc.A2AServiceStub(channel)
            return sum(await asyncio.gather(*(call() for _ in range(6))))

    rate = {"A2A_RATES__PER_CALLER": "40/d"}
    with servers(own_postgres, tmp_path, [rate] * 3) as running:
        assert 40 <= sum(await asyncio.gather(*map(let_through, running))) <= 40 + 2 * 5
        running[0].process.kill()
        assert [await let_through(one) for one in running[1:]] == [0, 0]
        with servers(own_postgres, tmp_path, [rate]) as (late,):
            assert await let_through(late) <= 5


@pytest.mark.req("SCAL-05", "DURA-03")
async def test_turns_go_on_while_their_slot_moves_and_their_server_is_killed(
    own_postgres: str, other_postgres: str, tmp_path: Path
) -> None:
    """Two servers on two databases. What the callers have is not in the home at first, and then it is."""
    slot = place_of(Scope("", ANONYMOUS)).slot
    rest = slots_text(set(range(4096)) - {slot})
    shards = [
        {"name": "home", "dsn": own_postgres, "slots": rest},
        {"name": "other", "dsn": other_postgres, "slots": str(slot)},
    ]
    variables = {"A2A_POSTGRESQL__SHARDS": json.dumps(shards)}
    async with AsyncExitStack() as stack:
        running = stack.enter_context(servers(own_postgres, tmp_path, [variables] * 2))
        here, there = await members_of(running, stack)
        cluster = Cluster([here, there], other_postgres, tmp_path)
        left, talked = await here.start("go on", "hold-on"), await there.start("one", "hold")
        assert execute(own_postgres, "SELECT count(*) FROM a2ad.tasks") == [(0,)]
        await move(str(slot), own_postgres, tmp_path, variables)
        cluster.dsn = own_postgres
        sending = asyncio.ensure_future(here.stub.SendMessage(say("two", task_id=talked, configuration=NOW)))
        await there.reaches(talked, lambda task: len(task.history) > 1)
        await sending
        here.signal(signal.SIGKILL)
        await there.works_on(left, without=here)
        cluster.open_gate()
        for task_id, heard in ((left, ["go on"]), (talked, ["one", "two"])):
            done = await there.reaches(task_id, lambda task: task.status.state == pb.TASK_STATE_COMPLETED)
            assert texts(done) == heard
        cluster.check()
        assert execute(other_postgres, "SELECT count(*) FROM a2ad.tasks") == [(0,)]


async def move(slot: str, dsn: str, folder: Path, variables: Mapping[str, str]) -> None:
    words = "-m", "a2a_server", "db", "shards", "move", slot, "--to", "home", "--store", dsn
    program = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=folder, env={**os.environ, **variables}, stderr=asyncio.subprocess.PIPE
    )
    _, err = await program.communicate()
    assert program.returncode == 0, err.decode()
