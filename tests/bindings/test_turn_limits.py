"""How many turns run at once, who waits, and how long a turn may take (spec: AGNT-04, AGNT-05, LIMT-02)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.store import Store
from a2a_server.serve.watchdog import Watchdog
from tests.bindings.actors import (
    CANCELED,
    COMPLETED,
    FAILED,
    SUBMITTED,
    WORKING,
    Actor,
    Gate,
    asking,
    at_rest,
    chunk,
    log_of,
    status,
    statuses,
    until,
    waiting,
)
from tests.support.door_draft import beside, draft_serving
from tests.support.door_draft import request as draft_request
from tests.support.door_draft import say as draft_say
from tests.support.door_old import request as old_request
from tests.support.door_old import say as old_say
from tests.support.door_old import tell as old_tell
from tests.support.effort import effort
from tests.support.house import Limits
from tests.support.old import tell as old_grpc_say
from tests.support.world import ByHeader, World, as_user, kinds, refused, say, serving

NOW = {"return_immediately": True}


def limits(**changes: float) -> Limits:
    return Limits(**({"drain_grace": 0.05, "cancel_grace": 30.0} | changes))  # type: ignore[arg-type]


class OneByOne:
    """Turns that end one at a time, when the test says so."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.agent = Actor(self._act)

    async def _act(self, request: TurnRequest, outlet: Outlet) -> None:
        name = request.message.parts[0].text
        end = self._ends[name] = asyncio.Event()
        self.started.append(name)
        await end.wait()
        outlet.emit(status(COMPLETED))

    async def end(self, name: str) -> None:
        await until(lambda: name in self._ends)
        self._ends[name].set()

    async def begin(self, world: World, *names: str, user: str = "ann") -> list[pb.Task]:
        metadata = as_user(user)
        return [await world.send(say(name, configuration=NOW), metadata=metadata) for name in names]


@pytest.mark.req("AGNT-04", "LIMT-02", "STAT-03")
async def test_turns_beyond_the_bound_wait_in_submitted_and_in_order(store: Store) -> None:
    turns = OneByOne()
    async with serving(turns.agent, store=store, limits=limits(running_turns=2)) as world:
        tasks = await turns.begin(world, "a", "b", "c", "d", "e")
        await until(lambda: turns.started == ["a", "b"])
        states = [(await world.get(task.id)).status.state for task in tasks]
        assert states == [WORKING, WORKING, SUBMITTED, SUBMITTED, SUBMITTED]
        await turns.end("b")
        await until(lambda: turns.started == ["a", "b", "c"])
        for end, begins in ("ad", "ce"):  # one by one: those who are let in together may begin in any order
            await turns.end(end)
            await until(lambda: turns.started[-1] == begins)  # noqa: B023 - waited for at once
        assert turns.started == ["a", "b", "c", "d", "e"]
        await turns.end("d")
        await turns.end("e")
        await at_rest(world)


@pytest.mark.req("AGNT-04", "LIMT-02")
async def test_a_caller_has_a_bound_of_its_own(store: Store) -> None:
    turns = OneByOne()
    bounds = limits(running_turns=3, running_turns_per_caller=2)
    async with serving(turns.agent, store=store, limits=bounds, authenticator=ByHeader()) as world:
        await turns.begin(world, "a1", "a2", "a3", "a4", user="ann")
        await turns.begin(world, "b1", "b2", user="bob")
        await until(lambda: len(turns.started) == 3)
        assert turns.started == ["a1", "a2", "b1"]  # bob does not wait for ann's queue
        await turns.end("b1")
        await until(lambda: len(turns.started) == 4)
        assert turns.started[-1] == "b2"  # ann has come first, but has her share
        await turns.end("a1")
        await until(lambda: len(turns.started) == 5)
        assert turns.started[-1] == "a3"
        for name in ("a2", "a3", "a4", "b2"):
            await turns.end(name)
        await at_rest(world)


@pytest.mark.req("AGNT-04")
async def test_anonymous_callers_are_many_and_share_only_the_servers_bound() -> None:
    turns = OneByOne()
    async with serving(turns.agent, limits=limits(running_turns=3, running_turns_per_caller=1)) as world:
        await turns.begin(world, "a", "b", "c", "d")
        await until(lambda: len(turns.started) == 3)
        for name in "abcd":
            await turns.end(name)
        await at_rest(world)


@pytest.mark.req("AGNT-04", "ERRS-06")
async def test_a_full_queue_refuses_and_leaves_no_trace(store: Store) -> None:
    gate = Gate()
    bounds = limits(running_turns=1, waiting_turns=2)
    async with serving(waiting(gate), store=store, limits=bounds) as world:
        for _ in range(3):
            await world.send(say(configuration=NOW))
        await until(lambda: world.core.services.agents.root.slots.waiting == 2)
        for call in (world.stub.SendMessage(say()), world.stream(say())):
            refusal = await refused(call)
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
            assert refusal.domain == "a2a-server"
        assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 3
        gate.open()
        await at_rest(world)
        assert (await world.send(say())).status.state == COMPLETED


BUSY = "The server is busy: {} tasks are waiting already. Try again later."


async def turned_away(world: World, user: str, waiting: int, **request: str) -> None:
    """A send and a stream of this user are refused, while so many turns wait."""
    message = say(configuration=NOW, **request)
    for call in (
        world.stub.SendMessage(message, metadata=as_user(user)),
        world.stream(message, metadata=as_user(user)),
    ):
        refusal = await refused(call)
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        assert refusal.message == BUSY.format(waiting)


@pytest.mark.req("AGNT-04", "LIMT-02", "ERRS-06")
@pytest.mark.parametrize("_", range(effort(1, everything=20)))
async def test_an_owner_who_fills_the_queue_keeps_nobody_out(store: Store, _: int) -> None:
    turns = OneByOne()
    bounds = limits(running_turns=1, waiting_turns=4)
    async with serving(turns.agent, store=store, limits=bounds, authenticator=ByHeader()) as world:
        slots = world.core.services.agents.root.slots
        tasks = await turns.begin(world, "a1", "a2", "a3", "a4", "a5", user="ann")
        await until(lambda: slots.waiting == 4)
        await turned_away(world, "ann", 4)
        await turned_away(world, "ann", 4, tenant="another")
        await turns.begin(world, "b1", "b2", user="bob")
        await until(lambda: slots.waiting == 6)
        await turned_away(world, "bob", 6)
        await turns.begin(world, "c1", user="cid")
        await until(lambda: slots.waiting == 7)
        await turned_away(world, "cid", 7)

        await world.stub.CancelTask(pb.CancelTaskRequest(id=tasks[2].id), metadata=as_user("ann"))
        assert slots.waiting == 6
        for name in ("a1", "a2", "b1", "c1", "a4", "b2", "a5"):
            await until(lambda: slots.running == 1 and turns.started[-1] == name)  # noqa: B023 - waited for at once
            await turns.end(name)
        await at_rest(world)
        assert turns.started == ["a1", "a2", "b1", "c1", "a4", "b2", "a5"]
        assert (slots.running, slots.waiting) == (0, 0)


@pytest.mark.only_through("rest", why="its gateway speaks all versions")
@pytest.mark.req("AGNT-04", "LIMT-02", "ERRS-06")
async def test_every_version_is_told_that_the_queue_is_full() -> None:
    turns = OneByOne()
    parts: Any = {"limits": limits(running_turns=1, waiting_turns=1), "authenticator": ByHeader(), "old_http": {}}
    async with draft_serving(turns.agent, **parts) as (world, client):
        await turns.begin(world, "a1", "a2", user="ann")
        await until(lambda: world.core.services.agents.root.slots.waiting == 1)
        old, text = beside(client), BUSY.format(1)
        refusal = await refused(world.old.SendMessage(old_grpc_say(), metadata=as_user("ann")))
        assert (refusal.code.name, refusal.reason, refusal.message) == ("RESOURCE_EXHAUSTED", "OVERLOADED", text)
        answers = [
            await old.rest("POST", "/v1/message:send", old_tell(), x_user="ann"),
            await old.post(old_request("message/send", old_say()), x_user="ann"),
            await client.rest("POST", "/v1/message:send", draft_say(), x_user="ann"),
            await client.post(draft_request("SendMessage", draft_say()), x_user="ann"),
        ]
        for answer in answers:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
            assert text in str(answer.json)
            assert "OVERLOADED" in str(answer.json)
        assert (
            await old.rest("POST", "/v1/message:send", old_tell("b", configuration={"blocking": False}), x_user="bob")
        ).status == 200
        for name in ("a1", "a2", "b"):
            await turns.end(name)
        await at_rest(world)


@pytest.mark.req("AGNT-04", "CANC-01")
async def test_whoever_leaves_the_queue_makes_room(store: Store) -> None:
    gate = Gate()
    bounds = limits(running_turns=1, waiting_turns=2)
    async with serving(waiting(gate), store=store, limits=bounds) as world:
        tasks = [await world.send(say(configuration=NOW)) for _ in range(3)]
        await until(lambda: world.core.services.agents.root.slots.waiting == 2)
        canceled = await world.stub.CancelTask(pb.CancelTaskRequest(id=tasks[2].id))
        assert canceled.status.state == CANCELED
        late = await world.send(say(configuration=NOW))
        gate.open()
        await world.reaches(late.id, COMPLETED)
        await at_rest(world)


@pytest.mark.req("AGNT-04", "SEND-13")
async def test_a_full_queue_does_not_refuse_messages_to_running_tasks(store: Store) -> None:
    gate = Gate()
    bounds = limits(running_turns=1, waiting_turns=1)
    async with serving(waiting(gate), store=store, limits=bounds) as world:
        running = await world.send(say(configuration=NOW))
        await world.send(say(configuration=NOW))
        await until(lambda: world.core.services.agents.root.slots.waiting == 1)
        assert (await world.send(say(task_id=running.id, configuration=NOW))).id == running.id
        gate.open()
        await at_rest(world)


@pytest.mark.req("AGNT-04")
async def test_a_waiting_task_takes_no_slot(store: Store) -> None:
    async with serving(asking(), store=store, limits=limits(running_turns=1)) as world:
        tasks = [await world.send(say()) for _ in range(5)]
        for task in tasks:
            assert (await world.send(say(task_id=task.id))).status.state == COMPLETED
        await at_rest(world)


@pytest.mark.req("AGNT-04")
async def test_a_continued_task_waits_for_a_slot_like_any_other(store: Store) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.message.parts[0].text == "long":
            await gate.wait()
        outlet.emit(status(pb.TASK_STATE_INPUT_REQUIRED, "And?"))

    async with serving(agent := Actor(act), store=store, limits=limits(running_turns=1)) as world:
        task = await world.send(say("short"))
        await world.send(say("long", configuration=NOW))
        await gate.reached.wait()
        again = asyncio.ensure_future(world.send(say("again", task_id=task.id)))
        await until(lambda: world.core.services.agents.root.slots.waiting == 1)
        assert len(agent.requests) == 2
        gate.open()
        await again
        assert [request.message.parts[0].text for request in agent.requests] == ["short", "long", "again"]


@pytest.mark.req("AGNT-05", "EXEC-04")
async def test_a_turn_that_takes_too_long_fails_and_says_so(store: Store) -> None:
    stopped = asyncio.Event()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(chunk("so far"))
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with serving(Actor(act), store=store, limits=limits(turn_timeout=0.1)) as world:
        task = await world.send(say())
        assert task.status.state == FAILED
        assert task.status.message.parts[0].text == "The agent did not finish within 0.1 seconds."
        assert task.status.message.metadata["reason"] == "TURN_TIMEOUT"
        assert task.artifacts[0].parts[0].text == "so far"
        await stopped.wait()
        await at_rest(world)


@pytest.mark.req("AGNT-05", "STAT-01")
async def test_an_agent_that_ignores_the_limit_changes_nothing_any_more(store: Store) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        while not gate.opened.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                outlet.emit(status(WORKING, "not yet"))
        outlet.emit(chunk("late"))
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act), store=store, limits=limits(turn_timeout=0.1)) as world:
        items = await world.stream(say())
        assert kinds(items) == ["task", "WORKING", "FAILED"]
        task_id = items[0].task.id
        assert (await refused(world.stub.SendMessage(say(task_id=task_id)))).reason == "UNSUPPORTED_OPERATION"
        cancel = world.stub.CancelTask(pb.CancelTaskRequest(id=task_id))
        assert (await refused(cancel)).reason == "TASK_NOT_CANCELABLE"
        gate.open()
        await at_rest(world)
        assert statuses(await log_of(world.core, task_id)) == ["WORKING", "FAILED"]
        assert not (await world.get(task_id)).artifacts


@pytest.mark.req("AGNT-05")
async def test_every_turn_has_the_whole_time() -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await asyncio.sleep(0.15)
        outlet.emit(status(pb.TASK_STATE_INPUT_REQUIRED, "And?"))

    async with serving(Actor(act), limits=limits(turn_timeout=10.0)) as world:
        task = await world.send(say())
        for _ in range(2):
            task = await world.send(say(task_id=task.id))
            assert task.status.state == pb.TASK_STATE_INPUT_REQUIRED


@pytest.mark.req("AGNT-05")
async def test_an_agent_that_blocks_the_loop_is_seen() -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        time.sleep(0.5)  # noqa: ASYNC251 - the mistake under test
        outlet.emit(status(COMPLETED))

    with capture_logs() as lines:
        async with serving(Actor(act)) as world:
            watchdog = Watchdog(0.05)
            watchdog.start()
            assert (await world.send(say())).status.state == COMPLETED
            await until(lambda: any(line["event"] == "loop.free" for line in lines))
            await asyncio.to_thread(watchdog.stop)
    blocked = next(line for line in lines if line["event"] == "loop.blocked")
    assert any("test_turn_limits.py" in frame and "act" in frame for frame in blocked["frames"])
