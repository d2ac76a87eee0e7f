"""LiteLLM's client, to be told what to say (see ../test_kits.py for the words)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # what models cost is not asked for elsewhere

from a2a.compat.v0_3.types import MessageSendParams, SendMessageRequest, SendStreamingMessageRequest
from litellm.a2a_protocol import A2AClient

from tests.interop.clients.told import Told


@dataclass
class Talk:
    client: A2AClient
    task: str | None = None
    """That has asked something."""

    def params(self, text: str) -> MessageSendParams:
        parts = [{"kind": "text", "text": text}]
        message = {"role": "user", "messageId": str(uuid4()), "parts": parts, "taskId": self.task}
        return MessageSendParams.model_validate({"message": message})


async def connect(told: dict[str, Any]) -> Talk:
    return Talk(A2AClient(told["url"]))


async def card(on: Talk, told: dict[str, Any]) -> object:
    return (await on.client.get_agent_card()).description


async def say(on: Talk, told: dict[str, Any]) -> object:
    response = await on.client.send_message(SendMessageRequest(id="1", params=on.params(told["text"])))
    task = response.model_dump()["result"]
    state = task["status"]["state"]
    on.task = task["id"] if state == "input-required" else None
    said = task.get("artifacts") or [task["status"]["message"]]
    return {"text": "".join(part["text"] for part in said[-1]["parts"]), "state": state}


async def stream(on: Talk, told: dict[str, Any]) -> AsyncIterator[object]:
    request = SendStreamingMessageRequest(id="1", params=on.params(told["text"]))
    async for item in on.client.send_message_streaming(request):
        for artifact in item.root.result.artifacts or []:
            yield "".join(part.root.text for part in artifact.parts)


if __name__ == "__main__":
    asyncio.run(Told(connect, {"card": card, "say": say, "stream": stream}, lambda _: {}).run())
