"""The official SDK's servers of 0.3 (a2a-sdk 0.3.26) with the agent of `stage.py`; runs in the environment made for it.

Prints its URL when all its doors are open. It shows that the client programs are right, whatever we do.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import defaultdict
from typing import Any

import grpc
import uvicorn
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.apps.rest.rest_adapter import RESTAdapter
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    Part,
    TextPart,
)
from a2a.utils import new_agent_text_message, new_task
from starlette.applications import Starlette
from starlette.routing import Route

PLACE = "https://example.com/ext/place/v1"


class Stage(AgentExecutor):
    def __init__(self) -> None:
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        if context.metadata["skill"] == "chat":
            await event_queue.enqueue_event(new_agent_text_message(f"you said {context.get_user_input()}"))
            return
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        turn = TaskUpdater(event_queue, task.id, task.context_id)
        await turn.start_work()
        if await self._play(context, turn):
            await turn.complete()

    async def _play(self, context: RequestContext, turn: TaskUpdater) -> bool:
        """Play the part that was asked for; whether that was all."""
        text = context.get_user_input()
        match context.metadata["skill"]:
            case "chunks":
                await _write(turn, text.split())
            case "ask" if context.current_task is None:
                await turn.requires_input(new_agent_text_message("What colour?"), final=True)
                return False
            case "ask":
                await _write(turn, [f"{text} it is"])
            case "gate":
                return await self._passes(text, turn)
            case "open":
                self._gates[text].set()
            case "mirror":
                assert context.message is not None
                await turn.add_artifact(context.message.parts, name="mirrored")
            case "place":
                await _write(turn, [_active(context)])
            case _:
                await _write(turn, [text])
        return True

    async def _passes(self, gate: str, turn: TaskUpdater) -> bool:
        """Wait, and tell subscribers from time to time: they get nothing to begin with. Canceled, go away."""
        try:
            while not self._gates[gate].is_set():
                await turn.start_work(new_agent_text_message("at the gate"))
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            return False
        await _write(turn, ["went", "through"])
        return True

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


def _active(context: RequestContext) -> str:
    for uri in context.requested_extensions & {PLACE}:
        context.add_activated_extension(uri)
    return " ".join(context.requested_extensions & {PLACE}) or "none"


async def _write(turn: TaskUpdater, words: list[str]) -> None:
    for number, word in enumerate(words):
        parts = [Part(root=TextPart(text=word))]
        last = number == len(words) - 1
        await turn.add_artifact(parts, artifact_id="words", append=number > 0, last_chunk=last)


def card_at(url: str, grpc_port: int, *, push: bool) -> AgentCard:
    return AgentCard(
        name="Stage",
        description="Plays any part.",
        version="1.2.3",
        url=url,
        preferred_transport="JSONRPC",
        additional_interfaces=[
            AgentInterface(transport="JSONRPC", url=url),
            AgentInterface(transport="HTTP+JSON", url=url),
            AgentInterface(transport="GRPC", url=f"127.0.0.1:{grpc_port}"),
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=push, extensions=[AgentExtension(uri=PLACE)]),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="Echo", description="Says it again.", tags=["test"])],
        supports_authenticated_extended_card=True,
    )


async def main(*, push: bool) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = grpc.aio.server()
    card = card_at(url, server.add_insecure_port("127.0.0.1:0"), push=push)
    extended = card.model_copy(update={"description": f"{card.description} For friends, too."})
    store = InMemoryPushNotificationConfigStore() if push else None
    handler = DefaultRequestHandler(Stage(), InMemoryTaskStore(), push_config_store=store)

    grpc_handler = GrpcHandler(card, handler, card_modifier=lambda _: extended)
    servicers: Any = a2a_pb2_grpc
    servicers.add_A2AServiceServicer_to_server(grpc_handler, server)
    await server.start()

    rest = RESTAdapter(card, handler, extended_agent_card=extended)
    routes = [Route(path, call, methods=[verb]) for (path, verb), call in rest.routes().items()]
    jsonrpc = A2AStarletteApplication(card, handler, extended_agent_card=extended)
    app = Starlette(routes=[*jsonrpc.routes(), *routes])
    http = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(http.serve(sockets=[listener]))
    while not http.started:  # noqa: ASYNC110 - as it tells
        await asyncio.sleep(0.01)
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    await serving


if __name__ == "__main__":
    asyncio.run(main(push="--push" in sys.argv))
