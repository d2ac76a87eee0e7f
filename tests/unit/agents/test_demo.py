"""The built-in demo shows every ability of an agent."""

import asyncio

import pytest

from a2a_server import demo
from a2a_server.agents import data_part, file_part
from a2a_server.agents.testing import run_turn
from a2a_server.ports.authenticator import Caller


@pytest.fixture(autouse=True)
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_BEAT", 0)


async def test_it_echoes_unless_told_otherwise() -> None:
    assert (await run_turn(demo.agent, "Hello!")).text == "Hello!"
    assert (await run_turn(demo.agent, data_part(1))).text == "(no text)"


async def test_a_story_streams() -> None:
    record = await run_turn(demo.agent, "a lighthouse", skill="story")
    assert record.text.startswith("Once there was a lighthouse.")
    assert len(record.events) > 20


async def test_a_booking_takes_several_turns() -> None:
    record = await run_turn(demo.agent, "to Lisbon", skill="booking")
    assert record.says == "How many seats to Lisbon?"
    record = await run_turn(demo.agent, "some", after=record)
    assert record.says == "A number, please: how many seats?"
    sure = await run_turn(demo.agent, "2", after=record)
    assert sure.state == "INPUT_REQUIRED"
    booked = await run_turn(demo.agent, "Yes!", after=sure)
    assert (booked.state, booked.data) == ("COMPLETED", [{"to": "Lisbon", "seats": 2}])
    assert (await run_turn(demo.agent, "no", after=sure)).state == "REJECTED"


async def test_parts_are_described_in_what_the_client_accepts() -> None:
    parts = [file_part(b"12345678", filename="a.bin"), data_part({"n": 1})]
    record = await run_turn(demo.agent, parts, skill="inspect")
    [report] = record.data
    assert [part["kind"] for part in report["parts"]] == ["raw", "data"]
    assert report["data"] == {"n": 1}
    assert [artifact.name for artifact in record.artifacts] == ["report", "picture"]
    plain = await run_turn(demo.agent, parts, skill="inspect", accepted_output_modes=["text/plain"])
    assert plain.text.startswith("raw: ")
    assert len(plain.artifacts) == 1


async def test_a_long_run_reports_and_goes_on_after_a_crash() -> None:
    record = await run_turn(demo.agent, "3", skill="run")
    assert (record.state, record.text) == ("COMPLETED", "lap 1\nlap 2\nlap 3\n3 laps done.")
    assert [kind for kind, _ in record.internals] == ["internal:iteration"] * 3
    crashed = await run_turn(demo.agent, "3", skill="run", cancel_after=3)
    again = await run_turn(demo.agent, again=crashed)
    assert again.artifacts[0].artifact_id == "task-1"
    assert again.text.startswith("lap 1\nlap 2\nlap 3\n")


async def test_a_canceled_run_leaves_a_note() -> None:
    record = await run_turn(demo.agent, "9", skill="run", cancel_after=3)
    assert record.canceled
    assert record.artifacts[-1].parts[0].text.startswith("Stopped after lap ")


async def test_small_talk_makes_no_task() -> None:
    record = await run_turn(demo.agent, "Hi", skill="chat")
    assert record.message is not None
    assert record.says == "You said “Hi”. I say: how nice."


async def test_the_vault_wants_a_token() -> None:
    asked = await run_turn(demo.agent, "open", skill="vault")
    assert asked.state == "AUTH_REQUIRED"
    assert (await run_turn(demo.agent, "let-me-in", after=asked)).text == "The vault holds a paper clip."
    assert (await run_turn(demo.agent, "please", after=asked)).state == "FAILED"


async def test_mishaps() -> None:
    assert (await run_turn(demo.agent, "fail", skill="mishap")).state == "FAILED"
    assert (await run_turn(demo.agent, "reject", skill="mishap")).state == "REJECTED"
    with pytest.raises(RuntimeError):
        await run_turn(demo.agent, "crash", skill="mishap")


def test_callers_that_may_see_more_do() -> None:
    public = demo.agent.card
    card = demo.agent.extended_card(Caller("ann", authenticated=True, extended_card=True))
    assert card is not None
    assert card.description == f"{public.description} You are known here as ann."
    assert card.skills[-1].examples[-1] == "crash"
    assert demo.agent.extended_card(Caller("bob", authenticated=True)) is None
    assert demo.agent.card == public


async def test_nothing_is_left_running() -> None:
    await run_turn(demo.agent, "x", skill="story")
    assert asyncio.all_tasks() == {asyncio.current_task()}
