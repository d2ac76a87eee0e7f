"""One scenario through every door of both versions, with equal results; one task for all of them (GEN-02, LMAP-01)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from tests.bindings.actors import CANCELED, COMPLETED, at_rest
from tests.support import world as worlds
from tests.support.door_old import Where, old_serving, say, tell
from tests.support.door_stories import URL, ByMethod, ByPath, Client, Current, Seen
from tests.support.doors import Door, client_of
from tests.support.stage import Stage


async def scenario(client: Client) -> list[object]:
    """All that happens, as the client sees it."""
    happened: list[object] = []
    task_id, asked = await client.send("paint", skill="ask")
    happened += [asked, await client.get(task_id)]
    happened.append(await client.hook(task_id, "one"))
    happened.append(await client.hook(task_id, "two"))
    happened.append(await client.hooks(task_id))
    await client.unhook(task_id, "one")
    happened.append(await client.hooks(task_id))
    happened.append(await client.stream("red", task_id=task_id))
    happened.append(await client.get(task_id))
    happened += [await client.reason(name, task_id) for name in ("cancel", "watch", "send")]
    happened += [await client.reason(name, "nobody") for name in ("get", "cancel", "watch", "send")]
    other, _ = await client.send("again", skill="ask")
    happened.append(await client.cancel(other))
    happened.append(await client.stream("hello"))
    happened.append(await client.stream("no", skill="fail"))
    happened.append(await client.stream("hi", skill="chat"))
    return happened


@asynccontextmanager
async def current(door: Door) -> AsyncIterator[Client]:
    async with worlds.serving(Stage().agent, through=door, push_notifications=True) as world:
        yield Current(world.stub)


@asynccontextmanager
async def older(how: str, where: Where) -> AsyncIterator[Client]:
    async with old_serving(Stage().agent, where, push_notifications=True) as (_, client):
        yield ByMethod(client) if how == "jsonrpc" else ByPath(client, say if how == "kind" else tell)


CURRENT: tuple[Door, ...] = ("grpc", "rest", "jsonrpc", "rest-far", "jsonrpc-far")
OLDER: tuple[tuple[str, Where], ...] = (
    ("jsonrpc", "near"),
    ("kind", "near"),
    ("proto", "near"),
    ("jsonrpc", "far"),
    ("kind", "far"),
    ("proto", "far"),
)


@pytest.mark.req("GEN-02", "LMAP-01", "LRPC-01", "LRES-01")
async def test_every_door_of_every_version_tells_the_same_story() -> None:
    stories = {}
    for door in CURRENT:
        async with current(door) as client:
            stories[f"1.0 {door}"] = await scenario(client)
    for how, where in OLDER:
        async with older(how, where) as client:
            stories[f"0.3 {how} {where}"] = await scenario(client)
    expected = stories["1.0 grpc"]
    assert expected[0] == Seen("TASK_STATE_INPUT_REQUIRED", "What colour?", [], [("ROLE_USER", "paint")])
    assert expected[-3:] == [
        ["task", "TASK_STATE_WORKING", "artifact_update", "TASK_STATE_COMPLETED"],
        ["task", "TASK_STATE_WORKING", "TASK_STATE_FAILED"],
        ["message"],
    ]
    for name, story in stories.items():
        assert story == expected, name


# -- one task, for all


@asynccontextmanager
async def everybody(where: Where) -> AsyncIterator[tuple[Any, dict[str, Client]]]:
    """A server, and a client of it through each door of a gateway."""
    stage = Stage()
    async with old_serving(stage.agent, where, push_notifications=True) as (world, client):
        assert world.http is not None
        clients: dict[str, Client] = {"1.0 rest": Current(world.stub)}
        async with (
            client_of("grpc", grpc_port=world.port, base="") as grpc,
            client_of("jsonrpc", grpc_port=world.port, base=world.http.base) as jsonrpc,
        ):
            clients["1.0 grpc"], clients["1.0 jsonrpc"] = Current(grpc.stub), Current(jsonrpc.stub)
            clients["0.3 jsonrpc"] = ByMethod(client)
            clients["0.3 kind"], clients["0.3 proto"] = ByPath(client, say), ByPath(client, tell)
            yield (world, stage), clients
            stage.release.set()
            await at_rest(world)


@pytest.mark.req("LMAP-01", "GEN-02")
@pytest.mark.parametrize("where", ["near", "far"])
async def test_a_task_begun_at_any_door_goes_on_at_any_other(where: Where) -> None:
    async with everybody(where) as (_, clients):
        names = [*clients]
        for index, name in enumerate(names):
            other = clients[names[index - 1]]
            task_id, asked = await clients[name].send("paint", skill="ask")
            assert {str(await one.get(task_id)) for one in clients.values()} == {str(asked)}
            assert (await other.send("red", task_id=task_id))[1].artifacts == ["red it is"]
            done = await clients[name].get(task_id)
            assert done.state == pb.TaskState.Name(COMPLETED)
            assert {str(await one.get(task_id)) for one in clients.values()} == {str(done)}
            second, _ = await clients[name].send("paint", skill="ask")
            assert (await other.cancel(second)).state == pb.TaskState.Name(CANCELED)
            assert {await one.reason("cancel", second) for one in clients.values()} == {"TASK_NOT_CANCELABLE"}


@pytest.mark.req("LMAP-01", "GEN-02", "ORDR-02")
@pytest.mark.parametrize("where", ["near", "far"])
async def test_a_task_is_watched_from_all_doors_at_once(where: Where) -> None:
    async with everybody(where) as ((world, stage), clients):
        sending: Awaitable[list[str]] = asyncio.ensure_future(clients["0.3 jsonrpc"].stream("on", skill="hold"))
        await stage.began()
        (task,) = (await world.stub.ListTasks(pb.ListTasksRequest())).tasks
        watching = [asyncio.ensure_future(client.watch(task.id)) for client in clients.values()]
        async with asyncio.timeout(30):
            while world.pipeline.streams.count < len(watching) + 1:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.001)
        hooks = [await client.hooks(task.id) for client in clients.values()]
        stage.release.set()
        told = await asyncio.gather(sending, *watching)
    assert hooks == [[]] * len(clients)
    for story in told:
        assert story[0] == "task"
        assert story[-2:] == ["artifact_update", "TASK_STATE_COMPLETED"]


@pytest.mark.req("LMAP-01", "PUSH-08")
async def test_a_hook_made_in_one_version_is_seen_and_removed_in_the_other() -> None:
    async with everybody("near") as (_, clients):
        task_id, _ = await clients["1.0 rest"].send("paint", skill="ask")
        for number, client in enumerate(clients.values()):
            assert await client.hook(task_id, f"h{number}") == (f"h{number}", URL)
        every = [f"h{number}" for number in range(len(clients))]
        for client in clients.values():
            assert await client.hooks(task_id) == every
        for number, client in enumerate(reversed(clients.values())):
            await client.unhook(task_id, f"h{number}")
        assert [await client.hooks(task_id) for client in clients.values()] == [[]] * len(clients)
