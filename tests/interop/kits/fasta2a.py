"""The client of fasta2a (Pydantic), 0.6 or 2, to be told what to say (see ../test_kits.py for the words)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from fasta2a.client import A2AClient

from tests.interop.clients.told import Told

FINDS_CARDS = "fetch_card" in inspect.signature(A2AClient).parameters


@dataclass
class Talk:
    client: A2AClient
    task: str | None = None
    """That has asked something."""

    def message(self, text: str) -> Any:
        message = {"role": "user", "kind": "message", "message_id": str(uuid4())}
        parts = [{"kind": "text", "text": text}]
        return {**message, "parts": parts, **({"task_id": self.task} if self.task else {})}


async def connect(told: dict[str, Any]) -> Talk:
    return Talk(A2AClient(told["url"], fetch_card=True) if FINDS_CARDS else A2AClient(told["url"]))


async def card(on: Talk, told: dict[str, Any]) -> object:
    return on.client.agent_card["description"]


async def say(on: Talk, told: dict[str, Any]) -> object:
    response = await on.client.send_message(on.message(told["text"]))
    if "error" in response:
        raise RuntimeError(response["error"])
    result: Any = response["result"]
    task = result if "status" in result else result["task"]
    on.task = task["id"] if task["status"]["state"] == "input-required" else None
    said = task.get("artifacts") or [task["status"]["message"]]
    return {"text": "".join(part["text"] for part in said[-1]["parts"]), "state": task["status"]["state"]}


async def stream(on: Talk, told: dict[str, Any]) -> AsyncIterator[object]:
    async for response in on.client.stream_message(on.message(told["text"])):
        yield "".join(part["text"] for part in response["result"]["artifact_update"]["artifact"]["parts"])


if __name__ == "__main__":
    asyncio.run(Told(connect, {"card": card, "say": say, "stream": stream}, lambda _: {}).run())
