"""Webhooks as receivers get them, whatever door their config came through (spec: HOOK, DELV, PUSH, SEND-07)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from google.protobuf import json_format

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.authenticator import ANONYMOUS
from a2a_server.ports.store import Store
from tests.bindings.test_push_configs import config, create, delete, get, listed, told
from tests.support.deliveries import deliver
from tests.support.house import Scope, SystemClock, WebhookPolicy, WebhookSender
from tests.support.receivers import HERE, Received, Receiver, happened, listener, read_request, receiver
from tests.support.stage import Stage
from tests.support.world import World, kinds, refused, say, serving

QUIET = 0.05
"""Seconds in which something that must not happen would have happened."""


@asynccontextmanager
async def delivering(
    stage: Stage, *, policy: WebhookPolicy = HERE, challenge: bool = False, **parts: Any
) -> AsyncIterator[World]:
    sender = WebhookSender(policy, SystemClock(), timeout=10)
    async with serving(stage.agent, delivery=deliver(sender, challenge=challenge), **parts) as world:
        yield world


async def received(client: Receiver, count: int) -> list[Received]:
    """The first so many requests; there may be more."""
    async with asyncio.timeout(30):
        while len(client.received) < count:
            client.arrived.clear()
            await client.arrived.wait()
    return client.received


def events(found: list[Received]) -> list[pb.StreamResponse]:
    return [json_format.Parse(one.body, pb.StreamResponse()) for one in found]


def numbers(found: list[Received]) -> list[int]:
    return [int(one.headers["A2A-Event-Number"]) for one in found]


def inline(client: Receiver, **fields: Any) -> dict[str, Any]:
    return {"task_push_notification_config": config(url=client.url, **fields)}


@pytest.mark.req("SEND-07", "HOOK-01", "HOOK-02", "HOOK-05", "DELV-01", "PAID-01", "PAID-02", "CONF-37")
async def test_a_config_that_comes_with_a_message_gets_everything_from_the_task_on(store: Store) -> None:
    async with receiver() as client, delivering(Stage(), store=store) as world:
        task = await world.send(say(skill="echo", configuration=inline(client)))
        found = await received(client, 4)
        assert kinds(events(found)) == ["task", "WORKING", "artifact_update", "COMPLETED"]
        assert events(found) == [entry.event for entry in await store.entries(task.id, 0, 100)]
        assert numbers(found) == [1, 2, 3, 4]
        assert {one.headers["A2A-Task-Id"] for one in found} == {task.id}
        assert len({one.headers["A2A-Delivery-Id"] for one in found}) == 4
        assert {(one.verb, one.headers["Content-Type"], one.headers["A2A-Version"]) for one in found} == {
            ("POST", "application/a2a+json", "1.0")
        }


@pytest.mark.req("PUSH-01", "DELV-01", "PUSH-05")
async def test_a_config_made_while_the_task_runs_gets_what_follows(store: Store) -> None:
    stage = Stage()
    async with receiver() as one, receiver() as two, delivering(stage, store=store) as world:
        task = await world.send(say(skill="hold", configuration={"return_immediately": True}))
        before = await before_the_wait(world, task)
        await create(world, task.id, id="one", url=one.url)
        await create(world, task.id, id="two", url=two.url)
        stage.release.set()
        for client in (one, two):
            found = await received(client, 2)
            assert kinds(events(found)) == ["artifact_update", "COMPLETED"]
            assert numbers(found) == [before + 1, before + 2]


async def before_the_wait(world: World, task: pb.Task) -> int:
    """The number of the last event before the agent waits."""
    async with asyncio.timeout(30):
        while True:
            last = (await world.core.services.store.entries(task.id, 0, 100))[-1]
            if last.event.status_update.status.HasField("message"):
                return last.number
            await asyncio.sleep(0.002)


@pytest.mark.req("PUSH-01", "PUSH-12")
async def test_a_config_made_on_a_finished_task_is_kept_and_gets_nothing(store: Store) -> None:
    async with receiver() as client, delivering(Stage(), store=store) as world:
        task = await world.send(say(skill="echo"))
        made = await create(world, task.id, id="late", url=client.url)
        assert await get(world, task.id, "late") == made
        await asyncio.sleep(QUIET)
        assert not client.received
        assert await store.next_due() is None


@pytest.mark.req("SEND-07", "DELV-01", "PUSH-12")
async def test_a_config_that_comes_with_an_answer_gets_the_turn_that_it_starts(store: Store) -> None:
    async with receiver() as first, receiver() as second, delivering(Stage(), store=store) as world:
        task = await world.send(say(skill="ask", configuration=inline(first)))
        await world.send(say("red", task_id=task.id, configuration=inline(second)))
        assert kinds(events(await received(first, 6))) == [
            "task",
            "WORKING",
            "INPUT_REQUIRED",
            "WORKING",
            "artifact_update",
            "COMPLETED",
        ]
        assert kinds(events(await received(second, 3))) == ["WORKING", "artifact_update", "COMPLETED"]


@pytest.mark.req("CANC-04", "DELV-01")
async def test_a_cancel_is_told_once(store: Store) -> None:
    async with receiver() as client, delivering(Stage(), store=store) as world:
        task = await world.send(say(skill="ask", configuration=inline(client)))
        await world.stub.CancelTask(pb.CancelTaskRequest(id=task.id))
        await refused(world.stub.CancelTask(pb.CancelTaskRequest(id=task.id)))
        assert kinds(events(await received(client, 4))) == ["task", "WORKING", "INPUT_REQUIRED", "CANCELED"]
        await asyncio.sleep(QUIET)
        assert len(client.received) == 4


@pytest.mark.req("HOOK-03", "HOOK-04", "CONF-35")
async def test_secrets_go_into_headers() -> None:
    secret = pb.AuthenticationInfo(scheme="Bearer", credentials="s3cr3t")
    async with receiver() as client, delivering(Stage()) as world:
        await world.send(say(skill="echo", configuration=inline(client, token="t0k3n", authentication=secret)))
        for one in await received(client, 4):
            assert one.headers["Authorization"] == "Bearer s3cr3t"
            assert one.headers["X-A2A-Notification-Token"] == "t0k3n"


@pytest.mark.req("DELV-02", "DELV-03", "PAID-02")
async def test_what_is_not_acknowledged_comes_again_before_what_follows(store: Store) -> None:
    statuses = iter([500, 302, 503, 200, 404, 202])

    async def moody(_: Received) -> web.StreamResponse:
        return web.Response(status=next(statuses, 204), headers={"Location": "/elsewhere"})

    async with receiver(moody) as client, delivering(Stage(), store=store) as world:
        await world.send(say(skill="echo", configuration=inline(client)))
        found = await received(client, 8)
        assert numbers(found) == [1, 1, 1, 1, 2, 2, 3, 4]
        assert {one.target for one in found} == {"/hook"}
        assert len({one.headers["A2A-Delivery-Id"] for one in found}) == 4


# -- deletion and replacement


@pytest.mark.req("PUSH-09")
async def test_deleting_ends_what_is_under_way(store: Store) -> None:
    asked, gone, connections = asyncio.Event(), asyncio.Event(), []

    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        connections.append(await read_request(reader))
        asked.set()
        await reader.read()  # until the sender hangs up
        gone.set()

    async with listener(hang) as url, delivering(Stage(), store=store) as world:
        asking = {"task_push_notification_config": config(id="c", url=url)}
        task = await world.send(say(skill="ask", configuration=asking))
        await happened(asked)
        await delete(world, task.id, "c")
        await happened(gone)
        await world.send(say("red", task_id=task.id))
        await asyncio.sleep(QUIET)
        assert len(connections) == 1
        assert await store.next_due() is None


@pytest.mark.req("PUSH-03", "PUSH-09")
async def test_what_is_owed_goes_to_the_new_address_of_a_replaced_config(store: Store) -> None:
    async def refuse(_: Received) -> web.StreamResponse:
        return web.Response(status=500)

    async with receiver(refuse) as old, receiver() as new, delivering(Stage(), store=store) as world:
        task = await world.send(say(skill="echo", configuration=inline(old, id="c", token="old")))
        await received(old, 2)
        await create(world, task.id, id="c", url=new.url, token="new")
        found = await received(new, 4)
        assert numbers(found) == [1, 2, 3, 4]
        assert {one.headers["X-A2A-Notification-Token"] for one in found} == {"new"}
        count = len(old.received)
        await asyncio.sleep(QUIET)
        assert len(old.received) == count


# -- what is refused when a config is made


@pytest.mark.req("SSRF-02", "GEN-03", "ERRS-05", "PUSH-04")
@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://client.example/", "must be an https URL, not http"),
        ("https://10.1.2.3/", "must lead to a public address; 10.1.2.3 is a private one"),
        ("https://user:pw@client.example/", "must not hold a user or password; there is `authentication` for them"),
    ],
)
async def test_an_address_that_may_not_be_called_is_refused_before_anything_happens(url: str, complaint: str) -> None:
    stage = Stage()
    async with delivering(stage, policy=WebhookPolicy()) as world:
        task = await world.send(say(skill="ask"))
        assert (await refused(create(world, task.id, url=url))).fields == {"url": complaint}
        assert not (await listed(world, task.id)).configs
        with_message = {"task_push_notification_config": config(url=url)}
        for attempt in (say(configuration=with_message), say(task_id=task.id, configuration=with_message)):
            assert (await refused(world.send(attempt))).fields == {
                "configuration.task_push_notification_config.url": complaint
            }
        assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 1
    assert len(stage.turns) == 1


@pytest.mark.req("SSRF-05", "GEN-03")
async def test_a_receiver_that_does_not_answer_for_itself_is_refused(store: Store) -> None:
    async def echo(asked: Received) -> web.StreamResponse:
        if asked.verb == "POST":
            return web.Response(status=204)
        return web.Response(text=asked.target.partition("validationToken=")[2])

    stage = Stage()
    complaint = "must answer GET with ?validationToken=… by 200 and the token, to show that it wants webhooks"
    async with receiver() as mute, receiver(echo) as willing, delivering(stage, challenge=True, store=store) as world:
        task = await world.send(say(skill="ask"))
        assert (await refused(create(world, task.id, url=mute.url))).fields == {"url": complaint}
        for attempt in (say(configuration=inline(mute)), say(task_id=task.id, configuration=inline(mute))):
            assert (await refused(world.send(attempt))).fields == {
                "configuration.task_push_notification_config.url": complaint
            }
        assert len(stage.turns) == 1
        assert {one.verb for one in mute.received} == {"GET"}

        assert (await create(world, task.id, id="c", url=willing.url)).id == "c"
        await world.send(say(skill="echo", configuration=inline(willing)))
        assert [one.verb for one in await received(willing, 6)] == ["GET", "GET", *["POST"] * 4]


@pytest.mark.req("CAPA-02", "CAPA-05")
async def test_without_delivery_nothing_is_kept_of_a_config(store: Store) -> None:
    async with receiver() as client, serving(Stage().agent, store=store) as world:
        task = await world.send(say(skill="ask"))
        for attempt in (create(world, task.id, url=client.url), world.send(say(configuration=inline(client)))):
            assert told(await refused(attempt))[1] == "PUSH_NOTIFICATION_NOT_SUPPORTED"
        assert await store.configs(Scope("", ANONYMOUS), task.id, "", 10) == []
        assert not client.received
