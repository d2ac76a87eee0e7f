"""An agent for programs that can name no skill: what it does depends on what is said."""

from __future__ import annotations

from collections.abc import AsyncIterator

from a2a_server.agents import Agent, Turn

agent = Agent(name="Parrot", description="Says it again.", version="1.2.3")


# fasta2a refuses a card whose skills do not name their modes.
@agent.skill(id="talk", tags=["test"], input_modes=["text/plain"], output_modes=["text/plain"])
async def talk(turn: Turn) -> AsyncIterator[str]:
    """Say it again, word by word. "a car" is asked about, and "trouble" fails."""
    if turn.number > 1:
        yield f"{turn.text} it is"
    elif turn.text == "a car":
        await turn.ask("What colour?")
    elif turn.text == "trouble":
        await turn.fail("Out of words.")
    else:
        for word in turn.text.split():
            yield f"{word} "
