"""An HTTP agent that answers as a test says, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.test_utils import TestServer

TASK = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}
CARD_PATH = "/.well-known/agent-card.json"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Asked(NamedTuple):
    verb: str
    path: str
    headers: Any
    body: Any

    @property
    def params(self) -> Any:
        return self.body["params"]


class ScriptedAgent:
    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.base = ""
        self.card: dict[str, Any] = {}
        self.answers: dict[str, Answer] = {}
        """By path; what is not there is answered with a finished task."""
        self.gone = asyncio.Event()
        """A client has left before it was answered."""

    @property
    def calls(self) -> list[Asked]:
        return [asked for asked in self.asked if "/.well-known/" not in asked.path]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.asked.append(Asked(request.method, request.raw_path, request.headers, json.loads(text) if text else None))
        if (answer := self.answers.get(request.path)) is not None:
            try:
                return await answer(request)
            except asyncio.CancelledError:
                self.gone.set()
                raise
        if request.path == CARD_PATH:
            return web.json_response(self.card)
        if "jsonrpc" in text:
            result = {"jsonrpc": "2.0", "id": json.loads(text)["id"], "result": {"task": TASK}}
            return web.json_response(result)
        return web.json_response({"task": TASK} if request.path.endswith("message:send") else TASK)


def interface(url: str, binding: str, version: str = "1.0", **more: str) -> dict[str, str]:
    return {"url": url, "protocolBinding": binding, "protocolVersion": version, **more}


@asynccontextmanager
async def scripted(**card: Any) -> AsyncIterator[ScriptedAgent]:
    """Serve a card with REST and JSON-RPC; `card` replaces its members."""
    agent = ScriptedAgent()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", agent.serve)
    async with TestServer(app) as server:
        agent.base = str(server.make_url("")).rstrip("/")
        agent.card = {
            "name": "Scripted",
            "description": "Does as it is told.",
            "version": "1",
            "capabilities": {"streaming": True},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
            "supportedInterfaces": [
                interface(f"{agent.base}/rest", "HTTP+JSON"),
                interface(f"{agent.base}/rpc", "JSONRPC"),
            ],
            **card,
        }
        yield agent


def says(status: int, body: Any = None, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text, content_type="application/json", headers=headers)

    return answer


def streams(*texts: str, ends: bool = True) -> Answer:
    """Answer with server-sent events, and then end, or stay open."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for text in texts:
            await response.write(text.encode())
        if not ends:
            await asyncio.Event().wait()
        return response

    return answer


async def silence(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


def moved(target: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(target)

    return answer
