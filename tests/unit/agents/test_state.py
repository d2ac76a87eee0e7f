"""State that survives to the next turn and to a rerun."""

import json
from collections.abc import Callable

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, InvalidAgentResponse, Turn
from a2a_server.agents.agent import Saved
from a2a_server.agents.testing import Recorder, run_turn
from a2a_server.ports.agent import Plan


@pytest.fixture
def agent() -> Agent:
    agent = Agent("Counter", "Counts its turns.", "1.0.0")

    @agent.skill(id="other", tags=["test"])
    async def other(turn: Turn) -> str:
        return "other"

    @agent.skill(id="count", tags=["test"], restartable=True)
    async def count(turn: Turn) -> str | None:
        turn.state["turns"] = turn.state.get("turns", 0) + 1
        if turn.text == "checkpoint":
            await turn.checkpoint(note="kept")
            await turn.status("saved")
        if turn.text != "stop":
            await turn.ask(f"That was turn {turn.state['turns']}. Another?")
            return None
        return f"{turn.state['turns']} turns"

    return agent


@pytest.mark.req("DURA-06")
async def test_what_a_turn_remembers_the_next_one_finds(agent: Agent) -> None:
    first = await run_turn(agent, "go", skill="count")
    assert first.saved == {"turns": 1}
    second = await run_turn(agent, "go", after=first)
    third = await run_turn(agent, "stop", after=second)
    assert (third.text, third.state) == ("3 turns", "COMPLETED")


async def test_a_task_stays_with_its_skill_whatever_follow_ups_name(agent: Agent) -> None:
    first = await run_turn(agent, "go", skill="count")
    assert (await run_turn(agent, "stop", skill="other", after=first)).text == "2 turns"
    assert (await run_turn(agent, "stop")).text == "other"


async def test_a_message_that_came_before_the_end_finds_the_skill_too(agent: Agent) -> None:
    """The server goes on with the task then, although the turn before had completed it."""
    first = await run_turn(agent, "stop", skill="count")
    assert (await run_turn(agent, "stop", after=first)).text == "1 turns2 turns"


async def test_the_default_skill_without_state_costs_no_write(agent: Agent) -> None:
    assert not (await run_turn(agent, "hi")).blob


@pytest.mark.req("DURA-06")
async def test_a_rerun_starts_from_the_checkpoint(agent: Agent) -> None:
    crashed = await run_turn(agent, "checkpoint", skill="count", cancel_after=1)
    assert crashed.canceled
    assert crashed.saved == {"turns": 1, "note": "kept"}
    again = await run_turn(agent, again=crashed)
    assert again.request.rerun
    assert again.saved == {"turns": 2, "note": "kept"}


async def test_the_plan_follows_the_skill_of_the_task(agent: Agent) -> None:
    first = await run_turn(agent, "go", skill="count")
    named = pb.SendMessageRequest()
    named.metadata["skill"] = "count"
    assert agent.plan(pb.SendMessageRequest(), b"") == Plan()
    assert agent.plan(named, b"") == Plan(restartable=True)
    assert agent.plan(pb.SendMessageRequest(), first.blob) == Plan(restartable=True)
    assert agent.plan(named, b"rubbish") == Plan()


async def test_a_skill_that_was_taken_away_fails_its_tasks(agent: Agent) -> None:
    first = await run_turn(agent, "go", skill="count")
    lesser = Agent("Lesser", "Has lost a skill.", "2.0.0")

    @lesser.skill(id="other", tags=["test"])
    async def other(turn: Turn) -> str:
        return "other"

    later = await run_turn(lesser, "stop", after=first)
    assert (later.state, later.says) == (
        "FAILED",
        "This task began with the skill 'count', which is no longer offered.",
    )
    assert lesser.plan(pb.SendMessageRequest(), first.blob) == Plan()


@pytest.mark.parametrize("blob", [b"{", b"[]", b"{}", b"7", b"\xff"])
def test_a_state_of_another_kind_is_refused(blob: bytes) -> None:
    with pytest.raises(InvalidAgentResponse, match="not written by this kind of agent"):
        Saved.load(blob)


@pytest.mark.parametrize("value", [object(), float("nan"), {1: 2}], ids=["object", "nan", "key"])
async def test_a_state_that_is_no_json_is_refused_when_it_is_saved(turn: Turn, outlet: Recorder, value: object) -> None:
    turn.state["bad"] = value
    with pytest.raises(InvalidAgentResponse, match=r"state\.bad"):
        await turn.ask("Well?")
    assert not outlet.events


async def test_the_question_follows_the_state_that_belongs_to_it(
    turn_of: Callable[..., Turn], outlet: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(outlet, "save", lambda blob: order.append(json.loads(blob)["state"]["n"]))
    monkeypatch.setattr(outlet, "emit", lambda event: order.append(event.WhichOneof("payload")))
    turn = turn_of()
    turn.state["n"] = "n"
    await turn.ask("Well?")
    assert order == ["n", "status_update"]


async def test_a_checkpoint_takes_written_chunks_along(turn: Turn, outlet: Recorder) -> None:
    async with turn.artifact() as out:
        await out.write("a")
        await turn.checkpoint()
        assert len(outlet.events) == 1
