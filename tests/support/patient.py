"""An agent that waits until its server is killed: `a2ad serve tests/support/patient.py`."""

from __future__ import annotations

import asyncio

from a2a_server.agents import Agent, Turn

agent = Agent(name="Patient", description="Waits for the end.", version="1.0.0")


async def begin(turn: Turn) -> str:
    if not turn.rerun:
        await turn.add_artifact("begun", "first")
        await turn.checkpoint()
        await asyncio.Event().wait()
    return "done"


agent.skill(id="again", description="Does it in its second run.", tags=["test"], restartable=True)(begin)
agent.skill(id="once", description="Has no second run.", tags=["test"])(begin)
