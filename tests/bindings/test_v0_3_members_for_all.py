"""Input requests as members of 0.3's JSON for clients that do not ask for them (spec: XTRA-01, CONF-83)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2_grpc
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.agents import INPUT_REQUESTS, Agent, Turn, data_part
from a2a_server.serve import relaying
from a2a_server.settings import Settings
from tests.bindings.test_push_delivery import received
from tests.support import old
from tests.support.door_old import WHERE, OldClient, Where, say, tell
from tests.support.guard import Guard
from tests.support.http import house, port_of
from tests.support.receivers import receiver
from tests.support.world import say as new_say

SETTINGS: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"input_request_members": "asked"}, False),
    ({"input_request_members": "always"}, True),
]
both = pytest.mark.parametrize(("legacy", "always"), SETTINGS, ids=["default", "asked", "always"])
URI = INPUT_REQUESTS.uri
REQUEST = {"kind": "input-request", "prompt": "Which door?", "sensitive": False, "requestId": "door"}


class Everybody(NamedTuple):
    """A client of 0.3 over HTTP, and one of each version over gRPC."""

    http: OldClient
    grpc_1_0: Any
    grpc_0_3: Any


@asynccontextmanager
async def housed(where: Where, agent: Agent, **settings: Any) -> AsyncIterator[Everybody]:
    push = {"allow_loopback": True, "https_only": False}
    async with (
        aiohttp.ClientSession() as session,
        house(agent, push=push, **settings) as server,
        grpc.aio.insecure_channel(str(server.grpc)) as channel,
    ):
        stubs = a2a_pb2_grpc.A2AServiceStub(channel), a2a_v0_3_pb2_grpc.A2AServiceStub(channel)
        if where == "near":
            yield Everybody(OldClient(session, f"http://127.0.0.1:{port_of(server)}"), *stubs)
            return
        alone = Settings(http="127.0.0.1:0", upstream={"addresses": [str(server.grpc)]}, **settings)
        async with relaying(alone) as address:
            yield Everybody(OldClient(session, f"http://{address}"), *stubs)


def check(message: Any, *, member: bool) -> None:
    """The question is said as the member, or as the extension, and never as both."""
    assert message["parts"] == [{"kind": "text", "text": "Which door?"}]
    if member:
        assert message["inputRequest"] == REQUEST
        assert not {"metadata", "extensions"} & message.keys()
    else:
        assert message["extensions"] == [URI]
        assert message["metadata"] == {URI: {"inputRequest": REQUEST}}
        assert "inputRequest" not in message


@pytest.mark.req("XTRA-01", "CONF-83")
@pytest.mark.parametrize("where", WHERE)
@both
async def test_answers_and_streams_of_json(where: Where, legacy: dict[str, Any], *, always: bool) -> None:
    async with housed(where, Guard().agent, legacy=legacy, gateway={"legacy_json": "kind"}) as (client, _, _):
        task = await client.call("message/send", say(skill="open"))
        check(task["status"]["message"], member=always)
        check((await client.call("tasks/get", {"id": task["id"]}))["status"]["message"], member=always)
        check((await client.told("GET", f"/v1/tasks/{task['id']}"))["status"]["message"], member=always)
        (listed,) = await client.told("GET", "/v1/tasks")
        check(listed["status"]["message"], member=always)
        sent = await client.told("POST", "/v1/message:send", say(skill="open"))
        check(sent["task"]["status"]["message"], member=always)
        for last in (
            (await client.stream("message/stream", say(skill="open")))[-1].data,
            (await client.watch("POST", "/v1/message:stream", say(skill="open")))[-1].data["statusUpdate"],
        ):
            check(last["status"]["message"], member=always)
        async with client.streaming("tasks/resubscribe", {"id": task["id"]}) as found:
            check((await anext(found)).data["status"]["message"], member=always)


@pytest.mark.req("XTRA-01", "CONF-83")
@both
async def test_parts_of_tools(legacy: dict[str, Any], *, always: bool) -> None:
    agent = Agent(name="Caller", description="Has a tool called.", version="1", extensions=[INPUT_REQUESTS])
    call = data_part({"toolUseId": "t", "name": "open"})
    call.metadata[URI] = {"partKind": "tool-use"}

    @agent.skill(id="call", tags=["test"])
    async def tool(turn: Turn) -> pb.Part:
        return call

    async with housed("near", agent, legacy=legacy) as (client, _, _):
        (artifact,) = (await client.call("message/send", say()))["artifacts"]
        data = {"toolUseId": "t", "name": "open"}
        marked = {"kind": "data", "data": data, "metadata": {URI: {"partKind": "tool-use"}}}
        assert artifact["parts"] == [{"kind": "tool-use", **data} if always else marked]


@pytest.mark.req("XTRA-01", "CONF-83", "LPSH-03")
@both
async def test_webhooks(legacy: dict[str, Any], *, always: bool) -> None:
    async with receiver() as hook, housed("near", Guard().agent, legacy=legacy) as (client, _, _):
        config = {"pushNotificationConfig": {"url": hook.url}}
        await client.call("message/send", say(skill="open", configuration=config))
        check(json.loads((await received(hook, 3))[2].body)["status"]["message"], member=always)


@pytest.mark.req("XTRA-01", "CONF-83")
@pytest.mark.parametrize("where", WHERE)
async def test_what_has_no_place_for_the_members_and_other_versions_are_the_same(where: Where) -> None:
    legacy = {"input_request_members": "always"}
    async with housed(where, Guard().agent, legacy=legacy) as (client, new, legacy_stub):
        sent = await client.told("POST", "/v1/message:send", tell(skill="open"))
        question = sent["task"]["status"]["message" if "message" in sent["task"]["status"] else "update"]
        assert question["metadata"] == {URI: {"inputRequest": REQUEST}}
        assert question["extensions"] == [URI]
        assert "inputRequest" not in question
        over_grpc = (await legacy_stub.SendMessage(old.tell(skill="open"))).task.status.update
        over_1_0 = (await new.SendMessage(new_say(skill="open"))).task.status.message
        for message in (over_grpc, over_1_0):
            assert list(message.extensions) == [URI]
            assert message.metadata.fields[URI].struct_value.fields["inputRequest"].struct_value["requestId"] == "door"
        got = await legacy_stub.GetTask(v03.GetTaskRequest(name=f"tasks/{sent['task']['id']}"))
        assert list(got.status.update.extensions) == [URI]
        body = {"jsonrpc": "2.0", "id": "q-1", "method": "GetTask", "params": {"id": sent["task"]["id"]}}
        (told,) = [(await client.post(body, a2a_version="1.0")).json["result"]]
        assert told["status"]["message"]["extensions"] == [URI]
        assert "inputRequest" not in told["status"]["message"]
