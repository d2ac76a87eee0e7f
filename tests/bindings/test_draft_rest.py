"""The draft over REST: every operation, on all forms of its path (spec: DRFT-01, DRFT-02)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.bindings.actors import Gate, waiting
from tests.support.door_draft import FORMS, draft_serving, kinds, on_all_paths, say, texts, violations
from tests.support.door_old import WHERE, Where
from tests.support.stage import Stage
from tests.support.world import ByHeader


@pytest.mark.req("DRFT-01", "DRFT-02")
@on_all_paths
async def test_a_send_is_answered_with_its_task(where: Where, tenant: str, form: str) -> None:
    async with draft_serving(Stage().agent, where) as (_, client):
        told = await client.told("POST", f"{tenant}{form}/message:send", say("hello", contextId="c-1"))
        task = told["task"]
        assert told == {
            "task": {
                "id": task["id"],
                "contextId": "c-1",
                "status": {"state": "completed", "timestamp": task["status"]["timestamp"]},
                "artifacts": [
                    {
                        "artifactId": task["artifacts"][0]["artifactId"],
                        "name": "echo",
                        "parts": [{"text": "hello"}],
                    }
                ],
                "history": [
                    {
                        "messageId": "m-1",
                        "contextId": "c-1",
                        "taskId": task["id"],
                        "role": "user",
                        "parts": [{"text": "hello"}],
                    }
                ],
            }
        }
        said = await client.told("POST", f"{tenant}{form}/message:send", say("hi", skill="chat"))
        assert (said["message"]["role"], said["message"]["parts"]) == ("agent", [{"text": "you said hi"}])


@pytest.mark.req("DRFT-01", "DRFT-02")
@on_all_paths
async def test_tasks_are_streamed_got_listed_and_cancelled(where: Where, tenant: str, form: str) -> None:
    root = tenant + form
    async with draft_serving(Stage().agent, where) as (_, client):
        found = await client.watch("POST", f"{root}/message:stream", say("paint", skill="ask"))
        assert kinds(found) == ["task", "working", "input-required!"]
        task = found[0].data["task"]
        got = await client.told("GET", f"{root}/tasks/{task['id']}")
        assert (got["id"], got["status"]["state"]) == (task["id"], "input-required")
        assert "history" not in await client.told("GET", f"{root}/tasks/{task['id']}?historyLength=0")
        listed = await client.told("GET", f"{root}/tasks?status=input-required&includeArtifacts=true&pageSize=2")
        assert listed == {"tasks": [got], "nextPageToken": "", "pageSize": 2, "totalSize": 1}
        cancelled = await client.told("POST", f"{root}/tasks/{task['id']}:cancel")
        assert (cancelled["id"], cancelled["status"]["state"]) == (task["id"], "cancelled")


@pytest.mark.req("DRFT-01", "DRFT-02", "STRM-07")
@on_all_paths
@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_a_task_is_subscribed_to_with_either_verb(where: Where, tenant: str, form: str, verb: str) -> None:
    gate = Gate()
    async with draft_serving(waiting(gate), where) as (_, client):
        sent = await client.told("POST", f"{tenant}{form}/message:send", say(blocking=None))
        task_id = sent["task"]["id"]
        await gate.reached.wait()
        async with client.watching(verb, f"{tenant}{form}/tasks/{task_id}:subscribe") as found:
            first = await anext(found)
            assert first.data["task"]["status"]["state"] == "working"
            gate.open()
            assert kinds([event async for event in found])[-1] == "completed!"
        problem = await client.refused(verb, f"{tenant}{form}/tasks/{task_id}:subscribe")
        assert (problem["status"], problem["reason"]) == (400, "UNSUPPORTED_OPERATION")  # CONF-13


@pytest.mark.req("DRFT-01", "XCARD-01", "XCARD-03")
@on_all_paths
async def test_the_extended_card_has_a_path(where: Where, tenant: str, form: str) -> None:
    def extended(card: Any, _: object) -> Any:
        card.skills.add(id="secret", name="Secret", description="Not for all.", tags=["test"])
        return card

    parts = {"authenticator": ByHeader()}
    async with draft_serving(Stage(extended=extended).agent, where, **parts) as (_, client):
        card = await client.told("GET", f"{tenant}{form}/extendedAgentCard", x_user="root")
        assert card["skills"][-1]["id"] == "secret"
        assert (card["protocolVersion"], card["supportsExtendedAgentCard"]) == ("0.3.0", True)
        assert card["url"] == client.base
        problem = await client.refused("GET", f"{tenant}{form}/extendedAgentCard", x_user="ann")
        assert (problem["status"], problem["reason"]) == (403, "PERMISSION_DENIED")


@pytest.mark.req("DRFT-01", "TENA-01")
@pytest.mark.parametrize("form", FORMS)
async def test_tenants_are_spaces_of_their_own(form: str) -> None:
    async with draft_serving(Stage().agent) as (_, client):
        north = (await client.told("POST", f"/north{form}/message:send", say()))["task"]
        also = (await client.told("POST", f"{form}/message:send", {"tenant": "north", **say()}))["task"]
        listed = await client.told("GET", f"/north{form}/tasks")
        assert {task["id"] for task in listed["tasks"]} == {north["id"], also["id"]}
        assert (await client.told("GET", f"{form}/tasks?tenant=north"))["totalSize"] == 2
        assert (await client.told("GET", f"{form}/tasks"))["tasks"] == []
        problem = await client.refused("GET", f"{form}/tasks/{north['id']}")
        assert (problem["status"], problem["taskId"]) == (404, north["id"])
        wrong = await client.refused("POST", f"/north{form}/message:send", {"tenant": "south", **say()})
        assert violations(wrong) == {
            "tenant": 'is "north" in the URL and "south" in the body; they must be the same',
        }
        assert violations(await client.refused("GET", f"/north{form}/tasks?tenant=south")).keys() == {"tenant"}


@pytest.mark.req("DRFT-02", "BLK-04")
@pytest.mark.parametrize(("blocking", "waits"), [(None, False), (False, False), (True, True)])
@pytest.mark.parametrize("where", WHERE)
async def test_a_send_waits_only_if_it_says_so(blocking: bool | None, waits: bool, where: Where) -> None:  # noqa: FBT001 - a parameter
    gate = Gate()
    async with draft_serving(waiting(gate), where) as (_, client):
        sending = asyncio.ensure_future(client.told("POST", "/north/v1/message:send", say(blocking=blocking)))
        if not waits:
            assert (await sending)["task"]["status"]["state"] in {"submitted", "working"}
        await gate.reached.wait()
        assert sending.done() is not waits
        gate.open()
        if waits:
            assert (await sending)["task"]["status"]["state"] == "completed"


@pytest.mark.req("DRFT-02")
async def test_a_send_that_waits_ends_with_a_question() -> None:
    async with draft_serving(Stage().agent) as (_, client):
        task = (await client.told("POST", "/v1/message:send", say("paint", skill="ask")))["task"]  # CONF-09
        assert task["status"]["message"]["parts"] == [{"text": "What colour?"}]
        done = (await client.told("POST", "/v1/message:send", say("red", taskId=task["id"])))["task"]
        assert texts(done) == ["red it is"]
        problem = await client.refused("POST", "/v1/message:send", say("blue", taskId=task["id"]))
        assert (problem["status"], problem["reason"]) == (400, "UNSUPPORTED_OPERATION")


@pytest.mark.req("DRFT-02")
async def test_parts_of_all_kinds_come_and_go() -> None:
    parts = [
        {"text": "x", "metadata": {"a": 1}},
        {"file": {"fileWithUri": "https://f.example/", "name": "n.txt", "mediaType": "text/plain"}},
        {"file": {"fileWithBytes": "AP8=", "mediaType": "text/plain"}},
        {"data": {"data": {"a": [1, None]}}},
    ]
    stage = Stage(default_input_modes=["text/plain", "application/json"])
    async with draft_serving(stage.agent) as (_, client):
        task = (await client.told("POST", "/v1/message:send", say(parts=parts)))["task"]
        assert task["history"][0]["parts"] == parts


@pytest.mark.req("DRFT-02", "LIST-01")
async def test_lists_are_filtered_by_milliseconds() -> None:
    async with draft_serving(Stage().agent) as (world, client):
        task = (await client.told("POST", "/v1/message:send", say()))["task"]
        moment = (await world.get(task["id"])).status.timestamp.ToMilliseconds()
        for name, after, count in (
            ("lastUpdatedAfter", moment, 1),
            ("last_updated_after", moment - 1, 1),
            ("lastUpdatedAfter", moment + 1, 0),
        ):
            assert (await client.told("GET", f"/v1/tasks?{name}={after}"))["totalSize"] == count
        for query, field in (
            ("lastUpdatedAfter=yesterday", "lastUpdatedAfter"),
            ("lastUpdatedAfter=1&lastUpdatedAfter=2", "lastUpdatedAfter"),
            ("statusTimestampAfter=2026-01-01T00:00:00Z", "statusTimestampAfter"),
            ("status=nope", "status"),
            ("pageSize=0", "pageSize"),
            ("pageSize=x", "pageSize"),
        ):
            assert violations(await client.refused("GET", f"/v1/tasks?{query}")).keys() == {field}


@pytest.mark.req("MEDI-01", "DRFT-01")
@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/a2a+json"),
        ("application/json", "application/json"),
        ("application/problem+json, application/json;q=0.5", "application/json"),
    ],
)
async def test_answers_have_the_type_that_is_accepted(accept: str, kind: str) -> None:
    async with draft_serving(Stage().agent) as (_, client):
        for path in ("/v1/tasks", "/tasks"):
            answer = await client.rest("GET", path, accept=accept)
            assert (answer.status, answer.headers["Content-Type"]) == (200, kind)


@pytest.mark.req("DRFT-06")
async def test_a_body_may_name_its_task_if_it_is_the_one_of_the_path() -> None:
    async with draft_serving(Stage().agent) as (_, client):
        task = (await client.told("POST", "/v1/message:send", say("paint", skill="ask")))["task"]
        path = f"/v1/tasks/{task['id']}:cancel"
        told = violations(await client.refused("POST", path, {"name": "tasks/other"}))
        assert told == {"id": f'is "{task["id"]}" in the URL and "other" in the body; they must be the same'}
        named = {"name": f"tasks/{task['id']}"}
        assert (await client.told("POST", path, named))["status"]["state"] == "cancelled"


@pytest.mark.req("SPAR-02")
async def test_active_extensions_are_echoed() -> None:
    async with draft_serving(Stage().agent) as (_, client):
        answer = await client.rest("GET", "/v1/tasks", a2a_extensions="urn:a2a-server:replay:v1")
        assert answer.headers["A2A-Extensions"] == "urn:a2a-server:replay:v1"
