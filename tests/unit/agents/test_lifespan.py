"""What an agent opens at the start is there in every turn (spec: AGNT-07)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_server.agents import Agent, Turn
from a2a_server.agents.testing import run_turn


class Shop:
    """Notes what happens to it."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    async def plain(self) -> AsyncIterator[Shop]:
        self.noted.append("opened")
        yield self
        self.noted.append("closed")

    async def of_agent(self, agent: Agent) -> AsyncIterator[Shop]:
        self.noted.append(agent.card.name)
        yield self

    @asynccontextmanager
    async def managed(self) -> AsyncIterator[Shop]:
        self.noted.append("opened")
        yield self
        self.noted.append("closed")


def agent_with(lifespan: Any = None) -> Agent:
    agent = Agent("Shop", "Sells.", "1.0.0", lifespan=lifespan)

    @agent.skill(id="sell", tags=["test"])
    async def sell(turn: Turn[Shop]) -> str:
        if turn.text == "crash":
            raise RuntimeError("no")
        turn.resources.noted.append(turn.text)
        return "sold"

    @agent.skill(id="look", tags=["test"])
    async def look(turn: Turn) -> str:
        return repr(turn.resources)

    return agent


@pytest.mark.req("AGNT-07")
@pytest.mark.parametrize("kind", ["plain", "managed"])
async def test_it_is_open_for_the_turn(kind: str) -> None:
    shop = Shop()
    await run_turn(agent_with(getattr(shop, kind)), "bread")
    assert shop.noted == ["opened", "bread", "closed"]


@pytest.mark.req("AGNT-07")
async def test_it_may_know_its_agent_and_be_a_decorator() -> None:
    shop, agent = Shop(), agent_with()
    assert agent.lifespan(shop.of_agent) == shop.of_agent
    await run_turn(agent, "bread")
    assert shop.noted == ["Shop", "bread"]
    with pytest.raises(ValueError, match="there is a lifespan already"):
        agent.lifespan(shop.plain)


@pytest.mark.req("AGNT-07")
async def test_without_one_there_are_no_resources() -> None:
    assert (await run_turn(agent_with(), skill="look")).text == "None"


@pytest.mark.req("AGNT-07")
async def test_tests_may_bring_their_own() -> None:
    shop, double = Shop(), Shop()
    await run_turn(agent_with(shop.plain), "bread", resources=double)
    assert (shop.noted, double.noted) == ([], ["bread"])
    assert (await run_turn(agent_with(shop.plain), skill="look", resources=None)).text == "None"


@pytest.mark.req("AGNT-07")
async def test_a_turn_that_fails_closes_it_as_any_other() -> None:
    shop = Shop()
    with pytest.raises(RuntimeError, match="no"):
        await run_turn(agent_with(shop.plain), "crash")
    assert shop.noted == ["opened", "closed"]


async def no_yield() -> None:
    """Opens nothing."""


def two(first: int, second: int) -> None:
    """Takes too much."""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(no_yield, "with one `yield`"), ("text", "with one `yield`"), (two, "takes no argument, or one")],
)
def test_what_is_none_is_refused_at_import(wrong: Callable[..., Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        agent_with(wrong)


async def test_what_returns_something_else_says_so() -> None:
    with pytest.raises(TypeError, match="returned int"):
        await run_turn(agent_with(lambda: 1), "bread")
