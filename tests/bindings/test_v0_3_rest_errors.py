"""What clients get wrong over REST of 0.3: paths, names, spellings, contradictions (LRES-05, -06, -09, LGRP-02)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Violation
from tests.bindings.test_http_errors import Refusing
from tests.support.door_old import OldClient, old_gateway, say, tell
from tests.support.door_upstream import Scripted
from tests.support.doors import http_door
from tests.support.house import A2AError, Reason
from tests.support.http import get, once

HOOK = {"url": "https://hooks.example/"}
BAD = "type.googleapis.com/google.rpc.BadRequest"
CONFIGS = "/v1/tasks/t/pushNotificationConfigs"


@asynccontextmanager
async def scripted(answer: Any = None, **chosen: Any) -> AsyncIterator[tuple[Scripted, OldClient]]:
    upstream = Scripted(answer)
    async with old_gateway(upstream, **chosen) as client:
        yield upstream, client


def violations(error: Any) -> dict[str, str]:
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT"), error
    (bad,) = [detail for detail in error["details"] if detail["@type"] == BAD]
    return {fault["field"]: fault["description"] for fault in bad["fieldViolations"]}


@pytest.mark.req("LRES-09", "LRES-01")
@pytest.mark.parametrize(
    "path",
    [
        "/v1/",
        "/v1/nope",
        "/v1/tasks/",
        "/v1/tasks/t/",
        "/v1/tasks/t:nope/x",
        "/v1/task/t",
        "/v1/extendedAgentCard",
        "/v1//tasks",
    ],
)
async def test_an_unknown_path_is_answered_in_the_shape_of_0_3(path: str) -> None:
    async with scripted() as (upstream, client):
        error = await client.refused("GET", path)
        assert (error["code"], error["status"]) == (404, "NOT_FOUND")
        assert error["message"].startswith("There is nothing at this path.")
        assert error["details"][0]["reason"] == "PATH_NOT_FOUND"
        assert not upstream.asked


@pytest.mark.req("LRES-09")
@pytest.mark.parametrize(
    ("verb", "path", "allow"),
    [
        ("GET", "/v1/message:send", "OPTIONS, POST"),
        ("PUT", "/v1/tasks/t", "GET, HEAD, OPTIONS"),
        ("POST", "/v1/card", "GET, HEAD, OPTIONS"),
        ("POST", "/v1/tasks", "GET, HEAD, OPTIONS"),
        ("PATCH", f"{CONFIGS}/c", "DELETE, GET, HEAD, OPTIONS"),
        ("PUT", "/v1/tasks/t:subscribe", "GET, HEAD, OPTIONS, POST"),
        ("GET", "/v1/task/t/pushNotificationConfigs", "OPTIONS, POST"),
    ],
)
async def test_a_wrong_verb_is_told_the_right_ones(verb: str, path: str, allow: str) -> None:
    async with scripted() as (upstream, client):
        answer = await client.rest(verb, path)
        assert answer.status == 405
        assert answer.headers["Allow"] == allow
        error = await client.refused(verb, path)
        assert (error["status"], error["details"][0]["reason"]) == ("UNIMPLEMENTED", "METHOD_NOT_ALLOWED")
        assert not upstream.asked
        port = int(client.base.rpartition(":")[2])
        preflight = await once(port, get(path, verb="OPTIONS"))
        assert (preflight.status, preflight.headers["Allow"]) == (204, allow)


async def test_nothing_is_nothing_for_browsers_either() -> None:
    async with scripted() as (_, client):
        port = int(client.base.rpartition(":")[2])
        assert (await once(port, get("/v1/nope", verb="OPTIONS"))).status == 404
        head = await once(port, get("/v1/tasks/t", verb="HEAD"), head=True)
        assert (head.status, head.headers["Content-Type"]) == (200, "application/json")


MIXED: Mapping[str, tuple[Any, str]] = {
    "role of the schema": (tell(role="user"), "message.role"),
    "role of the proto": (say(role="ROLE_USER"), "message.role"),
    "a body of 1.0": (
        {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}},
        "message.role",
    ),
    "a setting of 1.0": (tell(configuration={"returnImmediately": True}), "configuration.returnImmediately"),
}


@pytest.mark.req("LRES-05", "ERRS-05")
@pytest.mark.parametrize("mix", MIXED)
async def test_a_body_keeps_to_one_spelling(mix: str) -> None:
    body, field = MIXED[mix]
    async with scripted() as (upstream, client):
        for path in ("/v1/message:send", "/v1/message:stream"):
            told = violations(await client.refused("POST", path, body))
            assert any(name.startswith(field) for name in told), told
        assert not upstream.asked


@pytest.mark.req("REST-03", "ERRS-05")
@pytest.mark.parametrize("body", [say(), tell()])
async def test_1_0_does_not_read_bodies_of_0_3(body: Any) -> None:
    """The reverse, said in the shape of 1.0."""
    async with scripted() as (_, client), client.session.post(f"{client.base}/message:send", json=body) as response:
        told = await response.json(content_type=None)
        assert response.status == 400
        assert [*told] == ["error"]


@pytest.mark.req("LRES-09", "ERRS-05")
@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"7", b'{"message":[]}', b'{"message":{"parts":{}}}'])
@pytest.mark.parametrize("path", ["/v1/message:send", CONFIGS, "/v1/tasks/t:cancel"])
async def test_a_body_that_is_none_is_refused(path: str, body: bytes) -> None:
    async with scripted() as (upstream, client):
        if path.endswith(":cancel") and body.startswith(b'{"'):
            return  # unknown members are ignored
        error = await client.refused("POST", path, body, content_type="application/json")
        assert error["status"] == "INVALID_ARGUMENT"
        assert not upstream.asked


@pytest.mark.req("LGRP-02", "LRES-06")
@pytest.mark.parametrize(
    ("verb", "path", "body", "fields"),
    [
        ("POST", "/v1/tasks/t:cancel", {"name": "tasks/x"}, {"name"}),
        ("POST", "/v1/tasks/t:cancel", {"name": "x"}, {"name"}),
        ("POST", "/v1/tasks/t:subscribe", {"name": "tasks/"}, {"name"}),
        ("POST", "/v1/tasks/t:cancel", {"name": "t"}, {"name"}),
        ("POST", "/v1/tasks/t:cancel", {"name": "task/t"}, {"name"}),
        ("POST", "/v1/tasks/t:cancel", {"name": "tasks/t/pushNotificationConfigs"}, {"name"}),
        ("POST", "/v1/tasks/t:subscribe", {"name": 7}, {"name"}),
        ("POST", "/v1/tasks/t:subscribe", {"name": ["tasks/t"]}, {"name"}),
        ("POST", "/v1/tasks/t:cancel", {"id": "x"}, {"id"}),
        ("POST", "/v1/tasks/t:cancel", {"metadata": 7}, {"metadata"}),
        ("GET", "/v1/tasks/t?name=tasks/x", ..., {"name"}),
        ("GET", f"{CONFIGS}?parent=tasks/x", ..., {"parent"}),
        ("GET", f"{CONFIGS}/c?name=tasks/t/pushNotificationConfigs/d", ..., {"name"}),
        ("GET", "/v1/tasks/t?historyLength=many", ..., {"historyLength"}),
        ("GET", "/v1/tasks?pageSize=1&pageSize=2", ..., {"pageSize"}),
        ("GET", "/v1/tasks?status=started-again", ..., {"status"}),
        ("POST", CONFIGS, {"name": "tasks/x/pushNotificationConfigs/c", "pushNotificationConfig": HOOK}, {"name"}),
        ("POST", CONFIGS, {"name": "c", "pushNotificationConfig": HOOK}, {"name"}),
        ("POST", CONFIGS, {"taskId": "x", "pushNotificationConfig": HOOK}, {"taskId"}),
        ("POST", CONFIGS, {"config": {"taskId": "x", "pushNotificationConfig": HOOK}}, {"config.taskId"}),
        ("POST", CONFIGS, {"config": {"name": "c", "pushNotificationConfig": HOOK}}, {"config.name"}),
        ("POST", CONFIGS, {"parent": "tasks/x", "config": {"pushNotificationConfig": HOOK}}, {"parent"}),
        ("POST", CONFIGS, {"parent": "t", "config": {"pushNotificationConfig": HOOK}}, {"parent"}),
        ("POST", CONFIGS, {"parent": 0, "config": {"pushNotificationConfig": HOOK}}, {"parent"}),
        ("POST", CONFIGS, {"parent": "task/t", "config": {"pushNotificationConfig": HOOK}}, {"parent"}),
        ("POST", CONFIGS, {"parent": "task/t", "pushNotificationConfig": HOOK}, {"parent"}),
        ("POST", CONFIGS, {"tenant": "x", "config": {"pushNotificationConfig": HOOK}}, {"tenant"}),
        ("POST", CONFIGS, {"config": {"tenant": "x", "pushNotificationConfig": HOOK}}, {"config.tenant"}),
        ("POST", CONFIGS, {"id": "c", "config": {"pushNotificationConfig": HOOK}}, {"id"}),
        ("POST", CONFIGS, {"id": "c", "pushNotificationConfig": HOOK}, {"id"}),
        ("POST", CONFIGS, {"taskId": "t", "task_id": "t", "pushNotificationConfig": HOOK}, {"taskId"}),
        (
            "POST",
            CONFIGS,
            {"config": {"pushNotificationConfig": HOOK, "push_notification_config": HOOK}},
            {"config.pushNotificationConfig"},
        ),
        ("POST", CONFIGS, {"task_id": "x", "push_notification_config": HOOK}, {"taskId"}),
        (
            "POST",
            f"{CONFIGS}?configId=s5",
            {"push_notification_config_id": "zz", "pushNotificationConfig": HOOK},
            {"pushNotificationConfigId"},
        ),
        ("POST", f"{CONFIGS}?configId=s5", {"configId": "zz", "pushNotificationConfig": HOOK}, {"configId"}),
        ("POST", f"{CONFIGS}?configId=a%2Fb", {"pushNotificationConfig": HOOK}, {"configId"}),
        ("POST", f"{CONFIGS}?configId=", {"pushNotificationConfig": HOOK}, {"configId"}),
        ("POST", CONFIGS, {"config_id": "a/b", "config": {"pushNotificationConfig": HOOK}}, {"configId"}),
        (
            "POST",
            CONFIGS,
            {"taskId": "t", "pushNotificationConfig": {**HOOK, "id": "a/b"}},
            {"pushNotificationConfig.id"},
        ),
        ("POST", CONFIGS, {"configId": 0, "pushNotificationConfig": HOOK}, {"configId"}),
        (
            "POST",
            "/v1/message:send",
            tell(configuration={"pushNotification": {**HOOK, "id": "a/b"}}),
            {"configuration.pushNotification.id"},
        ),
        ("POST", CONFIGS, {"config": 7}, {"config"}),
        ("POST", CONFIGS, {"config": HOOK}, {"config.url", "config.pushNotificationConfig"}),
        ("POST", CONFIGS, HOOK, {"url", "pushNotificationConfig"}),
        (
            "POST",
            f"{CONFIGS}?configId=a",
            {"pushNotificationConfig": {**HOOK, "id": "b"}},
            {"pushNotificationConfig.id"},
        ),
        (
            "POST",
            f"{CONFIGS}?configId=a",
            {
                "configId": "b",
                "config": {"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": {**HOOK, "id": "d"}},
            },
            {"configId", "config.name", "config.pushNotificationConfig.id"},
        ),
        ("POST", CONFIGS, {"pushNotificationConfig": {"url": 7}}, {"pushNotificationConfig.url"}),
        ("POST", CONFIGS, {"config": {"pushNotificationConfig": {"url": 7}}}, {"config.pushNotificationConfig.url"}),
        (
            "POST",
            CONFIGS,
            {"pushNotificationConfig": {**HOOK, "authentication": {"scheme": "Bearer"}}},
            {"pushNotificationConfig.authentication.scheme"},
        ),
    ],
)
async def test_names_and_contradictions(verb: str, path: str, body: Any, fields: set[str]) -> None:
    async with scripted() as (upstream, client):
        told = violations(await client.refused(verb, path, body))
        assert {*told} == fields, told
        assert not upstream.asked


RESPELT = {
    "message.parts[0].media_type": "message.content[0].file.mimeType",
    "message.parts[10].raw": "message.content[10].file.fileWithBytes",
    "message.parts[0].url": "message.content[0].file.fileWithUri",
    "message.parts[0].data": "message.content[0].data.data",
    "message.parts": "message.content",
    "message.reference_task_ids[0]": 'message.metadata["x-a2a-compat"].referenceTaskIds[0]',
    "configuration.return_immediately": "configuration.blocking",
    "configuration.task_push_notification_config.url": "configuration.pushNotification.url",
    "configuration.task_push_notification_config.authentication.scheme": (
        "configuration.pushNotification.authentication.schemes"
    ),
}
WRAPPED = {
    "task_id": "parent",
    "id": "configId",
    "url": "config.pushNotificationConfig.url",
    "authentication.scheme": "config.pushNotificationConfig.authentication.schemes",
}


@pytest.mark.req("ERRS-05", "LRES-09")
@pytest.mark.parametrize(
    ("verb", "path", "body", "fields"),
    [
        ("POST", "/v1/message:send", tell(), RESPELT),
        ("POST", "/v1/message:send", say(), {"message.parts[0].raw": "message.parts[0].file.bytes"}),
        ("GET", "/v1/tasks/t", ..., {"id": "name", "history_length": "historyLength"}),
        ("POST", "/v1/tasks/t:cancel", ..., {"id": "name"}),
        ("GET", CONFIGS, ..., {"task_id": "parent", "page_size": "pageSize"}),
        ("GET", f"{CONFIGS}/c", ..., {"task_id": "name", "id": "name"}),
        ("DELETE", f"{CONFIGS}/c", ..., {"task_id": "name", "id": "name"}),
        ("POST", CONFIGS, {"config": {"pushNotificationConfig": HOOK}}, WRAPPED),
        ("POST", CONFIGS, {"pushNotificationConfig": HOOK}, {"url": "pushNotificationConfig.url", "id": "configId"}),
    ],
)
async def test_what_the_server_complains_of_is_spelt_for_the_client(
    verb: str, path: str, body: Any, fields: dict[str, str]
) -> None:
    for one, shown in fields.items():
        error = A2AError(Reason.INVALID_PARAMS, f"{one}: is wrong", violations=[Violation(one, "is wrong")])
        async with old_gateway(Refusing(error)) as client:
            told = await client.refused(verb, path, body)
        assert told["message"] == f"{shown}: is wrong"
        assert violations(told) == {shown: "is wrong"}


IN_PATH = "is A2A 1.0's; 0.3 has it in the path, as in /{tenant}/v1/tasks or /{tenant}/"
IN_QUERY = "is A2A 1.0's in the query; 0.3 has it in the path, as in /{tenant}/v1/tasks"


@pytest.mark.req("TENA-03", "TENA-05", "LRES-08")
@pytest.mark.parametrize("root", ["", "/acme"])
@pytest.mark.parametrize(
    ("verb", "path", "body", "said"),
    [
        ("POST", "/v1/message:send", {**say(), "tenant": "zz"}, IN_PATH),
        ("POST", "/v1/message:stream", {**tell(), "tenant": "zz"}, IN_PATH),
        ("POST", "/v1/tasks/t:cancel", {"name": "tasks/t", "tenant": "zz"}, IN_PATH),
        ("POST", "/v1/tasks/t:subscribe", {"tenant": "zz"}, IN_PATH),
        ("POST", CONFIGS, {"tenant": "zz", "pushNotificationConfig": HOOK}, IN_PATH),
        ("POST", "/v1/message:send?tenant=zz", tell(), IN_QUERY),
        ("GET", "/v1/tasks?tenant=zz", ..., IN_QUERY),
        ("GET", "/v1/tasks/t?tenant=zz", ..., IN_QUERY),
        ("DELETE", f"{CONFIGS}/c?tenant=acme&tenant=zz", ..., IN_QUERY),
    ],
)
async def test_a_tenant_that_is_not_the_path_s_is_refused(
    root: str, verb: str, path: str, body: Any, said: str
) -> None:
    """0.3 says it by the path; to ignore what 1.0 says elsewhere would be a call in another tenant's space."""
    async with scripted(tenants=True) as (upstream, client):
        assert violations(await client.refused(verb, root + path, body)) == {"tenant": said}
        assert not upstream.asked


@pytest.mark.req("TENA-03", "LRES-08")
@pytest.mark.parametrize("query", ["?tenant=acme", "?tenant="])
async def test_a_query_may_repeat_the_tenant_of_the_path(query: str) -> None:
    async with scripted(pb.ListTasksResponse(next_page_token="more"), tenants=True) as (upstream, client):
        assert await client.told("GET", f"/acme/v1/tasks{query}") == []
        assert [request.tenant for _, request, _ in upstream.asked] == ["acme"]  # type: ignore[attr-defined]


@pytest.mark.req("LRES-09", "TENA-04")
@pytest.mark.parametrize("verb", ["GET", "POST"])
@pytest.mark.parametrize("tenants", [False, True])
async def test_where_nothing_is_a_client_of_0_3_is_told_so_in_its_shape(verb: str, *, tenants: bool) -> None:
    paths = ("/zzz/v1/nope", "/v%32/v1/nope", "/zzz/v1/")
    async with scripted(tenants=tenants) as (upstream, client):
        for path in (*paths, *(() if tenants else ("/zzz/v1/message:send", "/zzz/v1/tasks/t", "/acmee/v1/tasks"))):
            error = await client.refused(verb, path)
            assert (error["code"], error["status"]) == (404, "NOT_FOUND")
            assert error["message"] == "There is nothing at this path."
        # Of 1.0, where v1 may be a task.
        for path in ("/zzz/tasks/v1/nope", "/tasks/v1/nope", "/zzz/v1", "/acme/x", *(() if tenants else ("/acmee",))):
            async with client.session.request(verb, client.base + path) as response:
                assert (response.status, response.content_type) == (404, "application/a2a+json")
        assert not upstream.asked


@pytest.mark.req("CONF-70", "TENA-02")
async def test_json_rpc_of_a_tenant_answers_with_and_without_a_slash() -> None:
    async with scripted(pb.Task(id="t"), tenants=True) as (upstream, client):
        for path, tenant in (("/v2", "v2"), ("/v2/", "v2"), ("/b%20co", "b co"), ("/b%20co/", "b co")):
            assert (await client.call("tasks/get", {"id": "t"}, path=path))["id"] == "t"
            assert upstream.asked[-1][1].tenant == tenant  # type: ignore[attr-defined]
            wrong = await client.rest("GET", path)
            assert (wrong.status, wrong.headers["Allow"]) == (405, "OPTIONS, POST")
            port = int(client.base.rpartition(":")[2])
            preflight = await once(port, get(path, verb="OPTIONS"))
            assert (preflight.status, preflight.headers["Allow"]) == (204, "OPTIONS, POST")
        for path in ("/v1", "/tasks", "/.x", "/v2/x"):  # which are nobody's names, or no root
            async with client.session.post(client.base + path) as response:
                assert (response.status, response.content_type) in {
                    (404, "application/a2a+json"),
                    (405, "application/a2a+json"),
                }


@pytest.mark.req("LRES-01", "TENA-02")
async def test_without_0_3_its_paths_are_nothing_and_no_tenant_is_called_v1() -> None:
    upstream = Scripted(pb.ListTasksResponse())
    async with http_door(upstream) as door:
        for path in ("/v1/tasks", "/v1/card", "/v1/.well-known/agent-card.json"):
            answer = await once(door.port, get(path))
            assert answer.status == 404
            assert answer.headers["Content-Type"] == "application/a2a+json"
            assert answer.json["error"]["message"] == "There is nothing at this path."
        assert (await once(door.port, get("/v1/tasks", verb="OPTIONS"))).status == 404
    assert not upstream.asked
