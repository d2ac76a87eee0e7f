"""Our side of the agent that the interop tests speak with: all that clients can meet, and nothing that takes time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import INPUT_REQUESTS, Agent, Extension, Turn
from a2a_server.ports.authenticator import Caller

FILES = ("application/octet-stream", "image/png", "text/csv")
PLACE = "https://example.com/ext/place/v1"

agent = Agent(
    name="Stage",
    description="Plays any part.",
    version="1.2.3",
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    extensions=[Extension(PLACE), INPUT_REQUESTS],
)
_gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


@agent.extended
def for_friends(card: pb.AgentCard, caller: Caller) -> pb.AgentCard | None:
    card.description += " For friends, too."
    return card


@agent.skill(id="echo", tags=["test"])
async def echo(turn: Turn) -> str:
    """Say it again."""
    return turn.text


@agent.skill(id="chunks", tags=["test"])
async def chunks(turn: Turn) -> AsyncIterator[str]:
    """Say it word by word."""
    for word in turn.text.split():
        yield word


@agent.skill(id="chat", tags=["test"], direct=True)
async def chat(turn: Turn) -> None:
    """Say it without a task."""
    await turn.reply(f"you said {turn.text}")


@agent.skill(id="ask", tags=["test"])
async def ask(turn: Turn) -> str | None:
    """Ask once, then answer."""
    if turn.number == 1:
        await turn.ask("What colour?")
        return None
    return f"{turn.text} it is"


@agent.skill(id="door", tags=["test"])
async def door(turn: Turn) -> str | None:
    """Ask for something by id."""
    if turn.number == 1:
        await turn.ask("Which door?", request_id="door")
        return None
    return f"the {turn.answer} one"


@agent.skill(id="gate", tags=["test"])
async def gate(turn: Turn) -> AsyncIterator[str]:
    """Wait until somebody opens the gate of that name."""
    await turn.status("at the gate")
    await _gates[turn.text].wait()
    yield "went"
    yield "through"


@agent.skill(id="open", tags=["test"])
async def open_gate(turn: Turn) -> str:
    """Open a gate."""
    _gates[turn.text].set()
    return "open"


@agent.skill(
    id="mirror",
    tags=["test"],
    input_modes=["text/plain", "application/json", *FILES],
    output_modes=["text/plain", "application/json", *FILES],
)
async def mirror(turn: Turn) -> None:
    """Give back all parts."""
    await turn.add_artifact(list(turn.parts), "mirrored", description="What was sent.")


@agent.skill(id="place", tags=["test"])
async def place(turn: Turn) -> str:
    """Say which extensions the client has activated."""
    return " ".join(sorted(turn.extensions)) or "none"
