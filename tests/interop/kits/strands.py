"""The Strands SDK's agent for agents elsewhere, to be told what to say (see ../test_kits.py for the words)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from a2a.types import TaskArtifactUpdateEvent
from strands.agent.a2a_agent import A2AAgent

from tests.interop.clients.told import Told


async def connect(told: dict[str, Any]) -> A2AAgent:
    return A2AAgent(told["url"])


async def card(on: A2AAgent, told: dict[str, Any]) -> object:
    await on.get_agent_card()
    return on.description


async def say(on: A2AAgent, told: dict[str, Any]) -> object:
    result = await on.invoke_async(told["text"])
    text = "".join(block["text"] for block in result.message["content"])
    return {"text": text, "state": result.state["a2a_task_state"]}


async def stream(on: A2AAgent, told: dict[str, Any]) -> AsyncIterator[object]:
    async for event in on.stream_async(told["text"]):
        _, update = event.get("event", (None, None))
        if isinstance(update, TaskArtifactUpdateEvent):
            yield "".join(part.root.text for part in update.artifact.parts)


if __name__ == "__main__":
    asyncio.run(Told(connect, {"card": card, "say": say, "stream": stream}, lambda _: {}).run())
