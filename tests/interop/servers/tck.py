"""An agent for the public test kit (TCK) of 1.0, which tells by the beginning of a message's id what it wants to see.

docs/conformance.md tells how to run the kit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from a2a_server.agents import Agent, Turn, file_part

agent = Agent(
    name="Candidate",
    description="Does what the A2A test kit asks for.",
    version="1.0.0",
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain", "application/json"],
)
WAIT = 2.0
"""What the kit calls a streaming timeout, in seconds."""
FILE = file_part(b"tck", filename="output.txt", media_type="text/plain")
LINK = file_part("https://example.com/output.txt", filename="output.txt", media_type="text/plain")


async def late(turn: Turn) -> None:
    await turn.status("At work.")
    await asyncio.sleep(WAIT)
    await turn.complete("Done after delay")


async def long(turn: Turn) -> None:
    await turn.status("At work.")
    await asyncio.sleep(2 * WAIT)


async def chunks(turn: Turn) -> None:
    async with turn.artifact() as artifact:
        await artifact.write("chunk-1 ")
        await artifact.write("chunk-2")


PLAYS: Mapping[str, Callable[[Turn], Awaitable[None]]] = {
    "tck-complete-task": lambda turn: turn.complete("Hello from TCK"),
    "tck-delayed-complete": late,
    "test-resubscribe-message-id": long,
    "tck-message-response": lambda turn: turn.reply("Direct message response"),
    "tck-input-required": lambda turn: turn.ask("More, please."),
    "tck-reject-task": lambda turn: turn.reject("rejected"),
    "tck-artifact-text": lambda turn: turn.add_artifact("Generated text content"),
    "tck-artifact-file-url": lambda turn: turn.add_artifact(LINK),
    "tck-artifact-file": lambda turn: turn.add_artifact(FILE),
    "tck-artifact-data": lambda turn: turn.add_artifact({"key": "value", "count": 42}),
    "tck-stream-001": lambda turn: turn.add_artifact("Stream hello from TCK"),
    "tck-stream-002": lambda turn: turn.complete(),
    "tck-stream-003": lambda turn: turn.add_artifact("Stream task lifecycle"),
    "tck-stream-ordering-001": lambda turn: turn.add_artifact("Ordered output"),
    "tck-stream-artifact-text": lambda turn: turn.add_artifact("Streamed text content"),
    "tck-stream-artifact-file": lambda turn: turn.add_artifact(FILE),
    "tck-stream-artifact-chunked": chunks,
}
"""By the beginning of the message's id; a longer one stands before a shorter one that it begins with."""


@agent.skill(id="tck", tags=["test"], direct=True)
async def tck(turn: Turn) -> None:
    """Play what the message's id asks for."""
    wanted = turn.message.message_id
    for beginning, play in PLAYS.items():
        if wanted.startswith(beginning):
            return await play(turn)
    return await turn.complete(f"Nothing is known that begins like {wanted}")
