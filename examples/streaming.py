"""An agent that answers word by word, as a language model does."""

import asyncio
from collections.abc import AsyncIterator

from a2a_server.agents import Agent, Turn

agent = Agent(name="Explainer", description="Explains any word at length.", version="1.0.0")


async def model(prompt: str) -> AsyncIterator[str]:
    """Stand in for a language model: put your own client's stream here."""
    for word in f"You ask about {prompt}. There is much to say about {prompt}, and little of it is certain.".split():
        await asyncio.sleep(0.05)
        yield f"{word} "


@agent.skill(id="explain", tags=["text", "stream"], examples=["rain"])
async def explain(turn: Turn) -> AsyncIterator[str]:
    """Explain a word. Everything that is yielded streams into one artifact."""
    async for token in model(turn.text):
        yield token


@agent.skill(id="compare", tags=["text", "stream"], examples=["rain snow"])
async def compare(turn: Turn) -> None:
    """Explain several words, each in an artifact of its own."""
    for word in turn.text.split():
        await turn.status(f"Thinking about {word} …")
        async with turn.artifact(word) as out:
            async for token in model(word):
                await out.write(token)
