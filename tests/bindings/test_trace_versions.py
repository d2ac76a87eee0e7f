"""The trace of a call in an older version goes on as that of any other (spec: TRAC-01)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import pytest

from a2a_proto import a2a_v0_3_pb2 as v03
from tests.bindings.test_push_delivery import received
from tests.bindings.test_push_forms import delivery
from tests.support import old
from tests.support.door_draft import draft_serving
from tests.support.door_draft import say as draft_say
from tests.support.door_old import WHERE, Where, old_serving
from tests.support.door_old import say as old_say
from tests.support.door_old import tell as old_tell
from tests.support.receivers import Receiver, receiver
from tests.support.stage import Stage
from tests.support.traces import NONE, ONE, TWO, along, traces
from tests.support.world import serving

pytestmark = pytest.mark.only_through("grpc", why="each test opens the door of its version")

Send = Callable[[Mapping[str, str]], Awaitable[object]]
"""Sends a message with headers."""


async def check(stage: Stage, client: Receiver, send: Send) -> None:
    for number, trace in enumerate((ONE, NONE, TWO), 1):
        await send(trace)
        found = await received(client, 4 * number)
        assert traces(found)[-4:] == [trace] * 4
    assert [turn.trace for turn in stage.turns] == [ONE, NONE, TWO]


@pytest.mark.req("TRAC-01")
async def test_0_3_over_grpc() -> None:
    stage = Stage()
    async with receiver() as client, serving(stage.agent, delivery=delivery()) as world:
        told = old.tell(skill="echo", configuration={"push_notification": v03.PushNotificationConfig(url=client.url)})
        await check(stage, client, lambda trace: old.send(world, told, metadata=along(trace)))


@pytest.mark.req("TRAC-01")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("binding", ["JSON-RPC", "REST", "REST as the proto has it"])
async def test_0_3_over_http(binding: str, where: Where) -> None:
    stage = Stage()
    async with receiver() as client, old_serving(stage.agent, where, delivery=delivery()) as (_, door):
        config = {"url": client.url}
        told = old_say(skill="echo", configuration={"blocking": True, "pushNotificationConfig": config})
        if binding == "JSON-RPC":
            await check(stage, client, lambda trace: door.call("message/send", told, **trace))
        else:
            if binding != "REST":
                told = old_tell(skill="echo", configuration={"blocking": True, "pushNotification": config})
            await check(stage, client, lambda trace: door.told("POST", "/v1/message:send", told, **trace))


@pytest.mark.req("TRAC-01")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("binding", ["JSON-RPC", "REST"])
async def test_the_draft(binding: str, where: Where) -> None:
    stage = Stage()
    async with receiver() as client, draft_serving(stage.agent, where, delivery=delivery()) as (_, door):
        told = draft_say(skill="echo")
        told["configuration"]["pushNotificationConfig"] = {"url": client.url}
        if binding == "JSON-RPC":
            await check(stage, client, lambda trace: door.call("SendMessage", told, **trace))
        else:
            await check(stage, client, lambda trace: door.told("POST", "/v1/message:send", told, **trace))
