"""What 0.3 says, said to 1.0 over HTTP: states are understood, members are refused before anything happens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.http import get, house, once, port_of, post
from tests.support.stage import Stage

HOOK = {"url": "https://hooks.example/"}


def call(method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def message(part: Any = None, **members: Any) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_USER", "parts": [part or {"text": "hello"}], **members}


@pytest.mark.req("LIST-04", "QPAR-02", "JSON-03")
async def test_states_are_understood_in_every_spelling() -> None:
    async with house(Stage().agent) as server:
        port = port_of(server)
        sent = {"message": message(), "metadata": {"skill": "hold"}, "configuration": {"returnImmediately": True}}
        task_id = (await once(port, post("/message:send", json.dumps(sent).encode()))).json["task"]["id"]
        await once(port, post(f"/tasks/{task_id}:cancel", b""))
        for word in ("TASK_STATE_CANCELLED", "TASK_STATE_CANCELED", "canceled", "cancelled", "5"):
            listed = (await once(port, get(f"/tasks?status={word}"))).json
            assert [task["status"]["state"] for task in listed["tasks"]] == ["TASK_STATE_CANCELED"]
            asked = await once(port, post("/", call("ListTasks", {"status": word})))
            assert asked.json["result"] == listed
        assert (await once(port, get("/tasks?status=input-required"))).json["tasks"] == []


SENDS: dict[str, tuple[Any, str]] = {
    "a config": (
        {"message": message(), "configuration": {"pushNotificationConfig": HOOK}},
        "configuration.pushNotificationConfig",
    ),
    "content": ({"message": message(content=[{"text": "x"}])}, "message.content"),
    "a file beside a text": ({"message": message({"text": "x", "file": {"uri": "u:x"}})}, "message.parts[0].file"),
    "a part's kind": ({"message": message({"kind": "data", "text": "x"})}, "message.parts[0].kind"),
    "the message's kind": ({"message": message(kind="task")}, "message.kind"),
    "an input request": ({"message": message(inputRequest={"prompt": "x"})}, "message.inputRequest"),
}


def violations(details: Any) -> dict[str, str]:
    (bad,) = [detail for detail in details if detail["@type"].endswith("BadRequest")]
    return {fault["field"]: fault["description"] for fault in bad["fieldViolations"]}


@pytest.mark.req("ERRS-05", "GEN-03", "LMAP-03")
@pytest.mark.parametrize("wrong", SENDS)
async def test_members_of_0_3_are_refused_and_nothing_happens(wrong: str) -> None:
    body, field = SENDS[wrong]
    stage = Stage()
    async with house(stage.agent) as server:
        port = port_of(server)
        for path in ("/message:send", "/message:stream"):
            answer = await once(port, post(path, json.dumps(body).encode()))
            assert (answer.status, answer.reason) == (400, "INVALID_PARAMS")
            ((told, said),) = violations(answer.json["error"]["details"]).items()
            assert (told, said[:11]) == (field, "is A2A 0.3'")
        error = (await once(port, post("/", call("SendMessage", body)))).json["error"]
        assert (error["code"], violations(error["data"])) == (-32602, {field: said})
    assert not stage.turns


@pytest.mark.parametrize("configuration", [{"blocking": False}, {"blocking": False, "returnImmediately": True}])
async def test_a_send_may_say_blocking(configuration: Any) -> None:
    """003_948a34a4b58ed601.txt has it, as the opposite of `returnImmediately` (CONF-82)."""
    async with house(Stage().agent) as server:
        port = port_of(server)
        body = {"message": message(), "metadata": {"skill": "hold"}, "configuration": configuration}
        answers = [
            (await once(port, post("/message:send", json.dumps(body).encode()))).json["task"],
            (await once(port, post("/", call("SendMessage", body)))).json["result"]["task"],
        ]
        assert {task["status"]["state"] for task in answers} <= {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
        waiting = {"message": message(), "configuration": {"blocking": True}}
        task = (await once(port, post("/message:send", json.dumps(waiting).encode()))).json["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.req("ERRS-05", "GEN-06")
@pytest.mark.parametrize(
    ("configuration", "told"),
    [
        ({"blocking": True, "returnImmediately": True}, "contradicts returnImmediately"),
        ({"blocking": False, "return_immediately": False}, "contradicts returnImmediately"),
        ({"blocking": "yes"}, "must be true or false"),
    ],
)
async def test_but_nothing_that_contradicts_it(configuration: Any, told: str) -> None:
    stage = Stage()
    body = {"message": message(), "configuration": configuration}
    async with house(stage.agent) as server:
        port = port_of(server)
        answer = await once(port, post("/message:send", json.dumps(body).encode()))
        assert (answer.status, violations(answer.json["error"]["details"])) == (400, {"configuration.blocking": told})
        error = (await once(port, post("/", call("SendMessage", body)))).json["error"]
        assert (error["code"], violations(error["data"])) == (-32602, {"configuration.blocking": told})
    assert not stage.turns


@pytest.mark.req("ERRS-05", "GEN-06")
async def test_so_are_they_in_the_query_and_in_configs() -> None:
    async with house(Stage().agent) as server:
        port = port_of(server)
        configs = "/tasks/t/pushNotificationConfigs"
        wrong: list[tuple[bytes, dict[str, str]]] = [
            (post(f"{configs}?config_id=c", json.dumps(HOOK).encode()), {"configId": 'is A2A 0.3\'s; 1.0 has "id"'}),
            (
                post(configs, json.dumps({"pushNotificationConfig": HOOK}).encode()),
                {"pushNotificationConfig": "is A2A 0.3's; 1.0 has its members here"},
            ),
            (
                get("/tasks?lastUpdatedAfter=1"),
                {"lastUpdatedAfter": 'is the draft\'s; 1.0 has "statusTimestampAfter", such as 2026-02-03T04:05:06Z'},
            ),
            (post("/tasks/t:cancel", b'{"name":"tasks/u"}'), {"name": 'is A2A 0.3\'s; 1.0 has "id"'}),
        ]
        for request, told in wrong:
            answer = await once(port, request)
            assert (answer.status, violations(answer.json["error"]["details"])) == (400, told)
        for harmless in ("/tasks?unheardOf=1&kind=task&A2A-Version=1.0", "/tasks?metadata=1"):
            assert (await once(port, get(harmless))).status == 200
