"""Contexts, follow-ups and messages to running tasks (spec: CTX, SEND-13, INTR-02, DURA-06)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, Turn
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    COMPLETED,
    FAILED,
    INPUT,
    SUBMITTED,
    WORKING,
    Actor,
    Gate,
    ask,
    asking,
    at_rest,
    begun,
    chunk,
    echo,
    remembers,
    says,
    status,
    texts,
    waiting,
)
from tests.support.house import A2AError, Limits, SqliteStore
from tests.support.world import ByHeader, World, as_user, kinds, refused, say, serving

NOW = {"return_immediately": True}
STRICT = Limits(accept_unknown_contexts=False, drain_grace=0.05)


def spoken(task: pb.Task) -> list[str]:
    return [message.parts[0].text for message in task.history]


# -- contexts


@pytest.mark.req("CTX-03", "CTX-09", "CTX-10")
async def test_tasks_of_one_context_run_side_by_side(store: Store) -> None:
    gate = Gate()
    async with serving(agent := waiting(gate), store=store) as world:
        first = await world.send(say(context_id="ours", configuration=NOW))
        second = await world.send(say(context_id="ours", configuration=NOW))
        await world.reaches(first.id, WORKING)
        await world.reaches(second.id, WORKING)
        assert first.id != second.id
        assert first.context_id == second.context_id == "ours"
        assert {request.context_id for request in agent.requests} == {"ours"}
        gate.open()
        await at_rest(world)


@pytest.mark.req("CTX-01", "CTX-02")
async def test_contexts_that_the_server_makes_are_all_different(store: Store) -> None:
    async with serving(echo(), store=store) as world:
        tasks = [await world.send(say()) for _ in range(3)]
        assert len({task.context_id for task in tasks}) == 3
        assert all(task.history[0].context_id == task.context_id for task in tasks)


@pytest.mark.req("CTX-05")
async def test_a_task_brings_its_context(store: Store) -> None:
    async with serving(agent := asking(), store=store) as world:
        task = await world.send(say())
        again = await world.send(say("this", task_id=task.id))
        assert again.context_id == task.context_id == agent.requests[1].context_id
        assert again.history[-1].context_id == task.context_id


@pytest.mark.req("CTX-06", "GEN-03")
async def test_a_contradicting_context_is_refused(store: Store) -> None:
    async with serving(agent := asking(), store=store) as world:
        task = await world.send(say())
        refusal = await refused(world.stub.SendMessage(say(task_id=task.id, context_id="another")))
        assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
        assert list(refusal.fields) == ["message.context_id"]
        assert await world.get(task.id) == task
        assert len(agent.requests) == 1
        assert (await world.send(say(task_id=task.id, context_id=task.context_id))).status.state == COMPLETED


@pytest.mark.req("CTX-04", "GEN-03")
async def test_contexts_of_a_clients_own_choice_may_be_refused(store: Store) -> None:
    async with serving(agent := echo(), store=store, limits=STRICT) as world:
        refusal = await refused(world.stub.SendMessage(say(context_id="mine")))
        assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
        assert list(refusal.fields) == ["message.context_id"]
        assert not agent.requests
        known = (await world.send(say())).context_id
        assert (await world.send(say(context_id=known))).context_id == known


@pytest.mark.req("CTX-12")
async def test_somebody_elses_context_is_no_context(store: Store) -> None:
    async with serving(agent := echo(), store=store, authenticator=ByHeader(), limits=STRICT) as world:
        context_id = (await world.send(say(), metadata=as_user("ann"))).context_id
        for guess in (context_id, "nobodys"):
            refusal = await refused(world.stub.SendMessage(say(context_id=guess), metadata=as_user("bob")))
            assert refusal.fields == {
                "message.context_id": f"{guess!r} is no context of yours; leave it out",
            }
        assert len(agent.requests) == 1


@pytest.mark.req("CTX-12")
async def test_the_same_context_id_of_two_callers_is_two_contexts(store: Store) -> None:
    async with serving(agent := echo(), store=store, authenticator=ByHeader()) as world:
        await world.send(say("secret", context_id="c"), metadata=as_user("ann"))
        task = await world.send(say("hello", context_id="c"), metadata=as_user("bob"))
        assert spoken(task) == ["hello"]
        assert "secret" not in str(agent.requests[-1])
        listed = await world.stub.ListTasks(pb.ListTasksRequest(context_id="c"), metadata=as_user("bob"))
        assert [found.id for found in listed.tasks] == [task.id]


@pytest.mark.req("CTX-11")
async def test_references_that_cannot_be_seen_are_absent(store: Store) -> None:
    async with serving(agent := echo(), store=store, authenticator=ByHeader()) as world:
        own = await world.send(say("own"), metadata=as_user("ann"))
        foreign = await world.send(say("foreign"), metadata=as_user("bob"))
        names = [foreign.id, own.id, "nobodys"]
        task = await world.send(say(references=names), metadata=as_user("ann"))
        (seen,) = agent.requests[-1].references
        assert seen == own
        assert list(task.history[0].reference_task_ids) == names


@pytest.mark.req("CTX-14")
async def test_a_refined_artifact_keeps_its_name_and_gets_a_new_id(store: Store) -> None:
    agent = Agent("Painter", "Paints.", "1.0.0")

    @agent.skill(id="paint", tags=["art"])
    async def paint(turn: Turn) -> str:
        return turn.text

    async with serving(agent, store=store) as world:
        first = await world.send(say("a boat"))
        second = await world.send(say("make it red", context_id=first.context_id, references=[first.id]))
        assert first.artifacts[0].name == second.artifacts[0].name == "paint"
        assert first.artifacts[0].artifact_id != second.artifacts[0].artifact_id


# -- follow-ups


@pytest.mark.req("INTR-02", "CTX-05")
async def test_the_next_turn_knows_what_was_said(store: Store) -> None:
    async with serving(agent := asking("Who?"), store=store) as world:
        task = await world.send(say("Book a table."))
        again = await world.send(say("Ann", task_id=task.id))
        assert again.id == task.id
        assert spoken(again) == ["Book a table.", "Who?", "Ann"]
        turn = agent.requests[1]
        assert list(turn.task.history) == list(again.history)
        assert turn.message == again.history[-1]
        assert turn.task.status.state == WORKING
        assert turn.number > 1
        assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 1


@pytest.mark.req("DURA-06")
async def test_what_an_agent_saves_is_there_in_the_next_turn(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.save(request.state + request.message.parts[0].text.encode())
        outlet.emit(status(INPUT, "And?"))

    async with serving(agent := Actor(act), store=store) as world:
        task = await world.send(say("a"))
        await world.send(say("b", task_id=task.id))
        await world.send(say("c", task_id=task.id))
        assert [request.state for request in agent.requests] == [b"", b"a", b"ab"]


@pytest.mark.req("DURA-06", "INTR-02")
async def test_a_conversation_goes_on_after_a_restart(tmp_path: Path) -> None:
    def booking() -> Agent:
        agent = Agent("Booking", "Books.", "1.0.0")

        @agent.skill(id="book", tags=["travel"])
        async def book(turn: Turn) -> str | None:
            answers = turn.state.setdefault("answers", [])
            answers.append(turn.text)
            if len(answers) == 3:
                return " ".join(answers)
            await turn.ask(f"question {len(answers)}")
            return None

        return agent

    async with serving(booking(), store=SqliteStore(tmp_path / "a2a.db")) as world:
        task = await world.send(say("one"))
        await world.send(say("two", task_id=task.id))
    async with serving(booking(), store=SqliteStore(tmp_path / "a2a.db")) as world:
        task = await world.send(say("three", task_id=task.id))
        assert task.status.state == COMPLETED
        assert texts(task.artifacts[0]) == ["one two three"]
        assert spoken(task) == ["one", "question 1", "two", "question 2", "three"]


# -- messages to a task that is being worked on


@pytest.mark.req("SEND-13")
async def test_a_message_to_a_running_task_gets_the_next_turn(store: Store) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.number == 1:
            await gate.wait()
        outlet.emit(chunk(request.message.parts[0].text, artifact_id=f"{request.number}", last=True))
        outlet.emit(status(COMPLETED, "done"))

    async with serving(agent := Actor(act), store=store) as world:
        first = asyncio.ensure_future(world.send(say("one")))
        task_id = await begun(world)
        second = asyncio.ensure_future(world.send(say("two", task_id=task_id)))
        await remembers(world, task_id, 2)
        third = asyncio.ensure_future(world.send(say("three", task_id=task_id)))
        await remembers(world, task_id, 3)
        gate.open()
        answers = await asyncio.gather(first, second, third)
        assert [request.message.parts[0].text for request in agent.requests] == ["one", "two", "three"]
        assert [texts(artifact) for artifact in answers[2].artifacts] == [["one"], ["two"], ["three"]]
        assert [answer.status.state for answer in answers] == [COMPLETED] * 3
        assert not await store.claim("next", 10)
        await at_rest(world)


@pytest.mark.req("SEND-13", "AGNT-04")
async def test_a_message_to_a_task_that_has_not_begun_waits_with_it(store: Store) -> None:
    gate = Gate()
    limits = Limits(running_turns=1, drain_grace=0.05)
    async with serving(agent := waiting(gate), store=store, limits=limits) as world:
        await world.send(say("before", configuration=NOW))
        task = await world.send(say("one", configuration=NOW))
        answer = await world.send(say("two", task_id=task.id, configuration=NOW))
        assert answer.status.state == SUBMITTED
        assert spoken(answer) == ["one", "two"]
        gate.open()
        await world.reaches(task.id, COMPLETED)
        assert [request.message.parts[0].text for request in agent.requests] == ["before", "one", "two"]
        await at_rest(world)


@pytest.mark.req("SEND-13", "AGNT-01")
async def test_the_running_turn_may_take_the_message(store: Store) -> None:
    agent = Agent("Chat", "Chats.", "1.0.0")

    @agent.skill(id="chat", tags=["chat"])
    async def chat(turn: Turn) -> str:
        heard = [turn.text]
        while heard[-1] != "stop":
            heard.append((await turn.next_message()).parts[0].text)
        return " ".join(heard)

    async with serving(agent, store=store) as world:
        first = asyncio.ensure_future(world.send(say("one")))
        task_id = await begun(world)
        await world.send(say("two", task_id=task_id, configuration=NOW))
        last = await world.send(say("stop", task_id=task_id))
        assert last == await first
        assert texts(last.artifacts[0]) == ["one two stop"]
        assert spoken(last) == ["one", "two", "stop"]
        await at_rest(world)


@pytest.mark.req("SEND-13", "INTR-02")
async def test_a_turn_that_takes_the_answer_to_its_own_question_ends_as_any_other(store: Store) -> None:
    """The task works again, and who sent the answer gets the result."""
    agent = Agent("Chat", "Chats.", "1.0.0")

    @agent.skill(id="chat", tags=["chat"])
    async def chat(turn: Turn) -> str:
        await turn.ask("Who?")
        return "Hello, " + (await turn.next_message()).parts[0].text

    async with serving(agent, store=store) as world:
        task = await world.send(say())
        items = await world.stream(say("Ann", task_id=task.id))
        assert kinds(items) == ["task", "WORKING", "artifact_update", "COMPLETED"]
        assert texts((await world.get(task.id)).artifacts[0]) == ["Hello, Ann"]
        await at_rest(world)


@pytest.mark.req("SEND-13")
async def test_parts_of_an_agent_may_listen_at_the_same_time() -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        both = await asyncio.gather(outlet.next_message(), outlet.next_message())
        outlet.emit(status(COMPLETED, " ".join(sorted(message.parts[0].text for message in both))))

    async with serving(Actor(act)) as world:
        task = await world.send(say(configuration=NOW))
        await world.send(say("two", task_id=task.id, configuration=NOW))
        done = await world.send(say("three", task_id=task.id))
        assert done.status.message.parts[0].text == "three two"


@pytest.mark.req("SEND-13")
async def test_what_still_listens_after_its_turn_hears_nothing() -> None:
    """Or it would take away the message that the next turn is there for."""
    leftovers: list[asyncio.Future[pb.Message]] = []
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.number == 1:
            leftovers.append(asyncio.ensure_future(outlet.next_message()))
            await gate.wait()
        outlet.emit(status(INPUT if request.number == 1 else COMPLETED, "And?"))

    async with serving(agent := Actor(act)) as world:
        sending = asyncio.ensure_future(world.send(say()))
        await gate.reached.wait()
        gate.open()
        task = await sending
        answer = await world.send(say("this", task_id=task.id))
        assert answer.status.state == COMPLETED
        assert agent.requests[-1].message.parts[0].text == "this"
        (leftover,) = leftovers
        with pytest.raises(Exception, match="turn is over"):
            await leftover


@pytest.mark.req("SEND-13", "EXEC-01")
async def test_the_history_of_a_turn_ends_with_its_message(store: Store) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.number == 1:
            await gate.wait()
            outlet.emit(status(INPUT, "question"))
        else:
            outlet.emit(status(COMPLETED))

    async with serving(agent := Actor(act), store=store) as world:
        first = asyncio.ensure_future(world.send(say("one")))
        task_id = await begun(world)
        second = asyncio.ensure_future(world.send(say("two", task_id=task_id)))
        await remembers(world, task_id, 2)
        third = asyncio.ensure_future(world.send(say("three", task_id=task_id)))
        await remembers(world, task_id, 3)
        gate.open()
        await asyncio.gather(first, second, third)
        assert [spoken(request.task) for request in agent.requests] == [
            ["one"],
            ["one", "question", "two"],
            ["one", "two", "question", "three"],
        ]


@pytest.mark.req("SEND-13", "CANX-02")
@pytest.mark.parametrize("end", [COMPLETED, FAILED])
async def test_a_message_that_races_with_the_end_is_answered_or_refused(store: Store, end: pb.TaskState) -> None:
    """Whatever the interleaving: an accepted message is in the history, and no call hangs."""
    outcomes = set()
    gates: dict[str, Gate] = {}

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.number == 1:
            await gates[request.message.message_id].wait()
        outlet.emit(status(end))

    async def finish(gate: Gate, delay: int) -> None:
        for _ in range(delay):
            await asyncio.sleep(0)
            await store.ping()  # as long as the answer takes to find its task
        gate.open()

    async def answer(world: World, task_id: str, delay: int) -> str:
        for _ in range(delay):
            await asyncio.sleep(0)
        try:
            response = await ask(world.core, "SendMessage", say("two", message_id="two", task_id=task_id))
        except A2AError as error:
            assert error.reason.name == "UNSUPPORTED_OPERATION"  # noqa: PT017
            return "refused"
        assert response.task.status.state == end
        return "answered"

    async with serving(Actor(act), store=store) as world:
        for delay in range(-20, 20):
            key = f"first {delay}"
            gate = gates[key] = Gate()
            task = await world.send(say(message_id=key, configuration=NOW))
            await gate.reached.wait()
            outcome, _ = await asyncio.gather(answer(world, task.id, max(0, -delay)), finish(gate, max(0, delay)))
            outcomes.add(outcome)
            final = await world.reaches(task.id, end)
            assert [message.message_id for message in final.history] == [key, "two"][: 1 + (outcome == "answered")]
        assert outcomes == {"answered", "refused"}
        await at_rest(world)


@pytest.mark.req("INTR-02", "CANC-04")
async def test_two_answers_to_one_question_are_two_turns(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(INPUT, f"question {len(agent.requests)}"))

    async with serving(agent := Actor(act), store=store) as world:
        task = await world.send(say())
        answers = await asyncio.gather(*(world.send(say(f"{n}", task_id=task.id)) for n in range(5)))
        assert {answer.status.state for answer in answers} == {INPUT}
        assert len(agent.requests) == 6
        assert {request.message.parts[0].text for request in agent.requests[1:]} == set("01234")
        await at_rest(world)


@pytest.mark.req("SEND-13", "STRM-04")
async def test_a_failure_ends_the_messages_that_wait(store: Store) -> None:
    gate = Gate()
    async with serving(agent := waiting(gate, ends=FAILED), store=store) as world:
        task = await world.send(say(configuration=NOW))
        waits = asyncio.ensure_future(world.send(say("more", task_id=task.id)))
        await remembers(world, task.id, 2)
        streams = asyncio.ensure_future(world.stream(say("and more", task_id=task.id)))
        await remembers(world, task.id, 3)
        gate.open()
        assert (await waits).status.state == FAILED
        assert kinds(await streams) == ["task", "FAILED"]
        assert len(agent.requests) == 1
        await at_rest(world)


@pytest.mark.req("SEND-11")
async def test_a_running_task_never_answers_with_a_bare_message() -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(INPUT, "And?") if request.number == 1 else pb.StreamResponse(message=says("hi")))

    async with serving(Actor(act)) as world:
        task = await world.send(say())
        refusal = await refused(world.stub.SendMessage(say(task_id=task.id)))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INTERNAL, "INVALID_AGENT_RESPONSE")
        assert (await world.get(task.id)).status.state == FAILED
