"""Many readers, one order; slow ones are cut and never waited for (spec: ORDR, RPLY-06)."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    COMPLETED,
    WORKING,
    Actor,
    Gate,
    at_rest,
    begun,
    chunk,
    cut_short,
    status,
    texts,
    until,
    waiting,
)
from tests.support.house import Limits, fold
from tests.support.world import World, kinds, say, serving

NOW = {"return_immediately": True}


def counting(gate: Gate, chunks: int, *, text: str = "") -> Actor:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gate.wait()
        for number in range(chunks):
            outlet.emit(chunk(text or f"{number}", append=number > 0))
            await outlet.room()
        outlet.emit(status(COMPLETED))

    return Actor(act)


async def follow(world: World, task_id: str, seen: list[pb.StreamResponse] | None = None) -> list[pb.StreamResponse]:
    items: list[pb.StreamResponse] = [] if seen is None else seen
    async for item in world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task_id)):
        items.append(item)  # noqa: PERF401 - others look while it grows
    return items


@pytest.mark.req("ORDR-01", "ORDR-02", "ORDR-03")
async def test_a_hundred_subscribers_see_the_same_in_the_same_order(store: Store) -> None:
    gate = Gate()
    async with serving(counting(gate, 200), store=store) as world:
        sender = asyncio.ensure_future(world.stream(say()))
        task_id = await begun(world)
        seen: list[list[pb.StreamResponse]] = [[] for _ in range(100)]
        readers = [asyncio.ensure_future(follow(world, task_id, items)) for items in seen]
        await until(lambda: all(seen))
        await world.reaches(task_id, WORKING)
        gate.open()
        own = await sender
        assert [item.artifact_update.artifact.parts[0].text for item in own[2:-1]] == [str(n) for n in range(200)]
        for items in await asyncio.gather(*readers):
            updates = items[1:]
            assert updates == own[len(own) - len(updates) :]
            assert len(updates) >= 201
        await at_rest(world)


@pytest.mark.req("ORDR-04")
async def test_closing_one_stream_touches_neither_the_others_nor_the_task(store: Store) -> None:
    gate = Gate()
    async with serving(counting(gate, 20), store=store) as world:
        sender = world.stub.SendStreamingMessage(say())
        task_id = (await anext(aiter(sender))).task.id
        leaving = world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task_id))
        await anext(aiter(leaving))
        staying = asyncio.ensure_future(follow(world, task_id))
        await until(lambda: world.pipeline.streams.count == 3)
        leaving.cancel()
        sender.cancel()
        await until(lambda: world.pipeline.streams.count == 1)
        gate.open()
        items = await staying
        assert kinds(items)[-1] == "COMPLETED"
        assert sum(item.HasField("artifact_update") for item in items) == 20
        assert (await world.get(task_id)).status.state == COMPLETED
        await at_rest(world)


@pytest.mark.req("ORDR-03", "SUBS-02")
async def test_the_log_is_numbered_without_gaps(store: Store) -> None:
    gate = Gate()
    async with serving(counting(gate, 300), store=store) as world:
        gate.open()
        task = await world.send(say())
        entries = await store.entries(task.id, 0, 1_000)
        assert [entry.number for entry in entries] == list(range(1, 304))
        assembled = pb.Task()
        fold(assembled, (entry.event for entry in entries))
        assert assembled == task


@pytest.mark.req("RPLY-06", "ORDR-03")
@pytest.mark.not_through("rest-far", "jsonrpc-far", why="a channel's window holds more than is written here")
async def test_a_reader_that_falls_behind_is_cut_and_comes_again(store: Store) -> None:
    """The slow one is told so; neither the agent nor the quick one waits."""
    gate, end, quick = Gate(), Gate(), 0

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gate.wait()
        for number in range(150):
            outlet.emit(chunk(f"{number}".rjust(64 * 1024)))
            await outlet.durable()
            await until(lambda: quick >= number - 5)  # noqa: B023 - waited for right here
        await end.wait()
        outlet.emit(status(COMPLETED))

    async def follow_quickly(world: World, task_id: str) -> None:
        nonlocal quick
        async for item in world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task_id)):
            quick += item.HasField("artifact_update")

    limits = Limits(stream_lag=50, drain_grace=0.05)
    async with serving(Actor(act), store=store, limits=limits) as world, world.sluggish() as slowly:
        task = await world.send(say(configuration=NOW))
        request = pb.SubscribeToTaskRequest(id=task.id)
        slow = aiter(slowly.stub.SubscribeToTask(request))
        await anext(slow)
        reading = asyncio.ensure_future(follow_quickly(world, task.id))
        await until(lambda: world.pipeline.streams.count == 2)
        gate.open()
        await end.reached.wait()  # the agent was not held up
        seen, told = await cut_short(slow)
        assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "SLOW_READER")
        assert told.metadata == {"taskId": task.id}
        assert sum(item.HasField("artifact_update") for item in seen) < 100
        again = aiter(slowly.stub.SubscribeToTask(request))
        assert texts((await anext(again)).task.artifacts[0])[0].strip() == "149"
        end.open()
        assert kinds([item async for item in again]) == ["COMPLETED"]
        await reading
        assert quick == 150
        await at_rest(world)


@pytest.mark.req("RPLY-06")
async def test_a_prompt_reader_is_not_cut_for_a_burst(store: Store) -> None:
    """The agent says more at once than a reader may fall behind; nobody has been slow yet."""

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(500):
            outlet.emit(chunk(f"{number}", append=number > 0))
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act), store=store, limits=Limits(stream_lag=50)) as world:
        assert (await world.send(say())).status.state == COMPLETED
        assert len(await world.stream(say())) == 503
        await at_rest(world)


@pytest.mark.req("ORDR-02")
async def test_streams_of_different_clients_end_together(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world, world.sluggish() as slowly:
        sender = asyncio.ensure_future(world.stream(say()))
        task_id = await begun(world)
        other = aiter(slowly.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task_id)))
        await anext(other)
        await world.reaches(task_id, WORKING)
        gate.open()
        assert kinds(await sender)[-1] == "COMPLETED"
        assert kinds([item async for item in other])[-1] == "COMPLETED"
