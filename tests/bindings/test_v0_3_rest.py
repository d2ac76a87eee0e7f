"""REST of 0.3 under /v1: every route, both spellings, answered in kind (spec: LRES; CONF-12, -27, -31, -38, -50)."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from a2a_proto import a2a_pb2 as pb
from tests.support.door_old import WHERE, Where, extended, kinds, old_serving, say, tell, texts
from tests.support.doors import OPTIONS
from tests.support.house import CallRules, GatewayOptions, Tenants
from tests.support.stage import Stage
from tests.support.world import ByHeader

KIND_DEFAULT = GatewayOptions(legacy_json="kind", forward_headers=OPTIONS.forward_headers)

pytestmark = pytest.mark.parametrize("where", WHERE)


@pytest.mark.req("LRES-01", "LRES-02", "LRES-04", "LRES-05")
async def test_a_send_is_answered_in_the_spelling_of_its_body(where: Where) -> None:
    async with old_serving(Stage().agent, where) as (_, client):
        kind = await client.told("POST", "/v1/message:send", say(contextId="c-1"))
        proto = await client.told("POST", "/v1/message:send", tell(contextId="c-1"))
        chat = await client.told("POST", "/v1/message:send", say("hi", skill="chat"))
        proto_chat = await client.told("POST", "/v1/message:send", tell("hi", skill="chat"))
    assert [*kind] == [*proto] == ["task"]
    own = {"contextId": "c-1", "taskId": kind["task"]["id"]}
    assert kind["task"]["kind"] == "task"
    assert kind["task"]["status"]["state"] == "completed"
    assert kind["task"]["history"] == [
        {"kind": "message", "messageId": "m-1", **own, "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
    ]
    assert "kind" not in proto["task"]
    assert proto["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    own["taskId"] = proto["task"]["id"]
    assert proto["task"]["history"] == [
        {"messageId": "m-1", **own, "role": "ROLE_USER", "content": [{"text": "hello"}]}
    ]
    assert (chat["message"]["kind"], chat["message"]["role"]) == ("message", "agent")
    assert chat["message"]["parts"] == [{"kind": "text", "text": "you said hi"}]
    assert proto_chat["message"]["role"] == "ROLE_AGENT"
    assert proto_chat["message"]["content"] == [{"text": "you said hi"}]


@pytest.mark.req("LRES-05")
async def test_without_a_body_the_configured_spelling_is_used(where: Where) -> None:
    for options, state in ((OPTIONS, "TASK_STATE_COMPLETED"), (KIND_DEFAULT, "completed")):
        async with old_serving(Stage().agent, where, http_options=options) as (_, client):
            for body in (say(), tell()):
                task = next(iter((await client.told("POST", "/v1/message:send", body)).values()))
                got = await client.told("GET", f"/v1/tasks/{task['id']}")
                assert got["status"]["state"] == state
                assert ("kind" in got) is (options is KIND_DEFAULT)
                (first, *_) = await client.told("GET", "/v1/tasks")
                assert ("kind" in first) is (options is KIND_DEFAULT)


@pytest.mark.req("LRES-01", "LRES-03")
async def test_get_cancel_and_subscribe_by_their_resource_names(where: Where) -> None:
    stage = Stage()
    async with old_serving(stage.agent, where) as (_, client):
        task = (await client.told("POST", "/v1/message:send", tell("paint", skill="ask")))["task"]
        path = f"/v1/tasks/{task['id']}"
        assert await client.told("GET", path) == task
        assert await client.told("GET", f"{path}?name=tasks/{task['id']}") == task
        assert "history" not in await client.told("GET", f"{path}?historyLength=0")
        assert len((await client.told("GET", f"{path}?history_length=1"))["history"]) == 1
        for verb, body in (("GET", ...), ("POST", {}), ("POST", {"name": f"tasks/{task['id']}"}), ("POST", ...)):
            async with client.watching(verb, f"{path}:subscribe", body) as found:
                assert kinds([await anext(found)]) == ["task"]
        canceled = await client.told("POST", f"{path}:cancel", {"name": f"tasks/{task['id']}", "metadata": {"a": 1}})
        assert canceled["status"]["state"] == "TASK_STATE_CANCELLED"


@pytest.mark.req("LRES-01")
async def test_cancel_needs_no_body(where: Where) -> None:
    async with old_serving(Stage().agent, where) as (_, client):
        task = (await client.told("POST", "/v1/message:send", say("paint", skill="ask")))["task"]
        canceled = await client.told("POST", f"/v1/tasks/{task['id']}:cancel")
        assert canceled["status"]["state"] == "TASK_STATE_CANCELLED"


@pytest.mark.req("LRES-08")
async def test_tasks_are_listed_as_an_array(where: Where) -> None:
    async with old_serving(Stage().agent, where, authenticator=ByHeader()) as (_, client):
        ids = [(await client.call("message/send", say(str(n)), x_user="ann"))["id"] for n in range(3)]
        await client.call("message/send", say("other"), x_user="bob")
        listed = await client.told("GET", "/v1/tasks", x_user="ann")
        shown = [task["id"] for task in listed]
        assert sorted(shown) == sorted(ids)
        page = await client.rest("GET", "/v1/tasks?pageSize=2", x_user="ann")
        assert [task["id"] for task in page.json] == shown[:2]
        link = page.headers["Link"]
        assert link.endswith('>; rel="next"')
        assert link.startswith("<?pageSize=2&pageToken=")
        rest = await client.rest("GET", "/v1/tasks" + link[1 : link.index(">")], x_user="ann")
        assert [task["id"] for task in rest.json] == shown[2:]
        assert "Link" not in rest.headers
        for state in ("completed", "TASK_STATE_COMPLETED"):
            assert len(await client.told("GET", f"/v1/tasks?status={state}", x_user="ann")) == 3
        assert await client.told("GET", "/v1/tasks?status=failed", x_user="ann") == []


@pytest.mark.req("LRES-01", "LCRD-05")
async def test_the_card_is_the_extended_one(where: Where) -> None:
    stage = Stage(extended=extended)
    for options in (OPTIONS, KIND_DEFAULT):
        async with old_serving(stage.agent, where, authenticator=ByHeader(), http_options=options) as (_, client):
            card = await client.told("GET", "/v1/card", x_user="root")
        assert card["protocolVersion"] == "0.3.0"
        assert "secret" in [skill["id"] for skill in card["skills"]]
        assert card["security"] == [{"user": []}]
        scheme = card["securitySchemes"]["user"]
        assert (scheme["type"], scheme["in"], scheme["name"]) == ("apiKey", "header", "x-user")
        in_proto = {"apiKeySecurityScheme": {"location": "header", "name": "x-user"}}
        assert scheme.items() >= ({} if options is KIND_DEFAULT else in_proto).items()
        assert ("apiKeySecurityScheme" in scheme) is (options is not KIND_DEFAULT)


@pytest.mark.req("LRES-02", "LRES-05")
async def test_files_and_data_in_both_spellings(where: Where) -> None:
    file, data = {"mimeType": "image/png"}, {"answer": 42}
    kind = [
        {"kind": "text", "text": "see"},
        {"kind": "file", "file": {"bytes": "iVBORw==", **file}},
        {"kind": "file", "file": {"uri": "https://x.example/i.png", **file}},
        {"kind": "data", "data": data},
    ]
    # CONF-66: the SDKs for Python and Go put base64 text into the bytes, and so it is written.
    proto = [
        {"text": "see"},
        {"file": {"fileWithBytes": "aVZCT1J3PT0=", **file}},
        {"file": {"fileWithUri": "https://x.example/i.png", **file}},
        {"data": {"data": data}},
    ]
    modes = ["text/plain", "image/png", "application/json"]
    async with old_serving(Stage(default_input_modes=modes).agent, where) as (world, client):
        by_kind = (await client.told("POST", "/v1/message:send", say(parts=kind)))["task"]
        by_proto = (await client.told("POST", "/v1/message:send", tell(content=proto)))["task"]
        assert by_kind["history"][0]["parts"] == kind
        assert by_proto["history"][0]["content"] == proto
        stored = [(await world.get(task["id"])).history[0].parts for task in (by_kind, by_proto)]
    assert stored[0] == stored[1]
    assert stored[0][1].raw == b"\x89PNG"


@pytest.mark.req("LRES-01", "TENA-02", "TENA-04")
async def test_a_tenant_of_the_settings_has_paths_of_its_own(where: Where) -> None:
    parts = {
        "rules": CallRules(tenants=Tenants(frozenset({"acme", "b co"}))),
        "old_http": {"tenants": True},
    }
    async with old_serving(Stage().agent, where, **parts) as (world, client):
        task = (await client.told("POST", "/acme/v1/message:send", tell()))["task"]
        rpc = await client.call("message/send", say(), path="/acme/")
        assert {one["id"] for one in await client.told("GET", "/acme/v1/tasks")} == {task["id"], rpc["id"]}
        assert await client.told("GET", "/b%20co/v1/tasks") == []
        assert (await client.call("tasks/get", {"id": task["id"]}, path="/acme/"))["id"] == task["id"]
        assert (await client.fault("tasks/get", {"id": task["id"]}, path="/b%20co/"))["code"] == -32001
        assert (await world.stub.GetTask(pb.GetTaskRequest(id=task["id"], tenant="acme"))).id == task["id"]
        none = await client.refused("GET", f"/v1/tasks/{task['id']}")
        assert (none["code"], none["status"]) == (403, "PERMISSION_DENIED")
        # Who is no tenant has the same paths: the answer is that to callers of other tenants.
        stranger = await client.refused("GET", "/other/v1/tasks")
        assert (stranger["code"], stranger["status"]) == (403, "PERMISSION_DENIED")
        wrong = await client.refused("GET", "/acme/")
        assert wrong["code"] == 405
        unknown = await client.fault("GetTask", {"id": "t"}, path="/acme/")
        assert (unknown["code"], unknown["message"][:17]) == (-32601, "Method not found:")


@pytest.mark.req("LRES-01", "REST-07")
async def test_ids_may_hold_what_must_be_encoded(where: Where) -> None:
    async with old_serving(Stage().agent, where) as (_, client):
        names = {"a/b": "a%2Fb", "a b": "a b", "ä": "ä", "100%": "100%", "x:y": "x:y", "%2F": "%252F"}
        for task_id, name in names.items():
            error = await client.refused("GET", f"/v1/tasks/{quote(task_id, safe='')}")
            assert error["details"][0]["metadata"] == {"taskId": task_id, "jsonrpcCode": "-32001"}
            error = await client.refused(
                "POST", f"/v1/tasks/{quote(task_id, safe='')}:cancel", {"name": f"tasks/{name}"}
            )
            assert error["details"][0]["metadata"]["taskId"] == task_id


@pytest.mark.req("LRES-02", "MEDI-05")
@pytest.mark.parametrize(
    "content_type", ["application/json", "application/a2a+json", "application/json; charset=utf-8"]
)
@pytest.mark.parametrize(
    "accept", ["*/*", "application/json", "application/a2a+json", "text/html, application/*;q=0.1"]
)
async def test_bodies_are_plain_json(content_type: str, accept: str, where: Where) -> None:
    async with old_serving(Stage().agent, where) as (_, client):
        body = b'{"message":{"messageId":"m","role":"user","parts":[{"kind":"text","text":"hello"}]}}'
        told = await client.told("POST", "/v1/message:send", body, content_type=content_type, accept=accept)
        assert texts(told["task"]) == ["hello"]
        other = await client.refused("POST", "/v1/message:send", body, content_type="text/plain")
        assert (other["code"], other["status"]) == (415, "INVALID_ARGUMENT")
        assert other["details"][0]["metadata"]["jsonrpcCode"] == "-32005"
        html = await client.refused("GET", "/v1/tasks", accept="text/html")
        assert html["code"] == 406
