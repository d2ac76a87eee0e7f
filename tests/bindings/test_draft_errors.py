"""Every error of the draft: Problem Details over REST, plain data over JSON-RPC, and inside of streams (DRFT-03)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

from a2a_server.agents import Violation
from tests.bindings.test_http_errors import Refusing, RefusingLate
from tests.support.door_draft import (
    PROBLEM,
    TYPES,
    checked,
    draft_door,
    fault_of,
    request,
    say,
    violations,
)
from tests.support.door_events import loads
from tests.support.door_upstream import Scripted, event, plays
from tests.support.errors_table import A2A, NAMES, ROWS, STANDARD, Row
from tests.support.house import A2AError, Reason

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
