"""The shortest agent: says back what it hears."""

from a2a_server.agents import Agent, Turn

agent = Agent(name="Echo", description="Says back what it hears.", version="1.0.0")


@agent.skill(id="echo", tags=["text"], examples=["Hello!"])
async def echo(turn: Turn) -> str:
    """Return the text of the message."""
    return turn.text
