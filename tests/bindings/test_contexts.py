"""What a turn knows of its context: what was said in earlier tasks, and the state that they share (spec: AGNT-06)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import INPUT_REQUESTS, Agent, Turn, UnsupportedOperation
from a2a_server.ports.store import Store
from tests.support.house import Limits
from tests.support.stage import texts
from tests.support.world import ByHeader, World, as_user, refused, say, serving


def told(messages: Sequence[pb.Message]) -> list[str]:
    """Who said what."""
    return [f"{pb.Role.Name(message.role)[5:6]} {message.parts[0].text}" for message in messages]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the turns run in the test's own loop
            await asyncio.sleep(0.001)


class Rememberer:
    """`seen` is what each turn found in its context."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[str], dict[str, Any]]] = []
        self.go = asyncio.Event()
        self.agent = agent = Agent(
            name="Rememberer", description="Remembers.", version="1.0.0", extensions=[INPUT_REQUESTS]
        )
        for skill in (self.note, self.ask, self.secret, self.slow, self.wrong, self.drop, self.fill, self.refuse):
            agent.skill(id=skill.__name__, description="Remembers.", tags=["test"])(skill)
        agent.skill(id="picky", description="Refuses.", tags=["test"], may_refuse=True)(self.picky)
        agent.skill(id="chat", description="Small talk.", tags=["test"], direct=True)(self.chat)
        agent.skill(id="idle", description="Looks at nothing.", tags=["test"], direct=True)(self.idle)

    def look(self, turn: Turn) -> None:
        self.seen.append((told(turn.context.history), deepcopy(turn.context.state)))

    async def note(self, turn: Turn) -> str:
        self.look(turn)
        turn.context.state[turn.text] = turn.task_id
        turn.context.state.setdefault("all", []).append(turn.text)
        earlier = [text for task in await turn.context.tasks() for text in texts(task)]
        return f"{turn.text} after {earlier}"

    async def ask(self, turn: Turn) -> None:
        self.look(turn)
        if turn.number == 1:
            turn.context.state["asked"] = True
            return await turn.ask("Why?")
        return await turn.complete(f"because {turn.text}")

    async def secret(self, turn: Turn) -> str | None:
        if turn.answer is None:
            await turn.ask("The word?", sensitive=True)
            return None
        return "thanks"

    async def slow(self, turn: Turn) -> str:
        self.look(turn)
        turn.context.state["slow"] = "checkpoint"
        await turn.checkpoint()
        turn.context.state["slow"] = "end"
        await self.go.wait()
        return "done"

    async def wrong(self, turn: Turn) -> None:
        turn.context.state["wrong"] = "kept"
        await turn.checkpoint()
        turn.context.state["wrong"] = "lost"
        raise RuntimeError(turn.text)

    async def drop(self, turn: Turn) -> None:
        del turn.context.state[turn.text]

    async def fill(self, turn: Turn) -> None:
        turn.context.state["much"] = "x" * int(turn.text)

    async def refuse(self, turn: Turn) -> None:
        turn.context.state["refused"] = turn.text
        await turn.reject("No.")

    async def chat(self, turn: Turn) -> None:
        self.look(turn)
        if turn.text != "hello":
            turn.context.state["chat"] = turn.text
        await turn.reply(f"you said {turn.text}")

    async def picky(self, turn: Turn) -> None:
        """Saves before it decides, and takes what is not refused."""
        turn.context.state["picky"] = turn.text
        await turn.checkpoint()
        if turn.text == "no":
            raise UnsupportedOperation("Not that.")
        await turn.ask("More?")

    async def idle(self, turn: Turn) -> None:
        await turn.reply(turn.context.id)


@pytest.mark.req("AGNT-06")
async def test_a_turn_sees_what_was_said_in_its_context_before(store: Store) -> None:
    agent = Rememberer()
    async with serving(agent.agent, store=store) as world:
        first = await world.send(say("one", skill="note"))
        context = first.context_id
        waiting = await world.send(say("two", skill="ask", context_id=context))
        third = await world.send(say("three", skill="note", context_id=context))
        await world.send(say("so", task_id=waiting.id))
        await world.send(say("four", skill="note", context_id=context))
        await world.send(say("other", skill="note"))

    assert [history for history, _ in agent.seen] == [
        [],
        ["U one"],
        ["U one", "U two", "A Why?"],
        ["U one", "U three"],  # the second turn of the task that asked: its own messages are turn.history
        ["U one", "U three", "U two", "A Why?", "U so", "A because so"],
        [],
    ]
    assert texts(third) == ["three after ['one after []']"]
    states = [state for _, state in agent.seen]
    one, three = {"one": first.id}, {"three": third.id}
    assert states[:3] == [{}, one | {"all": ["one"]}, one | {"all": ["one"], "asked": True}]
    assert states[4] == one | three | {"all": ["one", "three"], "asked": True}
    assert states[5] == {}


@pytest.mark.req("AGNT-06", "AUTZ-02", "TENA-05")
async def test_a_context_is_the_callers_own(store: Store) -> None:
    agent = Rememberer()
    async with serving(agent.agent, store=store, authenticator=ByHeader()) as world:
        ann, ben = as_user("ann"), as_user("ben")
        for metadata, tenant in ((ann, ""), (ben, ""), (ann, "north"), (ben, "north")):
            await world.send(say("hello", skill="note", context_id="c", tenant=tenant), metadata=metadata)
        assert agent.seen == [([], {})] * 4
        await world.send(say("again", skill="note", context_id="c"), metadata=ben)
    history, state = agent.seen[-1]
    assert (history, state["all"]) == (["U hello"], ["hello"])


@pytest.mark.req("AGNT-06", "XTRA-04")
async def test_secrets_stay_redacted() -> None:
    agent = Rememberer()
    async with serving(agent.agent) as world:
        asked = await world.send(say("in", skill="secret"))
        answer = say("mellon", task_id=asked.id)
        await world.send(answer)
        await world.send(say("look", skill="note", context_id=asked.context_id))
    history, _ = agent.seen[-1]
    assert history == ["U in", "A The word?", "U [redacted]"]


@pytest.mark.req("AGNT-06")
async def test_state_is_saved_with_its_task(store: Store) -> None:
    """By `checkpoint`, and by whatever ends the turn; what an exception leaves behind is not."""
    agent = Rememberer()
    async with serving(agent.agent, store=store) as world:

        async def state() -> dict[str, Any]:
            await world.stub.SendMessage(say("hello", skill="chat", context_id="c"))
            return agent.seen[-1][1]

        slow = await world.send(say(skill="slow", context_id="c", configuration={"return_immediately": True}))
        while (await state()) != {"slow": "checkpoint"}:  # noqa: ASYNC110 - as a client polls
            await asyncio.sleep(0.001)
        agent.go.set()
        await world.reaches(slow.id, pb.TASK_STATE_COMPLETED)
        assert await state() == {"slow": "end"}
        await world.send(say(skill="wrong", context_id="c"))
        await world.send(say("x", skill="refuse", context_id="c"))
        assert await state() == {"slow": "end", "wrong": "kept", "refused": "x"}
        await world.send(say("slow", skill="drop", context_id="c"))
        assert await state() == {"wrong": "kept", "refused": "x"}


@pytest.mark.req("AGNT-06")
async def test_tasks_at_the_same_time_overwrite_only_what_they_change() -> None:
    agent = Rememberer()
    async with serving(agent.agent) as world:
        later = {"return_immediately": True}
        slow = await world.send(say(skill="slow", context_id="c", configuration=later))
        await until(lambda: agent.seen)
        await world.send(say("quick", skill="note", context_id="c"))
        agent.go.set()
        await world.reaches(slow.id, pb.TASK_STATE_COMPLETED)
        await world.send(say("look", skill="note", context_id="c"))
    _, state = agent.seen[-1]
    assert (state["slow"], state["all"]) == ("end", ["quick"])


@pytest.mark.req("AGNT-06")
async def test_a_message_that_waited_for_its_turn_finds_what_the_turn_before_saved() -> None:
    agent = Rememberer()
    async with serving(agent.agent) as world:
        slow = await world.send(say(skill="slow", configuration={"return_immediately": True}))
        await until(lambda: agent.seen)
        waiting = asyncio.create_task(world.send(say("more", task_id=slow.id)))
        await until(lambda: any(live.waiting for live in world.core.live_turns))
        agent.go.set()
        await waiting
    assert [state for _, state in agent.seen] == [{}, {"slow": "end"}]


@pytest.mark.req("AGNT-06", "SEND-09")
async def test_a_direct_answer_makes_a_task_when_it_has_something_to_save() -> None:
    agent = Rememberer()
    async with serving(agent.agent) as world:
        answer = await world.stub.SendMessage(say("hello", skill="chat", context_id="c"))
        assert answer.WhichOneof("payload") == "message"
        task = await world.send(say("Ann", skill="chat", context_id="c"))
        assert (task.status.state, task.status.message.parts[0].text) == (pb.TASK_STATE_COMPLETED, "you said Ann")
        answer = await world.stub.SendMessage(say("hello", skill="chat", context_id="c"))
        assert answer.WhichOneof("payload") == "message"
        answer = await world.stub.SendMessage(say("hello", skill="idle", context_id="c"))
        assert answer.message.parts[0].text == "c"
    assert agent.seen == [([], {}), ([], {}), (["U Ann", "A you said Ann"], {"chat": "Ann"})]


@pytest.mark.req("AGNT-06", "AGNT-12")
async def test_a_refused_message_changes_no_state(store: Store) -> None:
    agent = Rememberer()
    async with serving(agent.agent, store=store) as world:
        assert (await refused(world.stub.SendMessage(say("no", skill="picky", context_id="c")))).message
        waiting = await world.send(say("yes", skill="picky", context_id="c"))
        assert (await refused(world.stub.SendMessage(say("no", task_id=waiting.id)))).message
        await world.stub.SendMessage(say("hello", skill="chat", context_id="c"))
        await world.send(say("well", task_id=waiting.id))
        await world.stub.SendMessage(say("hello", skill="chat", context_id="c"))
    assert [state for _, state in agent.seen] == [{"picky": "yes"}, {"picky": "well"}]


@pytest.mark.req("AGNT-06", "LIMT-01")
async def test_memory_is_bounded() -> None:
    agent = Rememberer()
    limits = Limits(context_messages=2, context_state=100, drain_grace=0.05)
    async with serving(agent.agent, limits=limits) as world:
        for text in ("a", "b", "c"):
            await world.send(say(text, skill="ask", context_id="c"))
        error = await refused(world.stub.SendMessage(say("100", skill="fill", context_id="c")))
        large = await world.get(error.metadata["taskId"])
        assert "context.state: 115 bytes of JSON are more than limits.context_state, 100" in said_last(large)
        assert large.status.message.metadata["reason"] == "INVALID_AGENT_RESPONSE"
        assert (await world.send(say("85", skill="fill", context_id="c"))).status.state == pb.TASK_STATE_COMPLETED
        assert agent.seen[-1][0] == ["U b", "A Why?"]


def said_last(task: pb.Task) -> str:
    return task.status.message.parts[0].text


@pytest.mark.req("AGNT-06")
async def test_a_turn_that_waited_for_a_slot_sees_what_came_meanwhile() -> None:
    agent = Rememberer()
    async with serving(agent.agent, limits=Limits(running_turns=1, drain_grace=0.05)) as world:
        later = {"return_immediately": True}
        await world.send(say(skill="slow", context_id="c", configuration=later))
        first = await world.send(say("first", skill="note", configuration=later))
        second = await world.send(say("second", skill="note", context_id=first.context_id, configuration=later))
        agent.go.set()
        await world.reaches(second.id, pb.TASK_STATE_COMPLETED)
    assert [history for history, _ in agent.seen[1:]] == [["U second"], ["U first"]]


@pytest.mark.req("AGNT-06", "SEND-05")
async def test_a_finished_task_says_how_to_go_on() -> None:
    agent = Rememberer()
    async with serving(agent.agent) as world:
        done = await world.send(say("one", skill="note"))
        over = await refused(world.stub.SendMessage(say("two", skill="note", task_id=done.id)))
        assert over.message == (
            "The task is TASK_STATE_COMPLETED and takes no further messages. To go on with the conversation, send the "
            f"message with the context id '{done.context_id}' and without a task id; its reference task ids may name "
            "this task."
        )
        assert over.metadata["contextId"] == done.context_id
        await follow(world, over.metadata)
    assert agent.seen[-1][0] == ["U one"]


async def follow(world: World, metadata: Any) -> None:
    """Do what the error says."""
    request = say("two", skill="note", context_id=metadata["contextId"], references=[metadata["taskId"]])
    assert (await world.send(request)).status.state == pb.TASK_STATE_COMPLETED
