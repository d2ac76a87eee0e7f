"""BeeAI's agent for agents elsewhere, to be told what to say (see ../test_kits.py for the words)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from a2a.types import TaskArtifactUpdateEvent
from beeai_framework.adapters.a2a.agents import A2AAgent
from beeai_framework.memory import UnconstrainedMemory

from tests.interop.clients.told import Told


async def connect(told: dict[str, Any]) -> A2AAgent:
    return A2AAgent(url=told["url"], memory=UnconstrainedMemory())


async def card(on: A2AAgent, told: dict[str, Any]) -> object:
    await on.check_agent_exists()
    return on.meta.description


async def say(on: A2AAgent, told: dict[str, Any]) -> object:
    output = await on.run(told["text"])
    task, _ = output.event
    return {"text": output.last_message.text, "state": task.status.state}


async def stream(on: A2AAgent, told: dict[str, Any]) -> AsyncIterator[object]:
    """What its events tell while it runs; later it adds to the same objects."""
    pieces: list[str] = []

    def note(data: Any, _: object) -> None:
        _, update = data.value
        if isinstance(update, TaskArtifactUpdateEvent):
            pieces.append("".join(part.root.text for part in update.artifact.parts))

    await on.run(told["text"]).on("update", note)
    for piece in pieces:
        yield piece


if __name__ == "__main__":
    asyncio.run(Told(connect, {"card": card, "say": say, "stream": stream}, lambda _: {}).run())
