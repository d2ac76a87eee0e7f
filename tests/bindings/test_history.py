"""How much history an answer shows, the same everywhere (spec: HIST)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import INPUT, Actor, status
from tests.support.house import Limits
from tests.support.world import World, refused, say, serving

Show = Callable[[World, str, int | None], Awaitable[pb.Task]]


def curious() -> Actor:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(INPUT, f"q{len(request.task.history)}"))

    return Actor(act)


def spoken(task: pb.Task) -> list[str]:
    return [message.parts[0].text for message in task.history]


async def conversation(world: World) -> str:
    """Four messages: m1, q1, m2, and the question that waits is in the status."""
    task = await world.send(say("m1"))
    await world.send(say("m2", task_id=task.id))
    return task.id


async def _get(world: World, task_id: str, length: int | None) -> pb.Task:
    task: pb.Task = await world.stub.GetTask(pb.GetTaskRequest(id=task_id, history_length=length))
    return task


async def _list(world: World, task_id: str, length: int | None) -> pb.Task:
    response: pb.ListTasksResponse = await world.stub.ListTasks(pb.ListTasksRequest(history_length=length))
    return next(task for task in response.tasks if task.id == task_id)


async def _send(world: World, task_id: str, length: int | None) -> pb.Task:
    configuration = {} if length is None else {"history_length": length}
    return await world.send(say("m3", task_id=task_id, configuration=configuration))


async def _stream(world: World, task_id: str, length: int | None) -> pb.Task:
    configuration = {} if length is None else {"history_length": length}
    return (await world.stream(say("m3", task_id=task_id, configuration=configuration)))[0].task


@pytest.mark.req("HIST-01", "HIST-02", "HIST-03", "HIST-04", "HIST-06", "LIST-14", "GET-01")
@pytest.mark.parametrize("show", [_get, _list])
@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (None, ["m1", "q1", "m2"]),
        (0, []),
        (1, ["m2"]),
        (2, ["q1", "m2"]),
        (3, ["m1", "q1", "m2"]),
        (1_000_000, ["m1", "q1", "m2"]),
    ],
)
async def test_reading(store: Store, show: Show, length: int | None, expected: list[str]) -> None:
    async with serving(curious(), store=store) as world:
        assert spoken(await show(world, await conversation(world), length)) == expected


@pytest.mark.req("HIST-01", "HIST-02", "HIST-03", "HIST-06")
@pytest.mark.parametrize("show", [_send, _stream])
@pytest.mark.parametrize(
    ("length", "expected"),
    [(None, ["m1", "q1", "m2", "q3", "m3"]), (0, []), (1, ["m3"]), (9, ["m1", "q1", "m2", "q3", "m3"])],
)
async def test_sending(store: Store, show: Show, length: int | None, expected: list[str]) -> None:
    async with serving(curious(), store=store) as world:
        assert spoken(await show(world, await conversation(world), length)) == expected


@pytest.mark.req("HIST-06", "HIST-02")
async def test_the_first_item_of_a_new_tasks_stream(store: Store) -> None:
    async with serving(curious(), store=store) as world:
        whole = (await world.stream(say("m1")))[0].task
        none = (await world.stream(say("m1", configuration={"history_length": 0})))[0].task
        assert (spoken(whole), spoken(none)) == (["m1"], [])


@pytest.mark.req("HIST-01", "HIST-06")
async def test_without_a_wish_the_servers_cap_holds_everywhere(store: Store) -> None:
    async with serving(curious(), store=store, limits=Limits(history_cap=2, drain_grace=0.05)) as world:
        task_id = await conversation(world)
        assert spoken(await _get(world, task_id, None)) == ["q1", "m2"]
        assert spoken(await _list(world, task_id, None)) == ["q1", "m2"]
        first = await anext(aiter(world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task_id))))
        assert spoken(first.task) == ["q1", "m2"]
        assert spoken(await _stream(world, task_id, None)) == ["q3", "m3"]
        assert spoken(await _send(world, task_id, None)) == ["q5", "m3"]
        assert spoken(await _get(world, task_id, 5)) == ["m2", "q3", "m3", "q5", "m3"]
        assert spoken(await world.stub.CancelTask(pb.CancelTaskRequest(id=task_id))) == ["m3", "q7"]


@pytest.mark.req("HIST-05", "GEN-03")
@pytest.mark.parametrize("length", [-1, -(2**31)])
async def test_a_negative_length_is_refused(length: int) -> None:
    async with serving(agent := curious()) as world:
        task_id = await conversation(world)
        before = await world.get(task_id)
        send = say(task_id=task_id, configuration={"history_length": length})
        calls = {
            "history_length": [
                world.stub.GetTask(pb.GetTaskRequest(id=task_id, history_length=length)),
                world.stub.ListTasks(pb.ListTasksRequest(history_length=length)),
            ],
            "configuration.history_length": [world.stub.SendMessage(send), world.stream(send)],
        }
        for field, refusals in calls.items():
            for call in refusals:
                refusal = await refused(call)
                assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
                assert refusal.fields == {field: f"must not be negative, got {length}"}
        assert await world.get(task_id) == before
        assert len(agent.requests) == 2


@pytest.mark.req("GEN-09")
async def test_history_is_never_deduplicated(store: Store) -> None:
    async with serving(curious(), store=store) as world:
        task = await world.send(say("same", message_id="m"))
        again = await world.send(say("same", message_id="m", task_id=task.id))
        assert spoken(again) == ["same", "q1", "same"]
