"""One server process with all its doors, and a gateway process before it: equal answers everywhere (GEN-01, GEN-02)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from tests.e2e.processes import serving
from tests.e2e.test_gateway import gateway
from tests.support.doors import DOORS, SERVICE, Client, Door, client_of
from tests.support.world import Refusal, refusal, say

AGENT = str(Path(__file__).parents[1] / "support" / "door_agent.py")
NOWHERE = "http://127.0.0.1:1024/hook"
"""Nobody listens there."""
STREAMS = {method.name for method in SERVICE.methods if method.server_streaming}
MADE_UP = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z")
"""Ids and times, which no two calls share."""


@dataclass(frozen=True)
class Running:
    grpc_port: int
    http: str
    gateway: str

    def client(self, door: Door) -> Any:
        return client_of(door, grpc_port=self.grpc_port, base=self.gateway if door.endswith("-far") else self.http)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("doors")
    with (
        serving(AGENT, "--store", "memory:", cwd=folder, A2A_PUSH__ALLOW_LOOPBACK="true") as server,
        gateway("--upstream", server.address, cwd=folder) as before,
    ):
        yield Running(int(server.address.rpartition(":")[2]), server.http.rstrip("/"), before.url.rstrip("/"))


@asynccontextmanager
async def through_all(running: Running) -> AsyncIterator[dict[Door, Client]]:
    async with (
        running.client("grpc") as one,
        running.client("rest") as two,
        running.client("jsonrpc") as three,
        running.client("rest-far") as four,
        running.client("jsonrpc-far") as five,
    ):
        yield dict(zip(DOORS, (one, two, three, four, five), strict=True))


async def outcome(client: Client, rpc: str, request: Message, metadata: Sequence[tuple[str, str]] = ()) -> object:
    """What a client is told: messages, or the refusal after them."""
    told: list[object] = []
    call = getattr(client.stub, rpc)(request, metadata=metadata)
    try:
        if rpc in STREAMS:
            async for item in call:
                told.append(comparable(item))  # noqa: PERF401 - what came before an error counts
        else:
            told.append(comparable(await call))
    except grpc.aio.AioRpcError as error:
        told.append(without_incident(refusal(error)))
    return told


def comparable(message: Message) -> str:
    return MADE_UP.sub("?", json_format.MessageToJson(message, sort_keys=True))


def without_incident(told: Refusal) -> Refusal:
    return replace(told, metadata={name: MADE_UP.sub("?", text) for name, text in told.metadata.items()})


def calls(finished: str) -> list[tuple[str, Message]]:
    """Every operation: as it should be called, and in the ways in which it should not."""
    config: dict[str, Any] = {"task_id": finished, "id": "c"}
    long = pb.GetTaskRequest(id=finished, history_length=-1, tenant="n" * 300)
    return [
        ("SendMessage", say("hello")),
        ("SendMessage", say("hello", skill="chat", context_id="c")),
        ("SendMessage", say("hello", tenant="north", configuration={"history_length": 0})),
        ("SendMessage", say("again", task_id=finished)),
        ("SendMessage", say(task_id="nope")),
        ("SendMessage", say(parts=[pb.Part(), pb.Part(raw=b"\xff\x00", media_type="image/png")])),
        ("SendMessage", say(configuration={"task_push_notification_config": {"url": NOWHERE}})),
        ("SendMessage", pb.SendMessageRequest()),
        ("SendStreamingMessage", say("one two three", skill="chunks")),
        ("SendStreamingMessage", say("hello", skill="chat")),
        ("SendStreamingMessage", say(task_id="nope")),
        ("SendStreamingMessage", pb.SendMessageRequest()),
        ("GetTask", pb.GetTaskRequest(id=finished)),
        ("GetTask", pb.GetTaskRequest(id=finished, history_length=0)),
        ("GetTask", pb.GetTaskRequest(id=finished, tenant="north")),
        ("GetTask", pb.GetTaskRequest(id="né/ver: %2F?#")),
        ("GetTask", long),
        ("ListTasks", pb.ListTasksRequest(context_id="of the finished", include_artifacts=True, page_size=1)),
        ("ListTasks", pb.ListTasksRequest(context_id="nobody's", status=pb.TASK_STATE_WORKING)),
        ("ListTasks", pb.ListTasksRequest(page_size=500, page_token="nonsense", history_length=-1)),
        ("CancelTask", pb.CancelTaskRequest(id=finished, metadata={"why": "because"})),
        ("CancelTask", pb.CancelTaskRequest(id="nope", tenant="north")),
        ("SubscribeToTask", pb.SubscribeToTaskRequest(id=finished)),
        ("SubscribeToTask", pb.SubscribeToTaskRequest(id="nope", tenant="north")),
        ("CreateTaskPushNotificationConfig", pb.TaskPushNotificationConfig(**config, url=NOWHERE)),
        ("GetTaskPushNotificationConfig", pb.GetTaskPushNotificationConfigRequest(**config)),
        ("ListTaskPushNotificationConfigs", pb.ListTaskPushNotificationConfigsRequest(task_id=finished, page_size=1)),
        ("DeleteTaskPushNotificationConfig", pb.DeleteTaskPushNotificationConfigRequest(**config, tenant="north")),
        ("GetExtendedAgentCard", pb.GetExtendedAgentCardRequest()),
        ("GetExtendedAgentCard", pb.GetExtendedAgentCardRequest(tenant="north")),
    ]


@pytest.mark.req("GEN-01", "GEN-02", "TENA-02", "DOOR-02", "ERRS-01", "ERRS-03", "ERRS-04")
async def test_every_operation_gives_equal_answers_at_every_door(running: Running) -> None:
    async with through_all(running) as clients:
        sent = await clients["grpc"].stub.SendMessage(say("done", context_id="of the finished"))
        made = calls(sent.task.id)
        assert {rpc for rpc, _ in made} == {method.name for method in SERVICE.methods}
        for rpc, request in made:
            told = {door: await outcome(client, rpc, request) for door, client in clients.items()}
            for door in DOORS[1:]:
                assert told[door] == told["grpc"], (door, rpc, request)
            assert "UNIMPLEMENTED" not in str(told["grpc"])


@pytest.mark.req("GEN-02", "SPAR-02", "VERS-02", "ERRS-04")
@pytest.mark.parametrize("version", ["1.0", "1.0.7", "0.9", "2.0", "", "one"])
async def test_every_door_reads_the_version_alike(running: Running, version: str) -> None:
    async with through_all(running) as clients:
        metadata = [("a2a-version", version)]
        told = [await outcome(client, "SendMessage", say(), metadata) for client in clients.values()]
    assert all(one == told[0] for one in told[1:]), told


@pytest.mark.req("GEN-02")
async def test_a_task_is_the_same_wherever_it_is_looked_at(running: Running) -> None:
    """To the last member, and made through any door."""
    async with through_all(running) as clients:
        for maker in clients.values():
            task = (await maker.stub.SendMessage(say("hello", tenant="south"))).task
            for client in clients.values():
                assert await client.stub.GetTask(pb.GetTaskRequest(id=task.id, tenant="south")) == task


@pytest.mark.req("CARD-03", "DOOR-01")
async def test_the_card_leads_to_every_door_of_the_server(running: Running) -> None:
    """The gateway tells the doors of the server behind it as well as its own."""
    async with through_all(running) as clients:
        near, through, far = [
            await clients[door].discovery.GetAgentCard(GetAgentCardRequest(), metadata=(("a2a-version", "1.0"),))
            for door in ("grpc", "rest", "rest-far")
        ]
    assert through == near
    doors = [(door.protocol_binding, door.url.rstrip("/")) for door in near.supported_interfaces]
    assert set(doors) == {
        ("GRPC", f"127.0.0.1:{running.grpc_port}"),
        ("HTTP+JSON", running.http),
        ("JSONRPC", running.http),
    }
    beyond = {(door.protocol_binding, door.url.rstrip("/")) for door in far.supported_interfaces}
    assert {("HTTP+JSON", running.gateway), ("JSONRPC", running.gateway), doors[0]} <= beyond
