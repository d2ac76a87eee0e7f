"""One task, all versions: begun in one, continued, watched, cancelled in another (spec: DRFT-07); and the draft off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.ports.authenticator import ANONYMOUS
from tests.bindings.actors import COMPLETED, INPUT, Gate, at_rest, begun, until, waiting
from tests.support import old
from tests.support.door_draft import BASE, DraftClient, beside, draft_serving, kinds, say, texts
from tests.support.door_old import WHERE, Where
from tests.support.door_old import kinds as old_kinds
from tests.support.door_old import say as old_say
from tests.support.doors import OPTIONS
from tests.support.house import MemoryStore, Scope
from tests.support.stage import Stage
from tests.support.world import kinds as new_kinds
from tests.support.world import say as new_say

HOOK = {"url": "https://hooks.example/a2a", "authentication": {"schemes": ["Digest", "Basic", "Bearer"]}}
READERS = 5


@pytest.mark.req("DRFT-07", "LMAP-01")
@pytest.mark.parametrize("where", WHERE)
async def test_a_task_is_one_and_the_same_in_all_versions(where: Where) -> None:
    stage = Stage()
    async with draft_serving(stage.agent, where, old_http={}) as (world, client):
        task = (await client.told("POST", "/v1/message:send", say("paint", skill="ask")))["task"]
        assert (await world.get(task["id"])).status.state == INPUT
        got = await beside(client).call("tasks/get", {"id": task["id"]})
        assert (got["kind"], got["status"]["state"]) == ("task", "input-required")
        assert (await old.get(world, task["id"])).status.state == v03.TASK_STATE_INPUT_REQUIRED
        done = await world.send(new_say("red", task_id=task["id"]))
        assert done.status.state == COMPLETED
        told = await client.call("GetTask", {"name": f"tasks/{task['id']}"})
        assert texts(told) == ["red it is"]
        assert [message["parts"][0]["text"] for message in told["history"]] == ["paint", "What colour?", "red"]
        listed = await world.stub.ListTasks(pb.ListTasksRequest())
        assert [one.id for one in listed.tasks] == [task["id"]]

        for begin in (new_begun, old_begun):
            task_id = await begin(world, client)
            answered = (await client.told("POST", "/v1/message:send", say("blue", taskId=task_id)))["task"]
            assert texts(answered) == ["blue it is"]
    versions = [turn.request.version for turn in stage.turns]
    assert versions == ["draft", "1.0", "1.0", "draft", "0.3", "draft"]


async def new_begun(world: Any, _: DraftClient) -> str:
    return str((await world.send(new_say("paint", skill="ask"))).id)


async def old_begun(_: Any, client: DraftClient) -> str:
    return str((await beside(client).call("message/send", old_say("paint", skill="ask")))["id"])


@pytest.mark.req("DRFT-07", "ORDR-02")
@pytest.mark.parametrize("where", WHERE)
async def test_readers_of_all_versions_watch_one_task(where: Where) -> None:
    gate = Gate()
    async with draft_serving(waiting(gate), where, old_http={}) as (world, client):
        task_id = (await client.told("POST", "/v1/message:send", say(blocking=None)))["task"]["id"]
        await gate.reached.wait()

        async def watch() -> list[pb.StreamResponse]:
            return [item async for item in world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task_id))]

        path = f"/v1/tasks/{task_id}:subscribe"
        drafts = [asyncio.ensure_future(client.watch("POST", path)) for _ in range(READERS)]
        rpcs = [
            asyncio.ensure_future(client.stream("SubscribeToTask", {"name": f"tasks/{task_id}"}))
            for _ in range(READERS)
        ]
        news = [asyncio.ensure_future(watch()) for _ in range(READERS)]
        olds = [
            asyncio.ensure_future(beside(client).stream("tasks/resubscribe", {"id": task_id})) for _ in range(READERS)
        ]
        await until(lambda: world.pipeline.streams.count == 4 * READERS)
        gate.open()
        assert {kinds(found)[-1] for found in await asyncio.gather(*drafts, *rpcs)} == {"completed!"}
        assert {new_kinds(found)[-1] for found in await asyncio.gather(*news)} == {"COMPLETED"}
        assert {old_kinds(found)[-1] for found in await asyncio.gather(*olds)} == {"completed!"}
        await at_rest(world)


@pytest.mark.req("DRFT-07")
async def test_a_task_is_cancelled_across_versions() -> None:
    gate = Gate()
    async with draft_serving(waiting(gate), old_http={}) as (world, client):
        sending = asyncio.ensure_future(world.stream(new_say()))
        task_id = await begun(world)
        told = await client.told("POST", f"/v1/tasks/{task_id}:cancel")
        assert told["status"]["state"] == "cancelled"
        assert (await beside(client).call("tasks/get", {"id": task_id}))["status"]["state"] == "canceled"
        assert new_kinds(await sending)[-1] == "CANCELED"


@pytest.mark.req("DRFT-07", "LPSH-02")
@pytest.mark.parametrize("where", WHERE)
async def test_push_configs_are_shared_and_remember_who_made_them(where: Where) -> None:
    store, scope = MemoryStore(), Scope("", ANONYMOUS)
    parts = {"store": store, "push_notifications": True, "old_http": {}}
    async with draft_serving(Stage().agent, where, **parts) as (world, client):
        task_id = (await client.told("POST", "/v1/message:send", say("paint", skill="ask")))["task"]["id"]
        path = f"/v1/tasks/{task_id}/pushNotificationConfigs"
        await client.told("POST", f"{path}?configId=w1", {"pushNotificationConfig": HOOK})
        wrapped = {"parent": f"tasks/{task_id}", "configId": "w2", "config": {"pushNotificationConfig": HOOK}}
        await client.call("SetTaskPushNotificationConfig", wrapped)
        inline = say("paint", skill="ask")
        inline["configuration"]["pushNotificationConfig"] = {"id": "w3", **HOOK}
        other_id = (await client.told("POST", "/v1/message:send", inline))["task"]["id"]
        for owner, config_id in ((task_id, "w1"), (task_id, "w2"), (other_id, "w3")):
            kept = await store.get_config(scope, owner, config_id)
            assert kept is not None
            assert (kept.version, kept.schemes) == ("draft", ("Digest", "Basic", "Bearer"))

        new = await world.stub.GetTaskPushNotificationConfig(
            pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id="w1")
        )
        assert (new.url, new.authentication.scheme) == (HOOK["url"], "Basic")
        listed = await beside(client).call("tasks/pushNotificationConfig/list", {"id": task_id})
        assert [config["pushNotificationConfig"]["id"] for config in listed] == ["w1", "w2"]
        made = pb.TaskPushNotificationConfig(task_id=task_id, id="w4", url="https://new.example/")
        await world.stub.CreateTaskPushNotificationConfig(made)
        shown = await client.told("GET", f"{path}/w4")
        assert shown["pushNotificationConfig"] == {"id": "w4", "url": "https://new.example/"}


@pytest.mark.req("DRFT-07", "DRFT-02")
@pytest.mark.parametrize("where", WHERE)
async def test_what_1_0_says_is_told_in_the_words_of_the_draft(where: Where) -> None:
    parts = [pb.Part(text="x", media_type="text/plain"), pb.Part(raw=b"y", filename="n", media_type="text/plain")]
    async with draft_serving(Stage().agent, where) as (world, client):
        task = await world.send(new_say(parts=parts))
        told = (await client.told("GET", f"/v1/tasks/{task.id}"))["history"][0]
    assert told["parts"] == [
        {"text": "x", "metadata": {"x-a2a-compat": {"mediaType": "text/plain"}}},
        {"file": {"fileWithBytes": "eQ==", "name": "n", "mediaType": "text/plain"}},
    ]


ANYTHING = ["", "/", "/v1/tasks", "/v1/message:send", "/north/v1/tasks", "/v1/extendedAgentCard", "/north/tasks"]


@pytest.mark.req("DRFT-01")
@pytest.mark.parametrize("older", [{}, {"old_http": {}}], ids=["alone", "beside 0.3"])
async def test_by_default_there_is_nothing(older: Any) -> None:
    async with draft_serving(Stage().agent, http_options=OPTIONS, **older) as (_, client):
        for path in ANYTHING:
            for verb in ("GET", "POST"):
                async with client.session.request(verb, client.base + path) as response:
                    assert (path, response.status) == (path, 404)
                    # A name and /v1/ is where 0.3 has tenants, if it is served.
                    shape = "application/json" if older and path.startswith("/v1/") else "application/a2a+json"
                    assert (path, response.content_type) == (path, shape)


@pytest.mark.req("DRFT-01")
async def test_1_0_and_0_3_do_not_notice_it() -> None:
    async with draft_serving(Stage().agent, old_http={}) as (world, client):
        root = client.base.removesuffix(BASE)
        task = await world.send(new_say(tenant="north"))
        async with client.session.get(f"{root}/north/tasks/{task.id}") as response:
            assert (response.status, (await response.json(content_type=None))["id"]) == (200, task.id)
        assert await beside(client).told("GET", "/v1/tasks") == []
        async with client.session.get(f"{root}/draftsman/tasks") as response:
            assert response.status == 200
        async with client.session.get(f"{root}/draftsman") as response:
            assert (response.status, response.content_type) == (404, "application/a2a+json")


@pytest.mark.req("DRFT-01")
async def test_it_can_be_served_where_0_3_is_not() -> None:
    async with draft_serving(Stage().agent) as (_, client):
        root = client.base.removesuffix(BASE)
        assert (await client.told("GET", "/v1/tasks"))["tasks"] == []
        async with client.session.get(f"{root}/v1/tasks") as response:
            assert response.status == 404
