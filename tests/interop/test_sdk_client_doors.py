"""The official SDK's client against this server, through every door and also through a gateway elsewhere (DOOR-08).

Its messages are ours (design 3), so that nothing needs translating here; only type checkers take them for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import httpx
import pytest
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import Task as SdkTask
from a2a.utils import errors as sdk

from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.agents import Extension, Turn
from a2a_server.ports.authenticator import Caller
from tests.support import world
from tests.support.doors import DOORS, Door
from tests.support.stage import Stage, texts
from tests.support.world import ByHeader, World, kinds, say, serving

BINDINGS = {"grpc": "GRPC", "rest": "HTTP+JSON", "jsonrpc": "JSONRPC"}
URL = "https://example.com/hook"
PLACE = "https://example.com/ext/place/v1"


@pytest.fixture(params=DOORS, autouse=True)
def door(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Door:
    """The door that `client` goes through."""
    monkeypatch.setattr(world, "DOOR", request.param)
    chosen: Door = request.param
    return chosen


def extend(card: pb.AgentCard, caller: Caller) -> pb.AgentCard | None:
    card.description += f" For {caller.owner}."
    return card if caller.owner == "root" else None


def cast(**options: Any) -> Stage:
    usual = {"extended": extend, "extensions": [Extension(PLACE)], "default_input_modes": ["text/plain"]}
    stage = Stage(**{**usual, **options})

    @stage.agent.skill(id="chunks", description="Writes in chunks.", tags=["test"])
    async def chunks(turn: Turn) -> AsyncIterator[str]:
        for word in turn.text.split():
            yield word

    @stage.agent.skill(id="break", description="Sends an artifact without parts.", tags=["test"])
    async def break_rules(turn: Turn) -> None:
        await turn.emit(pb.TaskArtifactUpdateEvent(artifact=pb.Artifact(artifact_id="a")))

    return stage


def as_(user: str = "root", **parameters: str) -> ClientCallContext:
    return ClientCallContext(service_parameters={"x-user": user, **parameters})


@asynccontextmanager
async def client(stage: Stage, *, push: bool = True, **config: Any) -> AsyncIterator[tuple[Any, World]]:
    """The SDK's client, made from the server's own card."""
    async with (
        serving(stage.agent, authenticator=ByHeader(), push_notifications=push) as served,
        AsyncExitStack() as stack,
    ):
        binding = BINDINGS[served.through.partition("-")[0]]
        http = await stack.enter_async_context(httpx.AsyncClient())
        chosen = ClientConfig(
            supported_protocol_bindings=[binding],
            grpc_channel_factory=grpc.aio.insecure_channel,
            httpx_client=http,
            **config,
        )
        made = ClientFactory(chosen).create(await card_of(served, http))
        yield await stack.enter_async_context(made), served


async def card_of(served: World, http: httpx.AsyncClient) -> Any:
    """The card, found as clients of the door find it."""
    if served.http is None:
        return await served.discovery.GetAgentCard(GetAgentCardRequest())
    return await A2ACardResolver(http, served.http.base).get_agent_card()


async def items(stream: Any) -> list[pb.StreamResponse]:
    return [item async for item in stream]


async def task_of(stream: Any) -> pb.Task:
    (item,) = await items(stream)
    task: pb.Task = item.task
    assert isinstance(task, SdkTask)
    return task


@pytest.mark.req("BLK-01", "SEND-01")
async def test_send_and_wait() -> None:
    async with client(cast(), streaming=False) as (a2a, _):
        task = await task_of(a2a.send_message(say("hello"), context=as_()))
        assert (task.status.state, texts(task)) == (pb.TASK_STATE_COMPLETED, ["hello"])

        (direct,) = await items(a2a.send_message(say("hello", skill="chat"), context=as_()))
        assert direct.message.parts[0].text == "you said hello"


@pytest.mark.req("STRM-01", "STRM-04")
async def test_stream() -> None:
    async with client(cast()) as (a2a, _):
        got = await items(a2a.send_message(say("one two three", skill="chunks"), context=as_()))
        assert kinds(got) == ["task", "WORKING", *["artifact_update"] * 3, "COMPLETED"]
        assert [item.artifact_update.last_chunk for item in got[2:5]] == [False, False, True]
        assert kinds(await items(a2a.send_message(say(skill="chat"), context=as_()))) == ["message"]


@pytest.mark.req("BLK-04", "GET-01", "INTR-02")
async def test_poll_get_and_answer() -> None:
    stage = cast()
    async with client(stage, streaming=False, polling=True) as (a2a, _):
        task = await task_of(a2a.send_message(say(skill="hold"), context=as_()))
        assert task.status.state in {pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING}
        stage.release.set()
        async with asyncio.timeout(30):
            while task.status.state != pb.TASK_STATE_COMPLETED:
                task = await a2a.get_task(pb.GetTaskRequest(id=task.id, history_length=0), context=as_())
        assert not task.history
    async with client(cast(), streaming=False) as (a2a, _):
        asked = await task_of(a2a.send_message(say("a car", skill="ask"), context=as_()))
        assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
        answered = await task_of(a2a.send_message(say("red", task_id=asked.id), context=as_()))
        assert texts(answered) == ["red it is"]


@pytest.mark.req("LIST-04", "LIST-02")
async def test_list_in_pages() -> None:
    async with client(cast(), streaming=False) as (a2a, _):
        made = {(await task_of(a2a.send_message(say(context_id="c"), context=as_()))).id for _ in range(5)}
        seen, token = set(), ""
        while True:
            request = pb.ListTasksRequest(context_id="c", page_size=2, page_token=token)
            page = await a2a.list_tasks(request, context=as_())
            assert page.total_size == 5
            seen |= {task.id for task in page.tasks}
            if not (token := page.next_page_token):
                break
        assert seen == made


@pytest.mark.req("SUBS-01", "SUBS-05", "CANC-01")
async def test_subscribe_and_cancel() -> None:
    async with client(cast()) as (a2a, _):
        stream = a2a.send_message(say(skill="hold"), context=as_())
        task_id = (await anext(stream)).task.id
        following = a2a.subscribe(pb.SubscribeToTaskRequest(id=task_id), context=as_())
        assert (await anext(following)).task.id == task_id

        canceled = await a2a.cancel_task(pb.CancelTaskRequest(id=task_id), context=as_())

        assert canceled.status.state == pb.TASK_STATE_CANCELED
        for rest in (stream, following):
            assert kinds(await items(rest))[-1] == "CANCELED"


@pytest.mark.req("PUSH-01", "PUSH-06", "PUSH-08", "PUSH-09", "GRPC-02")
async def test_push_configs() -> None:
    inline = pb.TaskPushNotificationConfig(id="inline", url=URL)
    async with client(cast(), streaming=False, push_notification_config=inline) as (a2a, _):
        task = await task_of(a2a.send_message(say(skill="ask"), context=as_()))
        wanted = pb.TaskPushNotificationConfig(task_id=task.id, url=URL, token="t")
        created = await a2a.create_task_push_notification_config(wanted, context=as_())
        which = pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id=created.id)
        assert await a2a.get_task_push_notification_config(which, context=as_()) == created

        listing = pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        listed = await a2a.list_task_push_notification_configs(listing, context=as_())
        assert {config.id for config in listed.configs} == {created.id, "inline"}

        gone = pb.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=created.id)
        await a2a.delete_task_push_notification_config(gone, context=as_())
        listed = await a2a.list_task_push_notification_configs(listing, context=as_())
        assert [config.id for config in listed.configs] == ["inline"]


@pytest.mark.req("XCARD-02")
async def test_the_extended_card() -> None:
    async with client(cast()) as (a2a, world):
        card = await a2a.get_extended_agent_card(pb.GetExtendedAgentCardRequest(), context=as_("root"))
        assert card.description == "Plays any part. For root."
        assert card.supported_interfaces[0].url == f"127.0.0.1:{world.port}"


@pytest.mark.req("EXTN-02", "GRPC-03", "SPAR-03")
async def test_extensions_reach_the_agent() -> None:
    stage = cast()
    parameters = ServiceParametersFactory.create_from({"x-user": "ann"}, [with_a2a_extensions([PLACE, "urn:other"])])
    async with client(stage) as (a2a, _):
        await items(a2a.send_message(say(), context=ClientCallContext(service_parameters=parameters)))
    assert stage.turns[0].extensions == {PLACE}


Scenario = Callable[[Any], Awaitable[object]]


async def finished(a2a: Any) -> str:
    return (await items(a2a.send_message(say(skill="bare"), context=as_())))[0].task.id


async def cancel_finished(a2a: Any) -> object:
    return await a2a.cancel_task(pb.CancelTaskRequest(id=await finished(a2a)), context=as_())


async def send_to_finished(a2a: Any) -> object:
    return await items(a2a.send_message(say(task_id=await finished(a2a)), context=as_()))


async def subscribe_to_finished(a2a: Any) -> object:
    return await items(a2a.subscribe(pb.SubscribeToTaskRequest(id=await finished(a2a)), context=as_()))


ERRORS: list[tuple[type[Exception], Scenario]] = [
    (sdk.TaskNotFoundError, lambda a: a.get_task(pb.GetTaskRequest(id="nope"), context=as_())),
    (sdk.TaskNotFoundError, lambda a: items(a.subscribe(pb.SubscribeToTaskRequest(id="nope"), context=as_()))),
    (sdk.TaskNotFoundError, lambda a: items(a.send_message(say(task_id="nope"), context=as_()))),
    (sdk.TaskNotCancelableError, cancel_finished),
    (sdk.UnsupportedOperationError, send_to_finished),
    (sdk.UnsupportedOperationError, subscribe_to_finished),
    (
        sdk.PushNotificationNotSupportedError,
        lambda a: a.create_task_push_notification_config(
            pb.TaskPushNotificationConfig(task_id="t", url=URL), context=as_()
        ),
    ),
    (
        sdk.ContentTypeNotSupportedError,
        lambda a: items(a.send_message(say(parts=[pb.Part(raw=b"x", media_type="image/png")]), context=as_())),
    ),
    (
        sdk.VersionNotSupportedError,
        lambda a: items(a.send_message(say(), context=as_(**{"a2a-version": "0.9"}))),
    ),
    (
        sdk.ExtendedAgentCardNotConfiguredError,
        lambda a: a.get_extended_agent_card(pb.GetExtendedAgentCardRequest(), context=as_("root")),
    ),
    (sdk.InvalidParamsError, lambda a: a.list_tasks(pb.ListTasksRequest(page_size=500), context=as_())),
]


@pytest.mark.req("ERRS-01", "ERRS-03", "GRPC-04")
@pytest.mark.parametrize(("expected", "scenario"), ERRORS)
async def test_errors_are_of_the_clients_own_classes(expected: type[Exception], scenario: Scenario) -> None:
    def nobody(card: pb.AgentCard, caller: Caller) -> pb.AgentCard | None:
        return None

    async with client(cast(extended=nobody), push=False) as (a2a, _):
        with pytest.raises(expected) as raised:
            await scenario(a2a)
    assert type(raised.value) is expected
    assert str(raised.value)


@pytest.mark.req("EXTN-04", "SEND-14")
async def test_errors_about_agents_and_extensions() -> None:
    async with client(cast(), streaming=False) as (a2a, _):
        with pytest.raises(sdk.InvalidAgentResponseError):
            await items(a2a.send_message(say(skill="break"), context=as_()))
    async with client(cast(extensions=[Extension(PLACE, required=True)])) as (a2a, _):
        with pytest.raises(sdk.ExtensionSupportRequiredError):
            await items(a2a.send_message(say(), context=as_()))
