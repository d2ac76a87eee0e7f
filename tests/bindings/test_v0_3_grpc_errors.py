"""What clients of 0.3 are told when something is wrong: its words, and 1.0.0's column of codes (spec: CONF-01)."""

from __future__ import annotations

import hashlib
from typing import Any

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.agents import Extension
from a2a_server.ports.authenticator import Caller, Credentials
from tests.bindings.actors import COMPLETED, Gate, waiting
from tests.support.calls import URL
from tests.support.house import CallRules, Secret, StreamOptions, by_secrets
from tests.support.old import RPCS, every_old_call, get, send, tell
from tests.support.stage import Stage
from tests.support.world import ByHeader, Refusal, as_user, refused, serving

pytestmark = pytest.mark.only_through("grpc", why="it is about 0.3's own gRPC service")

A2A = "a2a-protocol.org"
VERSION = "a2a-version"
PLACE = "https://example.com/ext/place/v1"


def told(refusal: Refusal) -> tuple[str, str, str]:
    return refusal.code.name, refusal.reason, refusal.domain


# -- names


NAMES = ["", "t", "tasks", "tasks/", "/tasks/t", "task/t", "tasks/a/b", "tasks/t/", "Tasks/t", "tasks/t:cancel/x"]
CONFIGS = [
    *(
        "",
        "tasks/t",
        "tasks/t/pushNotificationConfigs",
        "tasks/t/pushNotificationConfigs/",
        "pushNotificationConfigs/c",
    ),
    *("tasks//pushNotificationConfigs/c", "tasks/t/pushnotificationconfigs/c", "tasks/t/pushNotificationConfigs/c/d"),
]


@pytest.mark.req("LGRP-02", "ERRS-05")
@pytest.mark.parametrize("name", NAMES)
async def test_a_malformed_name_of_a_task_is_told_with_the_right_form(name: str) -> None:
    requests: dict[str, Any] = {
        "GetTask": v03.GetTaskRequest(name=name),
        "CancelTask": v03.CancelTaskRequest(name=name),
        "TaskSubscription": v03.TaskSubscriptionRequest(name=name),
    }
    async with serving(Stage().agent) as world:
        for rpc, request in requests.items():
            call = getattr(world.old, rpc)(request)
            refusal = await refused(call.read() if rpc == "TaskSubscription" else call)
            assert told(refusal) == ("INVALID_ARGUMENT", "INVALID_PARAMS", A2A), rpc
            assert refusal.fields == {"name": f"must look like tasks/{{id}}, got {name!r}"}
            assert refusal.message == f"InvalidParamsError: name: must look like tasks/{{id}}, got {name!r}"


@pytest.mark.req("LGRP-02", "ERRS-05")
@pytest.mark.parametrize("name", CONFIGS)
async def test_so_is_one_of_a_push_config(name: str) -> None:
    requests: dict[str, Any] = {
        "GetTaskPushNotificationConfig": v03.GetTaskPushNotificationConfigRequest(name=name),
        "DeleteTaskPushNotificationConfig": v03.DeleteTaskPushNotificationConfigRequest(name=name),
    }
    async with serving(Stage().agent, push_notifications=True) as world:
        for rpc, request in requests.items():
            refusal = await refused(getattr(world.old, rpc)(request))
            assert told(refusal) == ("INVALID_ARGUMENT", "INVALID_PARAMS", A2A), rpc
            form = "tasks/{id}/pushNotificationConfigs/{config id}"
            assert refusal.fields == {"name": f"must look like {form}, got {name!r}"}


# -- messages


def wrong(**fields: Any) -> v03.SendMessageRequest:
    request = tell()
    request.request.CopyFrom(v03.Message(**fields))
    return request


def hooked(**fields: Any) -> v03.SendMessageRequest:
    return tell(configuration={"push_notification": v03.PushNotificationConfig(**{"url": URL, **fields})})


TEXT = [v03.Part(text="x")]
USER: Any = v03.ROLE_USER
GOOD: dict[str, Any] = {"message_id": "m", "role": USER, "content": TEXT}


@pytest.mark.req("ERRS-05", "LMAP-01")
@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (v03.SendMessageRequest(), {"request"}),
        (wrong(), {"request.message_id", "request.role", "request.content"}),
        (wrong(**GOOD | {"content": []}), {"request.content"}),
        (wrong(**GOOD | {"content": [v03.Part()]}), {"request.content[0]"}),
        (wrong(**GOOD | {"content": [*TEXT, v03.Part(file=v03.FilePart())]}), {"request.content[1].file"}),
        (wrong(**GOOD | {"content": [v03.Part(data=v03.DataPart())]}), {"request.content[0].data.data"}),
        (wrong(**GOOD | {"role": v03.ROLE_AGENT}), {"request.role"}),
        (wrong(**GOOD | {"role": 7}), {"request.role"}),
        (
            wrong(**GOOD | {"role": 9, "content": [*TEXT, v03.Part(file={}), v03.Part(data={})]}),
            {"request.role", "request.content[1].file", "request.content[2].data.data"},
        ),
        (tell(configuration={"history_length": -1}), {"configuration.history_length"}),
        (hooked(url="x"), {"configuration.push_notification.url"}),
        (
            hooked(authentication={"credentials": "s3cr3t"}),
            {"configuration.push_notification.authentication.schemes"},
        ),
        (
            hooked(authentication={"schemes": ["not a token"]}),
            {"configuration.push_notification.authentication.schemes"},
        ),
    ],
)
async def test_faults_of_a_message_are_told_in_the_names_of_0_3(
    request_: v03.SendMessageRequest, fields: set[str]
) -> None:
    stage = Stage()
    async with serving(stage.agent, push_notifications=True) as world:
        for call in (world.old.SendMessage(request_), world.old.SendStreamingMessage(request_).read()):
            refusal = await refused(call)
            assert told(refusal) == ("INVALID_ARGUMENT", "INVALID_PARAMS", A2A)
            assert set(refusal.fields) == fields
            if len(fields) == 1:
                assert refusal.message.startswith(f"InvalidParamsError: {fields.copy().pop()}: ")
    assert not stage.turns


@pytest.mark.req("ERRS-05", "LGRP-04")
async def test_faults_of_other_requests_too() -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        task = f"tasks/{(await send(world, tell(skill='ask'))).id}"
        get_ = v03.GetTaskRequest(name=task, history_length=-1)
        assert set((await refused(world.old.GetTask(get_))).fields) == {"history_length"}
        for size, faulty in ((-1, "page_size"), (101, "page_size")):
            listed = v03.ListTaskPushNotificationConfigRequest(parent=task, page_size=size)
            assert set((await refused(world.old.ListTaskPushNotificationConfig(listed))).fields) == {faulty}
        listed = v03.ListTaskPushNotificationConfigRequest(parent=task, page_token="forged")
        assert set((await refused(world.old.ListTaskPushNotificationConfig(listed))).fields) == {"page_token"}
        listed = v03.ListTaskPushNotificationConfigRequest(parent="t")
        assert set((await refused(world.old.ListTaskPushNotificationConfig(listed))).fields) == {"parent"}


@pytest.mark.req("ERRS-05")
@pytest.mark.parametrize("rpc", RPCS)
async def test_bytes_that_are_no_request_are_told_in_the_name_of_the_message(rpc: str) -> None:
    async with serving(Stage().agent) as world:
        made: Any = world.channel.unary_unary(f"/a2a.v1.A2AService/{rpc}", request_serializer=bytes)
        refusal = await refused(made(b"\xff\xff"))
    assert told(refusal) == ("INVALID_ARGUMENT", "INVALID_PARAMS", A2A)
    assert refusal.message.startswith("InvalidParamsError: The request is not a well-formed a2a.v1.")


# -- errors of the protocol, each with its number


@pytest.mark.req("ERRS-01", "ERRS-03")
async def test_a_task_that_is_not_there_is_not_found_by_any_rpc() -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        calls = every_old_call(world, "nope")
        for rpc in RPCS:
            if rpc in ("SendMessage", "SendStreamingMessage", "GetAgentCard"):
                continue
            refusal = await refused(calls[rpc]())
            assert told(refusal) == ("NOT_FOUND", "TASK_NOT_FOUND", A2A), rpc
            config = {"configId": "c"} if rpc == "GetTaskPushNotificationConfig" else {}
            assert refusal.metadata == {"taskId": "nope", **config}
        refusal = await refused(world.old.SendMessage(tell(task_id="nope")))
        assert told(refusal) == ("NOT_FOUND", "TASK_NOT_FOUND", A2A)


@pytest.mark.req("ERRS-01")
async def test_what_cannot_be_done_any_more_has_the_codes_of_1_0_0() -> None:
    async with serving(Stage().agent) as world:
        task = await send(world, tell())
        refusal = await refused(world.old.CancelTask(v03.CancelTaskRequest(name=f"tasks/{task.id}")))
        assert told(refusal) == ("FAILED_PRECONDITION", "TASK_NOT_CANCELABLE", A2A)
        refusal = await refused(world.old.SendMessage(tell(task_id=task.id)))
        assert told(refusal) == ("UNIMPLEMENTED", "UNSUPPORTED_OPERATION", A2A)
        refusal = await refused(world.old.SendStreamingMessage(tell(task_id=task.id)).read())
        assert told(refusal) == ("UNIMPLEMENTED", "UNSUPPORTED_OPERATION", A2A)


@pytest.mark.req("ERRS-01")
async def test_a_media_type_that_nobody_takes() -> None:
    content = [v03.Part(file=v03.FilePart(file_with_bytes=b"x", mime_type="image/png"))]
    async with serving(Stage(default_input_modes=["text"]).agent) as world:
        refusal = await refused(world.old.SendMessage(tell(content=content)))
    assert told(refusal) == ("INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", A2A)


@pytest.mark.req("LPSH-05", "ERRS-01")
async def test_without_the_capabilities() -> None:
    hook = {"push_notification": v03.PushNotificationConfig(url=URL)}
    async with serving(waiting(Gate(), streaming=False)) as world:
        calls = every_old_call(world)
        for rpc in ("SendStreamingMessage", "TaskSubscription"):
            assert told(await refused(calls[rpc]())) == ("UNIMPLEMENTED", "UNSUPPORTED_OPERATION", A2A), rpc
        for rpc in RPCS:
            if "PushNotification" in rpc:
                expected = ("UNIMPLEMENTED", "PUSH_NOTIFICATION_NOT_SUPPORTED", A2A)
                assert told(await refused(calls[rpc]())) == expected, rpc
        refusal = await refused(world.old.SendMessage(tell(configuration=hook)))
        assert told(refusal) == ("UNIMPLEMENTED", "PUSH_NOTIFICATION_NOT_SUPPORTED", A2A)


@pytest.mark.req("LCRD-05")
async def test_the_extended_card_has_one_error_for_all_ways_not_to_be_there() -> None:
    expected = ("FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", A2A)

    def none(card: pb.AgentCard, _: Any) -> None:
        del card

    for agent in (Stage().agent, Stage(extended=none).agent):
        async with serving(agent, authenticator=ByHeader()) as world:
            card = world.old.GetAgentCard(v03.GetAgentCardRequest(), metadata=as_user("root"))
            assert told(await refused(card)) == expected
    async with serving(Stage(extended=lambda card, _: card).agent) as world:  # nobody can prove who they are
        assert told(await refused(world.old.GetAgentCard(v03.GetAgentCardRequest()))) == expected


@pytest.mark.req("LCRD-05")
async def test_the_extended_card_needs_credentials_and_the_right_ones() -> None:
    async with serving(Stage(extended=lambda card, _: card).agent, authenticator=ByHeader()) as world:
        call = world.old.GetAgentCard(v03.GetAgentCardRequest(), metadata=as_user("ann"))
        assert told(await refused(call)) == ("PERMISSION_DENIED", "PERMISSION_DENIED", "a2a-server")
        card = await world.old.GetAgentCard(v03.GetAgentCardRequest(), metadata=as_user("root"))
    assert card.supports_authenticated_extended_card


# -- errors that every RPC may have


@pytest.mark.req("VERS-02", "VERS-08", "VERS-09")
@pytest.mark.parametrize("version", ["1.0", "1.0.0", "0.2.5", "0.4", "3", "latest"])
async def test_a_version_that_contradicts_the_service_is_refused_by_every_rpc(version: str) -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        for rpc, call in every_old_call(world, metadata=((VERSION, version),)).items():
            refusal = await refused(call())
            assert told(refusal) == ("UNIMPLEMENTED", "VERSION_NOT_SUPPORTED", A2A), rpc
            where = (
                " A2A 1.0 is spoken by paths without /v1, by methods such as SendMessage, and by the package lf.a2a.v1."
            )
            hint = where if version.startswith("1.0") else ""
            said = f'This interface speaks A2A 0.3; the request asks for "{version}".{hint}'
            assert refusal.message == f"VersionNotSupportedError: {said}"
            assert refusal.metadata == {"requestedVersion": version, "supportedVersions": "1.0,0.3"}
    assert not stage.turns


@pytest.mark.req("VERS-01", "VERS-03", "VERS-04")
@pytest.mark.parametrize("metadata", [(), ((VERSION, ""),), ((VERSION, "0.3"),), ((VERSION, "0.3.0"),)])
@pytest.mark.parametrize("strict", [False, True])
async def test_0_3_may_be_named_or_not(metadata: Any, strict: bool) -> None:  # noqa: FBT001 - a parameter
    stage = Stage()
    async with serving(stage.agent, rules=CallRules(strict_version=strict)) as world:
        await send(world, tell(), metadata=metadata)
    assert [turn.request.version for turn in stage.turns] == ["0.3"]


@pytest.mark.req("EXTN-04")
async def test_a_required_extension_that_is_not_listed() -> None:
    stage = Stage(extensions=[Extension(PLACE, "Says where.", required=True)])
    async with serving(stage.agent) as world:
        refusal = await refused(world.old.SendMessage(tell()))
        assert told(refusal) == ("FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED", A2A)
        assert refusal.metadata == {"extension": PLACE}
        assert await send(world, tell(), metadata=(("x-a2a-extensions", PLACE),))
        long = (("x-a2a-extensions", "x" * 9000),)
        assert set((await refused(world.old.SendMessage(tell(), metadata=long))).fields) == {"x-a2a-extensions"}


@pytest.mark.req("AUTN-03")
async def test_nobody_gets_in_without_credentials() -> None:
    secret = Secret(hashlib.sha256(b"ann-token").digest(), Caller("ann", authenticated=True))
    guard = by_secrets([secret])
    async with serving(Stage().agent, authenticator=guard) as world:
        for rpc, call in every_old_call(world).items():
            assert told(await refused(call())) == ("UNAUTHENTICATED", "UNAUTHENTICATED", "a2a-server"), rpc
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await get(world, "t")
        trailers: Any = caught.value.trailing_metadata()
        assert dict(trailers)["www-authenticate"].startswith("Bearer ")
        assert await send(world, tell(), metadata=(("authorization", "Bearer ann-token"),))


@pytest.mark.req("LIMT-01")
async def test_more_streams_than_one_may_have() -> None:
    gate = Gate()
    async with serving(waiting(gate), authenticator=ByHeader(), streams=StreamOptions(per_caller=1)) as world:
        first = world.old.SendStreamingMessage(tell(), metadata=as_user("ann"))
        task = (await first.read()).task
        refusal = await refused(anext(aiter(world.old.SendStreamingMessage(tell(), metadata=as_user("ann")))))
        assert told(refusal) == ("RESOURCE_EXHAUSTED", "OVERLOADED", "a2a-server")
        gate.open()
        assert (await world.reaches(task.id, COMPLETED, metadata=as_user("ann"))).id == task.id


@pytest.mark.req("DURA-08")
async def test_a_server_that_stops_says_so() -> None:
    async with serving(Stage().agent) as world:
        world.pipeline.draining = True
        for rpc, call in every_old_call(world).items():
            refusal = await refused(call())
            assert told(refusal) == ("UNAVAILABLE", "UNAVAILABLE", "a2a-server"), rpc


@pytest.mark.req("ERRS-07")
async def test_the_unexpected_reveals_nothing() -> None:
    class Broken:
        required = True
        card = ByHeader.card

        async def authenticate(self, credentials: Credentials) -> Caller:
            raise KeyError("password=hunter2")

    async with serving(Stage().agent, authenticator=Broken()) as world:
        for rpc, call in every_old_call(world).items():
            refusal = await refused(call())
            assert (refusal.code.name, refusal.message) == ("INTERNAL", "InternalError: Internal error."), rpc
            assert set(refusal.metadata) == {"incident"}


# -- tenants


TENANTS = dict(zip(RPCS, (4, 4, 3, 2, 2, 4, 2, 4, 2, 1), strict=True))
"""Where clients of the draft put it, whose service has 0.3's name."""


@pytest.mark.req("TENA-03", "TENA-05")
@pytest.mark.parametrize("rpc", RPCS)
async def test_a_tenant_that_0_3_has_no_place_for_is_refused_and_not_dropped(rpc: str) -> None:
    number = TENANTS[rpc]
    request = GetMessageClass(v03.DESCRIPTOR.services_by_name["A2AService"].methods_by_name[rpc].input_type)()
    request.MergeFromString(bytes([number << 3 | 2, 5]) + b"north")
    async with serving(Stage().agent) as world:
        call = getattr(world.old, rpc)(request)
        refusal = await refused(call.read() if hasattr(call, "read") else call)
        assert (refusal.code.name, refusal.reason) == ("INVALID_ARGUMENT", "INVALID_PARAMS")
        text = "0.3 has none over gRPC; call lf.a2a.v1, or REST or JSON-RPC under the tenant's path"
        assert refusal.fields == {"tenant": text}
        assert not (await world.stub.ListTasks(pb.ListTasksRequest())).tasks


async def test_other_members_that_0_3_does_not_know_are_ignored_as_protobuf_has_it() -> None:
    async with serving(Stage().agent) as world:
        for unknown in (bytes([9 << 3 | 2, 5]) + b"hello", bytes([4 << 3, 5]), bytes([4 << 3 | 2, 0])):
            request = tell()
            request.MergeFromString(unknown)
            assert (await send(world, request)).status.state == v03.TASK_STATE_COMPLETED
