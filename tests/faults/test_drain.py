"""A server that is told to stop: no new work, no lost event, nothing left half done (spec: DURA-08)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.agents import Agent, Turn
from a2a_server.serve import Server, running
from a2a_server.settings import Settings
from tests.e2e.processes import serving as process
from tests.support.calls import every_call
from tests.support.house import Limits
from tests.support.stage import Stage, texts
from tests.support.world import World, kinds, say, serving

SOON: dict[str, Any] = {"return_immediately": True}
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVING = health_pb2.HealthCheckResponse.SERVING


@dataclass
class House:
    """A whole server, and a client of it."""

    server: Server
    world: World
    health: Any

    def drain(self) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.server.drain())

    async def turned_away(self) -> None:
        """Wait until the server says that it does not serve."""
        async for answer in self.health.Watch(health_pb2.HealthCheckRequest()):
            if answer.status == NOT_SERVING:
                return


@asynccontextmanager
async def house(agent: Agent, path: Path, grace: float = 30.0, **limits: Any) -> AsyncIterator[House]:
    chosen = Limits(drain_grace=grace, **limits)
    settings = Settings(grpc="127.0.0.1:0", http="127.0.0.1:0", store=f"sqlite:///{path / 'a2a.db'}", limits=chosen)
    async with running(settings, agent) as server, grpc.aio.insecure_channel(str(server.grpc)) as channel:
        stub, health = a2a_pb2_grpc.A2AServiceStub(channel), health_pb2_grpc.HealthStub(channel)
        yield House(
            server,
            World(server.core, server.pipeline, server.grpc.port, channel, stub, None, server.doors.grpc),
            health,
        )


class Cast(Stage):
    """Adds a skill that survives, and one that does not want to go."""

    def __init__(self) -> None:
        super().__init__()
        self.agent.skill(id="steps", description="Two steps.", tags=["test"], restartable=True)(self.steps)
        self.agent.skill(id="stubborn", description="Does not listen.", tags=["test"])(self.stubborn)
        self.agent.skill(id="linger", description="Asks, and stays for a while.", tags=["test"])(self.linger)
        self.ignored = asyncio.Event()

    async def steps(self, turn: Turn) -> str:
        self.turns.append(turn)
        if not turn.state:
            await turn.add_artifact("step 1")
            await turn.checkpoint(done=1)
        await self.release.wait()
        return turn.text

    async def linger(self, turn: Turn) -> str | None:
        self.turns.append(turn)
        if turn.number > 1:
            return f"{turn.text} it is"
        await turn.ask("What colour?")
        await self.release.wait()
        return None

    async def stubborn(self, turn: Turn) -> str:
        self.turns.append(turn)
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.ignored.set()
        return "at last"


async def begun(stage: Stage, count: int = 1) -> None:
    """The skills run in this very loop."""
    async with asyncio.timeout(30):
        while len(stage.turns) < count:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)


async def rest(stream: Any, heard: list[pb.StreamResponse]) -> None:
    """Read a stream to its end, which may be an error."""
    while item := await stream.read():
        heard.append(item)


async def unavailable(call: Any) -> float:
    """The call must be told to come back; returns when."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        failure = error
    else:
        raise AssertionError(f"was not refused: {answer}")
    assert failure.code() is grpc.StatusCode.UNAVAILABLE, failure
    (raw,) = [value for name, value in failure.trailing_metadata() or () if name == "grpc-status-details-bin"]
    assert isinstance(raw, bytes)
    retry = error_details_pb2.RetryInfo()
    assert any(detail.Unpack(retry) for detail in status_pb2.Status.FromString(raw).details)
    return float(retry.retry_delay.ToSeconds())


@pytest.mark.req("DURA-08", "ERRS-06")
async def test_it_turns_away_first_and_lets_running_work_end(tmp_path: Path) -> None:
    cast = Cast()
    async with house(cast.agent, tmp_path) as home:
        world = home.world
        assert (await home.health.Check(health_pb2.HealthCheckRequest())).status == SERVING
        streaming = asyncio.ensure_future(world.stream(say(skill="hold")))
        sending = asyncio.ensure_future(world.send(say("sent", skill="hold")))
        await begun(cast, 2)

        draining = home.drain()
        await home.turned_away()
        for name, call in every_call(world).items():
            assert await unavailable(call()) == 1, name
        assert not draining.done()
        assert not streaming.done()
        assert not sending.done()

        cast.release.set()
        assert kinds(await streaming) == ["task", "WORKING", "WORKING", "artifact_update", "COMPLETED"]
        assert texts(await sending) == ["sent"]
        await draining
    assert len(cast.turns) == 2


@pytest.mark.req("DURA-08", "DOOR-07")
async def test_calls_are_taken_until_balancers_have_noticed(tmp_path: Path) -> None:
    stage = Stage()
    async with house(stage.agent, tmp_path, drain_delay=3600) as home:
        draining = home.drain()
        await home.turned_away()
        async with aiohttp.ClientSession(f"http://{home.server.http}") as session, session.get("/readyz") as answer:
            assert answer.status == 503
        assert texts(await home.world.send(say("taken"))) == ["taken"]
        assert not draining.done()
        draining.cancel()  # an hour would be long
        await home.server.core.drain()


@pytest.mark.req("DURA-08")
async def test_after_that_they_are_refused(tmp_path: Path) -> None:
    async with house(Stage().agent, tmp_path, drain_delay=0.1) as home:
        await home.drain()
        await unavailable(home.world.stub.SendMessage(say("too late")))


@pytest.mark.req("DURA-08", "ERRS-06")
async def test_whatever_door_a_call_comes_through_the_core_takes_no_new_work() -> None:
    cast = Cast()
    async with serving(cast.agent) as world:
        asked = await world.send(say(skill="ask"))
        await world.core.drain()
        for attempt in (
            world.send(say()),
            world.stream(say()),
            world.send(say("red", task_id=asked.id)),
            world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=asked.id)).read(),
        ):
            assert await unavailable(attempt) == 1
        assert await world.get(asked.id) == asked
    assert len(cast.turns) == 1


@pytest.mark.req("DURA-08", "STAT-04")
async def test_work_that_does_not_end_in_time_is_recorded(tmp_path: Path) -> None:
    cast = Cast()
    async with house(cast.agent, tmp_path, grace=0.05) as home:
        world = home.world
        streaming = asyncio.ensure_future(world.stream(say(skill="hold")))
        sending = asyncio.ensure_future(world.send(say(skill="hold")))
        await begun(cast, 2)
        await home.drain()

        items = await streaming
        assert kinds(items)[-1] == "FAILED"
        for task in (await sending, items[-1].status_update):
            message = task.status.message
            assert message.metadata.fields["reason"].string_value == "SERVER_STOPPED"
            assert message.parts[0].text.startswith("The server was stopped while the agent was working")
        task_id = items[0].task.id
    async with house(Cast().agent, tmp_path) as home:
        assert (await home.world.get(task_id)).status == items[-1].status_update.status


@pytest.mark.req("DURA-08", "DURA-02", "DURA-06")
async def test_restartable_work_is_handed_over(tmp_path: Path) -> None:
    cast = Cast()
    async with house(cast.agent, tmp_path, grace=0.05) as home:
        world = home.world
        stream = world.stub.SendStreamingMessage(say("done", skill="steps"))
        task_id = (await stream.read()).task.id
        sending = asyncio.ensure_future(world.send(say("also", skill="steps")))
        await begun(cast, 2)
        await world.send(say("more", task_id=task_id, configuration=SOON))
        await home.drain()
        heard: list[pb.StreamResponse] = []
        await unavailable(rest(stream, heard))
        assert kinds(heard) == ["WORKING", "artifact_update"]  # what was pending, although nobody had read it
        await unavailable(sending)
    assert len(cast.turns) == 2  # nobody began on the message that waited

    new = Cast()
    new.release.set()
    async with house(new.agent, tmp_path) as home:
        done = await home.world.reaches(task_id, pb.TASK_STATE_COMPLETED)
        assert texts(done) == ["step 1", "done", "more"]
        assert sorted((turn.text, turn.rerun) for turn in new.turns) == [
            ("also", True),
            ("done", True),
            ("more", False),
        ]


@pytest.mark.req("DURA-08")
async def test_those_who_only_watch_are_told_to_come_back(tmp_path: Path) -> None:
    async with house(Cast().agent, tmp_path) as home:
        asked = await home.world.send(say(skill="ask"))
        stream = home.world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=asked.id))
        assert (await stream.read()).task == asked
        draining = home.drain()
        await unavailable(stream.read())
        await draining
    async with house(Cast().agent, tmp_path) as home:
        assert texts(await home.world.send(say("red", task_id=asked.id))) == ["red it is"]


@pytest.mark.req("DURA-08", "DURA-02", "INTR-02")
@pytest.mark.parametrize("joined", [False, True])
async def test_a_task_that_waits_for_its_client_goes_on_waiting(tmp_path: Path, *, joined: bool) -> None:
    cast = Cast()
    async with house(cast.agent, tmp_path, grace=0.05) as home:
        asked = await home.world.send(say(skill="linger"))
        assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
        if joined:
            await home.world.send(say("red", task_id=asked.id, configuration=SOON))
        await home.drain()
    assert len(cast.turns) == 1
    async with house(Cast().agent, tmp_path) as home:
        if joined:
            done = await home.world.reaches(asked.id, pb.TASK_STATE_COMPLETED)
        else:
            assert await home.world.get(asked.id) == asked
            done = await home.world.send(say("red", task_id=asked.id))
        assert texts(done) == ["red it is"]


@pytest.mark.req("DURA-08", "AGNT-04")
async def test_tasks_that_wait_for_a_slot_are_settled_too(tmp_path: Path) -> None:
    cast = Cast()
    async with house(cast.agent, tmp_path, grace=0.05, running_turns=1) as home:
        world = home.world
        await world.send(say(skill="hold", configuration=SOON))
        await begun(cast)
        waiting = asyncio.ensure_future(world.send(say(skill="echo")))
        kept = await world.send(say("kept", skill="steps", configuration=SOON))
        while world.core.services.agents.root.slots.waiting < 2:  # noqa: ASYNC110 - the server runs in this very loop
            await asyncio.sleep(0)
        await home.drain()
        assert (await waiting).status.message.metadata.fields["reason"].string_value == "SERVER_STOPPED"
    assert len(cast.turns) == 1
    new = Cast()
    new.release.set()
    async with house(new.agent, tmp_path) as home:
        assert texts(await home.world.reaches(kept.id, pb.TASK_STATE_COMPLETED)) == ["step 1", "kept"]


@pytest.mark.req("DURA-08", "AGNT-05")
async def test_an_agent_that_does_not_listen_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_server.operations.turns.registry.STOP_SECONDS", 0.05)
    cast = Cast()
    async with house(cast.agent, tmp_path, grace=0.05) as home:
        sending = asyncio.ensure_future(home.world.send(say(skill="stubborn")))
        await begun(cast)
        async with asyncio.timeout(5):
            await home.drain()
        assert cast.ignored.is_set()
        assert (await sending).status.state == pb.TASK_STATE_FAILED
        (run,) = home.server.core.live_turns
        cast.release.set()
        assert await run.ended(5)


@pytest.mark.req("DURA-08")
async def test_sigterm_drains_a_real_process(tmp_path: Path) -> None:
    store = ("a2a_server.demo:agent", "--store", f"sqlite:///{tmp_path / 'a2a.db'}")
    with process(*store, cwd=tmp_path, A2A_LIMITS__DRAIN_GRACE="0.2") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)
            stream = stub.SendStreamingMessage(say("50", skill="run"))
            task_id = (await stream.read()).task.id
            while not (await stream.read()).status_update.metadata.fields:
                pass
            quick = asyncio.ensure_future(stub.SendMessage(say("a b", skill="story")))
            await asyncio.wait([quick], timeout=0.05)
            server.process.send_signal(signal.SIGTERM)
            await unavailable(rest(stream, []))
            await asyncio.wait([quick])
        assert await asyncio.to_thread(server.process.wait, 10) == 0
    with process(*store, cwd=tmp_path) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            stub = a2a_pb2_grpc.A2AServiceStub(channel)
            task = await stub.CancelTask(pb.CancelTaskRequest(id=task_id))
            assert task.status.state == pb.TASK_STATE_CANCELED  # it was running again
            assert task.artifacts[-1].parts[0].text.startswith("Stopped after lap ")
