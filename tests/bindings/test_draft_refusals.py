"""What the draft refuses by itself, and what it makes of others' errors: problems, whatever it is (spec: DRFT-03)."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

import pytest
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from a2a_proto import a2a_pb2 as pb
from tests.bindings.test_draft_errors import ASKED
from tests.bindings.test_http_errors import Refusing
from tests.support.door_draft import (
    PROBLEM,
    TYPES,
    WITH_DRAFT,
    checked,
    draft_door,
    draft_serving,
    request,
    say,
    violations,
)
from tests.support.door_upstream import Scripted
from tests.support.house import A2AError, Reason, StatusError
from tests.support.http import get, once
from tests.support.stage import Stage


@pytest.mark.req("DRFT-03", "VERS-03")
@pytest.mark.parametrize("version", ["1.0", "0.9", "0.2", "draft", "0.3, 1.0"])
@pytest.mark.parametrize("way", ["header", "query"])
async def test_only_0_3_is_spoken_here(version: str, way: str) -> None:
    own = {"reason": "VERSION_NOT_SUPPORTED", "supportedVersions": ["0.3"], "requestedVersion": version}
    text = f'The draft profile is A2A 0.3, but A2A-Version says "{version}"; leave it out, or send 0.3.'
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
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith('Bearer resource_metadata="http://127.0.0.1:')
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
