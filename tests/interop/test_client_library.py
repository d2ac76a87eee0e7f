"""The client of this project before its own server and the official SDK's servers, on all bindings and versions.

What is said once is said to all of them: `Theatre` has our server and the SDK's of 0.3; the SDK's of 1.x is in this
process.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import grpc
import pytest
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import a2a_pb2_grpc

from a2a_proto import a2a_pb2 as pb
from a2a_server import serving
from a2a_server.agents import Agent, Turn
from a2a_server.client import AgentError, CallerCredentials, Reason, Remote, connect, data_part, file_part, text_part
from tests.interop.older import SDK, TOKEN, Theatre
from tests.interop.test_gateway_upstream_sdk import CARD_OF_THE_SDK, Echo
from tests.support.executors import sdk_routes

BINDINGS = ("GRPC", "JSONRPC", "HTTP+JSON")
HOOK = "https://example.com/hook"


class Way(NamedTuple):
    server: str
    binding: str
    version: str

    def __str__(self) -> str:
        return f"{self.server} {self.binding} {self.version}"


WAYS = [
    *(Way("ours", binding, version) for version in ("1.0", "0.3") for binding in BINDINGS),
    *(Way(SDK, binding, "0.3") for binding in BINDINGS),
]
every_way = pytest.mark.parametrize("way", WAYS, ids=str)


@pytest.fixture
def open_remote(theatre: Theatre) -> Callable[[Way], Any]:
    @asynccontextmanager
    async def opened(way: Way) -> AsyncIterator[Remote]:
        credentials = CallerCredentials(bearer=TOKEN)
        url = theatre.url(way.server)
        async with connect(url, transports=[way.binding], version=way.version, credentials=credentials) as remote:
            assert remote.interface.protocol_binding == way.binding
            assert remote.version == way.version
            yield remote

    return opened


def texts(task: pb.Task) -> list[str]:
    return [part.text for artifact in task.artifacts for part in artifact.parts]


@every_way
async def test_a_task_is_made_and_read(open_remote: Any, way: Way) -> None:
    async with open_remote(way) as remote:
        task = (await remote.send("hello", metadata={"skill": "echo"})).task
        assert task.status.state == pb.TASK_STATE_COMPLETED
        assert texts(task) == ["hello"]
        again = await remote.get_task(task.id)
        assert texts(again) == ["hello"]
        assert again.history[0].role == pb.ROLE_USER


@every_way
async def test_an_answer_without_a_task(open_remote: Any, way: Way) -> None:
    async with open_remote(way) as remote:
        answer = await remote.send("hello", metadata={"skill": "chat"})
        assert answer.message.parts[0].text == "you said hello"
        assert answer.message.role == pb.ROLE_AGENT


@every_way
async def test_a_stream(open_remote: Any, way: Way) -> None:
    async with open_remote(way) as remote:
        events = [event async for event in remote.stream("one two", metadata={"skill": "chunks"})]
    assert events[0].HasField("task")
    chunks = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert [part.text for chunk in chunks for part in chunk.artifact.parts][:2] == ["one", "two"]
    assert events[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


@every_way
async def test_a_question_is_answered_in_the_same_task(open_remote: Any, way: Way) -> None:
    async with open_remote(way) as remote:
        asked = (await remote.send("a car", metadata={"skill": "ask"})).task
        assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
        assert asked.status.message.parts[0].text == "What colour?"
        answered = await remote.send("red", task_id=asked.id, context_id=asked.context_id, metadata={"skill": "ask"})
        assert answered.task.status.state == pb.TASK_STATE_COMPLETED
        assert texts(answered.task) == ["red it is"]


@every_way
async def test_a_task_is_followed_and_canceled(open_remote: Any, way: Way) -> None:
    async with open_remote(way) as remote:
        stream = remote.stream(str(way), metadata={"skill": "gate"})
        task = (await anext(stream)).task
        following = remote.subscribe(task.id)
        await anext(following)
        canceled = await remote.cancel_task(task.id)
        assert canceled.status.state == pb.TASK_STATE_CANCELED
        for rest in (stream, following):
            states = [event.task.status.state or event.status_update.status.state async for event in rest]
            assert way.server == SDK or states[-1] == pb.TASK_STATE_CANCELED  # the SDK's streams end without it


@every_way
async def test_a_send_that_does_not_wait(open_remote: Any, way: Way) -> None:
    at_once = pb.SendMessageConfiguration(return_immediately=True)
    async with open_remote(way) as remote:
        task = (await remote.send(f"{way}, at once", configuration=at_once, metadata={"skill": "gate"})).task
        assert task.status.state in {pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING}
        assert (await remote.cancel_task(task.id)).status.state == pb.TASK_STATE_CANCELED


@every_way
async def test_parts_come_back_as_they_were_sent(open_remote: Any, way: Way) -> None:
    parts = [
        text_part("hello"),
        data_part({"a": [1, None, "x"]}),
        file_part(b"\x00\x01", name="x.png", media_type="image/png"),
        file_part("https://example.com/x.csv", name="x.csv", media_type="text/csv"),
    ]
    async with open_remote(way) as remote:
        sent = (await remote.send(parts, metadata={"skill": "mirror"})).task
    back = sent.artifacts[0].parts
    assert [part.WhichOneof("content") for part in back] == ["text", "data", "raw", "url"]
    assert back[1].data == parts[1].data
    assert (back[2].raw, back[2].media_type) == (b"\x00\x01", "image/png")
    assert (back[3].url, back[3].media_type) == ("https://example.com/x.csv", "text/csv")


@every_way
async def test_errors_have_the_reason_of_the_catalogue(open_remote: Any, way: Way) -> None:
    async with open_remote(way) as remote:
        with pytest.raises(AgentError) as unknown:
            await remote.get_task("nowhere")
        assert unknown.value.reason is Reason.TASK_NOT_FOUND
        finished = (await remote.send("hello", metadata={"skill": "echo"})).task
        with pytest.raises(AgentError) as late:
            await remote.cancel_task(finished.id)
        assert late.value.reason is Reason.TASK_NOT_CANCELABLE


@every_way
async def test_push_configs_are_kept(open_remote: Any, way: Way) -> None:
    async with open_remote(way) as remote:
        task = (await remote.send("a car", metadata={"skill": "ask"})).task
        made = await remote.create_push_config(
            pb.TaskPushNotificationConfig(task_id=task.id, id="mine", url=HOOK, token="tok")
        )
        assert (made.task_id, made.url) == (task.id, HOOK)
        assert (await remote.get_push_config(task.id, made.id)).url == HOOK
        if way.server == SDK and way.binding != "JSONRPC":  # which has no lists there, and no deletion over REST
            return
        listed = await remote.list_push_configs(task.id)
        assert [config.id for config in listed.configs] == [made.id]
        await remote.delete_push_config(task.id, made.id)
        assert not (await remote.list_push_configs(task.id)).configs


@every_way
async def test_the_extended_card(open_remote: Any, way: Way) -> None:
    async with open_remote(way) as remote:
        card = await remote.get_extended_agent_card()
        assert card.description.endswith("For friends, too.")
        assert card.supported_interfaces


@every_way
async def test_tasks_are_listed_where_the_version_has_lists(open_remote: Any, way: Way) -> None:
    async with open_remote(way) as remote:
        task = (await remote.send("hello", metadata={"skill": "echo"})).task
        asked = pb.ListTasksRequest(context_id=task.context_id, include_artifacts=True)
        if way.version == "0.3":
            with pytest.raises(AgentError) as refused:
                await remote.list_tasks(asked)
            assert refused.value.reason is Reason.UNSUPPORTED_OPERATION
            return
        listed = await remote.list_tasks(asked)
        assert [one.id for one in listed.tasks] == [task.id]
        assert texts(listed.tasks[0]) == ["hello"]


# -- the SDK of 1.x


@pytest.fixture
async def sdk_card() -> AsyncIterator[str]:
    """The SDK's servers of 1.x, all doors: the URL of their card."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    card = pb.AgentCard()
    card.CopyFrom(CARD_OF_THE_SDK)
    card.capabilities.push_notifications = True
    del card.supported_interfaces[:]
    for binding, at in (("JSONRPC", f"{url}/"), ("HTTP+JSON", url), ("GRPC", f"127.0.0.1:{port}")):
        card.supported_interfaces.add(url=at, protocol_binding=binding, protocol_version="1.0")
    told = cast("Any", card)
    handler = DefaultRequestHandler(
        Echo(), InMemoryTaskStore(), told, push_config_store=InMemoryPushNotificationConfigStore()
    )
    cast("Any", a2a_pb2_grpc).add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
    await server.start()
    async with sdk_routes(handler, told, listener):
        yield url
    await server.stop(None)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_every_call_to_the_sdk_of_1_0(sdk_card: str, binding: str) -> None:
    async with connect(sdk_card, transports=[binding]) as remote:
        task = (await remote.send("one two")).task
        assert texts(task) == ["one", "two"]
        assert texts(await remote.get_task(task.id, history_length=0)) == ["one", "two"]
        listed = await remote.list_tasks(pb.ListTasksRequest(context_id=task.context_id, page_size=5))
        assert [one.id for one in listed.tasks] == [task.id]
        events = [event async for event in remote.stream("one two")]
        assert events[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
        with pytest.raises(AgentError) as unknown:
            await remote.get_task("nowhere")
        assert unknown.value.reason is Reason.TASK_NOT_FOUND
        with pytest.raises(AgentError) as late:
            await remote.cancel_task(task.id)
        assert late.value.reason is Reason.TASK_NOT_CANCELABLE


@pytest.mark.req("AGNT-03")
@pytest.mark.parametrize("binding", ["grpc", "jsonrpc", "rest"])
async def test_agents_of_the_official_sdk_are_called_from_a_turn(sdk_card: str, theatre: Theatre, binding: str) -> None:
    for url in (sdk_card, theatre.url(SDK)):
        agent = Agent(name="Parent", description="Asks the SDK's agent.", version="1")

        @agent.skill(id="ask", tags=["test"])
        async def ask(turn: Turn) -> str:
            reply = await turn.call(url, turn.text, skill="chunks")  # noqa: B023 - served within the loop
            return f"sub: {reply.text}"

        calls = {"allow_loopback": True, "transports": [binding]}
        async with serving(agent, calls=calls) as server, connect(f"http://{server.http}") as remote:
            assert texts((await remote.send("one two")).task) == ["sub: onetwo"]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_following_and_canceling_at_the_sdk_of_1_0(sdk_card: str, binding: str) -> None:
    async with connect(sdk_card, transports=[binding]) as remote:
        stream = remote.stream("wait")
        task = (await anext(stream)).task
        following = remote.subscribe(task.id)
        assert (await anext(following)).task.id == task.id
        made = await remote.create_push_config(pb.TaskPushNotificationConfig(task_id=task.id, id="mine", url=HOOK))
        assert [one.id for one in (await remote.list_push_configs(task.id)).configs] == [made.id]
        await remote.delete_push_config(task.id, made.id)
        assert (await remote.cancel_task(task.id)).status.state == pb.TASK_STATE_CANCELED
        for rest in (stream, following):
            assert [event async for event in rest][-1].status_update.status.state == pb.TASK_STATE_CANCELED
