"""Our side of the agent that both servers run: echo, answers in many chunks, a question, a look inside."""

from __future__ import annotations

import asyncio
import gc
from collections import defaultdict
from collections.abc import AsyncIterator

from a2a_server.agents import Agent, Turn
from tests.bench.requests import Show

agent = Agent(name="Bench", description="Does next to nothing.", version="1.0.0")
_gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


@agent.skill(id="echo", tags=["bench"])
async def echo(turn: Turn) -> str:
    return turn.text


@agent.skill(id="chunks", tags=["bench"])
async def chunks(turn: Turn) -> AsyncIterator[str]:
    for number in range(int(turn.text)):
        yield f"chunk {number} "


@agent.skill(id="show", tags=["bench"])
async def chunks_for_all(turn: Turn) -> AsyncIterator[str]:
    """Chunks when everybody is there."""
    show = Show.of(turn.text)
    await _gates[show.gate].wait()
    for _ in range(show.count):
        if show.pause:
            await asyncio.sleep(show.pause)
        yield show.text


@agent.skill(id="open", tags=["bench"])
async def begin(turn: Turn) -> str:
    """Let a show begin."""
    _gates[turn.text].set()
    return turn.text


@agent.skill(id="ask", tags=["bench"])
async def ask(turn: Turn) -> None:
    await turn.ask("And?")


@agent.skill(id="census", tags=["bench"])
async def census(turn: Turn) -> str:
    """How many objects and coroutines the server holds."""
    gc.collect()
    return f"{len(gc.get_objects())} {len(asyncio.all_tasks())}"
