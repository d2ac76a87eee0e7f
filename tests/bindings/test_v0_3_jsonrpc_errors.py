"""Every error through the JSON doors of 0.3, exactly, and all that clients get wrong (LRPC-07, LRES-09, CONF-01)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bindings.test_http_errors import Refusing, RefusingLate
from tests.support.door_old import WHERE, Where, old_gateway, old_serving, request, say, tell
from tests.support.errors_table import NAMES, ROWS, STANDARD, Row
from tests.support.house import A2AError, Reason
from tests.support.stage import Stage

MESSAGES = {
    **STANDARD,
    -32001: "Task not found",
    -32002: "Task cannot be canceled",
    -32003: "Push Notification is not supported",
    -32004: "This operation is not supported",
    -32005: "Incompatible content types",
    -32006: "Invalid agent response",
    -32007: "Authenticated Extended Card is not configured",
}
"""What 0.3 says (wire-0.3, 3)."""

METHODS = (
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get",
    "tasks/pushNotificationConfig/list",
    "tasks/pushNotificationConfig/delete",
    "agent/getAuthenticatedExtendedCard",
)
HOOK = {"url": "https://hooks.example/"}
PARAMS: dict[str, Any] = {
    **{method: {"id": "t", "pushNotificationConfigId": "c"} for method in METHODS},
    "message/send": say(),
    "message/stream": say(),
    "tasks/pushNotificationConfig/set": {"taskId": "t", "pushNotificationConfig": HOOK},
}
INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD = "type.googleapis.com/google.rpc.BadRequest"


# -- every row of the catalogue


def explained(row: Row) -> str:
    standard = MESSAGES.get(row.jsonrpc, "")
    return f"{standard}: Said so." if standard else "Said so."


@pytest.mark.req("LRPC-07", "ERRS-01")
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
async def test_jsonrpc_says_every_error_in_the_words_of_0_3(row: Row) -> None:
    error = A2AError(Reason[row.reason], "Said so.", metadata={"taskId": "t"})
    for upstream in (Refusing(error), RefusingLate(error)):
        async with old_gateway(upstream) as client:
            for method in METHODS if type(upstream) is Refusing else ("message/stream", "tasks/resubscribe"):
                if method == METHODS[-1] and row.reason == "UNSUPPORTED_OPERATION":
                    continue  # which means there what test_a_card_that_is_not_declared… says
                answer = await client.post(request(method, PARAMS[method]))
                assert answer.status == row.jsonrpc_http_of("1.0.0")
                assert answer.json["error"] == {
                    "code": row.jsonrpc,
                    "message": explained(row),
                    "data": {"reason": row.reason, "taskId": "t"},
                }


@pytest.mark.req("LRES-09", "ERRS-01")
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
async def test_rest_says_every_error_with_the_numbers_first_published(row: Row) -> None:
    """CONF-01: the column of 1.0.0; CONF-02: JSON-RPC's number among the details."""
    error = A2AError(Reason[row.reason], "Said so.", metadata={"taskId": "t"})
    details = [
        {
            "@type": INFO,
            "reason": row.reason,
            "domain": row.domain,
            "metadata": {"taskId": "t", "jsonrpcCode": str(row.jsonrpc)},
        }
    ]
    for upstream in (Refusing(error), RefusingLate(error)):
        async with old_gateway(upstream) as client:
            asked: list[tuple[Any, ...]] = [
                ("POST", "/v1/message:stream", tell()),
                ("GET", "/v1/tasks/t:subscribe"),
                ("POST", "/v1/tasks/t:subscribe", {}),
            ]
            if type(upstream) is Refusing:
                asked += [
                    ("POST", "/v1/message:send", say()),
                    ("POST", "/v1/message:send", tell()),
                    ("GET", "/v1/tasks/t"),
                    ("GET", "/v1/tasks"),
                    ("POST", "/v1/tasks/t:cancel"),
                    ("POST", "/v1/tasks/t/pushNotificationConfigs", {"pushNotificationConfig": HOOK}),
                    ("GET", "/v1/tasks/t/pushNotificationConfigs"),
                    ("GET", "/v1/tasks/t/pushNotificationConfigs/c"),
                    ("DELETE", "/v1/tasks/t/pushNotificationConfigs/c"),
                ]
            for one in asked:
                assert await client.refused(*one) == {
                    "code": row.http_of("1.0.0"),
                    "status": row.status_of("1.0.0"),
                    "message": "Said so.",
                    "details": details,
                }


@pytest.mark.req("LCRD-05", "LRPC-07", "LRES-01")
async def test_a_card_that_is_not_declared_is_not_configured() -> None:
    text = "The agent has no card for callers with credentials."
    data = {"reason": "EXTENDED_AGENT_CARD_NOT_CONFIGURED"}
    async with old_gateway(Refusing(A2AError(Reason.UNSUPPORTED_OPERATION, "No such card."))) as client:
        error = await client.fault(METHODS[-1])
        assert error == {"code": -32007, "message": f"{MESSAGES[-32007]}: {text}", "data": data}
        told = await client.refused("GET", "/v1/card")
        assert (told["code"], told["status"], told["message"]) == (400, "FAILED_PRECONDITION", text)


@pytest.mark.req("LRPC-07", "LPSH-05", "LCRD-05", "LRES-09")
@pytest.mark.parametrize("where", WHERE)
async def test_real_errors_of_a_real_server(where: Where) -> None:
    async with old_serving(Stage().agent, where) as (_, client):
        task = (await client.call("message/send", say()))["id"]
        codes = {
            method: (await client.fault(method, params))["code"]
            for method, params in (
                ("tasks/get", {"id": "nobody"}),
                ("tasks/cancel", {"id": task}),
                ("message/send", say(taskId=task)),  # CONF-29
                ("tasks/pushNotificationConfig/set", {"taskId": task, "pushNotificationConfig": HOOK}),
                ("tasks/pushNotificationConfig/get", {"id": task}),
                ("tasks/pushNotificationConfig/list", {"id": task}),
                ("tasks/pushNotificationConfig/delete", {"id": task, "pushNotificationConfigId": "c"}),
                (METHODS[-1], None),
            )
        }
        inline = await client.fault("message/send", say(configuration={"pushNotificationConfig": HOOK}))
    assert [*codes.values()] == [-32001, -32002, -32004, -32003, -32003, -32003, -32003, -32007]
    assert inline["code"] == -32003


@pytest.mark.req("LRPC-01", "LRPC-07")
@pytest.mark.parametrize("method", ["tasks/list", "message/Send", "tasks/send", "tasks/sendSubscribe", "/", "a/b/c"])
async def test_an_unknown_method_is_told_which_there_are(method: str) -> None:
    async with old_gateway(Refusing(A2AError(Reason.INTERNAL, "Not called."))) as client:
        error = await client.fault(method, {})
    text = f'"{method}" is none of those of A2A 0.3: {", ".join(METHODS)}'
    assert error == {
        "code": -32601,
        "message": f"Method not found: method: {text}",
        "data": {"reason": "METHOD_NOT_FOUND", "violations": [{"field": "method", "description": text}]},
    }


@pytest.mark.req("VERS-06", "LRPC-07", "CONF-52")
@pytest.mark.parametrize(
    ("path", "headers"), [("/", {"a2a_version": "0.3"}), ("/", {"a2a_version": "0.3.0"}), ("/?A2A-Version=0.3", {})]
)
async def test_so_is_a_method_of_nobody_if_0_3_is_spoken(path: str, headers: dict[str, str]) -> None:
    async with old_gateway(Refusing(A2AError(Reason.INTERNAL, "Not called."))) as client:
        error = await client.fault("frobnicate", {}, path=path, **headers)
        text = f'"frobnicate" is none of those of A2A 0.3: {", ".join(METHODS)}'
        assert (error["code"], error["message"]) == (-32601, f"Method not found: method: {text}")
        answer = await client.post(request("frobnicate", {}), a2a_version="1.0")
        assert isinstance(answer.json["error"]["data"], list)
        assert '"frobnicate" is none of SendMessage, ' in answer.json["error"]["message"]


@pytest.mark.req("VERS-02", "VERS-04", "VERS-08", "VERS-09")
@pytest.mark.parametrize("version", ["1.0", "1.0.1", "0.2.5", "x"])
async def test_a_method_of_0_3_contradicts_every_other_version(version: str) -> None:
    text = f'A method with a slash is A2A 0.3, but A2A-Version says "{version}"; leave it out, or send 0.3.'
    data = {"reason": "VERSION_NOT_SUPPORTED", "requestedVersion": version, "supportedVersions": "0.3"}
    async with old_gateway(Refusing(A2AError(Reason.TASK_NOT_FOUND, "Called."))) as client:
        for path, headers in (("/", {"a2a_version": version}), (f"/?A2A-Version={version}", {})):
            error = await client.fault("tasks/get", {"id": "t"}, path=path, **headers)
            assert error == {"code": -32009, "message": text, "data": data}
        told = await client.refused("GET", "/v1/tasks/t", a2a_version=version)
        assert told["message"] == text.replace("method with a slash", "path under /v1")
        assert (told["code"], told["status"]) == (400, "UNIMPLEMENTED")
        assert (await client.refused("GET", f"/v1/tasks/t?A2A-Version={version}"))["code"] == 400


@pytest.mark.req("VERS-01", "VERS-04", "VERS-06")
@pytest.mark.parametrize("version", ["0.3", "0.3.0", " 0.3 ", "0.3.99", ""])
async def test_0_3_may_be_named_and_need_not_be(version: str) -> None:
    async with old_gateway(Refusing(A2AError(Reason.TASK_NOT_FOUND, "Called."))) as client:
        assert (await client.fault("tasks/get", {"id": "t"}, a2a_version=version))["code"] == -32001
        assert (await client.refused("GET", "/v1/tasks/t", a2a_version=version))["code"] == 404
        assert (await client.refused("GET", "/v1/tasks/t?A2A-Version=0.3"))["code"] == 404


@pytest.mark.req("VERS-02", "VERS-08")
async def test_a_method_of_1_0_contradicts_0_3_in_the_shape_of_1_0() -> None:
    async with old_serving(Stage().agent) as (_, client):
        answer = await client.post(request("GetTask", {"id": "t"}), a2a_version="0.3")
        assert answer.json["error"]["code"] == -32009
        (info,) = answer.json["error"]["data"]
        assert (info["@type"], info["reason"]) == (INFO, "VERSION_NOT_SUPPORTED")
        async with client.session.get(f"{client.base}/tasks/t", headers={"A2A-Version": "0.3"}) as response:
            assert response.status == 400
            assert response.headers["Content-Type"] == "application/a2a+json"
            assert [*await response.json(content_type=None)] == ["error"]


REASONS = {"INVALID_REQUEST", "INVALID_PARAMS", "METHOD_NOT_FOUND", "PARSE_ERROR"}


@pytest.mark.req("JRPC-04", "LRPC-07")
async def test_an_envelope_is_refused_in_the_shape_of_the_version_that_it_is_of() -> None:
    async with old_gateway(Refusing(A2AError(Reason.INTERNAL, "Not called."))) as client:
        old = {"method": "tasks/get"}
        for body, code, headers in (
            ({"jsonrpc": "1.0", "id": 1, **old}, -32600, {}),
            ({"jsonrpc": "2.0", **old, "params": {"id": "t"}}, -32600, {}),
            ({"jsonrpc": "2.0", "method": "tasks/nonsense"}, -32601, {}),  # a missing id is judged last (CONF-51)
            ({"jsonrpc": "2.0", **old, "params": {"id": 7}}, -32602, {}),
            ({"jsonrpc": "2.0", "id": 1, "params": ["t"], **old}, -32602, {}),
            ({"jsonrpc": "2.0", "id": {}, **old}, -32600, {}),
            (b"{", -32700, {"a2a_version": "0.3"}),
            ([], -32600, {"a2a_version": "0.3.0"}),
            ({"jsonrpc": "2.0", "id": 1, "method": 7}, -32600, {"a2a_version": "0.3"}),
        ):
            query = f"/?A2A-Version={headers['a2a_version']}" if headers else "/"
            for answer in (await client.post(body, **headers), await client.post(body, path=query)):
                assert answer.status == 200
                error = answer.json["error"]
                assert error["code"] == code
                assert error["message"].startswith(MESSAGES[code])
                assert error["data"]["reason"] in REASONS
        unreadable = await client.post(b"{", path="/?A2A-Version=%ff")
        assert "reason" not in unreadable.json["error"].get("data", [])
        for body in (b"{", [], {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": []}):
            assert isinstance((await client.post(body)).json["error"]["data"], list)


@pytest.mark.req("LRPC-07", "ERRS-06")
async def test_who_may_not_and_who_is_too_many_are_told_at_the_level_of_http() -> None:
    refusal = A2AError(Reason.UNAUTHENTICATED, "Who?", metadata={"challenge": "Bearer"})
    async with old_gateway(Refusing(refusal)) as client:
        for answer in (await client.post(request("tasks/get", {"id": "t"})), await client.rest("GET", "/v1/tasks/t")):
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"].startswith('Bearer resource_metadata="http://127.0.0.1:')
    async with old_gateway(Refusing(A2AError(Reason.OVERLOADED, "Later.", retry_after=2))) as client:
        for answer in (await client.post(request("tasks/get", {"id": "t"})), await client.rest("GET", "/v1/tasks/t")):
            assert answer.status == 429
            assert answer.headers["Retry-After"] == "2"


@pytest.mark.req("LRPC-07", "ERRS-07")
async def test_what_nobody_meant_for_a_client_is_an_incident() -> None:
    async with old_gateway(Refusing(RuntimeError("/etc/secret"))) as client:
        error = await client.fault("tasks/get", {"id": "t"})
        assert error["code"] == -32603
        assert error["message"] == "Internal error"
        assert [*error["data"]] == ["reason", "incident"]
        told = await client.refused("GET", "/v1/tasks/t")
    assert (told["code"], told["message"]) == (500, "Internal error.")
    assert "secret" not in str(told)
