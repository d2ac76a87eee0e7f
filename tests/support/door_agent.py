"""An agent whose every turn ends soon, for whoever tries all doors at random."""

from __future__ import annotations

from a2a_server.agents import Agent, Turn

agent = Agent(name="Doorman", description="Says it again.", version="1.0.0")


@agent.skill(id="echo", tags=["test"])
async def echo(turn: Turn) -> str:
    """Say it again."""
    return turn.text


@agent.skill(id="chunks", tags=["test"])
async def chunks(turn: Turn) -> None:
    """Say it word by word."""
    async with turn.artifact("words") as out:
        for word in turn.text.split():
            await out.write(word)


@agent.skill(id="chat", tags=["test"], direct=True)
async def chat(turn: Turn) -> None:
    """Say it without a task."""
    await turn.reply(turn.text)
