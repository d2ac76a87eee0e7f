"""The gateway in front of the official SDK's gRPC server, of which it knows nothing but the protos (spec: DOOR-01)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import grpc
import pytest
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import Message as SdkMessage
from a2a.types import a2a_pb2_grpc
from google.rpc import code_pb2 as code
from google.rpc import error_details_pb2 as details

from a2a_gateway.upstream import CallContext
from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from tests.support.doors import http_door
from tests.support.house import ChannelOptions, ChannelUpstream, UpstreamWithCard
from tests.support.upstreams import CARD, items, refused, rpc
from tests.support.world import kinds, say

V1 = CallContext({"a2a-version": ("1.0",)})

CARD_OF_THE_SDK = pb.AgentCard(
    name="Echo",
    description="Says it again, in pieces.",
    version="1.0.0",
    capabilities=pb.AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[pb.AgentSkill(id="echo", name="Echo", description="Says it again.", tags=["text"])],
    supported_interfaces=[pb.AgentInterface(url="127.0.0.1:1", protocol_binding="GRPC", protocol_version="1.0")],
)


class Echo(AgentExecutor):
    """Answers with one artifact chunk per word; waits when it is told to."""

    def __init__(self) -> None:
        self.canceled = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = new_task_from_user_message(cast("SdkMessage", context.message))
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        words = context.get_user_input().split()
        if words == ["wait"]:
            await self.canceled.wait()
            return
        for number, word in enumerate(words):
            parts = cast("Any", [pb.Part(text=word)])
            last = number == len(words) - 1
            await updater.add_artifact(parts, artifact_id="a", append=number > 0, last_chunk=last)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()
        self.canceled.set()


@pytest.fixture
async def upstream() -> AsyncIterator[ChannelUpstream]:
    handler = DefaultRequestHandler(Echo(), InMemoryTaskStore(), cast("Any", CARD_OF_THE_SDK))
    server = grpc.aio.server()
    cast("Any", a2a_pb2_grpc).add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    made = ChannelUpstream(ChannelOptions(addresses=(f"127.0.0.1:{port}",)))
    yield made
    await made.close()
    await server.stop(None)


@asynccontextmanager
async def session(upstream: ChannelUpstream) -> AsyncIterator[aiohttp.ClientSession]:
    async with http_door(UpstreamWithCard(upstream, CARD_OF_THE_SDK)) as door, aiohttp.ClientSession(door.base) as made:
        yield made


@pytest.mark.req("DOOR-01")
async def test_unary_calls(upstream: ChannelUpstream) -> None:
    assert await upstream.ready()  # it has no health service
    sent = await upstream.unary(rpc("SendMessage"), say("one two"), V1)
    assert isinstance(sent.message, pb.SendMessageResponse)
    task = sent.message.task
    assert [part.text for part in task.artifacts[0].parts] == ["one", "two"]
    got = await upstream.unary(rpc("GetTask"), pb.GetTaskRequest(id=task.id), V1)
    assert got.message == task


@pytest.mark.req("DOOR-01", "EXTN-02")
async def test_a_stream(upstream: ChannelUpstream) -> None:
    stream = await upstream.stream(rpc("SendStreamingMessage"), say("one two"), V1)
    seen = await items(stream)
    assert kinds([event for _, event in seen]) == [
        "task",
        "WORKING",
        "artifact_update",
        "artifact_update",
        "COMPLETED",
    ]
    assert {number for number, _ in seen} == {0}  # it numbers nothing


@pytest.mark.req("DOOR-01")
async def test_errors(upstream: ChannelUpstream) -> None:
    lost = await refused(upstream.unary(rpc("GetTask"), pb.GetTaskRequest(id="nowhere"), V1))
    assert lost.code == code.NOT_FOUND
    info = details.ErrorInfo()
    assert lost.details[0].Unpack(info)
    assert (info.reason, info.domain) == ("TASK_NOT_FOUND", "a2a-protocol.org")
    assert (await refused(upstream.unary(CARD, GetAgentCardRequest(), V1))).code == code.UNIMPLEMENTED

    async def subscribe() -> Any:
        return await items(await upstream.stream(rpc("SubscribeToTask"), pb.SubscribeToTaskRequest(id="nowhere"), V1))

    assert (await refused(subscribe())).code == code.NOT_FOUND


@pytest.mark.req("DOOR-01")
async def test_cancel(upstream: ChannelUpstream) -> None:
    stream = await upstream.stream(rpc("SendStreamingMessage"), say("wait"), V1)
    (first,) = await anext(stream.items)
    task = pb.StreamResponse.FromString(first.wire).task
    canceled = await upstream.unary(rpc("CancelTask"), pb.CancelTaskRequest(id=task.id), V1)
    assert isinstance(canceled.message, pb.Task)
    assert canceled.message.status.state == pb.TASK_STATE_CANCELED
    assert kinds([event for _, event in await items(stream)])[-1] == "CANCELED"


def body(text: str) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}


@pytest.mark.req("DOOR-01", "CARD-01")
async def test_over_http(upstream: ChannelUpstream) -> None:
    async with session(upstream) as http:
        sent = await (await http.post("/message:send", json=body("one two"))).json(content_type=None)
        task = sent["task"]
        assert [part["text"] for part in task["artifacts"][0]["parts"]] == ["one", "two"]
        assert await (await http.get(f"/tasks/{task['id']}")).json(content_type=None) == task

        events = await (await http.post("/message:stream", json=body("one"))).text()
        told = [json.loads(line.removeprefix("data:")) for line in events.splitlines() if line.startswith("data:")]
        assert [next(iter(event)) for event in told] == ["task", "statusUpdate", "artifactUpdate", "statusUpdate"]
        assert "\nid:" not in events

        lost = await http.get("/tasks/nowhere")
        error = (await lost.json(content_type=None))["error"]
        assert (lost.status, error["details"][0]["reason"]) == (404, "TASK_NOT_FOUND")
        card = await (await http.get("/.well-known/agent-card.json")).json()
        assert [door["protocolBinding"] for door in card["supportedInterfaces"]] == ["GRPC", "HTTP+JSON", "JSONRPC"]
        rpc_call = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}
        assert (await (await http.post("/", json=rpc_call)).json())["result"] == task
