"""The official SDK's HTTP clients before the SDK's own gRPC server: nothing is ours but the gateway between them.

What its server does not have over gRPC alone, REST and JSON-RPC, it has here (spec: DOOR-01).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.utils import errors as sdk

from a2a_proto import a2a_pb2 as pb
from tests.interop import test_gateway_upstream_sdk as server
from tests.support.doors import http_door
from tests.support.house import ChannelUpstream, UpstreamWithCard
from tests.support.stage import texts
from tests.support.world import kinds, say

upstream = server.upstream

pytestmark = pytest.mark.parametrize("binding", ["HTTP+JSON", "JSONRPC"])


@asynccontextmanager
async def client(behind: ChannelUpstream, binding: str, *, streaming: bool = True) -> AsyncIterator[Any]:
    relayed = UpstreamWithCard(behind, server.CARD_OF_THE_SDK)
    async with http_door(relayed) as door, httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, door.base).get_agent_card()
        config = ClientConfig(supported_protocol_bindings=[binding], httpx_client=http, streaming=streaming)
        async with ClientFactory(config).create(card) as made:
            yield made


@pytest.mark.req("DOOR-01")
async def test_send_get_and_list(upstream: ChannelUpstream, binding: str) -> None:
    async with client(upstream, binding, streaming=False) as a2a:
        (sent,) = [item async for item in a2a.send_message(say("one two"))]
        assert texts(sent.task) == ["one", "two"]
        assert await a2a.get_task(pb.GetTaskRequest(id=sent.task.id)) == sent.task
        listed = await a2a.list_tasks(pb.ListTasksRequest(context_id=sent.task.context_id))
        assert [task.id for task in listed.tasks] == [sent.task.id]


@pytest.mark.req("DOOR-01")
async def test_stream(upstream: ChannelUpstream, binding: str) -> None:
    async with client(upstream, binding) as a2a:
        seen = [item async for item in a2a.send_message(say("one two"))]
    assert kinds(seen) == ["task", "WORKING", "artifact_update", "artifact_update", "COMPLETED"]


@pytest.mark.req("DOOR-01")
async def test_subscribe_and_cancel(upstream: ChannelUpstream, binding: str) -> None:
    async with client(upstream, binding) as a2a:
        stream = a2a.send_message(say("wait"))
        task = (await anext(stream)).task
        following = a2a.subscribe(pb.SubscribeToTaskRequest(id=task.id))
        assert (await anext(following)).task.id == task.id
        canceled = await a2a.cancel_task(pb.CancelTaskRequest(id=task.id))
        assert canceled.status.state == pb.TASK_STATE_CANCELED
        for rest in (stream, following):
            assert kinds([item async for item in rest])[-1] == "CANCELED"


@pytest.mark.req("DOOR-01")
async def test_errors(upstream: ChannelUpstream, binding: str) -> None:
    async with client(upstream, binding) as a2a:
        with pytest.raises(sdk.TaskNotFoundError):
            await a2a.get_task(pb.GetTaskRequest(id="nowhere"))
        with pytest.raises(sdk.TaskNotFoundError):
            await anext(a2a.subscribe(pb.SubscribeToTaskRequest(id="nowhere")))
        with pytest.raises(sdk.PushNotificationNotSupportedError):
            await a2a.create_task_push_notification_config(
                pb.TaskPushNotificationConfig(task_id="nowhere", url="https://example.com/")
            )
