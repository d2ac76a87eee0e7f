"""kill -9 of a server with several agents: each task goes on with the agent that it belongs to (DOOR-06, DURA-02)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.e2e.processes import Running, command, serving
from tests.support.postgres import execute
from tests.support.receivers import Receiver, receiver
from tests.support.stage import texts
from tests.support.world import say

AGENT = """
import asyncio
from pathlib import Path

from a2a_server.agents import Agent, Turn

NAME = "{name}"
agent = Agent(name=NAME, description="Works until it may stop.", version="1.0.0")


async def gate() -> None:
    while not Path("gate").exists():
        await asyncio.sleep(0.01)


@agent.skill(id="work", tags=["test"], restartable=True)
async def work(turn: Turn) -> str:
    if not turn.state:
        await turn.checkpoint(by=NAME)
    await turn.status(f"{{NAME}} works")
    await gate()
    return f"{{NAME}} goes on with what {{turn.state['by']}} began"


@agent.skill(id="once", tags=["test"])
async def once(turn: Turn) -> str:
    await turn.status(f"{{NAME}} works")
    await gate()
    return "done"


@agent.skill(id="ask", tags=["test"])
async def ask(turn: Turn) -> str | None:
    if turn.number == 1:
        await turn.ask("Which colour?")
        return None
    return f"{{NAME}} hears {{turn.text}}"
"""
NAMES = ("weather", "travel")
FILES = tuple(f"{name}.py" for name in NAMES)
SETTINGS = {"A2A_PUSH__ALLOW_LOOPBACK": "true", "A2A_POSTGRESQL__SESSION": "2", "A2A_POSTGRESQL__CONNECTIONS": "4"}
COMPLETED, FAILED = pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, file in zip(NAMES, FILES, strict=True):
        (tmp_path / file).write_text(AGENT.format(name=name), "utf-8")
    return tmp_path


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, folder: Path) -> str:
    found = request.getfixturevalue("postgres") if request.param == "postgres" else f"sqlite:///{folder}/a2a.db"
    return str(found)


@asynccontextmanager
async def served(
    store: str, folder: Path, *arguments: str, agents: Sequence[str] = FILES
) -> AsyncIterator[tuple[Running, Any]]:
    """A server, and a stub of it."""
    options = (*agents, "--store", store, "--log-level", "error", *arguments)
    with serving(*options, cwd=folder, **SETTINGS) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield server, a2a_pb2_grpc.A2AServiceStub(channel)


async def begin(stub: Any, tenant: str, skill: str, *, url: str = "") -> str:
    """Start a task, and wait until its agent says that it works."""
    configuration: dict[str, Any] = {"return_immediately": True}
    if url:
        configuration["task_push_notification_config"] = pb.TaskPushNotificationConfig(url=f"{url}?{tenant}")
    asked = say(skill=skill, tenant=tenant, configuration=configuration)
    task_id = str((await stub.SendMessage(asked)).task.id)
    async with asyncio.timeout(30):
        while f"{tenant} works" not in str((await get(stub, tenant, task_id)).status):  # noqa: ASYNC110 - as clients poll
            await asyncio.sleep(0.01)
    return task_id


async def get(stub: Any, tenant: str, task_id: str) -> pb.Task:
    task: pb.Task = await stub.GetTask(pb.GetTaskRequest(tenant=tenant, id=task_id))
    return task


async def ended(stub: Any, tenant: str, task_id: str) -> pb.Task:
    async with asyncio.timeout(60):
        while True:
            try:
                task = await get(stub, tenant, task_id)
            except grpc.aio.AioRpcError as error:  # its worker has just been killed
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
            else:
                if task.status.state in {COMPLETED, FAILED}:
                    return task
            await asyncio.sleep(0.02)


def whole(tenant: str) -> str:
    """What comes of a task that the agent of its tenant began and ended."""
    return f"{tenant} goes on with what {tenant} began"


def lapse(store: str) -> None:
    """As if so much time had passed that the sessions of servers which were killed are over."""
    if store.startswith("postgresql:"):
        execute(store, "UPDATE a2ad.sessions SET until = '-infinity'")


def kill_workers(supervisor: int) -> int:
    workers = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text("ascii").split()
    for worker in workers:
        os.kill(int(worker), signal.SIGKILL)
    return len(workers)


async def told(client: Receiver, tenant: str, task_id: str) -> None:
    """Wait until the webhook of a task has been told that it is completed, by whom it belongs to."""
    async with asyncio.timeout(60):
        while True:
            client.arrived.clear()
            mine = [orjson.loads(one.body) for one in client.received if one.target.endswith(f"?{tenant}")]
            assert {next(iter(event.values())).get("taskId", task_id) for event in mine} <= {task_id}
            if "TASK_STATE_COMPLETED" in str(mine):
                assert whole(tenant) in str(mine)
                return
            await client.arrived.wait()


@pytest.mark.req("DOOR-06", "DURA-02", "INTR-01", "DELV-01", "TENA-05")
async def test_after_kill_9_each_task_goes_on_with_its_own_agent(store: str, folder: Path) -> None:
    """Turns that run again, turns that failed, answers to questions, and webhooks."""
    working, lost, asking = {}, {}, {}
    async with receiver() as client:
        async with served(store, folder) as (server, stub):
            for tenant in NAMES:
                working[tenant] = await begin(stub, tenant, "work", url=client.url)
                lost[tenant] = await begin(stub, tenant, "once")
                asking[tenant] = (await stub.SendMessage(say(skill="ask", tenant=tenant))).task.id
            server.process.kill()
            server.process.wait(30)
        (folder / "gate").touch()
        lapse(store)
        async with served(store, folder) as (_, stub):
            for tenant, other in (NAMES, NAMES[::-1]):
                assert texts(await ended(stub, tenant, working[tenant])) == [
                    f"{tenant} goes on with what {tenant} began"
                ]
                assert (await ended(stub, tenant, lost[tenant])).status.state == FAILED
                answered = await stub.SendMessage(say("blue", task_id=asking[tenant], tenant=tenant))
                assert texts(answered.task) == [f"{tenant} hears blue"]
                with pytest.raises(grpc.aio.AioRpcError) as unknown:
                    await get(stub, other, working[tenant])
                assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
                await told(client, tenant, working[tenant])


@pytest.mark.req("DOOR-06", "DURA-02", "OPER-07")
async def test_with_several_workers_too(postgres: str, folder: Path) -> None:
    """All of them are killed; those that take their place go on."""
    async with served(postgres, folder, "--workers", "2") as (server, stub):
        working = {tenant: await begin(stub, tenant, "work") for tenant in NAMES}
        assert kill_workers(server.process.pid) == 2
        (folder / "gate").touch()
        for tenant, task_id in working.items():
            assert texts(await ended(stub, tenant, task_id)) == [whole(tenant)]
        server.process.terminate()
        assert await asyncio.to_thread(server.process.wait, 30) == 0


@pytest.mark.req("DOOR-06", "DURA-02")
async def test_the_task_of_an_agent_that_is_not_served_any_more_has_failed(store: str, folder: Path) -> None:
    """No other agent may go on with it."""
    async with served(store, folder) as (server, stub):
        task_id = await begin(stub, "travel", "work")
        server.process.kill()
        server.process.wait(30)
    (folder / "gate").touch()
    lapse(store)
    (folder / "a2ad.toml").write_text('[[agents]]\ntenant = "weather"\nagent = "weather.py"\n', "utf-8")
    async with served(store, folder, agents=()) as (server, stub):
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await get(stub, "travel", task_id)
        assert unknown.value.code() is grpc.StatusCode.PERMISSION_DENIED
        server.process.terminate()
        assert await asyncio.to_thread(server.process.wait, 30) == 0
    async with served(store, folder) as (_, stub):
        task = await get(stub, "travel", task_id)
        assert (task.status.state, texts(task)) == (FAILED, [])
        assert task.status.message.metadata["reason"] == "SERVER_INTERRUPTED"


@pytest.mark.req("DOOR-06")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("weather.py", "broken.py"), ["agents.1 (tenant 'broken')", "broken.py cannot be imported", "no such key"]),
        (("weather.py", "none.py"), ["agents.1 (tenant 'none')", "no file"]),
        (("weather.py", "other/weather.py"), ["would both be the tenant 'weather'", "[[agents]]"]),
        (("weather.py", "tasks.py"), ["agents.1.tenant = 'tasks'", "cannot be a tenant"]),
        (("weather.py", "late.py"), ['the lifespan of the agent "late" failed', "no database"]),
    ],
)
def test_one_that_cannot_start_stops_the_start_by_name(folder: Path, arguments: Sequence[str], said: list[str]) -> None:
    (folder / "broken.py").write_text('raise KeyError("no such key")\n', "utf-8")
    late = "\n\n@agent.lifespan\nasync def life():\n    raise RuntimeError('no database')\n    yield\n"
    (folder / "late.py").write_text(AGENT.format(name="late") + late, "utf-8")
    ended = command("serve", *arguments, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", cwd=folder)
    assert ended.returncode != 0
    for text in said:
        assert text in ended.stderr
