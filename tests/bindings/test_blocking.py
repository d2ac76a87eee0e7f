"""When SendMessage returns (spec: BLK, CONF-07, CONF-09)."""

from __future__ import annotations

import asyncio

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, Plan, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    AUTH,
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
    hold_commits,
    says,
    status,
    texts,
    waiting,
)
from tests.support.world import kinds, say, serving

NOW = {"return_immediately": True}


@pytest.mark.req("BLK-01", "BLK-02")
@pytest.mark.parametrize("end", [COMPLETED, FAILED, REJECTED, INPUT, AUTH])
@pytest.mark.parametrize("asked", [None, {"return_immediately": False}])
async def test_a_send_waits_for_the_first_stop(store: Store, end: pb.TaskState, asked: dict[str, bool] | None) -> None:
    gate = Gate()
    async with serving(waiting(gate, ends=end), store=store) as world:
        sending = asyncio.ensure_future(world.send(say(configuration=asked or {})))
        await gate.reached.wait()
        await begun(world)
        assert not sending.done()
        gate.open()
        assert (await sending).status.state == end
        await at_rest(world)


@pytest.mark.req("BLK-02")
async def test_a_stop_inside_the_turn_is_enough(store: Store) -> None:
    """The agent waits for a credential; whoever sent the message need not."""
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(AUTH, "Log in."))
        await gate.wait()
        outlet.emit(status(WORKING))
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act), store=store) as world:
        task = await world.send(say())
        assert task.status.state == AUTH
        gate.open()
        await world.reaches(task.id, COMPLETED)


@pytest.mark.req("BLK-03", "STAT-05")
async def test_the_answer_has_the_newest_status_and_all_artifacts(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(30):
            outlet.emit(chunk(f"{number} ", append=number > 0))
            await outlet.room()
        outlet.emit(chunk("whole", artifact_id="b", last=True))
        outlet.emit(status(INPUT, "Enough?"))

    async with serving(Actor(act), store=store) as world:
        task = await world.send(say())
        assert [texts(artifact) for artifact in task.artifacts] == [[f"{n} " for n in range(30)], ["whole"]]
        assert task.status.message.parts[0].text == "Enough?"
        assert task == await world.get(task.id)


@pytest.mark.req("BLK-04", "STAT-03")
async def test_without_waiting_the_answer_comes_when_the_task_exists(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world:
        task = await world.send(say(configuration=NOW))
        assert task.status.state in (SUBMITTED, WORKING)
        assert [message.parts[0].text for message in task.history] == ["hello"]
        assert (await world.get(task.id)).id == task.id
        gate.open()
        assert (await world.reaches(task.id, COMPLETED)).status.state == COMPLETED


@pytest.mark.req("BLK-04", "DURA-01")
async def test_the_task_is_durable_before_anybody_hears_of_it(store: Store) -> None:
    async with serving(asking(), store=store) as world:
        disk = hold_commits(store)
        sending = asyncio.ensure_future(world.send(say(configuration=NOW)))
        await disk.reached.wait()
        assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 0
        assert not sending.done()
        disk.open()
        await sending


@pytest.mark.req("BLK-05")
async def test_the_flag_does_not_touch_direct_messages() -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gate.wait()
        outlet.emit(pb.StreamResponse(message=says("hi")))

    async with serving(Actor(act, plan=Plan(direct=True))) as world:
        sending = asyncio.ensure_future(world.stub.SendMessage(say(configuration=NOW)))
        await gate.reached.wait()
        gate.open()
        assert (await sending).message.parts[0].text == "hi"


@pytest.mark.req("BLK-05")
async def test_the_flag_does_not_touch_streams(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world:
        stream = asyncio.ensure_future(world.stream(say(configuration=NOW)))
        await begun(world)
        gate.open()
        assert kinds(await stream) == ["task", "WORKING", "COMPLETED"]


@pytest.mark.req("BLK-04", "SEND-09")
async def test_a_direct_turn_that_makes_a_task_answers_with_it_at_once(store: Store) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(WORKING, "This will take a while."))
        await gate.wait()
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act, plan=Plan(direct=True)), store=store) as world:
        task = await world.send(say(configuration=NOW))
        assert task.status.state == WORKING
        gate.open()
        await world.reaches(task.id, COMPLETED)


@pytest.mark.req("BLK-06", "INTR-02")
@pytest.mark.parametrize("stop", [INPUT, AUTH])
async def test_a_continued_task_is_waited_for_until_its_next_stop(store: Store, stop: pb.TaskState) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.number > 1:
            await gate.wait()
        outlet.emit(status(stop, f"turn {request.number}"))

    async with serving(Actor(act), store=store) as world:
        task = await world.send(say())
        sending = asyncio.ensure_future(world.send(say("more", task_id=task.id)))
        await gate.reached.wait()
        assert (await world.get(task.id)).status.state == WORKING
        assert not sending.done()
        gate.open()
        answer = await sending
        assert answer.status.state == stop
        assert answer.status.message.parts[0].text != task.status.message.parts[0].text
        await at_rest(world)


@pytest.mark.req("BLK-06", "INTR-08")
async def test_a_message_to_a_turn_that_waits_for_authorization_waits_for_what_comes_after(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(AUTH, "Log in."))
        await outlet.next_message()
        await gate.wait()
        outlet.emit(status(COMPLETED, "Thank you."))

    gate = Gate()
    async with serving(Actor(act), store=store) as world:
        task = await world.send(say())
        sending = asyncio.ensure_future(world.send(say("my credential", task_id=task.id)))
        await gate.reached.wait()
        assert not sending.done()
        gate.open()
        assert (await sending).status.state == COMPLETED


@pytest.mark.req("BLK-04", "SEND-13")
async def test_a_continuation_without_waiting_answers_when_the_message_is_in_the_history(store: Store) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.number > 1:
            await gate.wait()
        outlet.emit(status(INPUT, "And?"))

    async with serving(Actor(act), store=store) as world:
        task = await world.send(say())
        answer = await world.send(say("more", task_id=task.id, configuration=NOW))
        assert answer.status.state == WORKING
        assert [message.parts[0].text for message in answer.history] == ["hello", "And?", "more"]
        gate.open()
        await world.reaches(task.id, INPUT)
