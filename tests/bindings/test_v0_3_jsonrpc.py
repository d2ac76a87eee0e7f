"""The ten methods of 0.3, as its clients know them: params, bare results, `kind` (spec: LRPC, LOLD-03, LPSH-04)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2a_server.agents import Extension
from tests.bindings.actors import Gate, begun, waiting
from tests.support.door_old import WHERE, Where, extended, kinds, old_serving, say, texts
from tests.support.house import MOST_CONFIGS, LegacyOptions
from tests.support.stage import Stage
from tests.support.world import ByHeader

URL = "https://hooks.example/a2a"
HOOK = {"url": URL, "token": "t-1"}
SHOWN = {"url": URL, "token": "****"}
CONFIG = "tasks/pushNotificationConfig"

pytestmark = pytest.mark.parametrize("where", WHERE)


@pytest.mark.req("LRPC-01", "LRPC-02", "LRPC-03", "LRPC-08")
async def test_a_send_is_answered_with_the_bare_task(where: Where) -> None:
    async with old_serving(Stage().agent, where) as (_, client):
        task = await client.call("message/send", say("hello", contextId="c-1"))
    own = {"contextId": "c-1", "taskId": task["id"]}
    assert list(task) == ["kind", "id", "contextId", "status", "artifacts", "history"]
    assert task == {
        "kind": "task",
        "id": task["id"],
        "contextId": "c-1",
        "status": {"state": "completed", "timestamp": task["status"]["timestamp"]},
        "artifacts": [
            {
                "artifactId": task["artifacts"][0]["artifactId"],
                "name": "echo",
                "parts": [{"kind": "text", "text": "hello"}],
            }
        ],
        "history": [
            {"kind": "message", "messageId": "m-1", **own, "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
        ],
    }
    message, part = task["history"][0], task["artifacts"][0]["parts"][0]
    assert [next(iter(one)) for one in (task, message, part)] == ["kind"] * 3


@pytest.mark.req("LRPC-01", "LRPC-02", "LRPC-03")
async def test_a_direct_answer_is_the_bare_message(where: Where) -> None:
    async with old_serving(Stage().agent, where) as (_, client):
        message = await client.call("message/send", say("hi", skill="chat"))
        (event,) = await client.stream("message/stream", say("hi", skill="chat"))
    for told in (message, event.data):
        assert next(iter(told.items())) == ("kind", "message")
        assert told["role"] == "agent"
        assert told["parts"] == [{"kind": "text", "text": "you said hi"}]
        assert told["contextId"]


@pytest.mark.req("LRPC-01")
async def test_get_cancel_and_their_options(where: Where) -> None:
    stage = Stage()
    async with old_serving(stage.agent, where) as (_, client):
        task = await client.call("message/send", say("paint", skill="ask"))
        assert task["status"]["state"] == "input-required"
        assert task["status"]["message"]["parts"] == [{"kind": "text", "text": "What colour?"}]
        got = await client.call("tasks/get", {"id": task["id"], "metadata": {"ignored": True}})
        assert got == task
        assert await client.call("tasks/get", {"taskId": task["id"]}) == task  # CONF-15
        none = await client.call("tasks/get", {"id": task["id"], "historyLength": 0})
        assert "history" not in none
        last = await client.call("tasks/get", {"id": task["id"], "historyLength": 1})
        assert last["history"] == got["history"][-1:]
        canceled = await client.call("tasks/cancel", {"id": task["id"], "metadata": {"why": "bored"}})
        assert (canceled["kind"], canceled["id"]) == ("task", task["id"])
        assert canceled["status"]["state"] == "canceled"


@pytest.mark.req("LRPC-04")
async def test_kind_may_be_missing_and_is_then_inferred(where: Where) -> None:
    bare = {"messageId": "m", "role": "user", "parts": [{"text": "hello"}]}
    async with old_serving(Stage().agent, where) as (_, client):
        task = await client.call("message/send", {"message": bare})
    assert texts(task) == ["hello"]


@pytest.mark.req("LRPC-01", "BLK-04")
@pytest.mark.parametrize(
    ("configuration", "waits"), [(None, True), ({"blocking": True}, True), ({"blocking": False}, False), ({}, True)]
)
async def test_a_send_waits_unless_it_says_otherwise(configuration: Any, waits: bool, where: Where) -> None:  # noqa: FBT001 - a parameter
    gate = Gate()
    async with old_serving(waiting(gate), where) as (world, client):
        sending = asyncio.ensure_future(client.call("message/send", say(configuration=configuration)))
        await begun(world)
        if not waits:
            assert (await sending)["status"]["state"] in {"submitted", "working"}
        await gate.reached.wait()
        assert sending.done() is not waits
        gate.open()
        if waits:
            assert (await sending)["status"]["state"] == "completed"


@pytest.mark.req("BLK-04")
async def test_an_operator_may_choose_that_sends_do_not_wait(where: Where) -> None:
    gate = Gate()
    async with old_serving(waiting(gate), where, old_http={"old": LegacyOptions(wait="never")}) as (_, client):
        assert (await client.call("message/send", say()))["status"]["state"] in {"submitted", "working"}
        told = (await client.told("POST", "/v1/message:send", say()))["task"]
        assert told["status"]["state"] in {"submitted", "working"}
        gate.open()
        assert (await client.call("message/send", say(configuration={"blocking": True})))["status"][
            "state"
        ] == "completed"


@pytest.mark.req("LRPC-01", "LRPC-06")
async def test_push_configs(where: Where) -> None:
    async with old_serving(Stage().agent, where, push_notifications=True) as (_, client):
        task = await client.call("message/send", say("paint", skill="ask"))
        first = await client.call(
            f"{CONFIG}/set", {"taskId": task["id"], "pushNotificationConfig": {"id": "a", **HOOK}}
        )
        assert first == {"taskId": task["id"], "pushNotificationConfig": {"id": "a", **SHOWN}}
        made = await client.call(f"{CONFIG}/set", {"taskId": task["id"], "pushNotificationConfig": HOOK})
        given = made["pushNotificationConfig"]["id"]
        assert made == {"taskId": task["id"], "pushNotificationConfig": {"id": given, **SHOWN}}

        one = await client.call(f"{CONFIG}/get", {"id": task["id"], "pushNotificationConfigId": given})
        assert one == made
        assert await client.call(f"{CONFIG}/get", {"id": task["id"]}) in (first, made)

        listed = await client.call(f"{CONFIG}/list", {"id": task["id"], "metadata": {}})
        assert sorted(listed, key=str) == sorted([first, made], key=str)
        deleted = await client.call(f"{CONFIG}/delete", {"id": task["id"], "pushNotificationConfigId": "a"})
        assert deleted is None
        assert await client.call(f"{CONFIG}/list", {"id": task["id"]}) == [made]
        await client.call(f"{CONFIG}/delete", {"id": task["id"], "pushNotificationConfigId": given})
        assert await client.call(f"{CONFIG}/list", {"id": task["id"]}) == []
        error = await client.fault(f"{CONFIG}/get", {"id": task["id"]})
    assert error["code"] == -32001
    assert error["message"] == "Task not found: The task has no push notification config."


@pytest.mark.req("LRPC-01")
async def test_a_config_may_come_with_the_send(where: Where) -> None:
    async with old_serving(Stage().agent, where, push_notifications=True) as (_, client):
        asked = say("paint", skill="ask", configuration={"pushNotificationConfig": {"id": "inline", **HOOK}})
        task = await client.call("message/send", asked)
        assert await client.call(f"{CONFIG}/list", {"id": task["id"]}) == [
            {"taskId": task["id"], "pushNotificationConfig": {"id": "inline", **SHOWN}}
        ]


@pytest.mark.req("LRPC-01")
async def test_all_configs_are_listed_however_many_there_are(where: Where) -> None:
    async with old_serving(Stage().agent, where, push_notifications=True) as (_, client):
        task = await client.call("message/send", say("paint", skill="ask"))
        for number in range(MOST_CONFIGS):
            made = {"id": f"c-{number:03}", "url": URL}
            await client.call(f"{CONFIG}/set", {"taskId": task["id"], "pushNotificationConfig": made})
        listed = await client.call(f"{CONFIG}/list", {"id": task["id"]})
    assert sorted(entry["pushNotificationConfig"]["id"] for entry in listed) == [
        f"c-{n:03}" for n in range(MOST_CONFIGS)
    ]


@pytest.mark.req("LRPC-01", "LOLD-03", "LCRD-05")
@pytest.mark.parametrize("method", ["agent/getAuthenticatedExtendedCard", "agent/authenticatedExtendedCard"])
@pytest.mark.parametrize("params", [..., None, {}])
async def test_the_extended_card_by_both_its_names(method: str, params: Any, where: Where) -> None:
    stage = Stage(extended=extended)
    async with old_serving(stage.agent, where, authenticator=ByHeader()) as (_, client):
        card = await client.call(method, params, x_user="root")
    assert card["protocolVersion"] == "0.3.0"
    assert card["preferredTransport"] == "JSONRPC"
    assert card["url"] == f"{client.base}/"
    assert card["supportsAuthenticatedExtendedCard"] is True
    assert "secret" in [skill["id"] for skill in card["skills"]]
    assert "supportedInterfaces" not in card


@pytest.mark.req("LPSH-04", "LMAP-01")
@pytest.mark.parametrize("header", ["X-A2A-Extensions", "A2A-Extensions"])
async def test_extensions_are_told_in_the_header_that_asked_for_them(header: str, where: Where) -> None:
    place = "https://example.com/ext/place/v1"
    stage = Stage(extensions=[Extension(place)])
    async with old_serving(stage.agent, where) as (_, client):
        told = {header.replace("-", "_"): f"{place}, https://example.com/unknown"}
        answer = await client.post({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": say()}, **told)
        assert answer.headers.getall(header) == [place]
        other = ({"X-A2A-Extensions", "A2A-Extensions"} - {header}).pop()
        assert other not in answer.headers
        by_rest = await client.rest("POST", "/v1/message:send", say(), **told)
        assert by_rest.headers.getall(header) == [place]
        assert other not in by_rest.headers
    assert [turn.extensions for turn in stage.turns] == [frozenset({place})] * 2


@pytest.mark.req("LPSH-04", "EXTN-04")
async def test_an_extension_that_is_required_must_be_asked_for(where: Where) -> None:
    place = "https://example.com/ext/place/v1"
    stage = Stage(extensions=[Extension(place, required=True)])
    async with old_serving(stage.agent, where) as (_, client):
        error = await client.fault("message/send", say())
        assert (error["code"], error["data"]["reason"]) == (-32008, "EXTENSION_SUPPORT_REQUIRED")
        assert (await client.call("message/send", say(), X_A2A_Extensions=place))["status"]["state"] == "completed"


@pytest.mark.req("LRPC-01", "LRPC-05", "LMAP-01")
async def test_a_subscription_shows_the_task_and_then_what_happens(where: Where) -> None:
    stage = Stage()
    async with old_serving(stage.agent, where) as (_, client):
        task = await client.call("message/send", say("on", skill="hold", configuration={"blocking": False}))
        await stage.began()
        async with client.streaming("tasks/resubscribe", {"id": task["id"]}) as found:
            first = await anext(found)
            stage.release.set()
            rest = [event async for event in found]
    assert first.data["kind"] == "task"
    assert kinds(rest)[-2:] == ["artifact-update", "completed!"]


@pytest.mark.req("LMAP-03")
async def test_snake_case_is_read_and_never_written(where: Where) -> None:
    async with old_serving(Stage().agent, where) as (_, client):
        told = {"message": {"message_id": "m", "context_id": "c-9", "role": "user", "parts": [{"text": "x"}]}}
        task = await client.call("message/send", told)
        assert task["contextId"] == "c-9"
        assert "history" not in await client.call("tasks/get", {"id": task["id"], "history_length": 0})
