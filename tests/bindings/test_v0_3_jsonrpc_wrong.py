"""Params of 0.3 that are wrong, each complained of as the client has spelt it (spec: LRPC-04, ERRS-05, CONF-76)."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Violation
from tests.bindings.test_http_errors import Refusing
from tests.bindings.test_v0_3_jsonrpc_errors import HOOK, METHODS, PARAMS
from tests.support.door_old import WHERE, Where, old_gateway, old_serving, say
from tests.support.door_upstream import Scripted
from tests.support.house import A2AError, Reason
from tests.support.stage import Stage


def violations(error: Any) -> dict[str, str]:
    return {fault["field"]: fault["description"] for fault in error["data"]["violations"]}


def text_part(**more: Any) -> dict[str, Any]:
    return {"kind": "text", "text": "x", **more}


WRONG = {
    "the kind of the message": (say(kind="task"), "message.kind", '"message"'),
    "the kind of a part": (say(parts=[{"kind": "image", "text": "x"}]), "message.parts[0].kind", "text"),
    "a part of another kind than it says": (say(parts=[{"kind": "file", "text": "x"}]), "message.parts[0]", "file"),
    "the role": (say(role="ROBOT"), "message.role", "user or agent"),
    "no parts": (say(parts=[]), "message.parts", "at least one"),
    "no id": (
        {"message": {"kind": "message", "role": "user", "parts": [text_part()]}},
        "message.messageId",
        "required",
    ),
    "no message": ({}, "message", "required"),
    "a negative length": (say(configuration={"historyLength": -1}), "configuration.historyLength", "negative"),
}


@pytest.mark.req("LRPC-04", "LRPC-07", "ERRS-05")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_member_is_named_as_the_client_has_spelt_it(wrong: str, where: Where) -> None:
    params, field, right = WRONG[wrong]
    async with old_serving(Stage().agent, where) as (_, client):
        error = await client.fault("message/send", params)
    assert error["code"] == -32602  # CONF-76: not -32600
    assert error["message"].startswith("Invalid parameters: ")
    assert error["data"]["reason"] == "INVALID_PARAMS"
    told = violations(error)
    assert any(name.startswith(field) and right in text for name, text in told.items()), told


RESPELT = {
    "message.parts[0].media_type": "message.parts[0].file.mimeType",
    "message.parts[10].raw": "message.parts[10].file.bytes",
    "message.parts[0].url": "message.parts[0].file.uri",
    "message.parts[0].filename": "message.parts[0].file.name",
    "message.parts[0].text": "message.parts[0].text",
    "message.message_id": "message.messageId",
    'message.metadata["my_key.raw"]': 'message.metadata["my_key.raw"]',
    "configuration.return_immediately": "configuration.blocking",
    "configuration.history_length": "configuration.historyLength",
    "configuration.task_push_notification_config": "configuration.pushNotificationConfig",
    "configuration.task_push_notification_config.url": "configuration.pushNotificationConfig.url",
    "configuration.task_push_notification_config.authentication.scheme": (
        "configuration.pushNotificationConfig.authentication.schemes"
    ),
    "metadata": "metadata",
}
CONFIGS = {
    "task_id": "taskId",
    "id": "pushNotificationConfig.id",
    "url": "pushNotificationConfig.url",
    "token": "pushNotificationConfig.token",
    "authentication.scheme": "pushNotificationConfig.authentication.schemes",
    "authentication.credentials": "pushNotificationConfig.authentication.credentials",
    "authentication": "pushNotificationConfig.authentication",
}
NAMED = {"task_id": "id", "id": "pushNotificationConfigId"}


@pytest.mark.req("ERRS-05", "LRPC-07")
@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("message/send", RESPELT),
        ("message/stream", RESPELT),
        ("tasks/pushNotificationConfig/set", CONFIGS),
        ("tasks/pushNotificationConfig/get", NAMED),
        ("tasks/pushNotificationConfig/delete", NAMED),
        ("tasks/pushNotificationConfig/list", {"task_id": "id"}),
        ("tasks/get", {"id": "id", "history_length": "historyLength"}),
    ],
)
async def test_what_the_server_complains_of_is_spelt_for_the_client(method: str, fields: dict[str, str]) -> None:
    for one, shown in fields.items():
        error = A2AError(Reason.INVALID_PARAMS, f"{one}: is wrong", violations=[Violation(one, "is wrong")])
        async with old_gateway(Refusing(error)) as client:
            told = await client.fault(method, PARAMS[method])
        assert told["message"] == f"Invalid parameters: {shown}: is wrong"
        assert violations(told) == {shown: "is wrong"}


@pytest.mark.req("CONF-31", "LRPC-01", "ERRS-05")
@pytest.mark.parametrize("where", WHERE)
async def test_an_id_beside_a_config_is_not_replaced_by_another(where: Where) -> None:
    async with old_serving(Stage().agent, where, push_notifications=True) as (_, client):
        task = await client.call("message/send", say())
        params = {"taskId": task["id"], "id": "x", "pushNotificationConfig": HOOK}
        error = await client.fault("tasks/pushNotificationConfig/set", params)
        assert (error["code"], violations(error)) == (-32602, {"id": 'is for "pushNotificationConfig" to hold'})
        assert await client.call("tasks/pushNotificationConfig/list", {"id": task["id"]}) == []


# -- tenants


@pytest.mark.req("TENA-03", "TENA-05")
@pytest.mark.parametrize("method", METHODS)
async def test_a_tenant_among_the_params_is_refused(method: str) -> None:
    """0.3 says it by the path; to ignore it would be a call in another tenant's space."""
    said = "is A2A 1.0's; 0.3 has it in the path, as in /{tenant}/v1/tasks or /{tenant}/"
    upstream = Scripted()
    async with old_gateway(upstream, tenants=True) as client:
        for path in ("/", "/acme/"):
            error = await client.fault(method, {**PARAMS[method], "tenant": "zz"}, path=path)
            assert (error["code"], violations(error)) == (-32602, {"tenant": said})
    assert not upstream.asked


@pytest.mark.req("TENA-03", "TENA-05")
async def test_so_is_another_one_in_the_query() -> None:
    said = "is A2A 1.0's in the query; 0.3 has it in the path, as in /{tenant}/v1/tasks"
    upstream = Scripted(pb.Task(id="t"))
    async with old_gateway(upstream, tenants=True) as client:
        for path in ("/?tenant=acme", "/acme/?tenant=zz"):
            error = await client.fault("tasks/get", {"id": "t"}, path=path)
            assert (error["code"], violations(error)) == (-32602, {"tenant": said})
        assert not upstream.asked
        assert (await client.call("tasks/get", {"id": "t"}, path="/acme/?tenant=acme"))["id"] == "t"
        assert [request.tenant for _, request, _ in upstream.asked] == ["acme"]  # type: ignore[attr-defined]
