"""A turn's context: what it remembers of earlier tasks, in the tests of authors (spec: AGNT-06)."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, InvalidAgentResponse, Turn
from a2a_server.agents.testing import run_turn

agent = Agent(name="Diary", description="Remembers.", version="1.0.0")


@agent.skill(id="note", tags=["test"])
async def note(turn: Turn) -> str:
    turn.context.state.setdefault("notes", []).append(turn.text)
    return f"{[said(message) for message in turn.context.history]}"


@agent.skill(id="steps", tags=["test"], restartable=True)
async def steps(turn: Turn) -> str:
    """Counts in the context; a checkpoint after each step."""
    for _ in range(2):
        turn.context.state["steps"] = turn.context.state.get("steps", 0) + 1
        await turn.checkpoint()
        await turn.status("a step")
    return str(turn.context.state["steps"])


@agent.skill(id="ask", tags=["test"])
async def ask(turn: Turn) -> None:
    if turn.number > 1:
        return await turn.complete(f"{[said(message) for message in turn.context.history]}")
    turn.context.state["asked"] = turn.text
    return await turn.ask("Which?")


@agent.skill(id="put", tags=["test"])
async def put(turn: Turn) -> None:
    turn.context.state["value"] = STRANGE[turn.text]


@agent.skill(id="chat", tags=["test"], direct=True)
async def chat(turn: Turn) -> None:
    if turn.text != "hello":
        turn.context.state["name"] = turn.text
        if turn.text == "early":
            await turn.checkpoint()
    await turn.reply(f"{[said(message) for message in turn.context.history]}")


STRANGE: dict[str, Any] = {"set": {1}, "nan": float("nan"), "bytes": b"", "ok": {"a": [1, 2.5, None, "ä"]}}


def said(message: pb.Message) -> str:
    return message.parts[0].text


@pytest.mark.req("AGNT-06")
async def test_a_record_s_context_goes_on() -> None:
    one = await run_turn(agent, "one")
    two = await run_turn(agent, "two", context=one)
    three = await run_turn(agent, "three", context=two)
    assert [record.text for record in (one, two, three)] == ["[]", "['one']", "['one', 'two']"]
    assert three.remembered == {"notes": ["one", "two", "three"]}
    assert (one.remembered, one.task.id == two.task.id) == ({"notes": ["one"]}, False)
    alone = await run_turn(agent, "alone")
    assert (alone.text, alone.remembered) == ("[]", {"notes": ["alone"]})


@pytest.mark.req("AGNT-06")
async def test_a_task_that_waits_is_part_of_the_conversation_of_others_and_not_of_its_own() -> None:
    asked = await run_turn(agent, "in", skill="ask")
    other = await run_turn(agent, "meanwhile", context=asked)
    assert (other.text, other.remembered) == ("['in', 'Which?']", {"asked": "in", "notes": ["meanwhile"]})
    assert (await run_turn(agent, "that", after=asked)).says == "[]"
    told = await run_turn(agent, "that", after=asked, context=other)
    assert (told.says, told.task.id) == ("['meanwhile']", asked.task.id)
    last = await run_turn(agent, "last", context=told)
    assert last.text == str(["meanwhile", "in", "Which?", "that", "['meanwhile']"])


@pytest.mark.req("AGNT-06")
async def test_a_turn_that_runs_again_finds_what_it_had_saved() -> None:
    crashed = await run_turn(agent, skill="steps", cancel_after=1)
    assert crashed.remembered == {"steps": 1}
    again = await run_turn(agent, again=crashed)
    assert (again.text, again.remembered) == ("3", {"steps": 3})


@pytest.mark.req("AGNT-06")
@pytest.mark.parametrize("name", ["set", "nan", "bytes"])
async def test_only_json_is_remembered(name: str) -> None:
    with pytest.raises(InvalidAgentResponse, match=r"context\.state\.value: "):
        await run_turn(agent, name, skill="put")


@pytest.mark.req("AGNT-06")
async def test_all_of_json_is() -> None:
    assert (await run_turn(agent, "ok", skill="put")).remembered == {"value": STRANGE["ok"]}


@pytest.mark.req("AGNT-06", "SEND-09")
@pytest.mark.parametrize("name", ["Ann", "early"])
async def test_a_direct_answer_that_saves_something_is_a_task(name: str) -> None:
    direct = await run_turn(agent, "hello", skill="chat")
    assert direct.message is not None
    saved = await run_turn(agent, name, skill="chat", context=direct)
    assert (saved.message, saved.state, saved.says) == (None, "COMPLETED", "[]")
    direct = await run_turn(agent, "hello", skill="chat", context=saved)
    assert (direct.says, direct.remembered) == (str([name, "[]"]), {"name": name})
