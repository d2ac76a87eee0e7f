"""Every error of the draft: Problem Details over REST, plain data over JSON-RPC, and inside of streams (DRFT-03)."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from a2a_server.errors import A2AError, Reason, Violation
from gateway.upstream import StatusError
from generated import a2a_pb2 as pb
from tests.bindings.test_http_errors import Refusing, RefusingLate
from tests.support.door_draft import (
    PROBLEM,
    TYPES,
    WITH_DRAFT,
    checked,
    draft_door,
    draft_serving,
    fault_of,
    request,
    say,
    violations,
)
from tests.support.door_events import loads
from tests.support.door_upstream import Scripted, event, plays
from tests.support.errors_table import A2A, NAMES, ROWS, STANDARD, Row
from tests.support.http import get, once
from tests.support.stage import Stage

SLUGS = {
    "TASK_NOT_FOUND": ("task-not-found", "Task not found", 404),
    "TASK_NOT_CANCELABLE": ("task-not-cancelable", "Task not cancelable", 409),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": ("push-notification-not-supported", "Push notification not supported", 400),
    "UNSUPPORTED_OPERATION": ("unsupported-operation", "Unsupported operation", 400),
    "CONTENT_TYPE_NOT_SUPPORTED": ("content-type-not-supported", "Content type not supported", 415),
    "INVALID_AGENT_RESPONSE": ("invalid-agent-response", "Invalid agent response", 502),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": (
        "extended-agent-card-not-configured",
        "Extended agent card not configured",
        400,
    ),
    "EXTENSION_SUPPORT_REQUIRED": ("extension-support-required", "Extension support required", 400),
    "VERSION_NOT_SUPPORTED": ("version-not-supported", "Version not supported", 400),
}
"""wire-0.3, section 9."""

ASKED: list[tuple[str, str, Any]] = [
    ("GET", "/v1/tasks/t", ...),
    ("GET", "/north/tasks", ...),
    ("POST", "/message:send", say()),
    ("POST", "/v1/message:stream", say()),
    ("GET", "/v1/tasks/t:subscribe", ...),
    ("DELETE", "/v1/tasks/t/pushNotificationConfigs/c", ...),
    ("GET", "/v1/extendedAgentCard", ...),
    ("GET", "/.well-known/agent-card.json", ...),
]
CALLED: list[tuple[str, Any]] = [
    ("GetTask", {"name": "tasks/t"}),
    ("SendMessage", say()),
    ("SendStreamingMessage", say()),
    ("SubscribeToTask", {"id": "t"}),
    ("SetTaskPushNotificationConfig", {"parent": "tasks/t", "pushNotificationConfig": {"url": "u"}}),
]


def problem_of(row: Row) -> dict[str, Any]:
    http = row.http_of("1.0.0")
    if row.reason in SLUGS:
        slug, title, status = SLUGS[row.reason]
        assert status == http
        kind = TYPES + slug
    else:
        kind, title = "about:blank", HTTPStatus(http).phrase
    return {"type": kind, "title": title, "status": http, "detail": "Said so.", "reason": row.reason, "taskId": "t"}


def test_the_table_names_all_that_the_protocol_does() -> None:
    protocol = {row.reason for row in ROWS if row.domain == A2A} - {"INVALID_PARAMS"}
    assert protocol == SLUGS.keys()


@pytest.mark.req("DRFT-03", "ERRS-01", "STRM-07")
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
async def test_rest_says_it(row: Row) -> None:
    error = A2AError(Reason[row.reason], "Said so.", metadata={"taskId": "t"})
    for upstream in (Refusing(error), RefusingLate(error)):
        async with draft_door(upstream) as client:
            for verb, path, body in ASKED:
                answer = await client.rest(verb, path, body)
                assert answer.headers["Content-Type"] == PROBLEM
                assert answer.headers["Cache-Control"] == "no-store"
                assert (answer.status, answer.json) == (row.http_of("1.0.0"), problem_of(row))
                checked(answer.json, answer.status)


@pytest.mark.req("DRFT-03", "ERRS-01", "ERRS-04", "STRM-07")
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
async def test_jsonrpc_says_it(row: Row) -> None:
    error = A2AError(Reason[row.reason], "Said so.", metadata={"taskId": "t"})
    text = f"{STANDARD[row.jsonrpc]}: Said so." if row.jsonrpc in STANDARD else "Said so."
    expected = {"code": row.jsonrpc, "message": text, "data": {"reason": row.reason, "taskId": "t"}}
    for upstream in (Refusing(error), RefusingLate(error)):
        async with draft_door(upstream) as client:
            for method, params in CALLED:
                answer = await client.post(request(method, params))
                assert (answer.status, answer.json["error"]) == (row.jsonrpc_http_of("1.0.0"), expected)


@pytest.mark.req("DRFT-03", "SSEV-02")
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
async def test_an_error_inside_of_a_stream_is_its_last_frame(row: Row) -> None:
    error = A2AError(Reason[row.reason], "Said so.", metadata={"taskId": "t"})
    text = f"{STANDARD[row.jsonrpc]}: Said so." if row.jsonrpc in STANDARD else "Said so."
    async with draft_door(Scripted(script=plays([event(1)], error))) as client:
        first, last = await client.watch("POST", "/v1/message:stream", say())
        assert list(first.data) == ["artifactUpdate"]
        assert (last.name, last.data) == ("error", problem_of(row))
        _, last = await client.stream("SendStreamingMessage", say())
        assert (last.name, last.data) == (
            "error",
            {"code": row.jsonrpc, "message": text, "data": {"reason": row.reason, "taskId": "t"}},
        )
        fault_of(last.data)


@pytest.mark.req("DRFT-03")
async def test_lines_end_with_the_problem() -> None:
    error = A2AError(Reason.UNAVAILABLE, "Gone.", retry_after=2)
    async with draft_door(Scripted(script=plays([event(1)], error))) as client:
        headers = {"Accept": "application/x-ndjson"}
        async with client.session.post(f"{client.base}/v1/message:stream", json=say(), headers=headers) as response:
            first, last = (await response.read()).splitlines()
    assert list(loads(first)) == ["result"]
    assert loads(last) == {
        "error": {
            "type": "about:blank",
            "title": "Service Unavailable",
            "status": 503,
            "detail": "Gone.",
            "reason": "UNAVAILABLE",
        }
    }


@pytest.mark.req("DRFT-03", "ERRS-05")
async def test_what_is_wrong_is_listed_in_the_words_of_the_draft() -> None:
    faults = [
        Violation("message.parts[0].media_type", "no"),
        Violation("message.parts[1].raw", "no"),
        Violation("message.parts[2].data", "no"),
        Violation("configuration.return_immediately", "no"),
        Violation("configuration.task_push_notification_config.authentication.scheme", "no"),
        Violation("configuration.task_push_notification_config.url", "no"),
        Violation('metadata["return_immediately"]', "no"),
    ]
    error = A2AError(Reason.INVALID_PARAMS, "Wrong.", violations=faults)
    async with draft_door(Refusing(error)) as client:
        problem = await client.refused("POST", "/v1/message:send", say())
        assert (problem["type"], problem["title"], problem["status"]) == ("about:blank", "Bad Request", 400)
        fault = await client.fault("SendMessage", say())
    assert fault["code"] == -32602
    for told in (problem, fault["data"]):
        assert [*violations(told)] == [
            "message.parts[0].file.mediaType",
            "message.parts[1].file.fileWithBytes",
            "message.parts[2].data.data",
            "configuration.blocking",
            "configuration.pushNotificationConfig.authentication.schemes",
            "configuration.pushNotificationConfig.url",
            'metadata["return_immediately"]',
        ]


@pytest.mark.req("DRFT-03", "ERRS-05")
async def test_complaints_about_configs_and_lists_are_in_the_words_of_the_draft() -> None:
    names = ("task_id", "id", "url", "authentication.scheme")
    error = A2AError(Reason.INVALID_PARAMS, "Wrong.", violations=[Violation(name, "no") for name in names])
    inner = {"pushNotificationConfig": {"url": "u"}}
    async with draft_door(Refusing(error)) as client:
        told = await client.refused("POST", "/tasks/t/pushNotificationConfigs", inner)
        plain = ["pushNotificationConfig.id", "pushNotificationConfig.url"]
        last = "pushNotificationConfig.authentication.schemes"
        assert [*violations(told)] == ["name", *plain, last]
        wrapped = {"parent": "tasks/t", "config": inner}
        told = (await client.fault("SetTaskPushNotificationConfig", wrapped))["data"]
        assert [*violations(told)] == ["parent", *(f"config.{name}" for name in plain), f"config.{last}"]
    after = A2AError(Reason.INVALID_PARAMS, "Wrong.", violations=[Violation("status_timestamp_after", "no")])
    async with draft_door(Refusing(after)) as client:
        assert [*violations(await client.refused("GET", "/v1/tasks"))] == ["lastUpdatedAfter"]


@pytest.mark.req("DRFT-03", "VERS-03")
@pytest.mark.parametrize("version", ["1.0", "0.9", "0.2", "draft", "0.3, 1.0"])
@pytest.mark.parametrize("way", ["header", "query"])
async def test_only_0_3_is_spoken_here(version: str, way: str) -> None:
    own = {"reason": "VERSION_NOT_SUPPORTED", "supportedVersions": ["0.3"], "requestedVersion": version}
    text = f'The draft profile is A2A 0.3, but A2A-Version says "{version}"; leave it out, or say 0.3.'
    query = f"?A2A-Version={version.replace(' ', '%20')}" if way == "query" else ""
    headers = {"A2A-Version": version} if way == "header" else {}
    async with draft_door(Refusing(AssertionError("was called"))) as client:
        for verb, path, body in ASKED:
            problem = await client.refused(verb, path + query, body, **headers)
            assert problem == {
                "type": f"{TYPES}version-not-supported",
                "title": "Version not supported",
                "status": 400,
                "detail": text,
                **own,
            }
        answer = await client.post(request("GetTask", {"id": "t"}), path=f"/{query}", **headers)
        assert answer.json["error"] == {"code": -32009, "message": text, "data": own}


@pytest.mark.req("DRFT-01", "VERS-04")
@pytest.mark.parametrize("version", ["0.3", "0.3.0", " 0.3 ", ""])
async def test_0_3_is_spoken_here_in_every_patch(version: str) -> None:
    upstream = Scripted(pb.Task(id="t"))
    async with draft_door(upstream) as client:
        await client.told("GET", "/v1/tasks/t", **{"A2A-Version": version})
        await client.call("GetTask", {"id": "t"}, **{"A2A-Version": version})
        await client.told("GET", "/v1/tasks/t")
    for _, _, context in upstream.asked:
        assert (context.spoken, context.metadata["a2a-server-spoken"]) == ("draft", ("draft",))
        assert context.metadata["a2a-version"] == ("1.0",)


@pytest.mark.req("DRFT-03")
@pytest.mark.parametrize(
    ("verb", "path", "status", "reason", "detail"),
    [
        ("GET", "/v1/nope", 404, "PATH_NOT_FOUND", "There is nothing at this path."),
        ("GET", "/v1/tasks/", 404, "PATH_NOT_FOUND", "There is nothing at this path. Leave out the slash at its end."),
        ("GET", "/v1", 404, "PATH_NOT_FOUND", "There is nothing at this path."),
        ("GET", "/v1/card", 404, "PATH_NOT_FOUND", "There is nothing at this path."),
        ("POST", "/north/", 404, "PATH_NOT_FOUND", "There is nothing at this path."),
        ("GET", "/healthz", 404, "PATH_NOT_FOUND", "There is nothing at this path."),
        ("POST", "/v1/tasks", 405, "METHOD_NOT_ALLOWED", "This path answers to GET, HEAD, OPTIONS."),
        ("GET", "/v1/message:send", 405, "METHOD_NOT_ALLOWED", "This path answers to OPTIONS, POST."),
        ("PUT", "/", 405, "METHOD_NOT_ALLOWED", "This path answers to OPTIONS, POST."),
        ("GET", "", 405, "METHOD_NOT_ALLOWED", "This path answers to OPTIONS, POST."),
        ("GET", "/v1/tasks/%zz", 400, "INVALID_PARAMS", "path: "),
    ],
)
async def test_what_is_no_call_is_a_problem_as_well(
    verb: str, path: str, status: int, reason: str, detail: str
) -> None:
    async with draft_door(Refusing(AssertionError("was called"))) as client:
        answer = await client.rest(verb, path)
        assert answer.headers.get("Allow", "") == (detail[21:-1] if status == 405 else "")
        problem = checked(answer.json, status)
        assert (problem["type"], problem["title"]) == ("about:blank", HTTPStatus(status).phrase)
        assert problem["reason"] == reason
        assert problem["detail"].startswith(detail)


@pytest.mark.req("DRFT-03", "MEDI-05", "LIMT-01", "DOOR-04")
async def test_exchanges_fail_with_problems() -> None:
    async with draft_door(
        Refusing(AssertionError("was called")), replace(WITH_DRAFT, max_body_bytes=100, max_depth=5)
    ) as client:
        path = "/v1/message:send"
        problem = await client.refused("POST", path, b"<a/>", content_type="text/xml")
        assert (problem["type"], problem["status"]) == (f"{TYPES}content-type-not-supported", 415)
        assert problem["contentType"] == "text/xml"
        problem = await client.refused("POST", path, b" " * 101, content_type="application/json")
        assert (problem["type"], problem["status"], problem["reason"]) == ("about:blank", 413, "BODY_TOO_LARGE")
        problem = await client.refused("POST", path, b"{}", content_type="application/json", content_encoding="br")
        assert (problem["status"], problem["reason"]) == (415, "ENCODING_NOT_SUPPORTED")
        for target, body in (("/v1/tasks/t", ...), (path, b"{}"), ("/v1/message:stream", b"{}")):
            verb = "GET" if body is ... else "POST"
            problem = await client.refused(verb, target, body, accept="text/html", content_type="application/json")
            assert (problem["status"], problem["reason"]) == (406, "NOT_ACCEPTABLE")
        problem = await client.refused("POST", path, b"{", content_type="application/json")
        assert violations(problem).keys() == {"body"}
        problem = await client.refused("POST", path, b"[[[[[[]]]]]]", content_type="application/json")
        assert violations(problem).keys() == {"body"}
        problem = await client.refused("POST", path, b"[]", content_type="application/json")
        assert problem["detail"] == "The JSON must be an object, got a list."
        problem = await client.refused("GET", "/v1/tasks?a=%ff")
        assert violations(problem).keys() == {"query"}
        port = int(client.base.split(":")[2].split("/")[0])
        head = await once(port, get("/draft/v1/nope", verb="HEAD"), head=True)
        assert (head.status, head.headers["Content-Type"]) == (404, PROBLEM)
        for path, allow in (("/draft/v1/tasks", "GET, HEAD, OPTIONS"), ("/draft/", "OPTIONS, POST")):
            preflight = await once(port, get(path, verb="OPTIONS"))
            assert (preflight.status, preflight.headers["Allow"]) == (204, allow)
        assert (await once(port, get("/draft/v1/nope", verb="OPTIONS"))).json["reason"] == "PATH_NOT_FOUND"


@pytest.mark.req("DRFT-03", "ERRS-07")
async def test_what_nobody_meant_for_a_client_stays_inside() -> None:
    async with draft_door(Refusing(ValueError("secret"))) as client:
        problem = await client.refused("GET", "/v1/tasks/t")
        fault = await client.fault("GetTask", {"id": "t"})
    assert (problem["status"], problem["detail"], len(problem["incident"])) == (500, "Internal error.", 16)
    assert (fault["code"], fault["message"], fault["data"]["reason"]) == (-32603, "Internal error", "INTERNAL")


@pytest.mark.req("DRFT-03", "ERRS-06")
async def test_challenges_and_pauses_are_headers() -> None:
    error = A2AError(Reason.UNAUTHENTICATED, "Who?", metadata={"challenge": "Bearer"})
    async with draft_door(Refusing(error)) as client:
        answer = await client.rest("GET", "/v1/tasks/t")
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    async with draft_door(Refusing(A2AError(Reason.OVERLOADED, "Later.", retry_after=3))) as client:
        answer = await client.rest("GET", "/v1/tasks/t")
        assert (answer.status, answer.headers["Retry-After"]) == (429, "3")


def foreign(code: int, **metadata: str) -> StatusError:
    status = status_pb2.Status(code=code, message="Elsewhere.")
    info = error_details_pb2.ErrorInfo(reason="THEIRS", domain="elsewhere.example", metadata=metadata)
    packed = any_pb2.Any()
    packed.Pack(info)
    status.details.append(packed)
    return StatusError(status)


@pytest.mark.req("DRFT-03")
async def test_errors_of_other_servers_take_no_names_that_are_not_theirs() -> None:
    """Nor do they break the form: what they call `status` is not ours."""
    async with draft_door(Refusing(foreign(code_pb2.UNIMPLEMENTED, status="x", type="y", reason="z", a="b"))) as client:
        assert await client.refused("GET", "/v1/tasks/t") == {
            "type": "about:blank",
            "title": "Not Implemented",
            "status": 501,
            "detail": "Elsewhere.",
            "reason": "THEIRS",
            "a": "b",
        }
        fault = await client.fault("GetTask", {"id": "t"})
        assert (fault["code"], fault["data"]) == (-32004, {"reason": "THEIRS", "status": "x", "type": "y", "a": "b"})
    async with draft_door(Refusing(foreign(code_pb2.NOT_FOUND))) as client:
        problem = await client.refused("GET", "/v1/tasks/t")
        assert (problem["type"], problem["status"]) == (f"{TYPES}task-not-found", 404)


@pytest.mark.req("DRFT-03")
async def test_real_refusals() -> None:
    async with draft_serving(Stage().agent) as (_, client):
        task = (await client.told("POST", "/v1/message:send", say()))["task"]
        problem = await client.refused("POST", f"/v1/tasks/{task['id']}:cancel")
        assert (problem["type"], problem["status"]) == (f"{TYPES}task-not-cancelable", 409)
        path = f"/v1/tasks/{task['id']}/pushNotificationConfigs"
        body = {"pushNotificationConfig": {"url": "https://h.example"}}
        problem = await client.refused("POST", f"{path}?configId=w", body)
        assert (problem["type"], problem["status"]) == (f"{TYPES}push-notification-not-supported", 400)
        assert (await client.fault("CancelTask", {"name": f"tasks/{task['id']}"}))["code"] == -32002
        for nothing in (b"{}", b""):
            problem = await client.refused("POST", "/v1/message:send", nothing, content_type="application/json")
            assert violations(problem) == {"message": "is required"}
