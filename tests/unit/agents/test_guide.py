"""The guide for authors says what is true: its Python blocks run, one after the other."""

import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from a2a_server.agents import Agent, Turn
from a2a_server.agents.testing import run_turn
from tests.support.receivers import Received, receiver
from tests.support.traces import NONE, ONE, TWO, traces

GUIDE = Path(__file__).parents[3] / "docs" / "agents.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def names() -> dict[str, Any]:
    """What the blocks of the guide define."""
    text = GUIDE.read_text("utf-8")
    scope: dict[str, Any] = {"__name__": "guide"}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        source = "\n" * line + block[1]  # so that an error names the guide's own line
        exec(compile(source, str(GUIDE), "exec"), scope)  # noqa: S102 - our own guide
    return scope


async def test_the_guide_s_tests_pass(names: dict[str, Any]) -> None:
    tests = [test for name, test in names.items() if name.startswith("test_")]
    assert len(tests) == 5
    for test in tests:
        await test()


@pytest.mark.req("AGNT-01")
async def test_the_guide_s_agents_do_what_it_says(names: dict[str, Any]) -> None:
    agent, careful, priority = names["agent"], names["careful"], names["PRIORITY"]
    assert isinstance(agent, Agent)
    assert (await run_turn(agent, "a b", skill="measure")).data == [{"letters": 3, "words": 2}]
    framed = (await run_turn(agent, "x", skill="frame")).artifacts[0]
    assert [part.media_type for part in framed.parts] == ["", "image/svg+xml", ""]
    assert (await run_turn(agent, "word", skill="spell")).text == "word"
    composed = await run_turn(agent, skill="compose")
    assert [artifact.name for artifact in composed.artifacts] == ["poem", "translation"]
    assert (await run_turn(agent, "Hello", skill="greet")).says == "Hello to you."
    assert (await run_turn(agent, "Go away", skill="greet")).state == "FAILED"
    thought = await run_turn(careful, extensions=[priority], metadata={priority: "high"})
    assert thought.text == "I thought about it with high priority."


async def test_what_the_guide_s_agents_call_is_in_the_same_trace(names: dict[str, Any]) -> None:
    async def answer(_: Received) -> web.StreamResponse:
        return web.Response(text="Rain.")

    async with receiver(answer) as service:
        for trace in (ONE, TWO, NONE):
            names["WEATHER"] = service.url
            asked = await run_turn(names["agent"], skill="weather", trace=trace)
            assert asked.text == "Rain."
            assert traces([service.last]) == [trace]


def test_the_guide_knows_every_member_of_a_turn() -> None:
    text = GUIDE.read_text("utf-8")
    members = {name for name in dir(Turn) if not name.startswith("_")} - {"accepted_output_modes", "request"}
    assert {name for name in members if f"turn.{name}" not in text} == set()
