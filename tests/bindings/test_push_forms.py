"""Webhooks of older versions: the form follows the version that made the config (spec: LPSH-01 to -03, CONF-36)."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.agents import Turn
from a2a_server.operations.push.push_options import WebhookForm
from a2a_server.ports.store import Store
from a2a_server.protocol.json_v1 import V1
from tests.bindings.test_push_delivery import events, inline, numbers, received
from tests.support import old
from tests.support.deliveries import Pigeonhole, deliver
from tests.support.door_draft import draft_serving
from tests.support.door_draft import say as draft_say
from tests.support.door_old import WHERE, Where, old_serving
from tests.support.door_old import say as old_say
from tests.support.house import PushOptions, SystemClock, WebhookSender
from tests.support.receivers import HERE, Received, Receiver, receiver
from tests.support.stage import Stage
from tests.support.world import kinds, say, serving

pytestmark = pytest.mark.only_through("grpc", why="each test opens the door of its version")


def delivery() -> PushOptions:
    return deliver(WebhookSender(HERE, SystemClock(), timeout=10))


def hook(client: Receiver, **fields: Any) -> dict[str, Any]:
    return {
        "url": client.url,
        "token": "t0k3n",
        "authentication": {"schemes": ["Digest", "Bearer"], "credentials": "s"},
    } | fields


def check_tasks(found: list[Received], states: list[str]) -> None:
    """Each webhook is the task as its event left it, and says who sends it."""
    tasks = [json.loads(one.body) for one in found]
    assert [next(iter(task.items())) for task in tasks] == [("kind", "task")] * len(tasks)
    assert [task["status"]["state"] for task in tasks] == states
    assert ["artifacts" in task for task in tasks] == [False, False, True, True]
    assert tasks[-1]["artifacts"][0]["parts"] == [{"kind": "text", "text": "hello"}]
    for one in found:
        assert one.headers["Content-Type"] == "application/json"
        assert one.headers["A2A-Version"] == "0.3"
        assert one.headers["X-A2A-Notification-Token"] == "t0k3n"
        assert one.headers["Authorization"] == "Bearer s"
    assert numbers(found) == [1, 2, 3, 4]


STATES = ["submitted", "working", "working", "completed"]


@pytest.mark.req("LPSH-01", "LPSH-02", "LPSH-03", "CONF-36", "SEND-07")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
async def test_a_config_of_0_3_json_gets_the_task(where: Where, binding: str) -> None:
    async with receiver() as client, old_serving(Stage().agent, where, delivery=delivery()) as (_, door):
        told = old_say(skill="echo", configuration={"pushNotificationConfig": hook(client)})
        if binding == "jsonrpc":
            await door.call("message/send", told)
        else:
            await door.told("POST", "/v1/message:send", told)
        check_tasks(await received(client, 4), STATES)


@pytest.mark.req("LPSH-01", "LPSH-02", "LPSH-03", "CONF-36", "SEND-07")
async def test_a_config_of_0_3_grpc_gets_the_task_in_json(store: Store) -> None:
    async with receiver() as client, serving(Stage().agent, store=store, delivery=delivery()) as world:
        authentication = v03.AuthenticationInfo(schemes=["Digest", "Bearer"], credentials="s")
        config = v03.PushNotificationConfig(url=client.url, token="t0k3n", authentication=authentication)
        await old.send(world, old.tell(skill="echo", configuration={"push_notification": config}))
        check_tasks(await received(client, 4), STATES)


@pytest.mark.req("LPSH-03", "PUSH-05", "CONF-36")
async def test_one_task_tells_each_version_in_its_own_form() -> None:
    async with (
        receiver() as one,
        receiver() as other,
        old_serving(Stage().agent, delivery=delivery()) as (world, door),
    ):
        task = await world.send(say(skill="ask", configuration=inline(one)))
        told = {"taskId": task.id, "pushNotificationConfig": {"url": other.url}}
        await door.call("tasks/pushNotificationConfig/set", told)
        await world.send(say("red", task_id=task.id))
        assert kinds(events(await received(one, 6)))[3:] == ["WORKING", "artifact_update", "COMPLETED"]
        tasks = [json.loads(found.body) for found in await received(other, 3)]
        assert [task["status"]["state"] for task in tasks] == ["working", "working", "completed"]
        assert [message["parts"][0]["text"] for message in tasks[0]["history"]] == ["hello", "What colour?", "red"]


@pytest.mark.req("CONF-36", "DRFT-07")
@pytest.mark.parametrize("where", WHERE)
async def test_a_config_of_the_draft_gets_events_in_its_words(where: Where) -> None:
    async with receiver() as client, draft_serving(Stage().agent, where, delivery=delivery()) as (_, door):
        told = draft_say("hello", skill="echo")
        told["configuration"]["pushNotificationConfig"] = hook(client)
        await door.told("POST", "/v1/message:send", told)
        found = await received(client, 4)
        bodies = [json.loads(one.body) for one in found]
        assert [next(iter(body)) for body in bodies] == ["task", "statusUpdate", "artifactUpdate", "statusUpdate"]
        assert bodies[3]["statusUpdate"]["status"]["state"] == "completed"
        assert {one.headers["Content-Type"] for one in found} == {"application/a2a+json"}


@pytest.mark.req("DRFT-02", "CONF-11", "CONF-36")
@pytest.mark.parametrize(
    ("skill", "text", "keep_open", "told"),
    [
        ("bare", "x", False, ["working", "completed!"]),
        ("fail", "x", True, ["working", "failed!"]),
        ("ask", "x", False, ["working", "input-required!"]),
        ("ask", "x", True, ["working", "input-required"]),
        ("wait", "in band", False, ["working", "auth-required!"]),
        ("wait", "elsewhere", False, ["working", "auth-required"]),
    ],
)
async def test_a_webhook_of_the_draft_says_which_event_a_stream_would_end_with(
    skill: str, text: str, told: list[str], *, keep_open: bool
) -> None:
    stage = Stage()

    @stage.agent.skill(id="wait", description="Wants a credential.", tags=["test"])
    async def wait(turn: Turn) -> None:
        await turn.require_auth("Log in.", in_band=turn.text == "in band")

    serving_it = draft_serving(stage.agent, delivery=delivery(), keep_open_on_input=keep_open)
    async with receiver() as client, serving_it as (_, door):
        send = draft_say(text, skill=skill, blocking=False)
        send["configuration"]["pushNotificationConfig"] = {"url": client.url}
        await door.told("POST", "/v1/message:send", send)
        bodies = [json.loads(one.body) for one in await received(client, 3)]
    updates = [body["statusUpdate"] for body in bodies if "statusUpdate" in body]
    assert [update["status"]["state"] + "!" * update["final"] for update in updates] == told


@pytest.mark.req("SSRF-02", "ERRS-05")
async def test_0_3_is_told_in_its_own_words_what_is_wrong_with_an_address() -> None:
    wrong = {"url": "https://192.168.1.1/"}
    text = "must lead to a public address; 192.168.1.1 is a private one"
    async with old_serving(Stage().agent, delivery=delivery()) as (_, door):
        task = await door.call("message/send", old_say(skill="ask"))
        told = {"taskId": task["id"], "pushNotificationConfig": wrong}
        error = await door.fault("tasks/pushNotificationConfig/set", told)
        assert error["data"]["violations"] == [{"field": "pushNotificationConfig.url", "description": text}]
        error = await door.fault("message/send", old_say(configuration={"pushNotificationConfig": wrong}))
        assert error["data"]["violations"] == [
            {"field": "configuration.pushNotificationConfig.url", "description": text}
        ]


@pytest.mark.req("DOOR-04", "HOOK-02")
@pytest.mark.parametrize("whole", [False, True])
async def test_others_are_served_while_a_long_webhook_is_written(*, whole: bool) -> None:
    """Be its body the event or the task: what writes it here goes on only when somebody else has been served."""
    stage, sender, begun, served = Stage(), Pigeonhole(), threading.Event(), threading.Event()

    @stage.agent.skill(id="heavy", description="Says much.", tags=["test"])
    async def heavy(turn: Turn) -> str:
        return "x" * 100_000

    def encode(message: Message) -> bytes:
        if message.ByteSize() > 100_000:
            begun.set()
            assert served.wait(10)
        return V1.encode(message)

    options = replace(deliver(sender), forms={"1.0": WebhookForm("application/json", encode, whole=whole)})
    async with serving(stage.agent, delivery=options) as world:
        configuration = {"task_push_notification_config": {"url": "https://hook.example/"}}
        task = await world.send(say(skill="heavy", configuration=configuration))
        async with asyncio.timeout(30):
            while not begun.is_set():  # noqa: ASYNC110 - a thread says so
                await asyncio.sleep(0.001)
            assert (await world.get(task.id)).status.state == pb.TASK_STATE_COMPLETED
            served.set()
            while len(sender.notices) < 4:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.001)
    assert sum(len(notice.body) > 100_000 for notice in sender.notices) == (2 if whole else 1)
