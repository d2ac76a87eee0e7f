"""The ten RPCs of 0.3 over gRPC, as its clients know them (spec: LGRP, LPSH-05; CONF-08, CONF-66)."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, cast

import grpc
import pytest
from google.protobuf import json_format
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.ports.store import Store
from tests.bindings.actors import COMPLETED, Gate, waiting
from tests.support.house import LegacyOptions, Limits
from tests.support.old import NOW, RPCS, every_old_call, get, kinds, send, stream, subscribe, tell, texts
from tests.support.stage import Stage
from tests.support.world import ByHeader, as_user, say, serving

pytestmark = pytest.mark.only_through("grpc", why="it is about 0.3's own gRPC service")

SERVICE = "a2a.v1.A2AService"


@pytest.mark.req("LGRP-01", "LMAP-01")
async def test_each_of_the_ten_rpcs_answers(store: Store) -> None:
    stage = Stage(extended=lambda card, _: card)
    async with serving(stage.agent, store=store, push_notifications=True, authenticator=ByHeader()) as world:
        root = as_user("root")
        task = await send(world, tell(skill="ask"), metadata=root)
        calls = every_old_call(world, task.id, metadata=root)
        assert set(calls) == set(RPCS)

        answers = {rpc: await calls[rpc]() for rpc in RPCS if rpc != "CancelTask"}
        canceled = await calls["CancelTask"]()

    assert answers["SendMessage"].task.status.state == v03.TASK_STATE_COMPLETED
    assert answers["SendStreamingMessage"].WhichOneof("payload") == "task"
    assert answers["GetTask"].id == answers["TaskSubscription"].task.id == canceled.id == task.id
    assert canceled.status.state == v03.TASK_STATE_CANCELLED
    name = f"tasks/{task.id}/pushNotificationConfigs/c"
    for rpc in ("CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig"):
        assert answers[rpc].name == name
    assert [config.name for config in answers["ListTaskPushNotificationConfig"].configs] == [name]
    assert answers["DeleteTaskPushNotificationConfig"].DESCRIPTOR.full_name == "google.protobuf.Empty"
    assert answers["GetAgentCard"].protocol_version == "0.3.0"


@pytest.mark.req("LGRP-01")
async def test_there_is_no_list_of_tasks_and_nothing_else_either() -> None:
    async with serving(Stage().agent) as world:
        for method in ("ListTasks", "ListTask", "SubscribeToTask", "GetExtendedAgentCard"):
            call: Any = world.channel.unary_unary(f"/{SERVICE}/{method}", request_serializer=bytes)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(b"")
            assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_balancers_and_grpcurl_see_the_service() -> None:
    async with serving(Stage().agent) as world:
        health: Any = health_pb2_grpc.HealthStub(world.channel)
        checked = await health.Check(health_pb2.HealthCheckRequest(service=SERVICE))
        assert checked.status == health_pb2.HealthCheckResponse.SERVING
        reflection: Any = reflection_pb2_grpc.ServerReflectionStub(cast("Any", world.channel))
        asked = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE),
        ]
        listed, described = [answer async for answer in reflection.ServerReflectionInfo(iter(asked))]
    assert SERVICE in [service.name for service in listed.list_services_response.service]
    assert any(b"a2a.v1" in file for file in described.file_descriptor_response.file_descriptor_proto)


@pytest.mark.req("LMAP-01")
async def test_a_message_is_echoed_in_the_shapes_of_0_3() -> None:
    async with serving(Stage().agent) as world:
        task = await send(world, tell("hello", context_id="c-1"))
    shown = json_format.MessageToDict(task)
    assert shown["contextId"] == "c-1"
    assert shown["status"]["state"] == "TASK_STATE_COMPLETED"
    assert shown["history"][0]["content"] == [{"text": "hello"}]
    assert shown["history"][0]["role"] == "ROLE_USER"
    assert shown["artifacts"][0]["parts"] == [{"text": "hello"}]


async def test_a_direct_answer_is_a_message() -> None:
    async with serving(Stage().agent) as world:
        answer = await world.old.SendMessage(tell("hi", skill="chat"))
        (item,) = await stream(world, tell("hi", skill="chat"))
    for one in (answer, item):
        assert one.WhichOneof("payload") == "msg"
        assert [part.text for part in one.msg.content] == ["you said hi"]


@pytest.mark.req("BLK-04", "LMAP-01")
@pytest.mark.parametrize(
    ("configuration", "wait_unasked", "waits"),
    [
        ({"blocking": True}, False, True),
        ({"blocking": False}, False, False),
        ({"blocking": False}, True, False),
        ({"accepted_output_modes": ["text"]}, True, False),  # protobuf cannot tell a default from nothing
        (None, False, False),
        (None, True, True),
    ],
)
async def test_a_send_waits_if_it_says_so(
    configuration: dict[str, Any] | None,
    wait_unasked: bool,  # noqa: FBT001 - a parameter
    waits: bool,  # noqa: FBT001 - as above
) -> None:
    gate = Gate()
    async with serving(waiting(gate), old_options=LegacyOptions(wait="always" if wait_unasked else "auto")) as world:
        request = tell()
        request.ClearField("configuration")
        if configuration is not None:
            request.configuration.CopyFrom(v03.SendMessageConfiguration(**configuration))
        answer = asyncio.ensure_future(send(world, request))
        if waits:
            await gate.reached.wait()
            assert not answer.done()
            gate.open()
            assert (await answer).status.state == v03.TASK_STATE_COMPLETED
        else:
            task = await answer
            assert task.status.state in (v03.TASK_STATE_SUBMITTED, v03.TASK_STATE_WORKING)
            gate.open()
            await world.reaches(task.id, COMPLETED)


@pytest.mark.req("LGRP-04")
async def test_a_history_length_of_0_means_all_of_it(store: Store) -> None:
    async with serving(Stage().agent, store=store) as world:
        task = await send(world, tell("one", skill="ask"))
        whole = await send(world, tell("two", task_id=task.id, message_id="m-2"))
        assert [message.message_id for message in whole.history] == ["m-1", whole.history[1].message_id, "m-2"]

        for length, expected in ((0, 3), (1, 1), (2, 2), (3, 3), (99, 3)):
            request = v03.GetTaskRequest(name=f"tasks/{task.id}", history_length=length)
            shown = await world.old.GetTask(request)
            assert list(shown.history) == list(whole.history)[-expected:], length
        asked = await send(world, tell("one", configuration={"history_length": 0}))
        assert len(asked.history) == 1
        shown = await send(world, tell("one", skill="ask", configuration={"history_length": 1}))
        assert len(shown.history) == 1


@pytest.mark.req("LGRP-04")
async def test_all_of_it_ends_at_the_servers_own_bound() -> None:
    async with serving(Stage().agent, limits=Limits(history_cap=1, drain_grace=0.05)) as world:
        task = await send(world, tell("one", skill="ask"))
        await send(world, tell("two", task_id=task.id))
        assert len((await get(world, task.id)).history) == 1
        assert len((await subscribe(world, task.id))[0].task.history) == 1


FILE = bytes(range(256))


@pytest.mark.req("LMAP-01")
@pytest.mark.parametrize("raw", [False, True])
async def test_files_come_and_go_as_text_or_as_they_are(raw: bool) -> None:  # noqa: FBT001 - a parameter
    stage = Stage()
    content = [
        v03.Part(file=v03.FilePart(file_with_bytes=FILE, mime_type="text/plain", name="raw")),
        v03.Part(file=v03.FilePart(file_with_bytes=base64.b64encode(FILE), mime_type="text/plain", name="text")),
        v03.Part(file=v03.FilePart(file_with_uri="https://example.com/f", mime_type="text/plain")),
    ]
    async with serving(stage.agent, old_options=LegacyOptions(raw_files=raw)) as world:
        task = await send(world, tell(content=content, skill="bare"))
        stored = await world.get(task.id)
    parts = stored.history[0].parts
    assert [part.raw for part in parts[:2]] == [FILE, FILE]
    assert [part.filename for part in parts] == ["raw", "text", ""]
    assert parts[2].url == "https://example.com/f"
    told = FILE if raw else base64.b64encode(FILE)
    assert [part.file.file_with_bytes for part in task.history[0].content] == [told, told, b""]


@pytest.mark.req("LPSH-05")
async def test_what_the_card_does_not_declare_is_refused() -> None:
    """Streams and push configs, though unary calls go on."""
    async with serving(waiting(Gate(), streaming=False)) as world:
        for rpc, call in every_old_call(world).items():
            if rpc in ("SendMessage", "GetTask", "CancelTask", "GetAgentCard"):
                continue
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call()
            assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED, rpc


@pytest.mark.req("LPSH-05", "LGRP-03")
async def test_without_streams_a_finished_task_is_not_shown_by_subscribing_either() -> None:
    async with serving(waiting(gate := Gate(), streaming=False)) as world:
        gate.open()
        task = await send(world, tell())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await subscribe(world, task.id)
        assert caught.value.details() == "UnsupportedOperationError: This agent does not stream."


@pytest.mark.req("BLK-04")
async def test_what_returns_at_once_goes_on() -> None:
    async with serving(Stage().agent) as world:
        task = await send(world, tell("hello", configuration=NOW))
        await world.reaches(task.id, COMPLETED)
        assert texts(await get(world, task.id)) == ["hello"]


async def test_requests_of_1_0_do_not_pass_for_0_3() -> None:
    """The numbers differ where it matters: a message of 1.0 has its parts where 0.3 has its content."""
    async with serving(Stage().agent) as world:
        call: Any = world.channel.unary_unary(f"/{SERVICE}/SendMessage", request_serializer=bytes)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(say(tenant="t").SerializeToString())
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_stream_in_all_its_shapes() -> None:
    async with serving(Stage().agent) as world:
        items = await stream(world, tell("hello"))
    assert kinds(items)[0] == "task"
    assert kinds(items)[-1] == "COMPLETED!"
    assert "artifact_update" in kinds(items)
    update = next(item.artifact_update for item in items if item.HasField("artifact_update"))
    assert [part.text for part in update.artifact.parts] == ["hello"]
    assert {item.status_update.task_id for item in items if item.HasField("status_update")} == {update.task_id}
