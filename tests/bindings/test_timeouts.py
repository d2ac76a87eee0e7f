"""Questions that nobody answers (spec: TIMO)."""

from __future__ import annotations

import asyncio

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.clock import Clock
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    AUTH,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT,
    WORKING,
    Actor,
    Gate,
    asking,
    at_rest,
    log_of,
    status,
    statuses,
    waiting,
)
from tests.support.house import InputTimeouts, Limits
from tests.support.world import World, kinds, say, serving

NOW = {"return_immediately": True}
START = 1_800_000_000_000


class ByHand(Clock):
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.ms = START
        self.off = 0
        """So far is what it shows from the time that has passed."""

    def now_ms(self) -> int:
        return self.ms + self.off

    def steady_ms(self) -> int:
        return self.ms

    def pass_seconds(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


def limits(seconds: float = 300.0) -> Limits:
    return Limits(input_timeout=seconds, drain_grace=0.05)


async def sweep(world: World, seconds: float = 300.0) -> None:
    await InputTimeouts(world.core.services, world.core.live_turns, seconds).sweep()


@pytest.mark.req("TIMO-01", "TIMO-02")
@pytest.mark.parametrize("stop", [INPUT, AUTH])
async def test_a_question_has_a_time_to_be_answered(store: Store, stop: pb.TaskState) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(stop, "And?"))

    clock = ByHand()
    async with serving(Actor(act), store=store, clock=clock, limits=limits()) as world:
        task = await world.send(say())
        clock.pass_seconds(299.9)
        await sweep(world)
        assert (await world.get(task.id)).status.state == stop
        clock.pass_seconds(0.2)
        await sweep(world)
        late = await world.get(task.id)
        assert late.status.state == FAILED
        message = late.status.message
        assert message.role == pb.ROLE_AGENT
        assert message.parts[0].text == "No input arrived within 300 seconds."
        assert dict(message.metadata) == {"reason": "INPUT_TIMEOUT", "taskId": task.id, "timeoutSeconds": 300.0}
        assert late.history[-1].parts[0].text == "And?"
        await sweep(world)
        assert statuses(await log_of(world.core, task.id)).count("FAILED") == 1


@pytest.mark.req("TIMO-01")
@pytest.mark.parametrize("off", [-86_400_000, 86_400_000])
async def test_a_clock_that_is_set_takes_no_time_away(off: int) -> None:
    """Neither from a question that was asked before, nor from one that is asked afterwards."""
    clock = ByHand()
    async with serving(asking(), clock=clock, limits=limits()) as world:
        before = await world.send(say())
        clock.off = off
        after = await world.send(say())
        clock.pass_seconds(299.9)
        await sweep(world)
        for task in (before, after):
            assert (await world.get(task.id)).status.state == INPUT
        clock.pass_seconds(0.2)
        await sweep(world)
        states = {(await world.get(task.id)).status.state for task in (before, after)}
        assert states == {INPUT, FAILED}  # the other one is as late as the clock is off


@pytest.mark.req("TIMO-01")
async def test_the_server_looks_by_itself() -> None:
    clock = ByHand()
    async with serving(asking(), clock=clock, limits=limits(0.5)) as world:
        task = await world.send(say())
        stream = world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task.id))
        await anext(aiter(stream))
        clock.pass_seconds(1)
        assert kinds([item async for item in stream]) == ["FAILED"]
        await at_rest(world)


@pytest.mark.req("TIMO-01")
async def test_without_the_setting_a_task_waits_for_ever() -> None:
    clock = ByHand()
    async with serving(asking(), clock=clock) as world:
        task = await world.send(say())
        clock.pass_seconds(10**9)
        assert (await world.send(say(task_id=task.id))).status.state == COMPLETED


@pytest.mark.req("TIMO-01")
async def test_only_those_are_failed_that_wait_too_long(store: Store) -> None:
    clock, gate = ByHand(), Gate()
    async with serving(asking(), store=store, clock=clock, limits=limits()) as world:
        old = await world.send(say())
        clock.pass_seconds(200)
        new = await world.send(say())
        done = await world.send(say())
        await world.send(say(task_id=done.id))
        canceled = await world.send(say())
        await world.stub.CancelTask(pb.CancelTaskRequest(id=canceled.id))
        clock.pass_seconds(150)
        await sweep(world)
        states = [(await world.get(task.id)).status.state for task in (old, new, done, canceled)]
        assert states == [FAILED, INPUT, COMPLETED, CANCELED]
        gate.open()


@pytest.mark.req("TIMO-01")
async def test_a_turn_that_works_is_not_waiting(store: Store) -> None:
    clock, gate = ByHand(), Gate()
    async with serving(waiting(gate), store=store, clock=clock, limits=limits()) as world:
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        clock.pass_seconds(10_000)
        await sweep(world)
        gate.open()
        assert (await world.reaches(task.id, COMPLETED)).status.state == COMPLETED


@pytest.mark.req("TIMO-02", "INTR-07")
async def test_a_turn_that_waits_for_a_credential_keeps_its_own_time(store: Store) -> None:
    """The agent itself waits, and may go on with a message that says so."""
    clock, gate = ByHand(), Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(AUTH, "Log in."))
        await gate.wait()
        outlet.emit(status(WORKING, "No credential has come; going on without."))
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act), store=store, clock=clock, limits=limits()) as world:
        task = await world.send(say())
        clock.pass_seconds(10_000)
        await sweep(world)
        assert (await world.get(task.id)).status.state == AUTH
        gate.open()
        await world.reaches(task.id, COMPLETED)


@pytest.mark.req("TIMO-01", "CANX-02")
async def test_an_answer_and_the_timeout_race_for_one_end(store: Store) -> None:
    clock = ByHand()
    async with serving(asking(), store=store, clock=clock, limits=limits()) as world:
        for _ in range(20):
            task = await world.send(say())
            clock.pass_seconds(301)
            answers: list[object] = await asyncio.gather(
                world.stub.SendMessage(say(task_id=task.id)), sweep(world), return_exceptions=True
            )
            final = await world.reaches(task.id, (await world.get(task.id)).status.state)
            ends = [end for end in statuses(await log_of(world.core, task.id)) if end in {"FAILED", "COMPLETED"}]
            assert len(ends) == 1
            assert final.status.state == pb.TaskState.Value(f"TASK_STATE_{ends[0]}")
            assert ends == ["COMPLETED"] or not isinstance(answers[0], pb.SendMessageResponse)
        await at_rest(world)


@pytest.mark.req("TIMO-01")
async def test_many_are_failed_in_one_sweep(store: Store) -> None:
    clock = ByHand()
    async with serving(asking(), store=store, clock=clock, limits=limits()) as world:
        await asyncio.gather(*(world.send(say()) for _ in range(230)))
        clock.pass_seconds(301)
        await sweep(world)
        listed = await world.stub.ListTasks(pb.ListTasksRequest(status=FAILED))
        assert listed.total_size == 230
