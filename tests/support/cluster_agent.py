"""An agent that says which process works: `a2ad serve tests/support/cluster_agent.py`, by several on one store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

from a2a_server.agents import Agent, Turn

CHUNKS = 20
_GATE = Path("gate")
"""In the folder that the servers share. Turns wait until it is there."""

agent = Agent(name="Clustered", description="Says which process works.", version="1.0.0")


async def _opened() -> None:
    while not _GATE.exists():  # noqa: ASYNC110, ASYNC240 - a test makes it
        await asyncio.sleep(0.01)


@agent.skill(id="who", tags=["test"])
async def who(turn: Turn) -> str:
    """Says who works, at once."""
    return str(os.getpid())


@agent.skill(id="hold", tags=["test"])
async def hold(turn: Turn) -> str:
    """Says who works, waits for the gate, and repeats what it was told."""
    await turn.status(str(os.getpid()))
    await _opened()
    return turn.text


@agent.skill(id="hold-on", tags=["test"], restartable=True)
async def hold_on(turn: Turn) -> str:
    """As `hold`; another server may go on with it."""
    return await hold(turn)


@agent.skill(id="chunks", tags=["test"])
async def chunks(turn: Turn) -> AsyncIterator[str]:
    """Writes numbered chunks after the gate has opened."""
    await _opened()
    for number in range(CHUNKS):
        yield f"{number};"
        await asyncio.sleep(0.002)


@agent.skill(id="drip", tags=["test"], restartable=True)
async def drip(turn: Turn) -> None:
    """Says again and again who works, until the gate has opened."""
    while not _GATE.exists():  # noqa: ASYNC240 - as above
        await turn.add_artifact(str(os.getpid()), artifact_id=uuid4().hex)
        await asyncio.sleep(0.02)


@agent.skill(id="quick", tags=["test"], restartable=True)
async def quick(turn: Turn) -> str:
    """Repeats what it was told and says who works."""
    await asyncio.sleep(0.05)
    return f"{turn.text} {os.getpid()}"


@agent.skill(id="laps", tags=["test"], restartable=True)
async def laps(turn: Turn) -> str:
    """As `quick`, but takes longer, and says how far it is."""
    for number in range(6):
        await turn.status(f"lap {number}")
        await asyncio.sleep(0.2)
    return await quick(turn)
