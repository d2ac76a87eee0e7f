"""Google ADK's agent for agents elsewhere, to be told what to say (see ../test_kits.py for the words)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.events import Event
from google.adk.runners import InMemoryRunner
from google.genai import types

from tests.interop.clients.told import Told

APP, USER = "interop", "ann"


@dataclass(frozen=True)
class Talk:
    agent: RemoteA2aAgent
    runner: InMemoryRunner
    session: str

    async def events(self, text: str) -> AsyncIterator[Event]:
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for event in self.runner.run_async(user_id=USER, session_id=self.session, new_message=message):
            if event.error_message:
                raise RuntimeError(event.error_message)
            yield event


async def connect(told: dict[str, Any]) -> Talk:
    agent = RemoteA2aAgent(name="remote", agent_card=f"{told['url']}/.well-known/agent-card.json")
    runner = InMemoryRunner(agent=agent, app_name=APP)
    session = await runner.session_service.create_session(app_name=APP, user_id=USER)
    return Talk(agent, runner, session.id)


async def card(on: Talk, told: dict[str, Any]) -> object:
    """What a model is told of the agent; the card is fetched with the first message."""
    async for _ in on.events("hello"):
        pass
    return on.agent.description


async def say(on: Talk, told: dict[str, Any]) -> object:
    events = [event async for event in on.events(told["text"])]
    response = events[-1].custom_metadata["a2a:response"]
    return {"text": "".join(map(shown, events)), "state": response["status"]["state"]}


async def stream(on: Talk, told: dict[str, Any]) -> AsyncIterator[object]:
    async for event in on.events(told["text"]):
        if text := shown(event):
            yield text


def shown(event: Event) -> str:
    """What a user is shown: answers, and questions, which come as calls of a function."""
    parts = event.content.parts if event.content and event.content.parts else []
    asked = [str(part.function_call.args["input_required"]) for part in parts if part.function_call]
    return "".join([*(part.text for part in parts if part.text and not part.thought), *asked])


if __name__ == "__main__":
    asyncio.run(Told(connect, {"card": card, "say": say, "stream": stream}, lambda _: {}).run())
