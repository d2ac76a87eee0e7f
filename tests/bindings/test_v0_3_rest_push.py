"""Push configs over REST of 0.3: every form of creating them, lists, pages (LRES-06, LRES-07, CONF-31, CONF-33)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from a2a_proto import a2a_pb2 as pb
from tests.support.door_old import WHERE, Where, old_serving, say, tell
from tests.support.stage import Stage

URL = "https://hooks.example/a2a"

pytestmark = pytest.mark.parametrize("where", WHERE)


def config_of(told: Any, task_id: str) -> tuple[str, Any]:
    """Where an answer says that a config is, whichever spelling it is in, and the config itself."""
    inner = told["pushNotificationConfig"]
    if "name" in told:
        assert told["name"] == f"tasks/{task_id}/pushNotificationConfigs/{inner['id']}"
        return "proto", inner
    assert told["taskId"] == task_id
    return "kind", inner


def inner(**more: Any) -> dict[str, Any]:
    return {"pushNotificationConfig": {"url": URL, **more}}


def named(task: str, config_id: object, **more: Any) -> dict[str, Any]:
    return {"name": f"tasks/{task}/pushNotificationConfigs/{config_id}", **inner(**more)}


FORMS: dict[str, Callable[..., dict[str, Any]]] = {
    "wrapped": lambda _, **more: {"config": inner(**more)},
    "wrapped, as the SDK for Python does": lambda task, **more: {
        "parent": f"tasks/{task}",
        "config": named(task, more.get("id"), **more),
    },
    "bare": lambda _, **more: inner(**more),
    "bare, named": lambda task, **more: named(task, more.get("id", ""), **more),
    "of the schema": lambda task, **more: {"taskId": task, **inner(**more)},
}


@pytest.mark.req("LRES-01", "LRES-06", "LRES-07")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("root", ["tasks", "task"])
async def test_a_config_is_created_in_any_form(form: str, root: str, where: Where) -> None:
    async with old_serving(Stage().agent, where, push_notifications=True) as (_, client):
        task = (await client.call("message/send", say("paint", skill="ask")))["id"]
        path = f"/v1/{root}/{task}/pushNotificationConfigs"
        spelling, made = config_of(await client.told("POST", path, FORMS[form](task)), task)
        assert made["id"]
        assert spelling == ("kind" if form == "of the schema" else "proto")
        _, own = config_of(await client.told("POST", path, FORMS[form](task, id="own")), task)
        assert own == {"id": "own", "url": URL}
        _, asked = config_of(await client.told("POST", f"{path}?configId=q", FORMS["bare"](task)), task)
        assert asked["id"] == "q"
        _, same = config_of(await client.told("POST", f"{path}?configId=own", FORMS[form](task, id="own")), task)
        assert same["id"] == "own"
        listed = (await client.told("GET", f"/v1/tasks/{task}/pushNotificationConfigs"))["configs"]
        assert sorted(config_of(told, task)[1]["id"] for told in listed) == sorted(["own", "q", made["id"]])


SNAKE: list[tuple[str, dict[str, Any], str]] = [
    ("", {"task_id": "TASK", "push_notification_config": {"id": "s", "url": URL}}, "s"),
    ("?configId=s5", {"push_notification_config_id": "s5", "push_notification_config": {"url": URL}}, "s5"),
    (
        "?config_id=s5",
        {"config": {"push_notification_config_id": "s5", "push_notification_config": {"url": URL}}},
        "s5",
    ),
    ("", {"parent": "tasks/TASK", "config_id": "w", "config": {"push_notification_config": {"url": URL}}}, "w"),
    ("", {"config_id": "w", "push_notification_config": {"url": URL}}, "w"),
    ("", {"parent": "task/TASK/pushNotificationConfigs", "configId": "w", "config": inner()}, "w"),
    ("", {"parent": "", "configId": "", "taskId": "", "pushNotificationConfigId": "", **inner(id="w")}, "w"),
]


@pytest.mark.req("CONF-71", "LRES-06", "CONF-31", "LGRP-02")
@pytest.mark.parametrize(("query", "body", "config_id"), SNAKE)
async def test_a_config_is_created_in_any_spelling_of_its_members(
    query: str, body: dict[str, Any], config_id: str, where: Where
) -> None:
    async with old_serving(Stage().agent, where, push_notifications=True) as (_, client):
        task = (await client.call("message/send", say("paint", skill="ask")))["id"]
        told = json.loads(json.dumps(body).replace("TASK", task))
        path = f"/v1/tasks/{task}/pushNotificationConfigs"
        spelling, made = config_of(await client.told("POST", path + query, told), task)
        assert (spelling, made) == (
            "kind" if "task_id" in body or "taskId" in body else "proto",
            {"id": config_id, "url": URL},
        )


@pytest.mark.req("LGRP-02", "LMAP-01")
async def test_an_id_with_a_slash_of_1_0_has_a_name_that_can_be_read_again(where: Where) -> None:
    async with old_serving(Stage().agent, where, push_notifications=True) as (world, client):
        task = (await client.call("message/send", say("paint", skill="ask")))["id"]
        new = pb.TaskPushNotificationConfig(task_id=task, id="s/t%2F", url=URL)
        await world.stub.CreateTaskPushNotificationConfig(new)
        path = f"/v1/tasks/{task}/pushNotificationConfigs"
        (told,) = (await client.told("GET", path))["configs"]
        assert told["name"] == f"tasks/{task}/pushNotificationConfigs/s%2Ft%252F"
        assert told["pushNotificationConfig"]["id"] == "s/t%2F"
        assert await client.told("GET", f"{path}/s%2Ft%252F") == told
        assert await client.told("DELETE", f"{path}/s%2Ft%252F") == {}
        assert await client.told("GET", path) == {}


@pytest.mark.req("LRES-01", "LRES-06")
async def test_configs_are_got_listed_in_pages_and_deleted(where: Where) -> None:
    async with old_serving(Stage().agent, where, push_notifications=True) as (_, client):
        task = (await client.call("message/send", say("paint", skill="ask")))["id"]
        path = f"/v1/tasks/{task}/pushNotificationConfigs"
        for number in range(3):
            await client.told("POST", f"{path}?configId=c-{number}", FORMS["bare"](task))
        name = f"tasks/{task}/pushNotificationConfigs/c-1"
        got = {"name": name, "pushNotificationConfig": {"id": "c-1", "url": URL}}
        assert await client.told("GET", f"{path}/c-1") == got
        whole = await client.told("GET", path)
        assert [*whole] == ["configs"]
        assert len(whole["configs"]) == 3
        page = await client.told("GET", f"{path}?pageSize=2")
        assert len(page["configs"]) == 2
        rest = await client.told("GET", f"{path}?pageSize=2&pageToken={quote(page['nextPageToken'])}")
        assert page["configs"] + rest["configs"] == whole["configs"]
        assert await client.told("DELETE", f"{path}/c-1") == {}
        assert len((await client.told("GET", path))["configs"]) == 2
        error = await client.refused("GET", f"{path}/c-1")
        assert (error["code"], error["details"][0]["metadata"]["jsonrpcCode"]) == (404, "-32001")


@pytest.mark.req("LRES-06")
@pytest.mark.parametrize("member", ["pushNotification", "pushNotificationConfig", "push_notification"])
@pytest.mark.parametrize("words", [say, tell])
async def test_a_config_comes_with_a_send_by_any_of_its_names(member: str, words: Any, where: Where) -> None:
    """CONF-33: the schema and the proto call it differently, and both are read."""
    async with old_serving(Stage().agent, where, push_notifications=True) as (_, client):
        body = words("paint", skill="ask", configuration={"blocking": True, member: {"id": "i", "url": URL}})
        task = (await client.told("POST", "/v1/message:send", body))["task"]["id"]
        listed = (await client.told("GET", f"/v1/tasks/{task}/pushNotificationConfigs"))["configs"]
    assert [config_of(told, task)[1]["id"] for told in listed] == ["i"]


@pytest.mark.req("CONF-54", "DOOR-03")
@pytest.mark.parametrize("empty", [{}, None])
async def test_an_empty_config_beside_a_member_without_a_name_is_none(empty: Any, where: Where) -> None:
    async with old_serving(Stage().agent, where, push_notifications=True) as (_, client):
        configuration = {"blocking": True, "pushNotification": empty, "": [False, None]}
        answer = await client.post(say("paint", configuration=configuration), path="/v1/message:send")
    if empty is None:
        assert answer.status == 200
    else:
        assert (answer.status, answer.json["error"]["code"]) == (400, 400)
        assert "pushNotification" in str(answer.json)
