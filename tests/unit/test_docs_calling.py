"""The guide about calling other agents says what is true: its blocks run, one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_server import serving
from a2a_server.agents import Agent, Turn
from a2a_server.agents.testing import run_turn
from a2a_server.settings import load
from tests.support.curl import ROOT
from tests.unit.test_docs_python import names_of

PAGE = ROOT / "docs/calling.md"
sample = Agent(name="Sample", description="Says what it got.", version="1")


@sample.skill(id="say", tags=["test"])
async def say(turn: Turn) -> str:
    return turn.text


@pytest.fixture
def guide() -> dict[str, Any]:
    return names_of(PAGE)


async def test_its_own_test_passes(guide: dict[str, Any]) -> None:
    await guide["test_the_hotel_s_question_reaches_the_client"]()


@pytest.mark.req("AGNT-03")
async def test_its_agents_do_what_it_says(guide: dict[str, Any]) -> None:
    hotels = {guide["HOTELS"]: sample, "https://one.example": sample, "https://two.example": guide["hotels"]}
    assert (await run_turn(guide["trips"], "Rome", agents=hotels)).text == "You stay in a room in Rome."
    assert (await run_turn(guide["careful"], "Rome", agents=hotels)).text == "Rome"
    assert (await run_turn(guide["careful"], "Rome", agents={})).text.startswith("Take a tent: No agent is called")
    assert (await run_turn(guide["live"], "Rome", agents=hotels)).text == "Rome"
    asked = await run_turn(guide["thrifty"], "Rome", agents=hotels)
    assert asked.says == "For how many?"
    answered = await run_turn(guide["thrifty"], "two", after=asked)
    assert answered.text == "Rome or a room for two"


async def test_its_servers_call_each_other_and_its_client_calls_one(guide: dict[str, Any]) -> None:
    async with serving(sample) as below:
        guide["HOTELS"] = f"http://{below.http}"
        async with serving(guide["trips"], calls={"allow_loopback": True}) as above:
            assert await guide["converse"](f"http://{above.http}") == "You stay in a room in hello."


def test_its_settings_are_settings(tmp_path: Any) -> None:
    text = PAGE.read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    secret = tmp_path / "hotels"
    secret.write_text("t0ken")
    file = tmp_path / "a2a.toml"
    file.write_text(text.replace("/run/secrets/hotels", str(secret)))
    calls = load(config=str(file)).settings.calls
    assert calls.credentials[0].bearer.get_secret_value() == "t0ken"
    assert "t0ken" not in repr(calls)
