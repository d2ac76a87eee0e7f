"""Agents that call agents, in memory: what the other one gets, and what the caller's own task shows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2a_server.agents import Agent, CallFailed, InvalidAgentResponse, Turn, data_part, file_part
from a2a_server.agents.testing import Record, run_turn

hotels = Agent(name="Hotels", description="Books rooms.", version="1")
trips = Agent(name="Trips", description="Plans trips.", version="1")
HOTELS = "https://hotels.example"


@hotels.skill(id="book", tags=["test"])
async def book(turn: Turn) -> Any:
    if turn.text == "fail":
        return await turn.fail("No rooms.")
    if turn.text == "badge":
        return await turn.require_auth("Show your badge.", in_band=True)
    if turn.text == "anywhere":
        await turn.status("looking")
        return await turn.ask("Where?")
    return f"room in {turn.text}"


@hotels.skill(id="chat", tags=["test"], direct=True)
async def chat(turn: Turn) -> None:
    await turn.reply(f"hello {turn.text}")


@hotels.skill(id="mirror", tags=["test"], input_modes=["text/plain", "application/json", "image/png"])
async def mirror(turn: Turn) -> None:
    await turn.add_artifact(list(turn.parts))


@trips.skill(id="plan", tags=["test"])
async def plan(turn: Turn) -> str:
    reply = await turn.call(HOTELS, turn.text)
    return f"booked: {reply.text}"


async def planned(text: str, **more: Any) -> Record:
    return await run_turn(trips, text, agents={HOTELS: hotels}, **more)


def statuses(record: Record) -> list[tuple[str, list[str]]]:
    updates = [event.status_update.status for event in record.events if event.HasField("status_update")]
    return [("".join(part.text for part in one.message.parts), list(one.message.reference_task_ids)) for one in updates]


@pytest.mark.req("AGNT-03", "SUBA-01", "SUBA-02")
async def test_one_line_calls_another_agent() -> None:
    record = await planned("Rome", trace={"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"})
    assert (record.state, record.text) == ("COMPLETED", "booked: room in Rome")
    assert record.others is not None
    [(name, message)] = record.others.messages
    assert (name, list(message.reference_task_ids)) == (HOTELS, [record.task.id])
    sub_task = f"{HOTELS}#1"
    assert statuses(record) == [
        ("Another agent works on this.", [sub_task]),
        ("The other agent is done.", [sub_task]),
        ("", []),
    ]


@pytest.mark.req("SUBA-02", "SUBA-03")
async def test_a_question_is_passed_on_and_its_answer_comes_back() -> None:
    asked = await planned("anywhere")
    assert (asked.state, asked.says) == ("INPUT_REQUIRED", "Where?")
    assert ("looking", [f"{HOTELS}#1"]) in statuses(asked)
    answered = await run_turn(trips, "Paris", after=asked)
    assert (answered.state, answered.text) == ("COMPLETED", "booked: room in Paris")
    assert answered.others is not None
    (_, first), (_, second) = answered.others.messages
    assert (first.task_id, second.task_id) == ("", f"{HOTELS}#1")
    assert list(second.reference_task_ids) == [answered.task.id]
    assert first.message_id != second.message_id


@pytest.mark.req("SUBA-03")
async def test_a_demand_for_authorization_is_passed_on() -> None:
    asked = await planned("badge")
    assert (asked.state, asked.says) == ("AUTH_REQUIRED", "Show your badge.")
    answered = await run_turn(trips, "badge 7", after=asked)
    assert answered.text == "booked: room in badge 7"


async def test_a_reply_has_what_was_said_in_every_form() -> None:
    agent = Agent(name="A", description="A", version="1")
    seen: list[Any] = []

    @agent.skill(id="a", tags=["test"])
    async def ask_all(turn: Turn) -> None:
        file = file_part(b"x", filename="x.png")
        reply = await turn.call(HOTELS, "hi", data={"a": 1}, files=[file], skill="mirror", quiet=True)
        seen.append((reply.text, reply.data, [part.filename for part in reply.files], reply.waits))
        spoken = await turn.call(HOTELS, [data_part({"b": 2}), "you"], skill="chat")
        seen.append((spoken.text, spoken.task))
        waiting = await turn.call(HOTELS, "anywhere", pass_on=False, name="second")
        seen.append((waiting.waits, waiting.text))

    record = await run_turn(agent, "go", agents={HOTELS: hotels})
    assert seen == [("hi", {"a": 1}, ["x.png"], False), ("hello you", None), (True, "Where?")]
    assert all(not ids or ids == [f"{HOTELS}#2"] for _, ids in statuses(record))


async def test_a_question_ends_a_group_of_calls() -> None:
    agent = Agent(name="A", description="A", version="1")
    texts: list[str] = []

    @agent.skill(id="a", tags=["test"])
    async def both(turn: Turn) -> str:
        async def one(name: str, text: str) -> None:
            texts.append((await turn.call(HOTELS, text, name=name)).text)

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(one("first", turn.text))
        except Exception:  # noqa: BLE001 - no question is an error
            return "an error"
        return texts[-1]

    asked = await run_turn(agent, "anywhere", agents={HOTELS: hotels})
    assert (asked.state, asked.says) == ("INPUT_REQUIRED", "Where?")
    assert (await run_turn(agent, "Rome", after=asked)).text == "room in Rome"


async def test_a_skill_may_answer_itself() -> None:
    agent = Agent(name="A", description="A", version="1")

    @agent.skill(id="a", tags=["test"])
    async def decide(turn: Turn) -> str:
        reply = await turn.call(HOTELS, "anywhere", pass_on=False)
        while reply.waits:
            reply = await turn.call(HOTELS, f"not {reply.text}", pass_on=False)
        other = await turn.call(HOTELS, "Rome")
        return f"{reply.text}, {other.text}"

    record = await run_turn(agent, "go", agents={HOTELS: hotels})
    assert record.text == "room in not Where?, room in Rome"
    assert record.others is not None
    messages = [message for _, message in record.others.messages]
    assert [message.task_id for message in messages] == ["", f"{HOTELS}#1", ""]
    assert len({message.message_id for message in messages}) == 3


async def test_a_failure_is_an_error_that_says_why() -> None:
    agent = Agent(name="A", description="A", version="1")
    seen: list[CallFailed] = []

    @agent.skill(id="a", tags=["test"])
    async def try_all(turn: Turn) -> str:
        for name, text in ((HOTELS, "fail"), ("https://nobody.example", "x")):
            try:
                await turn.call(name, text)
            except CallFailed as error:
                seen.append(error)
        return "tried"

    record = await run_turn(agent, "go", agents={HOTELS: hotels})
    assert record.text == "tried"
    assert [str(error) for error in seen] == [
        f"{HOTELS}: FAILED: No rooms.",
        f"No agent is called https://nobody.example; there are: {HOTELS}.",
    ]
    assert seen[0].task is not None


async def test_events_are_streamed() -> None:
    agent = Agent(name="A", description="A", version="1")

    @agent.skill(id="a", tags=["test"])
    async def relay(turn: Turn) -> Any:
        async for event in turn.stream(HOTELS, turn.text, quiet=True):
            if event.HasField("artifact_update"):
                yield event.artifact_update.artifact.parts[0].text

    record = await run_turn(agent, "Oslo", agents={HOTELS: hotels})
    assert record.text == "room in Oslo"
    asked = await run_turn(agent, "anywhere", agents={HOTELS: hotels})
    assert (asked.state, asked.says) == ("INPUT_REQUIRED", "Where?")
    assert (await run_turn(agent, "Bern", after=asked)).text == "room in Bern"


@pytest.mark.req("AGNT-03")
async def test_a_cancel_reaches_the_other_agent() -> None:
    record = await planned("Rome", cancel_after=1)
    assert record.canceled
    assert record.others is not None
    assert record.others.canceled == [f"{HOTELS}#1"]


@pytest.mark.req("AGNT-03")
async def test_a_turn_that_runs_again_follows_the_task_that_it_has_begun() -> None:
    agent = Agent(name="A", description="A", version="1")

    @agent.skill(id="a", tags=["test"], restartable=True)
    async def robust(turn: Turn) -> str:
        turn.state["unsaved"] = True
        return (await turn.call(HOTELS, turn.text)).text

    cut = await run_turn(agent, "Rome", agents={HOTELS: hotels}, cancel_after=1)
    assert cut.saved == {}
    again = await run_turn(agent, again=cut)
    assert again.text == "room in Rome"
    assert again.others is not None
    assert len(again.others.messages) == 1


@pytest.mark.req("SUBA-03")
async def test_an_answer_is_sent_again_by_a_turn_that_runs_again() -> None:
    agent = Agent(name="A", description="A", version="1")

    @agent.skill(id="a", tags=["test"], restartable=True)
    async def robust(turn: Turn) -> str:
        if turn.number > 1:
            await turn.status("here")
        return (await turn.call(HOTELS, turn.text)).text

    asked = await run_turn(agent, "anywhere", agents={HOTELS: hotels})
    asked_again = await run_turn(agent, again=asked)
    assert asked_again.says == "Where?"
    cut = await run_turn(agent, "Rome", after=asked, cancel_after=1)
    assert (await run_turn(agent, again=cut)).text == "room in Rome"


async def test_a_call_without_content() -> None:
    with pytest.raises(InvalidAgentResponse, match="text, data or files"):
        await planned("")
