"""`tests.bench.agents`, written for the official SDK, and what its servers have in common."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, cast

import httpx
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    DatabaseTaskStore,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskStore,
    TaskUpdater,
)
from a2a.types import Message
from a2a.types import a2a_pb2 as pb
from sqlalchemy.ext.asyncio import create_async_engine

from tests.bench.fill import finished
from tests.bench.requests import Show

CARD = pb.AgentCard(
    name="Bench",
    description="Does next to nothing.",
    version="1.0.0",
    capabilities=pb.AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
)


class Bench(AgentExecutor):
    def __init__(self) -> None:
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task or new_task_from_user_message(cast("Message", context.message))
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        text = context.get_user_input()
        match context.metadata.get("skill"):
            case "chunks":
                await self._chunks(updater, int(text))
            case "show":
                await self._show(updater, Show.of(text))
            case "ask":
                await updater.requires_input(updater.new_agent_message([pb.Part(text="And?")]))
            case skill:
                if skill == "open":
                    self._gates[text].set()
                await updater.add_artifact([pb.Part(text=text)], name="echo", last_chunk=True)
                await updater.complete()

    async def _chunks(self, updater: TaskUpdater, count: int) -> None:
        for number in range(count):
            await self._chunk(updater, f"chunk {number} ", number, count)
        await updater.complete()

    async def _show(self, updater: TaskUpdater, show: Show) -> None:
        await self._gates[show.gate].wait()
        for number in range(show.count):
            if show.pause:
                await asyncio.sleep(show.pause)
            await self._chunk(updater, show.text, number, show.count)
        await updater.complete()

    @staticmethod
    async def _chunk(updater: TaskUpdater, text: str, number: int, count: int) -> None:
        parts, last = [pb.Part(text=text)], number == count - 1
        if number == 0:
            await updater.add_artifact(parts, artifact_id="chunks", name="chunks", append=False, last_chunk=last)
        else:
            await updater.add_artifact(parts, artifact_id="chunks", append=True, last_chunk=last)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


async def handler(place: str, tasks: int, *, push: bool = False) -> DefaultRequestHandler:
    """The SDK's handler with a store that has some finished tasks to begin with."""
    store = await _store(place)
    for task in finished(tasks):  # of the very same class, under another name
        await store.save(cast("Any", task), ServerCallContext())
    if not push:
        return DefaultRequestHandler(Bench(), store, CARD)
    card, configs = pb.AgentCard(), InMemoryPushNotificationConfigStore()
    card.CopyFrom(CARD)
    card.capabilities.push_notifications = True
    sender = BasePushNotificationSender(httpx.AsyncClient(), configs)
    return DefaultRequestHandler(Bench(), store, card, push_config_store=configs, push_sender=sender)


async def _store(place: str) -> TaskStore:
    if place == "memory:":
        return InMemoryTaskStore()
    store = DatabaseTaskStore(create_async_engine(place))
    await store.initialize()
    return store
