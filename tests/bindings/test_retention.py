"""What is old is gone for every call, and what is not stays (spec: KEPT-01, CTX-13)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.store import Store
from tests.bindings.actors import log_of
from tests.support.calls import key
from tests.support.house import REPLAY, Ages
from tests.support.stage import Stage, texts
from tests.support.world import Refusal, World, refused, say, serving

SOON = 0.2
LONG = 86_400.0
HOOK = "https://example.com/hook"


async def comes_true(ask: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await ask():  # noqa: ASYNC110 - as a client polls
            await asyncio.sleep(0.02)


async def is_gone(world: World, task_id: str) -> bool:
    return not [task for task in (await world.stub.ListTasks(pb.ListTasksRequest())).tasks if task.id == task_id]


async def not_found(call: Awaitable[Any]) -> bool:
    refusal: Refusal = await refused(call)
    return (refusal.code.name, refusal.reason) == ("NOT_FOUND", "TASK_NOT_FOUND")


@pytest.mark.req("KEPT-01", "SECR-07")
async def test_a_removed_task_is_not_found_by_any_call(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store, push_notifications=True, ages=Ages(tasks=SOON)) as world:
        waiting = await world.send(say("a car", skill="ask"))
        task = await world.send(say("hello"))
        await comes_true(lambda: is_gone(world, task.id))
        config = pb.TaskPushNotificationConfig(task_id=task.id, id="c", url=HOOK)
        one = pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="c")
        all_of = pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        other = pb.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="c")
        assert await not_found(world.get(task.id))
        assert await not_found(world.stub.CancelTask(pb.CancelTaskRequest(id=task.id)))
        assert await not_found(world.send(say("more", task_id=task.id)))
        assert await not_found(world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task.id)).read())
        assert await not_found(world.stub.CreateTaskPushNotificationConfig(config))
        assert await not_found(world.stub.GetTaskPushNotificationConfig(one))
        assert await not_found(world.stub.ListTaskPushNotificationConfigs(all_of))
        assert await not_found(world.stub.DeleteTaskPushNotificationConfig(other))
        assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 1
        assert texts(await world.send(say("red", task_id=waiting.id))) == ["red it is"]


@pytest.mark.req("KEPT-01", "RPLY-04")
async def test_a_log_that_is_gone_is_not_replayed_in_silence(store: Store) -> None:
    async with serving(Stage().agent, store=store, ages=Ages(events=SOON)) as world:
        task = await world.send(say("hello"))

        async def no_log() -> bool:
            return not await log_of(world.core, task.id)

        await comes_true(no_log)
        assert await world.get(task.id) == task
        cursor = (("a2a-extensions", REPLAY), ("last-event-id", "1"))
        again = world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task.id), metadata=cursor)
        refusal = await refused(again.read())
        assert refusal.code.name == "INVALID_ARGUMENT"
        assert "older events of the task are no longer kept" in str(refusal)


@pytest.mark.req("KEPT-01", "ONCE-01")
async def test_a_send_may_be_repeated_when_its_task_is_gone(store: Store) -> None:
    async with serving(Stage().agent, store=store, ages=Ages(tasks=SOON)) as world:
        first = await world.send(say("hello"), metadata=key())
        await comes_true(lambda: is_gone(world, first.id))
        again = await world.send(say("hello"), metadata=key())
        assert again.id != first.id
        assert texts(again) == texts(first)


@pytest.mark.req("KEPT-01")
async def test_nothing_is_removed_that_is_not_old(store: Store) -> None:
    async with serving(Stage().agent, store=store, ages=Ages(tasks=LONG, events=LONG, webhooks=SOON)) as world:
        task = await world.send(say("hello"))
        log = await log_of(world.core, task.id)
        await asyncio.sleep(4 * SOON)
        assert await world.get(task.id) == task
        assert await log_of(world.core, task.id) == log
