"""The official SDK's gRPC server as its documentation puts it together, with the same agent: one program."""

from __future__ import annotations

from typing import Any, cast

import click
import grpc
import uvloop
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore, TaskUpdater
from a2a.types import Message, a2a_pb2_grpc
from a2a.types import a2a_pb2 as pb
from sqlalchemy.ext.asyncio import create_async_engine

from tests.bench.fill import finished


class Bench(AgentExecutor):
    """`tests.bench.agents`, written for the SDK."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task or new_task_from_user_message(cast("Message", context.message))
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        match context.metadata.get("skill"):
            case "chunks":
                await self._chunks(updater, int(context.get_user_input()))
            case "ask":
                await updater.requires_input(updater.new_agent_message([pb.Part(text="And?")]))
            case _:
                await updater.add_artifact([pb.Part(text=context.get_user_input())], name="echo", last_chunk=True)
                await updater.complete()

    @staticmethod
    async def _chunks(updater: TaskUpdater, count: int) -> None:
        for number in range(count):
            parts = [pb.Part(text=f"chunk {number} ")]
            last = number == count - 1
            if number == 0:
                await updater.add_artifact(parts, artifact_id="chunks", name="chunks", append=False, last_chunk=last)
            else:
                await updater.add_artifact(parts, artifact_id="chunks", append=True, last_chunk=last)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


def _card() -> pb.AgentCard:
    return pb.AgentCard(
        name="Bench",
        description="Does next to nothing.",
        version="1.0.0",
        capabilities=pb.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )


async def _store(place: str) -> TaskStore:
    if place == "memory:":
        return InMemoryTaskStore()
    store = DatabaseTaskStore(create_async_engine(place))
    await store.initialize()
    return store


async def serve(port: int, place: str, tasks: int) -> None:
    store = await _store(place)
    for task in finished(tasks):  # of the very same class, under another name
        await store.save(cast("Any", task), ServerCallContext())
    server = grpc.aio.server()
    handler = DefaultRequestHandler(Bench(), store, _card())
    cast("Any", a2a_pb2_grpc).add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


@click.command()
@click.option("--port", type=int, required=True)
@click.option("--store", default="memory:", help="memory: or what SQLAlchemy connects to.")
@click.option("--tasks", default=0, help="How many finished tasks to begin with.")
def main(port: int, store: str, tasks: int) -> None:
    """Serve until killed."""
    uvloop.run(serve(port, store, tasks))


if __name__ == "__main__":
    main()
