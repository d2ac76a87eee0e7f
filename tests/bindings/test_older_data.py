"""Data that is no object, said and read by clients of each version (CONF-55, LMAP-01)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.agents import Agent, Turn, data_part
from tests.bindings.test_push_delivery import received
from tests.bindings.test_push_forms import delivery
from tests.support import old
from tests.support.door_draft import draft_serving
from tests.support.door_draft import say as draft_say
from tests.support.door_old import WHERE, OldClient, Where, old_serving, tell
from tests.support.door_old import say as old_say
from tests.support.receivers import receiver
from tests.support.world import say, serving

pytestmark = pytest.mark.only_through("grpc", why="each test opens the door of its version")

VALUES = [[1, 2], [], 5, "x", "", True, False, None, {"value": 1}, {"data": [None]}]
MARK = "data_part_compat"


def echo() -> tuple[Agent, list[Any]]:
    """An agent that says again what data it is given, and what it has been given."""
    agent, given = Agent(name="Echo", description="Says it again.", version="1"), []

    @agent.skill(id="echo", tags=["test"])
    async def echo(turn: Turn) -> list[pb.Part]:
        values = [MessageToDict(part)["data"] for part in turn.parts]
        given.extend(values)
        return [data_part(value) for value in values]

    return agent, given


def written(value: Any) -> dict[str, Any]:
    """As the members of a data part of 0.3."""
    return {"data": value} if isinstance(value, dict) else {"data": {"value": value}, "metadata": {MARK: True}}


def bare(spelling: str) -> list[dict[str, Any]]:
    if spelling == "kind":
        return [{"kind": "data", "data": value} for value in VALUES]
    return [{"data": {"data": value}} for value in VALUES]


def wrapped(spelling: str) -> list[dict[str, Any]]:
    if spelling == "kind":
        return [{"kind": "data", **written(value)} for value in VALUES]
    return [{**written(value), "data": {"data": written(value)["data"]}} for value in VALUES]


async def sent(client: OldClient, binding: str, parts: list[Any], **kwargs: Any) -> Any:
    if binding == "jsonrpc":
        return await client.call("message/send", old_say(parts=parts, **kwargs))
    if binding == "kind":
        return (await client.told("POST", "/v1/message:send", old_say(parts=parts, **kwargs)))["task"]
    return (await client.told("POST", "/v1/message:send", tell(content=parts, **kwargs)))["task"]


@pytest.mark.req("CONF-55", "LMAP-01")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("binding", ["jsonrpc", "kind", "proto"])
async def test_any_value_of_a_0_3_client_arrives_and_returns(where: Where, binding: str) -> None:
    spelling = "proto" if binding == "proto" else "kind"
    content = "content" if binding == "proto" else "parts"
    agent, given = echo()
    async with receiver() as hook, old_serving(agent, where, delivery=delivery()) as (world, client):
        config = {"pushNotificationConfig": {"url": hook.url}}
        task = await sent(client, binding, bare(spelling), configuration=config)
        assert given == VALUES
        assert task["artifacts"][0]["parts"] == task["history"][0][content] == wrapped(spelling)
        again = await sent(client, binding, task["artifacts"][0]["parts"])
        assert given == VALUES * 2
        assert again["artifacts"][0]["parts"] == wrapped(spelling)
        parts = (await world.get(task["id"])).artifacts[0].parts
        assert [MessageToDict(part) for part in parts] == [{"data": value} for value in VALUES]
        assert json.loads((await received(hook, 4))[3].body)["artifacts"][0]["parts"] == wrapped("kind")


@pytest.mark.req("CONF-55", "LMAP-01")
@pytest.mark.parametrize("where", WHERE)
async def test_any_value_of_a_1_0_client_is_wrapped_in_streams_of_0_3(where: Where) -> None:
    agent, given = echo()
    async with old_serving(agent, where) as (world, client):
        task = await world.send(say(parts=[ParseDict({"data": value}, pb.Part()) for value in VALUES]))
        assert given == VALUES
        got = await client.call("tasks/get", {"id": task.id})
        assert got["artifacts"][0]["parts"] == got["history"][0]["parts"] == wrapped("kind")
        found = await client.stream("message/stream", old_say(parts=bare("kind")))
        (artifact,) = [event.data["artifact"] for event in found if event.data["kind"] == "artifact-update"]
        assert artifact["parts"] == wrapped("kind")
        replayed = await client.stream("tasks/resubscribe", {"id": task.id}, last_event_id="1")
        (artifact,) = [event.data["artifact"] for event in replayed if event.data["kind"] == "artifact-update"]
        assert artifact["parts"] == wrapped("kind")


@pytest.mark.req("CONF-55", "LMAP-01")
async def test_any_value_travels_over_grpc_of_0_3() -> None:
    agent, given = echo()
    async with serving(agent) as world:
        content = [ParseDict(part, v03.Part()) for part in wrapped("proto")]
        task = await old.send(world, old.tell(content=content))
        assert given == VALUES
        assert list(task.artifacts[0].parts) == list(task.history[0].content) == content
        (item,) = [one for one in await old.stream(world, old.tell(content=content)) if one.HasField("artifact_update")]
        assert list(item.artifact_update.artifact.parts) == content


@pytest.mark.req("CONF-55", "DRFT-02")
@pytest.mark.parametrize("where", WHERE)
async def test_any_value_of_the_drafts_clients_arrives_and_returns(where: Where) -> None:
    agent, given = echo()
    async with receiver() as hook, draft_serving(agent, where, delivery=delivery()) as (_, client):
        told = draft_say(parts=bare("draft"))
        told["configuration"]["pushNotificationConfig"] = {"url": hook.url}
        found = await client.watch("POST", "/v1/message:stream", told)
        (event,) = [one.data["artifactUpdate"] for one in found if "artifactUpdate" in one.data]
        assert event["artifact"]["parts"] == wrapped("draft")
        assert found[0].data["task"]["history"][0]["parts"] == wrapped("draft")
        assert given == VALUES
        update = json.loads((await received(hook, 3))[2].body)["artifactUpdate"]
        assert update["artifact"]["parts"] == wrapped("draft")
        task = (await client.told("POST", "/v1/message:send", draft_say(parts=wrapped("draft"))))["task"]
        assert task["artifacts"][0]["parts"] == wrapped("draft")
        assert given == VALUES * 2
