"""Executors of the official SDK, of the kinds that its samples are; what they do depends on what is said.

They are written for the SDK alone: the same objects run on its server and on ours.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import Message, a2a_pb2_grpc
from a2a.utils import errors
from google.protobuf import json_format
from starlette.applications import Starlette

from a2a_proto import a2a_pb2 as pb

CARD = pb.AgentCard(
    name="Actor",
    description="Does what it is told.",
    version="1.0.0",
    capabilities=pb.AgentCapabilities(streaming=True, extensions=[pb.AgentExtension(uri="https://example.com/x")]),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[pb.AgentSkill(id="act", name="Act", description="Acts.", tags=["test"])],
)
V1 = (("a2a-version", "1.0"),)
"""The metadata of a call of the SDK's server."""


def parts(text: str) -> Any:  # the SDK's types
    return [pb.Part(text=text)]


class Actor(AgentExecutor):
    """Most kinds, as methods named by the first word that is said."""

    def __init__(self) -> None:
        self.seen: list[RequestContext] = []
        self.canceled: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.seen.append(context)
        word = context.get_user_input().split()[0]
        await getattr(self, f"on_{word}")(context, event_queue)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.current_task is not None
        self.canceled.append(context.current_task.id)
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    @staticmethod
    async def begin(context: RequestContext, queue: EventQueue) -> TaskUpdater:
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(cast("Message", context.message))
            await queue.enqueue_event(task)
        return TaskUpdater(queue, task.id, task.context_id)

    async def on_hello(self, context: RequestContext, queue: EventQueue) -> None:
        """A direct message, with the ids of the task that there might have been."""
        reply: Any = pb.Message(message_id="m", role=pb.ROLE_AGENT, parts=parts("hello"), context_id=context.context_id)
        await queue.enqueue_event(reply)

    async def on_work(self, context: RequestContext, queue: EventQueue) -> None:
        turn = await self.begin(context, queue)
        await turn.start_work()
        await turn.update_status(cast("Any", pb.TASK_STATE_WORKING), turn.new_agent_message(parts("half way")))
        await turn.add_artifact(parts("done"), artifact_id="a", name="result", metadata={"n": 1})
        await turn.complete()

    async def on_chunks(self, context: RequestContext, queue: EventQueue) -> None:
        turn = await self.begin(context, queue)
        await turn.start_work()
        for number in range(3):
            await turn.add_artifact(parts(f"{number} "), artifact_id="a", append=number > 0, last_chunk=number == 2)
        await turn.complete()

    async def on_lazy(self, context: RequestContext, queue: EventQueue) -> None:
        """Never says that it works."""
        turn = await self.begin(context, queue)
        await turn.add_artifact(parts("done"), artifact_id="a", last_chunk=True)
        await turn.complete(turn.new_agent_message(parts("there")))

    async def on_whole(self, context: RequestContext, queue: EventQueue) -> None:
        """A whole finished task at once."""
        task: Any = new_task_from_user_message(cast("Message", context.message))
        task.status.state = pb.TASK_STATE_COMPLETED
        task.artifacts.add(artifact_id="a", parts=parts("all of it"))
        await queue.enqueue_event(task)

    async def on_ask(self, context: RequestContext, queue: EventQueue) -> None:
        turn = await self.begin(context, queue)
        await turn.requires_input(turn.new_agent_message(parts("Which colour?")))

    async def on_red(self, context: RequestContext, queue: EventQueue) -> None:
        """The answer: the task is there, and its question is in the history."""
        turn = await self.begin(context, queue)
        await turn.start_work()
        await turn.add_artifact(parts("a red one"), artifact_id="a", last_chunk=True)
        await turn.complete()

    async def on_login(self, context: RequestContext, queue: EventQueue) -> None:
        turn = await self.begin(context, queue)
        await turn.requires_auth(turn.new_agent_message(parts("Log in at https://example.com/")))

    async def on_reject(self, context: RequestContext, queue: EventQueue) -> None:
        await (await self.begin(context, queue)).reject()

    async def on_fail(self, context: RequestContext, queue: EventQueue) -> None:
        turn = await self.begin(context, queue)
        await turn.start_work()
        await turn.failed(turn.new_agent_message(parts("Out of ink.")))

    async def on_refuse(self, _: RequestContext, __: EventQueue) -> None:
        raise errors.UnsupportedOperationError("Not on Sundays.")

    async def on_break(self, context: RequestContext, queue: EventQueue) -> None:
        turn = await self.begin(context, queue)
        await turn.start_work()
        raise ValueError("a fault of the executor")

    async def on_mix(self, context: RequestContext, queue: EventQueue) -> None:
        """A message where there is a task: a fault."""
        await self.begin(context, queue)
        await self.on_hello(context, queue)

    async def on_wait(self, context: RequestContext, queue: EventQueue) -> None:
        turn = await self.begin(context, queue)
        await turn.start_work()
        await asyncio.Event().wait()

    async def on_context(self, context: RequestContext, queue: EventQueue) -> None:
        """What it knows about the call."""
        turn = await self.begin(context, queue)
        assert context.message is not None
        assert context.configuration is not None
        known = {
            "ids": [context.task_id == turn.task_id, context.context_id == turn.context_id],
            "message": [context.message.task_id == turn.task_id, context.message.context_id == turn.context_id],
            "task": context.current_task is not None,
            "text": context.get_user_input(),
            "metadata": context.metadata,
            "modes": list(context.configuration.accepted_output_modes),
            "length": context.configuration.history_length,
            "tenant": context.tenant,
            "extensions": sorted(context.requested_extensions),
            "user": [context.call_context.user.is_authenticated, context.call_context.user.user_name],
            "related": len(context.related_tasks),
        }
        data: Any = pb.Part()
        json_format.ParseDict({"data": known}, data)
        await turn.add_artifact([data], artifact_id="a", last_chunk=True)
        await turn.complete()


class Stubborn(Actor):
    """Cannot be canceled, as many samples."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    async def on_wait(self, context: RequestContext, queue: EventQueue) -> None:
        turn = await self.begin(context, queue)
        await turn.start_work()
        await self.go_on.wait()
        await turn.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise Exception("cancel not supported")  # noqa: TRY002 - what they raise


@asynccontextmanager
async def sdk_serving(executor: AgentExecutor) -> AsyncIterator[Any]:
    """The SDK's own server with an executor, over gRPC."""
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), cast("Any", CARD))
    server = grpc.aio.server()
    cast("Any", a2a_pb2_grpc).add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield cast("Any", a2a_pb2_grpc).A2AServiceStub(channel)
    await handler.aclose()
    await server.stop(None)


@asynccontextmanager
async def sdk_serving_http(executor: AgentExecutor) -> AsyncIterator[str]:
    """The same over JSON-RPC and REST, both also in 0.3: the URL of the card."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    card: Any = pb.AgentCard()
    card.CopyFrom(CARD)
    for version in ("1.0", "0.3"):
        card.supported_interfaces.add(url=f"{url}/", protocol_binding="JSONRPC", protocol_version=version)
        card.supported_interfaces.add(url=url, protocol_binding="HTTP+JSON", protocol_version=version)
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
    async with sdk_routes(handler, card, listener):
        yield url
    await handler.aclose()


@asynccontextmanager
async def sdk_routes(handler: DefaultRequestHandler, card: Any, listener: socket.socket) -> AsyncIterator[None]:
    """What the SDK has over HTTP, served by uvicorn."""
    routes = [
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, rpc_url="/", enable_v0_3_compat=True),
        *create_rest_routes(handler, enable_v0_3_compat=True),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning"))
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await running


def bare(message: Any) -> Any:
    """A copy without what is different each time: ids and times. A status's progress stays out of our history."""
    copy = type(message)()
    copy.CopyFrom(message)
    _strip(copy)
    return copy


def _strip(message: Any) -> None:
    for field, value in list(message.ListFields()):
        if field.name in {"id", "task_id", "context_id", "message_id", "timestamp"}:
            message.ClearField(field.name)
        elif field.name == "history":
            kept = [said for said in value if said.role == pb.ROLE_USER]
            del value[:]
            value.extend(kept)
            for said in value:
                _strip(said)
        elif field.message_type and not field.message_type.GetOptions().map_entry:
            for inner in value if field.is_repeated else [value]:
                _strip(inner)
