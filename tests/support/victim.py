"""An agent that writes all the time, for servers that are killed: `a2ad serve tests/support/victim.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from a2a_server.agents import Agent, Turn

CHUNKS = 12
_BEAT = 0.004

agent = Agent(name="Victim", description="Writes all the time.", version="1.0.0")


@agent.skill(id="chunks", tags=["test"])
async def chunks(turn: Turn) -> AsyncIterator[str]:
    """Writes numbered chunks, and ends."""
    for number in range(1, CHUNKS + 1):
        yield f"{number};"
        await asyncio.sleep(_BEAT)


@agent.skill(id="laps", tags=["test"], restartable=True)
async def laps(turn: Turn) -> None:
    """Writes numbered artifacts, each with a checkpoint; goes on after a crash."""
    for lap in range(turn.state.get("lap", 0) + 1, CHUNKS + 1):
        await turn.add_artifact(f"{lap};", f"lap {lap}")
        await turn.checkpoint(lap=lap)
        await asyncio.sleep(_BEAT)


@agent.skill(id="count", tags=["test"])
async def count(turn: Turn) -> str:
    """Counts the tasks of its context that came to their end."""
    turn.context.state["count"] = turn.context.state.get("count", 0) + 1
    return str(turn.context.state["count"])


@agent.skill(id="strides", tags=["test"], restartable=True)
async def strides(turn: Turn) -> None:
    """As `laps`, but its context knows how far it has come."""
    for lap in range(turn.context.state.get("lap", 0) + 1, CHUNKS + 1):
        turn.context.state["lap"] = lap
        await turn.add_artifact(f"{lap};", f"lap {lap}")
        await turn.checkpoint()
        await asyncio.sleep(_BEAT)


@agent.skill(id="ask", tags=["test"])
async def ask(turn: Turn) -> str | None:
    """Asks, and repeats the answer together with what it was told before."""
    if turn.number == 1:
        turn.state["first"] = turn.text
        await turn.ask("And then?")
        return None
    return f"{turn.state['first']} {turn.text}"
