"""SubscribeToTask: the task as it is, then everything that follows, nothing lost and nothing twice (spec: SUBS)."""

from __future__ import annotations

import asyncio
import random

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    AUTH,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT,
    REJECTED,
    SUBMITTED,
    WORKING,
    Actor,
    Gate,
    asking,
    at_rest,
    begun,
    chunk,
    cut_short,
    hold_commits,
    status,
    texts,
    until,
    waiting,
)
from tests.support.house import Limits, StreamOptions, fold
from tests.support.world import ByHeader, World, as_user, kinds, refused, say, serving

NOW = {"return_immediately": True}


def subscribe(world: World, task_id: str, **kwargs: object) -> grpc.aio.UnaryStreamCall[object, pb.StreamResponse]:
    call: grpc.aio.UnaryStreamCall[object, pb.StreamResponse] = world.stub.SubscribeToTask(
        pb.SubscribeToTaskRequest(id=task_id), **kwargs
    )
    return call


@pytest.mark.req("SUBS-01", "SUBS-05", "STRM-01", "HIST-06")
async def test_the_first_item_is_the_task_as_it_is(store: Store) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(chunk("a"))
        outlet.emit(status(WORKING, "half way"))
        await gate.wait()
        outlet.emit(chunk("b", append=True))
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act), store=store) as world:
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        items = aiter(subscribe(world, task.id))
        first = (await anext(items)).task
        assert first == await world.get(task.id)
        assert texts(first.artifacts[0]) == ["a"]
        assert first.status.message.parts[0].text == "half way"
        assert len(first.history) == 1
        gate.open()
        assert kinds([item async for item in items]) == ["artifact_update", "COMPLETED"]
        await at_rest(world)


async def collect(world: World, task_id: str, arrived: set[int], name: int) -> list[pb.StreamResponse]:
    """Everything that a subscriber sees; it says when it has arrived."""
    items = []
    async for item in subscribe(world, task_id):
        arrived.add(name)
        items.append(item)
    return items


@pytest.mark.req("SUBS-02", "ARTF-04", "ORDR-01")
async def test_snapshots_and_what_follows_fit_together_under_load(store: Store) -> None:
    """Subscribers come at random moments of a busy stream; each must end up with the same task."""
    size, dice = 1_000, random.Random(3)
    subscribers: list[asyncio.Task[list[pb.StreamResponse]]] = []
    arrived: set[int] = set()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gate.wait()
        for number in range(size):
            outlet.emit(chunk(f"{number},", append=number > 0))
            await outlet.room()
            if number % 50 == 0:
                subscribers.append(asyncio.ensure_future(collect(world, request.task_id, arrived, number)))
            if number % 200 == 0:  # however busy the machine is, some come in the middle
                await until(lambda: len(arrived) > len(subscribers) // 2)
            if dice.random() < 0.2:
                await asyncio.sleep(0)
        await outlet.durable()
        outlet.emit(status(COMPLETED, "all"))

    gate = Gate()
    async with serving(Actor(act), store=store) as world:
        task = await world.send(say(configuration=NOW))
        early = asyncio.ensure_future(collect(world, task.id, arrived, -1))
        gate.open()
        final = await world.reaches(task.id, COMPLETED)
        assert texts(final.artifacts[0]) == [f"{number}," for number in range(size)]
        seen = [await early]
        for subscriber in subscribers:
            try:
                seen.append(await subscriber)
            except grpc.aio.AioRpcError as error:  # came after the end
                assert error.code() == grpc.StatusCode.FAILED_PRECONDITION  # noqa: PT017
        assert len(seen) > 5
        for items in seen:
            assembled = items[0].task
            fold(assembled, items[1:])
            assert assembled == final
        await at_rest(world)


@pytest.mark.req("SUBS-02", "STAT-05")
async def test_an_event_that_is_being_written_meanwhile_comes_after_the_snapshot(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world:
        task = await world.send(say(configuration=NOW))
        await world.reaches(task.id, WORKING)
        disk = hold_commits(store)
        gate.open()
        await disk.reached.wait()
        items = aiter(subscribe(world, task.id))
        assert (await anext(items)).task.status.state == WORKING
        disk.open()
        assert kinds([item async for item in items]) == ["COMPLETED"]


@pytest.mark.req("SUBS-03")
@pytest.mark.parametrize("end", [COMPLETED, FAILED, REJECTED, CANCELED])
async def test_a_finished_task_has_nothing_to_follow(store: Store, end: pb.TaskState) -> None:
    async with serving(waiting(gate := Gate(), ends=end), store=store) as world:
        task = await world.send(say(configuration=NOW))
        if end == CANCELED:
            await world.stub.CancelTask(pb.CancelTaskRequest(id=task.id))
        gate.open()
        await world.reaches(task.id, end)
        seen, refusal = await cut_short(aiter(subscribe(world, task.id)))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "UNSUPPORTED_OPERATION")
        assert refusal.metadata == {"taskId": task.id, "state": pb.TaskState.Name(end)}
        assert not seen
        await at_rest(world)


@pytest.mark.req("SUBS-04")
async def test_what_cannot_be_seen_cannot_be_followed(store: Store) -> None:
    async with serving(asking(), store=store, authenticator=ByHeader()) as world:
        task = await world.send(say(), metadata=as_user("ann"))
        for task_id in (task.id, "nobodys", "x" * 10_000, "a\0b"):
            _, refusal = await cut_short(aiter(subscribe(world, task_id, metadata=as_user("bob"))))
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND")
            assert refusal.metadata == {"taskId": task_id[:200]}
            assert refusal.message == "Task not found."
        await at_rest(world)


@pytest.mark.req("GEN-04", "STRM-07")
@pytest.mark.not_through("rest", why="its paths cannot carry an empty id")
async def test_subscribing_needs_an_id() -> None:
    async with serving(asking()) as world:
        _, refusal = await cut_short(aiter(subscribe(world, "")))
        assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, {"id": "is required"})


@pytest.mark.req("CAPA-01")
async def test_an_agent_that_does_not_stream_cannot_be_followed() -> None:
    gate = Gate()
    async with serving(waiting(gate, streaming=False)) as world:
        task = await world.send(say(configuration=NOW))
        refusal = await refused(anext(aiter(subscribe(world, task.id))))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "UNSUPPORTED_OPERATION")
        gate.open()


@pytest.mark.req("SUBS-06", "SUBS-05", "STRM-05")
@pytest.mark.parametrize("stop", [INPUT, AUTH])
async def test_a_waiting_task_can_be_followed_until_it_goes_on(store: Store, stop: pb.TaskState) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(stop, "And?") if request.number == 1 else status(COMPLETED))

    async with serving(Actor(act), store=store) as world:
        task = await world.send(say())
        items = aiter(subscribe(world, task.id))
        assert (await anext(items)).task == task
        await world.send(say("this", task_id=task.id))
        assert kinds([item async for item in items]) == ["WORKING", "COMPLETED"]
        await at_rest(world)


@pytest.mark.req("SUBS-05", "STRM-05")
async def test_a_subscription_ends_with_the_next_question(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(INPUT, f"question {request.number}"))

    async with serving(Actor(act), store=store) as world:
        task = await world.send(say())
        items = aiter(subscribe(world, task.id))
        await anext(items)
        await world.send(say("this", task_id=task.id))
        assert kinds([item async for item in items]) == ["WORKING", "INPUT_REQUIRED"]


@pytest.mark.req("SUBS-01", "AGNT-04")
async def test_a_task_that_waits_for_its_turn_can_be_followed() -> None:
    gate = Gate()
    async with serving(waiting(gate), limits=Limits(running_turns=1, drain_grace=0.05)) as world:
        await world.send(say(configuration=NOW))
        second = await world.send(say(configuration=NOW))
        items = aiter(subscribe(world, second.id))
        assert (await anext(items)).task.status.state == SUBMITTED
        gate.open()
        assert kinds([item async for item in items]) == ["WORKING", "COMPLETED"]


@pytest.mark.req("LIMT-02")
async def test_other_tenants_give_nobody_more_streams() -> None:
    gate, user = Gate(), as_user("ann")
    async with serving(waiting(gate), authenticator=ByHeader(), streams=StreamOptions(per_caller=1)) as world:
        first = world.stub.SendStreamingMessage(say(), metadata=user)
        await anext(aiter(first))
        refusal = await refused(anext(aiter(world.stub.SendStreamingMessage(say(tenant="north"), metadata=user))))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        gate.open()
        first.cancel()


@pytest.mark.req("DURA-08")
async def test_nobody_is_let_in_while_the_server_stops() -> None:
    async with serving(asking()) as world:
        task = await world.send(say())
        stream = aiter(subscribe(world, task.id))
        await anext(stream)
        await world.core.drain()
        seen, told = await cut_short(stream)
        assert (seen, told.code, told.reason) == ([], grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
        refusal = await refused(anext(aiter(subscribe(world, task.id))))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
        refusal = await refused(world.stub.SendMessage(say()))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
        await begun(world)  # reading goes on
