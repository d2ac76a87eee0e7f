"""A store that is away for a while: nothing is accepted, nothing is lost, and it goes on by itself (spec: DURA-07)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.agents import Turn
from a2a_server.ports.records import Write
from a2a_server.ports.store import StoreUnavailable
from tests.support.calls import every_call
from tests.support.house import Limits, MemoryStore
from tests.support.stage import Stage, texts
from tests.support.world import World, kinds, refused, say, serving

SOON: dict[str, Any] = {"return_immediately": True}


class Shaky(MemoryStore):
    """Its disk is full while `away` is set: it can be read and not written."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.refused = 0
        self.tried = asyncio.Event()

    async def commit(self, write: Write) -> bool:
        if self.away:
            self.refused += 1
            self.tried.set()
            raise StoreUnavailable("disk full")
        return await super().commit(write)

    async def put_config(self, *args: Any) -> bool:
        if self.away:
            raise StoreUnavailable("disk full")
        return await super().put_config(*args)


class Teller(Stage):
    """Tells a story in chunks, one for each step that the test grants."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = asyncio.Semaphore(0)
        self.told = 0
        self.agent.skill(id="tell", description="Tells a story.", tags=["test"])(self.tell)

    async def tell(self, turn: Turn) -> None:
        self.turns.append(turn)
        for number in range(1, 5):
            await self.steps.acquire()
            await turn.add_artifact(f"chapter {number}")
            self.told = number

    async def reach(self, chapter: int) -> None:
        """Let it come to a chapter; the skill runs in this very loop."""
        for _ in range(self.told, chapter):
            self.steps.release()
        while self.told < chapter:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)


async def started(world: World, teller: Teller) -> pb.Task:
    task = await world.send(say(skill="tell", configuration=SOON))
    while not teller.turns:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)
    return task


@pytest.mark.req("DURA-07", "ERRS-06", "GEN-03")
async def test_new_work_is_refused_and_everything_else_goes_on() -> None:
    stage, store = Stage(), Shaky()
    async with serving(stage.agent, store=store, push_notifications=True) as world:
        asked = await world.send(say(skill="ask"))
        store.away = True

        for attempt in (
            world.send(say()),
            world.send(say(configuration=SOON)),
            world.stream(say()),
            world.send(say("red", task_id=asked.id)),
            world.send(say(), metadata=(("idempotency-key", "k"),)),
            world.stub.CancelTask(pb.CancelTaskRequest(id=asked.id)),
            every_call(world, asked.id)["CreateTaskPushNotificationConfig"](),
        ):
            refusal = await refused(attempt)
            assert (refusal.code.name, refusal.reason) == ("UNAVAILABLE", "UNAVAILABLE")
            assert refusal.message == "The store cannot serve now."
        assert await world.get(asked.id) == asked
        assert list((await world.stub.ListTasks(pb.ListTasksRequest(include_artifacts=True))).tasks) == [asked]
        assert (await world.discovery.GetAgentCard(GetAgentCardRequest())).name == "Stage"
        direct = await world.stub.SendMessage(say(skill="chat"))
        assert direct.message.parts[0].text == "you said hello"  # small talk needs no disk

        store.away = False
        assert texts(await world.send(say("red", task_id=asked.id))) == ["red it is"]
        assert texts(await world.send(say("k"), metadata=(("idempotency-key", "k"),))) == ["k"]
        assert world.core.services.log.watched == 0
        assert not world.core.live_turns


@pytest.mark.req("DURA-07", "ORDR-01", "ARTF-04")
async def test_a_running_turn_waits_and_goes_on() -> None:
    teller, store = Teller(), Shaky()
    async with serving(teller.agent, store=store) as world:
        task = await started(world, teller)
        follower = asyncio.ensure_future(read_all(world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task.id))))
        await teller.reach(1)
        before = await world.reaches(task.id, pb.TASK_STATE_WORKING)
        store.away = True
        await teller.reach(3)
        await store.tried.wait()
        during = await world.get(task.id)
        assert len(before.artifacts) <= len(during.artifacts) <= 1
        assert not follower.done()

        store.away = False
        await teller.reach(4)
        done = await world.reaches(task.id, pb.TASK_STATE_COMPLETED)
        chapters = [f"chapter {number}" for number in range(1, 5)]
        assert texts(done) == chapters
        items = await follower
        told = texts(items[0].task) + [
            item.artifact_update.artifact.parts[0].text for item in items if item.HasField("artifact_update")
        ]
        assert told == chapters
        assert kinds(items)[-1] == "COMPLETED"


async def read_all(stream: Any) -> list[pb.StreamResponse]:
    return [item async for item in stream]


@pytest.mark.req("DURA-07", "BLK-02")
async def test_a_send_that_waits_for_its_answer_waits_a_little_longer() -> None:
    stage, store = Stage(), Shaky()
    async with serving(stage.agent, store=store) as world:
        waiting = asyncio.ensure_future(world.send(say(skill="hold")))
        while not stage.turns:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        (run,) = world.core.live_turns
        await run.writer.settle()
        store.away = True
        stage.release.set()
        await store.tried.wait()
        assert not waiting.done()
        store.away = False
        assert texts(await waiting) == ["hello"]


@pytest.mark.req("DURA-07")
async def test_turns_that_end_meanwhile_wait_for_it_together() -> None:
    """The error that one of them waits out is not the next one's."""
    stage, store = Stage(), Shaky()
    async with serving(stage.agent, store=store) as world:
        tasks = [await world.send(say(skill="hold", configuration=SOON)) for _ in range(3)]
        for task in tasks:
            await world.reaches(task.id, pb.TASK_STATE_WORKING)
        store.away = True
        stage.release.set()
        await store.tried.wait()
        await asyncio.sleep(0.01)
        store.away = False
        for task in tasks:
            assert texts(await world.reaches(task.id, pb.TASK_STATE_COMPLETED)) == ["hello"]
        while world.core.live_turns:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        assert not await store.claim("next", 10)  # no turn is left open


@pytest.mark.req("DURA-07", "CANX-01")
async def test_a_cancel_is_carried_out_when_the_store_is_back() -> None:
    stage, store = Stage(), Shaky()
    async with serving(stage.agent, store=store) as world:
        task = await world.send(say(skill="hold", configuration=SOON))
        await world.reaches(task.id, pb.TASK_STATE_WORKING)
        store.away = True
        canceling = asyncio.ensure_future(world.stub.CancelTask(pb.CancelTaskRequest(id=task.id)))
        await store.tried.wait()
        store.away = False
        assert (await canceling).status.state == pb.TASK_STATE_CANCELED


@pytest.mark.req("DURA-07", "DURA-08")
async def test_a_server_whose_store_stays_away_stops_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_server.operations.turns.registry.STOP_SECONDS", 0.05)
    teller, store = Teller(), Shaky()
    limits = Limits(drain_grace=0.01)
    async with serving(teller.agent, store=store, limits=limits) as world:
        task = await started(world, teller)
        await world.reaches(task.id, pb.TASK_STATE_WORKING)
        store.away = True
        await teller.reach(1)
        await store.tried.wait()
        async with asyncio.timeout(5):
            await world.core.drain()
        assert not world.core.live_turns
    store.away = False
    async with serving(teller.agent, store=store) as world:
        failed = await world.get(task.id)
        assert failed.status.message.metadata.fields["reason"].string_value == "SERVER_INTERRUPTED"
