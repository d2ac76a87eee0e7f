"""The draft's push configs over REST: their paths, their names, and what must agree (spec: DRFT-01, DRFT-04)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from a2a_proto import a2a_pb2 as pb
from tests.support.door_draft import draft_serving, on_all_paths, say, violations
from tests.support.door_old import Where
from tests.support.stage import Stage

URL = "https://hooks.example/a2a"
HOOK = {"url": URL, "token": "t-1", "authentication": {"schemes": ["Bearer"], "credentials": "c"}}
SHOWN = {"url": URL, "token": "****", "authentication": {"schemes": ["Bearer"], "credentials": "****"}}


def config_name(task: Any, config_id: str) -> str:
    return f"tasks/{task['id']}/pushNotificationConfigs/{config_id}"


@pytest.mark.req("DRFT-01", "DRFT-04")
@on_all_paths
async def test_push_configs_live_on_their_paths(where: Where, tenant: str, form: str) -> None:
    root = tenant + form
    async with draft_serving(Stage().agent, where, push_notifications=True) as (_, client):
        task = (await client.told("POST", f"{root}/message:send", say("paint", skill="ask")))["task"]
        path = f"{root}/tasks/{task['id']}/pushNotificationConfigs"
        name = config_name(task, "w1")
        expected = {"name": name, "pushNotificationConfig": {"id": "w1", **SHOWN}}
        body = {"name": name, "pushNotificationConfig": HOOK}
        assert await client.told("POST", f"{path}?configId=w1", body) == expected
        assert await client.told("GET", f"{path}/w1") == expected
        assert await client.told("GET", path) == {"configs": [expected]}
        gone = await client.rest("DELETE", f"{path}/w1")
        assert (gone.status, gone.json) == (204, None)
        assert await client.told("GET", path) == {}
        assert (await client.refused("GET", f"{path}/w1"))["status"] == 404


@pytest.mark.req("DRFT-04", "ERRS-05")
@pytest.mark.parametrize(
    ("query", "body", "found"),
    [
        (
            "?configId=w1",
            {"name": "tasks/other/pushNotificationConfigs/w1", "pushNotificationConfig": HOOK},
            {"name": 'is "TASK" in the URL and "other" in the body; they must be the same'},
        ),
        (
            "?configId=w1",
            {"name": "tasks/TASK/pushNotificationConfigs/w2", "pushNotificationConfig": HOOK},
            {"pushNotificationConfig.id": 'is "w1" in the URL and "w2" in the body; they must be the same'},
        ),
        (
            "?configId=w1",
            {"pushNotificationConfig": {"id": "w2", **HOOK}},
            {"pushNotificationConfig.id": 'is "w1" in the URL and "w2" in the body; they must be the same'},
        ),
        (
            "?configId=a&configId=b",
            {"pushNotificationConfig": HOOK},
            {"configId": "is given 2 times and takes one value"},
        ),
        ("", {"url": URL}, {"url": 'is for "pushNotificationConfig" to hold'}),
        ("?configId=a%2Fb", {"pushNotificationConfig": HOOK}, {"configId": 'must be an id without "/"'}),
        ("?configId=", {"pushNotificationConfig": HOOK}, {"configId": 'must be an id without "/"'}),
        (
            "",
            {"configId": "a/b", "config": {"pushNotificationConfig": HOOK}},
            {"configId": 'must be an id without "/"'},
        ),
        (
            "",
            {"pushNotificationConfig": {**HOOK, "id": "a/b"}},
            {"pushNotificationConfig.id": 'must be an id without "/"'},
        ),
        ("?configId=w1", {"pushNotificationConfig": {}}, {"pushNotificationConfig.url": "is required"}),
        (
            "",
            {"pushNotificationConfig": {**HOOK, "url": "ftp://x"}},
            {"pushNotificationConfig.url": "must be an absolute http or https URL"},
        ),
    ],
)
async def test_where_a_config_goes_is_said_without_contradiction(query: str, body: Any, found: Any) -> None:
    async with draft_serving(Stage().agent, push_notifications=True) as (_, client):
        task = (await client.told("POST", "/v1/message:send", say("paint", skill="ask")))["task"]

        def filled(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: filled(item) for name, item in value.items()}
            return value.replace("TASK", task["id"]) if isinstance(value, str) else value

        path = f"/v1/tasks/{task['id']}/pushNotificationConfigs"
        told = violations(await client.refused("POST", path + query, filled(body)))
        assert {name: told[name][: len(filled(text))] for name, text in found.items()} == filled(found)
        assert await client.told("GET", path) == {}


@pytest.mark.req("DRFT-04")
async def test_the_name_and_the_id_may_be_absent() -> None:
    async with draft_serving(Stage().agent, push_notifications=True) as (_, client):
        task = (await client.told("POST", "/v1/message:send", say("paint", skill="ask")))["task"]
        path = f"/v1/tasks/{task['id']}/pushNotificationConfigs"
        made = await client.told("POST", path, {"pushNotificationConfig": HOOK})
        given = made["pushNotificationConfig"]["id"]
        assert made == {"name": config_name(task, given), "pushNotificationConfig": {"id": given, **SHOWN}}
        again = await client.told("POST", f"{path}?config_id=w1", {"pushNotificationConfig": {"id": "w1", **HOOK}})
        assert again["name"] == config_name(task, "w1")
        inner = {**HOOK, "id": "w2"}
        wrapped = await client.told("POST", path, {"config": {"pushNotificationConfig": inner}, "configId": "w2"})
        assert wrapped["name"] == config_name(task, "w2")
        first = await client.told("GET", f"{path}?pageSize=2")
        assert (len(first["configs"]), bool(first["nextPageToken"])) == (2, True)
        rest = await client.told("GET", f"{path}?pageSize=2&pageToken={first['nextPageToken']}")
        assert len(rest["configs"]) == 1


@pytest.mark.req("LGRP-02", "DRFT-04", "DRFT-06")
@pytest.mark.parametrize(
    ("config_id", "last"), [("None", "None"), ("a/b", "a%2Fb"), ("a%2Fb", "a%252Fb"), ("100%", "100%")]
)
async def test_every_name_can_be_read_again(config_id: str, last: str) -> None:
    async with draft_serving(Stage().agent, push_notifications=True) as (world, client):
        task = (await client.told("POST", "/v1/message:send", say("paint", skill="ask")))["task"]
        if "/" in config_id:  # which other versions make
            new = pb.TaskPushNotificationConfig(task_id=task["id"], id=config_id, url=URL)
            await world.stub.CreateTaskPushNotificationConfig(new)
        else:
            query = f"?configId={quote(config_id, safe='')}"
            path = f"/v1/tasks/{task['id']}/pushNotificationConfigs{query}"
            await client.told("POST", path, {"pushNotificationConfig": {"url": URL}})
        expected = {"name": config_name(task, last), "pushNotificationConfig": {"id": config_id, "url": URL}}
        wanted = {"name": expected["name"]}
        assert await client.call("GetTaskPushNotificationConfig", wanted) == expected
        assert await client.call("DeleteTaskPushNotificationConfig", wanted) == {}
        assert (await client.fault("GetTaskPushNotificationConfig", wanted))["code"] == -32001


@pytest.mark.req("DRFT-02")
async def test_a_send_may_bring_its_config() -> None:
    async with draft_serving(Stage().agent, push_notifications=True) as (_, client):
        sent = say("paint", skill="ask")
        sent["configuration"]["pushNotificationConfig"] = {"id": "w", **HOOK}
        task = (await client.told("POST", "/v1/message:send", sent))["task"]
        path = f"/v1/tasks/{task['id']}/pushNotificationConfigs"
        assert [config["name"] for config in (await client.told("GET", path))["configs"]] == [config_name(task, "w")]
