"""Skills that not every caller may use: no message reaches them without their scopes, and the card says so."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.agents import Agent, Turn
from a2a_server.agents.testing import run_turn
from a2a_server.ports.authenticator import Caller, Credentials
from a2a_server.ports.store import Store
from tests.support.copies import copy_of
from tests.support.house import A2AError, Limits, MemoryStore, Reason
from tests.support.world import ByHeader, Refusal, World, refused, say, serving


class ByScopes(ByHeader):
    """`x-user` lists what the one caller may do, too."""

    async def authenticate(self, credentials: Credentials) -> Caller:
        name, *scopes = (credentials.metadata.get("x-user") or ("nobody",))[0].split("+")
        return Caller(name, authenticated=True, scopes=frozenset(scopes) if scopes else None)


def may(*scopes: str) -> tuple[tuple[str, str], ...]:
    return (("x-user", "+".join(("ann", *scopes))),)


SEND = ("a2a:SendMessage", "a2a:SendStreamingMessage")
AT_ONCE = {"return_immediately": True}
FULLY, BARELY = may(*SEND, "booking", "payments"), may(*SEND, "payments", "a2a:read")


def make(first: str = "talk") -> Agent:
    agent = Agent(name="Desk", description="Takes orders.", version="1.0.0")

    async def talk(turn: Turn) -> str:
        return ",".join(sorted(turn.caller.scopes or {"everything"}))

    async def book(turn: Turn) -> str | None:
        if turn.text == "wait":
            return (await turn.next_message()).parts[0].text
        if turn.number == 1 and turn.text == "ask":
            await turn.ask("Which?")
            return None
        return "booked"

    skills: dict[str, tuple[Any, list[str]]] = {"talk": (talk, []), "book": (book, ["booking", "payments"])}
    for name in sorted(skills, key=lambda name: name != first):
        function, scopes = skills[name]
        agent.skill(id=name, tags=["t"], scopes=scopes)(function)

    @agent.skill(id="direct", tags=["t"], direct=True, may_refuse=True, scopes=["booking"])
    async def direct(turn: Turn) -> None:
        await (turn.ask("Which?") if turn.number == 1 else turn.reply("done"))

    return agent


async def lacks(call: Any, scope: str = "booking", skill: str = "book") -> None:
    told: Refusal = await refused(call)
    assert told.code is grpc.StatusCode.PERMISSION_DENIED, told
    assert told.reason == "PERMISSION_DENIED"
    assert told.message == f'The skill "{skill}" needs the scope {scope}, which these credentials do not have.'
    assert told.metadata == {
        "scope": scope,
        "challenge": f'Bearer error="insufficient_scope", scope="{scope}"',
    }


async def count(world: World) -> int:
    answer: pb.ListTasksResponse = await world.stub.ListTasks(pb.ListTasksRequest(), metadata=may())
    return answer.total_size


@pytest.mark.req("GATE-07", "AUTZ-04", "AUTZ-05")
@pytest.mark.parametrize("first", ["talk", "book"])
async def test_a_message_needs_the_scopes_of_the_skill_it_names_or_falls_to(first: str) -> None:
    request = say("now") if first == "book" else say("now", skill="book")
    async with serving(make(first), authenticator=ByScopes()) as world:
        await lacks(world.stub.SendMessage(request, metadata=BARELY))
        await lacks(world.stub.SendMessage(request, metadata=may(*SEND)), "booking payments")
        await lacks(_first(world.stub.SendStreamingMessage(request, metadata=BARELY)))
        assert await count(world) == 0
        for allowed in (FULLY, may(), may("a2a:*")):
            task = await world.send(request, metadata=allowed)
            assert task.status.state == pb.TASK_STATE_COMPLETED
        task = await world.send(say("now", skill="talk"), metadata=may("a2a:SendMessage"))
        assert task.artifacts[0].parts[0].text == "a2a:SendMessage"
        assert (await world.get(task.id, metadata=BARELY)).id == task.id


async def _first(stream: Any) -> object:
    async for item in stream:
        return item
    return None


@pytest.mark.req("GATE-07")
@pytest.mark.parametrize("skill", ["book", "direct"])
async def test_a_message_to_a_task_needs_the_scopes_of_its_skill(skill: str, store: Store) -> None:
    async with serving(make(), authenticator=ByScopes(), store=store) as world:
        task = await world.send(say("ask", skill=skill), metadata=FULLY)
        assert task.status.state == pb.TASK_STATE_INPUT_REQUIRED
        for named in ("", "talk", skill):  # a task stays with its skill, whatever a message names
            answer = world.stub.SendMessage(say("this one", task_id=task.id, skill=named), metadata=may(*SEND, "x"))
            await lacks(answer, "booking payments" if skill == "book" else "booking", skill)
        assert (await world.get(task.id, metadata=may("a2a:GetTask"))).status.state == task.status.state
        done = await world.send(say("this one", task_id=task.id), metadata=FULLY)
        assert done.status.state == pb.TASK_STATE_COMPLETED


@pytest.mark.req("GATE-07")
async def test_a_task_of_a_free_skill_takes_messages_though_the_first_skill_is_not_free() -> None:
    agent = make("book")

    @agent.skill(id="free", tags=["t"])
    async def free(turn: Turn) -> str | None:
        if turn.number > 1:
            return "done"
        await turn.ask("Which?")
        return None

    async with serving(agent, authenticator=ByScopes()) as world:
        task = await world.send(say("ask", skill="free"), metadata=BARELY)
        done = await world.send(say("this one", task_id=task.id), metadata=BARELY)
        assert done.status.state == pb.TASK_STATE_COMPLETED


@pytest.mark.req("GATE-07")
async def test_a_message_to_a_running_task_needs_the_scopes_of_its_skill() -> None:
    async with serving(make(), authenticator=ByScopes()) as world:
        task = await world.send(say("wait", skill="book", configuration=AT_ONCE), metadata=FULLY)
        for _ in range(2):  # before and after the turn has begun
            await lacks(world.stub.SendMessage(say("x", task_id=task.id, skill="talk"), metadata=BARELY))
            await asyncio.sleep(0.05)
        done = await world.send(say("mine", task_id=task.id), metadata=FULLY)
        assert done.artifacts[0].parts[0].text == "mine"
        assert [message.parts[0].text for message in done.history] == ["wait", "mine"]


@pytest.mark.req("GATE-07")
async def test_a_repeated_send_needs_the_scopes_as_well() -> None:
    async with serving(make(), authenticator=ByScopes(), limits=Limits(idempotency_window=60)) as world:
        await world.send(say("now", skill="book"), metadata=FULLY)
        await lacks(world.stub.SendMessage(say("now", skill="book"), metadata=BARELY))


@pytest.mark.req("GATE-07", "DURA-02")
async def test_a_turn_that_runs_again_has_the_scopes_of_its_caller() -> None:
    agent = Agent(name="Slow", description="Slow.", version="1.0.0")
    seen: list[frozenset[str] | None] = []

    @agent.skill(id="slow", tags=["t"], restartable=True, scopes=["slow"])
    async def slow(turn: Turn) -> str:
        seen.append(turn.caller.scopes)
        if not turn.rerun:
            await asyncio.sleep(60)
        return (await turn.next_message()).parts[0].text

    store = MemoryStore()
    limits = Limits(drain_grace=0, cancel_grace=0.1)
    async with serving(agent, authenticator=ByScopes(), store=store, limits=limits) as world:
        task = await world.send(say("go", configuration=AT_ONCE), metadata=may("a2a:SendMessage", "slow"))
        await asyncio.sleep(0.05)
        copied = copy_of(store)
    async with serving(agent, authenticator=ByScopes(), store=copied) as world:
        await lacks(world.stub.SendMessage(say("x", task_id=task.id), metadata=may(*SEND)), "slow", "slow")
        done = await world.send(say("mine", task_id=task.id), metadata=may("a2a:SendMessage", "slow"))
        assert done.artifacts[0].parts[0].text == "mine"
    assert seen == [frozenset({"a2a:SendMessage", "slow"})] * 2


@pytest.mark.req("AUTZ-05", "GATE-02")
async def test_the_card_says_what_a_skill_needs() -> None:
    async with serving(make(), authenticator=ByScopes()) as world:
        card = await world.discovery.GetAgentCard(discovery_pb2.GetAgentCardRequest())
        needs = {
            skill.id: [{n: list(s.list) for n, s in r.schemes.items()} for r in skill.security_requirements]
            for skill in card.skills
        }
        assert needs == {"talk": [], "book": [{"user": ["booking", "payments"]}], "direct": [{"user": ["booking"]}]}
        assert not card.security_requirements[0].schemes["user"].list


@pytest.mark.parametrize(
    ("scopes", "error", "says"),
    [
        ("booking", TypeError, "scopes is a list of texts"),
        ([""], ValueError, "1 to 64 printable ASCII"),
        (["a b"], ValueError, "1 to 64 printable ASCII"),
        (["a2a:GetTask"], ValueError, "must not begin with a2a:"),
        ([f"{'x' * 60}{n}" for n in range(3)], ValueError, "more than 128 characters"),
    ],
)
def test_a_skill_names_scopes_that_errors_can_tell(scopes: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Agent(name="A", description="B", version="1").skill(id="s", tags=["t"], scopes=scopes)(_nothing)


async def _nothing(turn: Turn) -> None:
    del turn


async def test_a_turn_under_test_needs_the_scopes() -> None:
    agent = make()
    caller = Caller("ann", authenticated=True, scopes=frozenset({"booking", "payments"}))
    record = await run_turn(agent, "ask", skill="book", caller=caller)
    assert record.state == "INPUT_REQUIRED"
    assert (await run_turn(agent, "this", after=record, caller=caller)).text == "booked"
    for after in (None, record):
        with pytest.raises(A2AError) as caught:
            await run_turn(agent, "x", skill="book", after=after, caller=Caller("bob", scopes=frozenset({"payments"})))
        assert caught.value.reason is Reason.PERMISSION_DENIED
    assert (await run_turn(agent, "x", skill="book")).text == "booked"
