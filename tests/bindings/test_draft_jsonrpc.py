"""The draft over JSON-RPC: names of 1.0 but for two, resources by name or id (spec: DRFT-06, CONF-05, CONF-70)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bindings.actors import Gate, waiting
from tests.support.door_draft import draft_serving, kinds, request, say, texts, violations
from tests.support.door_old import WHERE, Where
from tests.support.stage import Stage
from tests.support.world import ByHeader

HOOK = {"url": "https://hooks.example/a2a", "token": "t-1"}
SHOWN = {**HOOK, "token": "****"}
METHODS = (
    "SendMessage, SendStreamingMessage, GetTask, ListTasks, CancelTask, SubscribeToTask, "
    "SetTaskPushNotificationConfig, GetTaskPushNotificationConfig, ListTaskPushNotificationConfig, "
    "GetExtendedAgentCard, DeleteTaskPushNotificationConfig"
)

pytestmark = pytest.mark.parametrize("where", WHERE)


@pytest.mark.req("DRFT-06", "DRFT-02")
@pytest.mark.parametrize("path", ["", "/"])
async def test_sends_and_tasks(where: Where, path: str) -> None:
    async with draft_serving(Stage().agent, where) as (_, client):
        told = await client.call("SendMessage", say("paint", skill="ask"), path=path)
        task = told["task"]
        assert (list(told), task["status"]["state"]) == (["task"], "input-required")
        name = f"tasks/{task['id']}"
        for params in ({"id": task["id"]}, {"name": name}, {"name": name, "id": task["id"]}):
            assert await client.call("GetTask", params, path=path) == task
        assert "history" not in await client.call("GetTask", {"name": name, "historyLength": 0}, path=path)
        listed = await client.call("ListTasks", {"status": "input-required", "lastUpdatedAfter": 1}, path=path)
        assert listed == {"tasks": [task], "nextPageToken": "", "pageSize": 50, "totalSize": 1}
        cancelled = await client.call("CancelTask", {"name": name}, path=path)
        assert cancelled["status"]["state"] == "cancelled"
        said = await client.call("SendMessage", say("hi", skill="chat"), path=path)
        assert said["message"]["parts"] == [{"text": "you said hi"}]


@pytest.mark.req("DRFT-06", "DRFT-02")
@pytest.mark.parametrize("by", ["id", "name"])
async def test_streams(where: Where, by: str) -> None:
    gate = Gate()
    async with draft_serving(waiting(gate), where) as (_, client):
        sent = (await client.call("SendMessage", say(blocking=None)))["task"]
        await gate.reached.wait()
        params = {"id": sent["id"]} if by == "id" else {"name": f"tasks/{sent['id']}"}
        async with client.streaming("SubscribeToTask", params) as found:
            assert kinds([await anext(found)]) == ["task"]
            gate.open()
            assert kinds([event async for event in found])[-1] == "completed!"
        assert (await client.fault("SubscribeToTask", params))["code"] == -32004
        all_of_it = kinds(await client.stream("SendStreamingMessage", say()))
        assert (all_of_it[0], all_of_it[-1]) == ("task", "completed!")


@pytest.mark.req("DRFT-06", "DRFT-04")
async def test_push_configs(where: Where) -> None:
    async with draft_serving(Stage().agent, where, push_notifications=True) as (_, client):
        task = (await client.call("SendMessage", say("paint", skill="ask")))["task"]
        parent = f"tasks/{task['id']}"
        name = f"{parent}/pushNotificationConfigs/w1"
        expected = {"name": name, "pushNotificationConfig": {"id": "w1", **SHOWN}}
        for params in (
            {"parent": parent, "configId": "w1", "config": {"pushNotificationConfig": HOOK}},
            {"parent": parent, "configId": "w1", "config": {"name": name, "pushNotificationConfig": HOOK}},
            {"name": name, "pushNotificationConfig": HOOK},
            {"taskId": task["id"], "configId": "w1", "pushNotificationConfig": HOOK},
        ):
            assert await client.call("SetTaskPushNotificationConfig", params) == expected
        for params in ({"name": name}, {"taskId": task["id"], "id": "w1"}):
            assert await client.call("GetTaskPushNotificationConfig", params) == expected
        for params in ({"parent": parent}, {"name": parent}, {"id": task["id"]}, {"taskId": task["id"]}):
            assert await client.call("ListTaskPushNotificationConfig", params) == {"configs": [expected]}
        assert await client.call("DeleteTaskPushNotificationConfig", {"name": name}) == {}
        assert await client.call("ListTaskPushNotificationConfig", {"parent": parent}) == {}


@pytest.mark.req("DRFT-06", "DRFT-05")
async def test_the_extended_card(where: Where) -> None:
    def extended(card: Any, _: object) -> Any:
        card.skills.add(id="secret", name="Secret", description="Not for all.", tags=["test"])
        return card

    async with draft_serving(Stage(extended=extended).agent, where, authenticator=ByHeader()) as (_, client):
        card = await client.call("GetExtendedAgentCard", {}, x_user="root")
        assert (card["protocolVersion"], card["skills"][-1]["id"]) == ("0.3.0", "secret")
        assert card == await client.told("GET", "/v1/extendedAgentCard", x_user="root")


@pytest.mark.req("DRFT-06", "ERRS-05")
@pytest.mark.parametrize(
    ("method", "params", "found"),
    [
        ("GetTask", {"name": "tasks/t", "id": "u"}, {"id": 'says "u" where name says "t"'}),
        ("GetTask", {"name": "t"}, {"name": 'must be a name such as "tasks/{id}", got "t"'}),
        ("GetTask", {}, {"id": "is required"}),
        ("CancelTask", {"name": 1}, {"name": 'must be a name such as "tasks/{id}", got 1'}),
        (
            "GetTaskPushNotificationConfig",
            {"name": "tasks/t/pushNotificationConfigs/w", "taskId": "u"},
            {"taskId": 'says "u" where name says "t"'},
        ),
        (
            "SetTaskPushNotificationConfig",
            {"parent": "tasks/t", "configId": "v", "config": {"pushNotificationConfig": {"id": "w", **HOOK}}},
            {"configId": 'says "v" where config.pushNotificationConfig.id says "w"'},
        ),
        (
            "SetTaskPushNotificationConfig",
            {"parent": "tasks/t", "pushNotificationConfig": {}},
            {"pushNotificationConfig.url": "is required"},
        ),
        ("SendMessage", {"message": {"role": "user"}}, {"message.messageId": "is required"}),
        ("ListTasks", {"lastUpdatedAfter": "x"}, {"lastUpdatedAfter": None}),
    ],
)
async def test_wrong_params(where: Where, method: str, params: Any, found: dict[str, str | None]) -> None:
    async with draft_serving(Stage().agent, where, push_notifications=True) as (_, client):
        fault = await client.fault(method, params)
        assert (fault["code"], fault["message"].partition(":")[0]) == (-32602, "Invalid parameters")
        told = violations(fault["data"])
        assert {name: told[name] if text else None for name, text in found.items()} == found


@pytest.mark.req("DRFT-06")
@pytest.mark.parametrize(
    "method",
    ["CreateTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "message/send", "tasks/get", "Nope"],
)
async def test_each_method_has_the_name_of_the_draft_and_no_other(where: Where, method: str) -> None:
    async with draft_serving(Stage().agent, where) as (_, client):
        fault = await client.fault(method, {})
    assert fault["code"] == -32601
    assert fault["message"] == f'Method not found: method: "{method}" is none of those of the draft: {METHODS}'
    assert fault["data"]["reason"] == "METHOD_NOT_FOUND"


@pytest.mark.req("DRFT-06", "JRPC-04")
@pytest.mark.parametrize(
    ("body", "code", "request_id"),
    [
        (b"{", -32700, None),
        ([], -32600, None),
        ({"jsonrpc": "2.0", "method": "GetTask", "params": {"name": "tasks/t"}}, -32600, None),
        ({"jsonrpc": "2.0", "method": "Nonsense"}, -32601, None),
        ({"jsonrpc": "2.0", "method": "GetTask", "params": [1]}, -32602, None),
        ({"jsonrpc": "1.0", "id": 3, "method": "GetTask"}, -32600, 3),
        ({"jsonrpc": "2.0", "id": 3, "method": "GetTask", "params": [1]}, -32602, 3),
    ],
)
async def test_wrong_envelopes(where: Where, body: Any, code: int, request_id: Any) -> None:
    async with draft_serving(Stage().agent, where) as (_, client):
        answer = await client.post(body)
    assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (200, request_id, code)
    assert next(iter(answer.json["error"]["data"])) == "reason"


@pytest.mark.req("DRFT-01", "DRFT-06", "TENA-01")
async def test_tenants_are_params(where: Where) -> None:
    async with draft_serving(Stage().agent, where) as (_, client):
        task = (await client.call("SendMessage", {"tenant": "north", **say()}))["task"]
        got = await client.call("GetTask", {"tenant": "north", "name": f"tasks/{task['id']}"})
        assert texts(got) == ["hello"]
        assert (await client.fault("GetTask", {"id": task["id"]}))["code"] == -32001
        assert (await client.told("GET", f"/north/v1/tasks/{task['id']}"))["id"] == task["id"]


async def test_a_body_of_another_type_is_refused(where: Where) -> None:
    async with draft_serving(Stage().agent, where) as (_, client):
        answer = await client.post(request("GetTask", {"id": "t"}), content_type="text/plain")
        assert (answer.status, answer.json["error"]["code"]) == (200, -32005)
