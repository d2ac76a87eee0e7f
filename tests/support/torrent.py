"""An agent that says much at once, for readers that take nothing: `a2ad serve tests/support/torrent.py`."""

from __future__ import annotations

from a2a_server.agents import Agent, Turn

PIECES = 500
PIECE = 60_000

agent = Agent(name="Torrent", description="Says much.", version="1.0.0")


@agent.skill(id="torrent", tags=["test"])
async def torrent(turn: Turn) -> None:
    """Asks, so that there is something to subscribe to; once answered it says 30 MB, and asks again."""
    if turn.number > 1:
        async with turn.artifact("torrent") as out:
            for _ in range(PIECES):
                await out.write("x" * PIECE)
    await turn.ask("More?")
