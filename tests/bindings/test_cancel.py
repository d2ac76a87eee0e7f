"""CancelTask: one cancellation, one final status, whatever the agent and other clients do (spec: CANC, CANX)."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, Plan, TurnRequest
from a2a_server.ports.authenticator import ANONYMOUS
from a2a_server.ports.store import StaleWrite, Store
from tests.bindings.actors import (
    AUTH,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT,
    PATIENT,
    REJECTED,
    SUBMITTED,
    WORKING,
    Act,
    Actor,
    Gate,
    ask,
    asking,
    at_rest,
    begun,
    chunk,
    hold_commits,
    log_of,
    remembers,
    status,
    statuses,
    texts,
    until,
    waiting,
    watch_calls,
)
from tests.support.house import A2AError, IdleTask, Limits, Scope
from tests.support.world import ByHeader, World, as_user, kinds, refused, say, serving

NOW = {"return_immediately": True}
TERMINAL = {"COMPLETED", "FAILED", "CANCELED", "REJECTED"}


async def cancel(world: World, task_id: str, **kwargs: Any) -> pb.Task:
    task: pb.Task = await world.stub.CancelTask(pb.CancelTaskRequest(id=task_id), **kwargs)
    return task


async def terminals(world: World, task_id: str) -> list[str]:
    return [state for state in statuses(await log_of(world.core, task_id)) if state in TERMINAL]


@pytest.mark.req("CANC-01", "CANX-01", "STAT-01")
async def test_cancel_stops_the_agent_and_answers_with_the_canceled_task(store: Store) -> None:
    stopped: list[str] = []

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(chunk("so far"))
        gate.reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(request.task_id)
            raise

    gate = Gate()
    async with serving(Actor(act), store=store, limits=PATIENT) as world:
        waiter = asyncio.ensure_future(world.send(say()))
        await gate.reached.wait()
        task_id = await begun(world)
        task = await cancel(world, task_id)
        assert task.status.state == CANCELED
        assert texts(task.artifacts[0]) == ["so far"]
        assert stopped == [task_id]
        assert await waiter == task == await world.get(task_id)
        assert await terminals(world, task_id) == ["CANCELED"]
        await at_rest(world)


@pytest.mark.req("CANC-02")
async def test_what_cannot_be_seen_cannot_be_canceled(store: Store) -> None:
    async with serving(asking(), store=store, authenticator=ByHeader()) as world:
        task = await world.send(say(), metadata=as_user("ann"))
        foreign = await refused(cancel(world, task.id, metadata=as_user("bob")))
        unknown = await refused(cancel(world, "nobodys", metadata=as_user("bob")))
        assert (foreign.code, foreign.reason, foreign.metadata) == (
            grpc.StatusCode.NOT_FOUND,
            "TASK_NOT_FOUND",
            {"taskId": task.id},
        )
        assert (unknown.code, unknown.reason, unknown.message) == (foreign.code, foreign.reason, foreign.message)
        assert (await world.get(task.id, metadata=as_user("ann"))).status.state == INPUT


@pytest.mark.req("GEN-04")
@pytest.mark.not_through("rest", why="its paths cannot carry an empty id")
async def test_cancel_needs_an_id() -> None:
    async with serving(asking()) as world:
        refusal = await refused(cancel(world, ""))
        assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, {"id": "is required"})


@pytest.mark.req("CANC-03")
@pytest.mark.parametrize("end", [COMPLETED, FAILED, REJECTED, CANCELED])
async def test_a_finished_task_is_not_cancelable(store: Store, end: pb.TaskState) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(end))

    async with serving(Actor(act), store=store, limits=PATIENT) as world:
        task = await world.send(say())
        refusal = await refused(cancel(world, task.id))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TASK_NOT_CANCELABLE")
        assert refusal.metadata == {"taskId": task.id}
        assert await world.get(task.id) == task


@pytest.mark.req("CANC-05")
async def test_a_task_that_waits_for_input_can_be_canceled(store: Store) -> None:
    async with serving(asking("Who?"), store=store, limits=PATIENT) as world:
        task = await world.send(say())
        task = await cancel(world, task.id)
        assert task.status.state == CANCELED
        assert [message.parts[0].text for message in task.history] == ["hello", "Who?"]
        assert await terminals(world, task.id) == ["CANCELED"]


@pytest.mark.req("CANC-05")
async def test_a_task_that_waits_for_authorization_inside_its_turn_can_be_canceled(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(AUTH, "Log in."))
        await asyncio.Event().wait()

    async with serving(Actor(act), store=store, limits=PATIENT) as world:
        task = await world.send(say())
        assert task.status.state == AUTH
        assert (await cancel(world, task.id)).status.state == CANCELED
        await at_rest(world)


@pytest.mark.req("CANC-01", "AGNT-04")
async def test_a_task_that_waits_for_its_turn_can_be_canceled_and_never_runs(store: Store) -> None:
    gate = Gate()
    agent = waiting(gate)
    async with serving(
        agent, store=store, limits=Limits(running_turns=1, cancel_grace=30.0, drain_grace=0.05)
    ) as world:
        first = await world.send(say(configuration=NOW))
        second = await world.send(say(configuration=NOW))
        third = await world.send(say(configuration=NOW))
        assert (await world.get(second.id)).status.state == SUBMITTED
        assert (await cancel(world, second.id)).status.state == CANCELED
        assert world.core.services.agents.root.slots.waiting == 1
        gate.open()
        await world.reaches(third.id, COMPLETED)
        assert [request.task_id for request in agent.requests] == [first.id, third.id]
        assert await terminals(world, second.id) == ["CANCELED"]
        await at_rest(world)


@pytest.mark.req("CANC-04", "CANX-02")
async def test_a_repeat_after_the_fact_is_refused_and_changes_nothing(store: Store) -> None:
    async with serving(waiting(Gate()), store=store, limits=PATIENT) as world:
        task = await world.send(say(configuration=NOW))
        canceled = await cancel(world, task.id)
        refusal = await refused(cancel(world, task.id))
        assert refusal.reason == "TASK_NOT_CANCELABLE"
        assert await world.get(task.id) == canceled
        assert await terminals(world, task.id) == ["CANCELED"]


@pytest.mark.req("CANC-04", "CANX-01")
@pytest.mark.source
async def test_a_second_cancel_shares_the_first_and_leaves_the_clean_up_alone(store: Store) -> None:
    cleaning, interruptions = Gate(), 0
    metadata: list[object] = []

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        nonlocal interruptions
        gate.reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            interruptions += 1
            try:
                await cleaning.wait()
            except asyncio.CancelledError:
                interruptions += 1
            assert outlet.cancel_metadata is not None
            metadata.append(dict(outlet.cancel_metadata))
            raise

    gate = Gate()
    async with serving(Actor(act), store=store, limits=PATIENT) as world:
        arrived = watch_calls(world)
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        request = pb.CancelTaskRequest(id=task.id, metadata={"why": "first"})
        first = asyncio.ensure_future(world.stub.CancelTask(request))
        await cleaning.reached.wait()
        again = pb.CancelTaskRequest(id=task.id, metadata={"why": "second"})
        second = asyncio.ensure_future(world.stub.CancelTask(again))
        await until(lambda: arrived.count("CancelTask") == 2)
        await world.get(task.id)  # one look into the store later the second one has looked as well
        cleaning.open()
        assert (await first).status.state == (await second).status.state == CANCELED
        assert interruptions == 1
        assert metadata == [{"why": "first"}]
        assert await terminals(world, task.id) == ["CANCELED"]


@pytest.mark.req("CANC-04")
async def test_two_cancels_of_a_waiting_task_leave_one_status(store: Store) -> None:
    async with serving(asking(), store=store, limits=PATIENT) as world:
        for _ in range(10):
            task = await world.send(say())
            answers = await asyncio.gather(cancel(world, task.id), cancel(world, task.id), return_exceptions=True)
            assert any(isinstance(answer, pb.Task) and answer.status.state == CANCELED for answer in answers)
            assert await terminals(world, task.id) == ["CANCELED"]


@pytest.mark.req("CANC-07")
async def test_the_agent_can_read_the_metadata_of_the_cancel() -> None:
    seen = []

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        seen.append(outlet.cancel_metadata)
        gate.reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(outlet.cancel_metadata)

    gate = Gate()
    async with serving(Actor(act), limits=PATIENT) as world:
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        request = pb.CancelTaskRequest(id=task.id, metadata={"reason": "changed my mind"})
        await world.stub.CancelTask(request)
        assert seen == [None, request.metadata]


@pytest.mark.req("CANC-06")
async def test_an_agent_that_does_not_stop_is_not_called_canceled(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        gate.reached.set()
        while not gate.opened.is_set():
            try:
                await gate.opened.wait()
            except asyncio.CancelledError:
                continue
        outlet.emit(status(COMPLETED))

    gate = Gate()
    async with serving(Actor(act), store=store, limits=Limits(cancel_grace=0.05, drain_grace=0.05)) as world:
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        refusal = await refused(cancel(world, task.id))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TASK_NOT_CANCELABLE")
        assert refusal.metadata == {"taskId": task.id}
        assert "works on" in refusal.message
        assert (await world.get(task.id)).status.state == WORKING
        gate.open()
        await world.reaches(task.id, COMPLETED)
        assert await terminals(world, task.id) == ["COMPLETED"]
        await at_rest(world)


@pytest.mark.req("CANC-06")
async def test_an_agent_that_ignored_one_cancel_can_be_asked_again(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        gate.reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    gate = Gate()
    async with serving(Actor(act), store=store, limits=Limits(cancel_grace=1.0, drain_grace=0.05)) as world:
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        assert (await refused(cancel(world, task.id))).reason == "TASK_NOT_CANCELABLE"
        assert (await cancel(world, task.id)).status.state == CANCELED


def _swallows(end: Act) -> Act:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        gate = Gate()
        try:
            await gate.wait()
        except asyncio.CancelledError:
            await end(request, outlet)

    return act


async def _returns(request: TurnRequest, outlet: Outlet) -> None:
    pass


async def _raises(request: TurnRequest, outlet: Outlet) -> None:
    raise OSError("could not close the connection")


async def _goes_on(request: TurnRequest, outlet: Outlet) -> None:
    outlet.emit(status(WORKING, "cleaning up"))


async def _breaks_the_rules(request: TurnRequest, outlet: Outlet) -> None:
    outlet.emit(pb.StreamResponse())


@pytest.mark.req("CANC-01", "CANX-01")
@pytest.mark.parametrize("end", [_returns, _raises, _goes_on, _breaks_the_rules])
async def test_however_the_agent_stops_it_was_a_cancel(store: Store, end: Act) -> None:
    async with serving(agent := Actor(_swallows(end)), store=store, limits=PATIENT) as world:
        task = await world.send(say(configuration=NOW))
        await until(lambda: bool(agent.requests))
        assert (await cancel(world, task.id)).status.state == CANCELED
        assert await terminals(world, task.id) == ["CANCELED"]
        await at_rest(world)


@pytest.mark.req("CANX-02")
async def test_an_agent_that_finishes_when_it_is_canceled_has_finished(store: Store) -> None:
    async def finishes(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(chunk("just in time", last=True))
        outlet.emit(status(COMPLETED))

    async with serving(agent := Actor(_swallows(finishes)), store=store, limits=PATIENT) as world:
        task = await world.send(say(configuration=NOW))
        await until(lambda: bool(agent.requests))
        assert (await refused(cancel(world, task.id))).reason == "TASK_NOT_CANCELABLE"
        assert (await world.get(task.id)).status.state == COMPLETED
        assert await terminals(world, task.id) == ["COMPLETED"]


@pytest.mark.req("CANX-01")
async def test_nothing_of_the_agent_is_published_after_the_cancel(store: Store) -> None:
    leftovers: list[Outlet] = []

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        leftovers.append(outlet)
        await gate.wait()

    gate = Gate()
    async with serving(Actor(act), store=store, limits=PATIENT) as world:
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        canceled = await cancel(world, task.id)
        (outlet,) = leftovers
        outlet.emit(chunk("too late"))
        outlet.emit(status(COMPLETED, "done after all"))
        outlet.save(b"too late")
        await outlet.durable()
        assert await world.get(task.id) == canceled
        assert await terminals(world, task.id) == ["CANCELED"]


@pytest.mark.req("CANC-04", "CANX-02")
async def test_completion_and_cancels_race_for_one_final_status(store: Store) -> None:
    """Two cancels against one completion, in many interleavings: one terminal status, and honest answers."""
    dice = random.Random(7)
    ends: list[str] = []

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gates[request.message.message_id].wait()
        outlet.emit(chunk("result", last=True))
        outlet.emit(status(COMPLETED))

    gates: dict[str, Gate] = {}

    async def finish(gate: Gate) -> None:
        await pause()
        gate.open()

    async def try_to_cancel(task_id: str) -> pb.Task | A2AError:
        await pause()
        try:
            task: pb.Task = await ask(world.core, "CancelTask", pb.CancelTaskRequest(id=task_id))
        except A2AError as error:
            return error
        return task

    async def pause() -> None:
        for _ in range(dice.randrange(5)):
            await asyncio.sleep(0)
            await store.ping()  # as long as a cancel takes to look at its task

    async with serving(Actor(act), store=store, limits=PATIENT) as world:
        for number in range(150):
            gate = gates[f"m-{number}"] = Gate()
            task = await world.send(say(message_id=f"m-{number}", configuration=NOW))
            await gate.reached.wait()
            _, *answers = await asyncio.gather(finish(gate), try_to_cancel(task.id), try_to_cancel(task.id))
            (end,) = await terminals(world, task.id)
            ends.append(end)
            stored = await world.get(task.id)
            for answer in answers:
                if isinstance(answer, pb.Task):
                    assert (answer, end) == (stored, "CANCELED")
                else:
                    assert answer.reason.name == "TASK_NOT_CANCELABLE"
        assert set(ends) == {"COMPLETED", "CANCELED"}
        await at_rest(world)


@pytest.mark.req("CANX-02", "CANC-03")
async def test_a_cancel_that_comes_while_the_end_is_being_written_is_late(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store, limits=PATIENT) as world:
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        disk = hold_commits(store)
        gate.open()
        await disk.reached.wait()
        late = asyncio.ensure_future(refused(cancel(world, task.id)))
        assert (await world.get(task.id)).status.state == WORKING  # not durable, so not visible
        disk.open()
        assert (await late).reason == "TASK_NOT_CANCELABLE"
        assert await terminals(world, task.id) == ["COMPLETED"]


@pytest.mark.req("CANX-01", "SUBS-05")
async def test_streams_end_with_the_cancel(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store, limits=PATIENT) as world:
        stream = asyncio.ensure_future(world.stream(say()))
        await gate.reached.wait()
        task_id = await begun(world)
        await cancel(world, task_id)
        assert kinds(await stream) == ["task", "WORKING", "CANCELED"]
        await at_rest(world)


@pytest.mark.req("CANC-01", "SEND-13")
async def test_messages_that_wait_are_canceled_with_the_task(store: Store) -> None:
    agent = waiting(Gate())
    async with serving(agent, store=store, limits=PATIENT) as world:
        task = await world.send(say(configuration=NOW))
        more = asyncio.ensure_future(world.send(say("more", task_id=task.id)))
        await remembers(world, task.id, 2)
        assert (await cancel(world, task.id)).status.state == CANCELED
        assert (await more).status.state == CANCELED
        assert len(agent.requests) == 1
        assert not await store.claim("next", 10)
        await at_rest(world)


@pytest.mark.req("CANC-02")
async def test_a_direct_turn_has_no_task_to_cancel() -> None:
    gate = Gate()
    async with serving(waiting(gate, plan=Plan(direct=True))) as world:
        waiter = asyncio.ensure_future(world.send(say()))
        await gate.reached.wait()
        (live,) = world.core.live_turns
        assert (await refused(cancel(world, live.task_id))).reason == "TASK_NOT_FOUND"
        gate.open()
        assert (await waiter).status.state == COMPLETED


@pytest.mark.req("CANC-05", "SUBS-06")
async def test_a_cancel_that_lost_a_race_leaves_subscribers_alone(store: Store) -> None:
    """A write that was too late is the cancel's own affair: whoever follows the task follows the winner."""

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(COMPLETED if request.message.parts[0].text == "end" else AUTH, "Log in."))

    async with serving(Actor(act), store=store, limits=PATIENT) as world:
        task = await world.send(say())
        stream = world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task.id))
        items = [await anext(aiter(stream))]
        record = await world.core.services.find(Scope("", ANONYMOUS), task.id)
        await world.send(say("not yet", task_id=task.id))
        with pytest.raises(StaleWrite):
            await IdleTask(world.core.services, Scope("", ANONYMOUS), record).move(CANCELED)
        await world.send(say("end", task_id=task.id))
        items += [item async for item in stream]
        assert kinds(items) == ["task", "WORKING", "AUTH_REQUIRED", "WORKING", "COMPLETED"]
