"""A gateway whose server dies, hangs and comes back: honest answers meanwhile, no help needed (spec: DOOR-01)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import pytest

from a2a_gateway.upstream import CallContext, StreamItem
from a2a_proto import a2a_pb2 as pb
from tests.e2e.processes import ROOT, Running
from tests.e2e.processes import serving as process
from tests.support.doors import OpenGateway, http_door
from tests.support.house import ChannelOptions, ChannelUpstream
from tests.support.upstreams import PLAIN, items, refused, rpc
from tests.support.world import say

AGENT = str(ROOT / "tests" / "support" / "victim.py")
PATIENCE = 20.0


@contextmanager
def server(folder: Path, grpc: str = "127.0.0.1:0") -> Iterator[Running]:
    store = f"sqlite:///{folder / 'a2a.db'}"
    with process(AGENT, "--grpc", grpc, "--store", store, cwd=folder, A2A_REPLAY_EXTENSION="true") as running:
        yield running


@asynccontextmanager
async def upstream(*addresses: str, read_timeout: float = 30.0) -> AsyncIterator[ChannelUpstream]:
    made = ChannelUpstream(ChannelOptions(addresses=addresses, read_timeout=read_timeout))
    try:
        yield made
    finally:
        await made.close()


async def reaches(to: ChannelUpstream, *, ready: bool) -> None:
    """Wait until the gateway has noticed."""
    async with asyncio.timeout(PATIENCE):
        while await to.ready() is not ready:  # noqa: ASYNC110 - as whoever asks /readyz
            await asyncio.sleep(0.02)


def kill(running: Running) -> None:
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()


async def tasks(to: ChannelUpstream) -> int:
    answer = await to.unary(rpc("ListTasks"), pb.ListTasksRequest(), PLAIN)
    assert isinstance(answer.message, pb.ListTasksResponse)
    return answer.message.total_size


@pytest.mark.req("DOOR-01", "DOOR-07", "ERRS-06", "RPLY-02", "DURA-02")
async def test_a_server_is_killed_and_started_again(tmp_path: Path) -> None:
    with server(tmp_path) as first:
        address = first.address
        async with upstream(address) as to:
            assert await to.ready()
            stream = await to.stream(rpc("SendStreamingMessage"), say(skill="laps"), PLAIN)
            seen: list[StreamItem] = []
            while len(seen) < 3:
                seen += await anext(stream.items)
            kill(first)
            lost = await refused(items(stream))
            assert (lost.code, lost.message) == (14, "The agent's server cannot be reached now.")
            assert (await refused(tasks(to))).code == 14
            assert (await refused(to.unary(rpc("SendMessage"), say(), PLAIN))).code == 14
            await reaches(to, ready=False)

            with server(tmp_path, address):
                await reaches(to, ready=True)
                assert await tasks(to) == 1
                task = pb.StreamResponse.FromString(seen[0].wire).task.id
                cursor = CallContext({"last-event-id": (str(seen[-1].number),)})
                rest = await items(await to.stream(rpc("SubscribeToTask"), pb.SubscribeToTaskRequest(id=task), cursor))
                assert rest[-1][1].status_update.status.state == pb.TASK_STATE_COMPLETED
                numbers = [item.number for item in seen] + [number for number, _ in rest]
                assert numbers == sorted(set(numbers))


@pytest.mark.req("DOOR-01")
async def test_of_two_servers_one_is_killed(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    with ExitStack() as stack:
        for folder in folders:
            folder.mkdir()
        one, other = (stack.enter_context(server(folder)) for folder in folders)
        async with upstream(one.address, other.address) as to:
            for _ in range(8):
                await to.unary(rpc("SendMessage"), say(skill="ask"), PLAIN)
            kill(one)
            await reaches(to, ready=True)
            counts = {await tasks(to) for _ in range(20)}
            assert len(counts) == 1  # all of one server, and none failed
            for _ in range(4):
                await to.unary(rpc("SendMessage"), say(skill="ask"), PLAIN)
            kill(other)
            await reaches(to, ready=False)
            assert (await refused(tasks(to))).code == 14


@pytest.mark.req("DOOR-01", "DOOR-07")
async def test_a_server_hangs_and_goes_on(tmp_path: Path) -> None:
    with server(tmp_path) as running:
        async with upstream(running.address, read_timeout=0.5) as to:
            assert await tasks(to) == 0
            running.process.send_signal(signal.SIGSTOP)
            late = await refused(tasks(to))
            assert (late.code, late.message[:44]) == (4, "There was no answer within 0.5 seconds. Work")
            await reaches(to, ready=False)
            running.process.send_signal(signal.SIGCONT)
            await reaches(to, ready=True)
            assert await tasks(to) == 0


@asynccontextmanager
async def gateway(to: ChannelUpstream) -> AsyncIterator[tuple[OpenGateway, aiohttp.ClientSession]]:
    async with http_door(to) as door, aiohttp.ClientSession(door.base) as session:
        yield door, session


@pytest.mark.req("DOOR-01", "DOOR-07", "ERRS-06")
async def test_http_clients_are_told_when_to_come_back(tmp_path: Path) -> None:
    with server(tmp_path) as first:
        async with upstream(first.address) as to, gateway(to) as (_, session):
            assert (await session.get("/readyz")).status == 200
            assert (await session.get("/tasks")).status == 200
            kill(first)
            answer = await session.get("/tasks")
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            error = (await answer.json())["error"]
            assert (error["status"], error["message"]) == ("UNAVAILABLE", "The agent's server cannot be reached now.")
            await reaches(to, ready=False)
            assert (await session.get("/readyz")).status == 503
            assert (await session.get("/healthz")).status == 200
            with server(tmp_path, first.address):
                await reaches(to, ready=True)
                assert (await session.get("/readyz")).status == 200
                assert (await session.get("/tasks")).status == 200
