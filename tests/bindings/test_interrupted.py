"""Tasks that wait for their client: questions, authorization, and what waiting costs (spec: INTR, CONF-06, CONF-07)."""

from __future__ import annotations

import asyncio
import gc

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, Turn
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    AUTH,
    COMPLETED,
    INPUT,
    REJECTED,
    WORKING,
    Actor,
    Gate,
    asking,
    at_rest,
    status,
    until,
)
from tests.support.world import ByHeader, as_user, kinds, refused, say, serving


def banker(*, in_band: bool = False) -> Agent:
    agent = Agent("Banker", "Knows your balance.", "1.0.0")

    @agent.skill(id="balance", tags=["money"])
    async def balance(turn: Turn) -> str | None:
        if turn.text == "open sesame":
            return "42"
        if turn.text == "no":
            await turn.reject("Then I cannot help.")
        else:
            await turn.require_auth("Log in at bank.example.", in_band=in_band)
        return None

    return agent


@pytest.mark.req("INTR-01", "INTR-02")
async def test_a_question_says_what_is_needed(store: Store) -> None:
    agent = Agent("Waiter", "Takes orders.", "1.0.0")

    @agent.skill(id="order", tags=["food"])
    async def order(turn: Turn) -> str | None:
        if turn.number > 1:
            return f"One {turn.text}."
        await turn.ask("What would you like?")
        return None

    async with serving(agent, store=store) as world:
        task = await world.send(say())
        assert task.status.state == INPUT
        question = task.status.message
        assert (question.role, question.parts[0].text) == (pb.ROLE_AGENT, "What would you like?")
        assert (question.task_id, question.context_id) == (task.id, task.context_id)
        done = await world.send(say("soup", task_id=task.id))
        assert (done.id, done.status.state) == (task.id, COMPLETED)
        assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 1


@pytest.mark.req("INTR-03", "INTR-04", "INTR-06", "BLK-02")
async def test_authorization_is_asked_for_by_a_task_with_an_explanation(store: Store) -> None:
    async with serving(banker(), store=store) as world:
        task = await world.send(say())
        assert task.status.state == AUTH
        assert task.status.message.parts[0].text == "Log in at bank.example."
        stream = world.stub.SendStreamingMessage(say())
        items = aiter(stream)
        assert kinds([await anext(items) for _ in range(3)]) == ["task", "WORKING", "AUTH_REQUIRED"]
        await until(lambda: not world.core.live_turns)
        assert world.pipeline.streams.count == 1  # it stays open, though no turn is running any more
        stream.cancel()
        await at_rest(world)


@pytest.mark.req("INTR-05", "INTR-06")
async def test_a_credential_that_comes_in_a_message_was_agreed_on(store: Store) -> None:
    """In band only if the agent says so, and then the stream closes as after any other question."""
    async with serving(banker(in_band=True), store=store) as world:
        items = await world.stream(say())
        assert kinds(items) == ["task", "WORKING", "AUTH_REQUIRED"]
        assert items[-1].status_update.metadata["inBand"] is True
        done = await world.send(say("open sesame", task_id=items[0].task.id))
        assert done.artifacts[0].parts[0].text == "42"


@pytest.mark.req("INTR-05")
async def test_the_agent_is_told_who_calls_but_not_how_they_proved_it() -> None:
    async with serving(agent := asking(), authenticator=ByHeader()) as world:
        metadata = (*as_user("ann"), ("authorization", "Bearer s3cret"), ("x-credential", "s3cret"))
        await world.send(say(), metadata=metadata)
        assert agent.requests[0].caller.owner == "ann"
        assert "s3cret" not in repr(agent.requests[0])


@pytest.mark.req("INTR-07", "INTR-06")
async def test_work_goes_on_when_the_credential_has_come_by_another_way(store: Store) -> None:
    credential = Gate()
    agent = Agent("Banker", "Knows your balance.", "1.0.0")

    @agent.skill(id="balance", tags=["money"])
    async def balance(turn: Turn) -> str:
        await turn.require_auth("Log in at bank.example.")
        await credential.wait()
        await turn.status("Thank you.")
        return "42"

    async with serving(agent, store=store) as world:
        items = aiter(world.stub.SendStreamingMessage(say()))
        seen = [await anext(items) for _ in range(3)]
        credential.open()
        seen += [item async for item in items]
        assert kinds(seen) == ["task", "WORKING", "AUTH_REQUIRED", "WORKING", "artifact_update", "COMPLETED"]
        await at_rest(world)


@pytest.mark.req("INTR-08")
@pytest.mark.parametrize(("text", "state"), [("why?", AUTH), ("no", REJECTED), ("open sesame", COMPLETED)])
async def test_one_can_talk_to_a_task_that_wants_authorization(store: Store, text: str, state: pb.TaskState) -> None:
    async with serving(banker(), store=store) as world:
        task = await world.send(say())
        answer = await world.send(say(text, task_id=task.id))
        assert (answer.id, answer.status.state) == (task.id, state)


@pytest.mark.req("INTR-09")
async def test_wanting_authorization_grants_none(store: Store) -> None:
    """Each message is judged by its own credentials: nobody else may answer, and none is remembered."""
    async with serving(agent := asking(), store=store, authenticator=ByHeader()) as world:
        task = await world.send(say(), metadata=as_user("ann"))
        for stranger in (as_user("bob"), as_user("ann", x_tenant="red"), ()):
            refusal = await refused(world.stub.SendMessage(say(task_id=task.id), metadata=stranger))
            assert refusal.reason == "TASK_NOT_FOUND"
        await world.send(say(task_id=task.id), metadata=as_user("ann"))
        assert [request.caller.owner for request in agent.requests] == ["ann", "ann"]


@pytest.mark.req("INTR-01")
@pytest.mark.parametrize("stop", [INPUT, AUTH])
async def test_a_waiting_task_costs_nothing(store: Store, stop: pb.TaskState) -> None:
    """No coroutine, no timer and no object of the server is kept for it."""

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(stop, "And?"))

    def of_turns() -> list[object]:
        """What the rooms of turns and logs have made, and what agents are given."""
        gc.collect()
        rooms = ("a2a_server.operations.turns", "a2a_server.operations.log", TurnRequest.__module__)
        return [thing for thing in gc.get_objects() if str(type(thing).__module__).startswith(rooms)]

    async with serving(Actor(act), store=store) as world:
        world_agent = world.core.services.agents.root.agent
        assert isinstance(world_agent, Actor)
        await world.send(say())  # then gRPC has its own tasks
        await at_rest(world)
        tasks = len(asyncio.all_tasks())
        world_agent.requests.clear()
        others = of_turns()  # of the server itself, and what earlier tests still hold
        for number in range(20):
            await (world.send(say()) if number % 2 else world.send(say(configuration={"return_immediately": True})))
        await at_rest(world)
        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        world_agent.requests.clear()
        known = set(map(id, others))
        assert [type(thing).__name__ for thing in of_turns() if id(thing) not in known] == []


@pytest.mark.req("INTR-01", "STAT-02")
async def test_a_question_may_be_asked_anew(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(INPUT, "Who?"))
        outlet.emit(status(INPUT, "And when?"))

    async with serving(Actor(act), store=store) as world:
        task = await world.send(say())
        task = await world.reaches(task.id, INPUT)
        await at_rest(world)
        task = await world.get(task.id)
        assert task.status.message.parts[0].text == "And when?"
        assert [message.parts[0].text for message in task.history] == ["hello", "Who?"]
        assert task.status.state != WORKING
