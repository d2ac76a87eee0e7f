"""Long answers, and long events of streams: others are served while they are written."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_gateway.upstream import Answer, CallContext, UpstreamAnswer
from a2a_proto import a2a_pb2 as pb
from tests.support.door_events import event_of
from tests.support.door_upstream import Event, Scripted, plays
from tests.support.doors import http_door
from tests.support.house import GatewayOptions
from tests.support.http import PATIENCE, get, once, post, wire

COUNT = 200_000


def weighty() -> pb.Artifact:
    """Takes a fifth of a second to write."""
    artifact = pb.Artifact(artifact_id="a", parts=[pb.Part()])
    numbers = artifact.parts[0].data.list_value.values
    for number in range(COUNT):
        numbers.add().number_value = number
    return artifact


WEIGHTY = weighty()


class Served(Scripted):
    """Gives the task that is asked for, and the heavy one's artifact as a stream."""

    def __init__(self, name: str, artifact: pb.Artifact = WEIGHTY) -> None:
        """No text is kept from one test to another if the task has another `name`."""
        self.heavy = pb.Task(id="heavy", context_id=name, artifacts=[artifact])
        update = pb.TaskArtifactUpdateEvent(task_id="heavy", context_id=name, artifact=artifact)
        first, second = pb.StreamResponse(artifact_update=update), pb.StreamResponse()
        events = Event(1, first.SerializeToString()), Event(2, second.SerializeToString())
        super().__init__(script=plays(events))

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        await super().unary(method, request, context)
        assert isinstance(request, pb.GetTaskRequest)
        task = self.heavy if request.id == "heavy" else pb.Task(id=request.id)
        return Answer(task, wire=task.SerializeToString())


def rpc(path: str, method: str) -> bytes:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "heavy"}}
    return post(path, orjson.dumps(body), "Last-Event-ID: 0")


REQUESTS = {
    "rest": get("/tasks/heavy"),
    "jsonrpc": rpc("/", "GetTask"),
    "0.3": rpc("/", "tasks/get"),
    "draft": rpc("/draft", "GetTask"),
    "stream": get("/tasks/heavy:subscribe"),
    "jsonrpc stream": rpc("/", "SubscribeToTask"),
    "0.3 stream": rpc("/", "tasks/resubscribe"),
}


@pytest.mark.req("DOOR-04")
@pytest.mark.parametrize("form", REQUESTS)
async def test_others_are_answered_while_a_long_text_is_written(form: str) -> None:
    upstream = Served(form)
    small = 0
    options = GatewayOptions(profiles=("draft",))
    async with http_door(upstream, options, old=True) as door, wire(door.port) as slow, wire(door.port) as quick:
        await slow.send(REQUESTS[form])
        async with asyncio.timeout(PATIENCE):
            while not upstream.asked:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0)
        begun = asyncio.create_task(slow.head())
        while not begun.done():
            assert (await quick.ask(get("/tasks/small"))).json["id"] == "small"
            small += 1
        assert (await begun)[1] == 200
    assert small > 3  # and without the thread, none or one


@pytest.mark.req("ORDR-03", "JSON-01")
async def test_long_texts_are_written_like_short_ones() -> None:
    upstream = Served("alike")
    async with http_door(upstream, old=True) as door:
        twice = await asyncio.gather(*(once(door.port, REQUESTS["rest"]) for _ in range(2)))
        old = await once(door.port, REQUESTS["0.3"])
        stream = await once(door.port, REQUESTS["stream"])
    assert [answer.json["artifacts"][0]["parts"][0]["data"] for answer in twice] == [list(range(COUNT))] * 2
    assert old.json["result"]["artifacts"][0]["parts"][0]["data"] == {"value": list(range(COUNT))}
    first, second = [event_of(frame) for frame in stream.body.decode().removesuffix("\n\n").split("\n\n")]
    assert first.data["artifactUpdate"]["artifact"]["parts"][0]["data"] == list(range(COUNT))
    assert (first.number, second.number, second.data) == (1, 2, {})


@pytest.mark.req("DOOR-04", "ERRS-02")
async def test_a_long_text_that_cannot_be_written_is_an_error() -> None:
    broken = pb.Artifact(artifact_id="a", parts=[pb.Part(text="x" * 100_000), pb.Part()])
    broken.parts[1].data.number_value = float("nan")
    async with http_door(Served("broken", broken)) as door:
        answer = await once(door.port, REQUESTS["rest"])
        again = await once(door.port, get("/tasks/small"))
    assert (answer.status, again.json["id"]) == (500, "small")
