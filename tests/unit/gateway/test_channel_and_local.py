"""What holds for both upstreams: the pipeline in this process, and the same pipeline over a channel."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from google.rpc import code_pb2 as code
from google.rpc import error_details_pb2 as details

from a2a_gateway.upstream import CallContext, StreamItem
from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.agents import Extension
from a2a_server.ports.agent import Outlet, TurnRequest
from tests.bindings.actors import COMPLETED, Actor, Gate, at_rest, chunk, echo, waiting
from tests.bindings.actors import status as status_event
from tests.support.house import A2AError, Call, Reason, StreamOptions
from tests.support.stage import Stage
from tests.support.upstreams import CARD, KINDS, PLAIN, Kind, items, refused, rpc, status, upstream_of
from tests.support.world import ByHeader, kinds, say, serving
from tests.support.yielding import Batches, yielding

SOON = {"return_immediately": True}
EXTENSION = "https://example.com/ext/tone/v1"


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return cast("Kind", request.param)


def told(kind_: type[Any], refusal: Any) -> Any:
    """The detail of this kind."""
    for packed in refusal.details:
        if packed.Is(kind_.DESCRIPTOR):
            found = kind_()
            packed.Unpack(found)
            return found
    raise AssertionError(f"{refusal} has no {kind_.__name__}")


@pytest.mark.req("DOOR-01", "DOOR-02")
async def test_unary_calls(kind: Kind) -> None:
    async with serving(echo()) as world, upstream_of(kind, world) as upstream:
        sent = await upstream.unary(rpc("SendMessage"), say("hello"), PLAIN)
        assert isinstance(sent.message, pb.SendMessageResponse)
        task = sent.message.task
        assert task.artifacts[0].parts[0].text == "hello"
        got = await upstream.unary(rpc("GetTask"), pb.GetTaskRequest(id=task.id), PLAIN)
        assert got.message == task == await world.get(task.id)
        page = await upstream.unary(rpc("ListTasks"), pb.ListTasksRequest(include_artifacts=True), PLAIN)
        assert isinstance(page.message, pb.ListTasksResponse)
        assert list(page.message.tasks) == [task]
        card = await upstream.unary(CARD, GetAgentCardRequest(), PLAIN)
        assert card.message == await world.discovery.GetAgentCard(GetAgentCardRequest())
        assert (tuple(got.metadata), tuple(got.trailers)) == ((), ())


@pytest.mark.req("DOOR-01", "DOOR-02")
async def test_streams(kind: Kind) -> None:
    async with serving(echo()) as world, upstream_of(kind, world) as upstream:
        stream = await upstream.stream(rpc("SendStreamingMessage"), say("hello"), PLAIN)
        seen = [event for _, event in await items(stream)]
        assert kinds(seen) == ["task", "WORKING", "artifact_update", "COMPLETED"]
        assert tuple(stream.metadata) == ()
        await at_rest(world)


@pytest.mark.req("DOOR-02", "GEN-02")
async def test_a_refusal_comes_with_all_its_details(kind: Kind) -> None:
    async with serving(echo()) as world, upstream_of(kind, world) as upstream:
        lost = await refused(upstream.unary(rpc("GetTask"), pb.GetTaskRequest(id="nowhere"), PLAIN))
        assert (lost.code, lost.message) == (code.NOT_FOUND, "Task not found.")
        info = told(details.ErrorInfo, lost)
        assert (info.reason, dict(info.metadata)) == ("TASK_NOT_FOUND", {"taskId": "nowhere"})

        wrong = await refused(upstream.unary(rpc("ListTasks"), pb.ListTasksRequest(page_size=1000), PLAIN))
        assert wrong.code == code.INVALID_ARGUMENT
        assert [fault.field for fault in told(details.BadRequest, wrong).field_violations] == ["page_size"]


@pytest.mark.req("DOOR-02", "STRM-07")
async def test_a_stream_that_is_refused_has_no_items(kind: Kind) -> None:
    async with serving(echo()) as world, upstream_of(kind, world) as upstream:

        async def subscribe() -> None:
            stream = await upstream.stream(rpc("SubscribeToTask"), pb.SubscribeToTaskRequest(id="nowhere"), PLAIN)
            async for batch in stream.items:
                raise AssertionError(batch)

        assert (await refused(subscribe())).code == code.NOT_FOUND
        await at_rest(world)


@pytest.mark.req("DOOR-02", "STRM-10")
async def test_an_error_may_come_after_items(kind: Kind) -> None:
    @yielding
    async def breaks(call: Call, request: object) -> Batches:
        async for batch in original(call, request):
            yield batch
            raise A2AError(Reason.SLOW_READER, "Too slow.", retry_after=2)

    async with serving(echo()) as world, upstream_of(kind, world) as upstream:
        operations = cast("dict[str, Any]", world.core.operations)
        original, operations["SendStreamingMessage"] = operations["SendStreamingMessage"], breaks
        stream = await upstream.stream(rpc("SendStreamingMessage"), say(), PLAIN)
        seen: list[StreamItem] = []

        async def read() -> None:
            async for batch in stream.items:
                seen.extend(batch)

        refusal = await refused(read())
        assert len(seen) >= 1
        assert refusal.code == code.UNAVAILABLE
        assert told(details.RetryInfo, refusal).retry_delay.seconds == 2


@pytest.mark.req("DOOR-02", "EXTN-03", "SPAR-01")
async def test_metadata_goes_both_ways(kind: Kind) -> None:
    stage = Stage(extensions=[Extension(EXTENSION, "Says how to say it.")])
    async with (
        serving(stage.agent, authenticator=ByHeader()) as world,
        upstream_of(kind, world) as upstream,
    ):
        context = CallContext({"x-user": ("ann",), "a2a-extensions": ("https://example.com/unknown", EXTENSION)})
        sent = await upstream.unary(rpc("SendMessage"), say(), context)
        assert ("a2a-extensions", EXTENSION) in sent.metadata
        stream = await upstream.stream(rpc("SendStreamingMessage"), say(), context)
        assert await items(stream)
        assert ("a2a-extensions", EXTENSION) in stream.metadata
        assert [turn.caller.owner for turn in stage.turns] == ["ann", "ann"]
        assert all(turn.extensions == {EXTENSION} for turn in stage.turns)


async def test_binary_metadata_hurts_nobody(kind: Kind) -> None:
    async with serving(echo()) as world, upstream_of(kind, world) as upstream:
        context = CallContext({}, binary={"trace-bin": (b"\x00\xff",)})
        assert (await upstream.unary(rpc("ListTasks"), pb.ListTasksRequest(), context)).message


@pytest.mark.req("DOOR-02", "GEN-07")
async def test_a_deadline_ends_the_call_and_not_the_work(kind: Kind) -> None:
    gate = Gate()
    async with serving(waiting(gate), streams=StreamOptions()) as world, upstream_of(kind, world) as upstream:
        late = await refused(upstream.unary(rpc("SendMessage"), say(), CallContext({}, 0.3)))
        assert late.code == code.DEADLINE_EXCEEDED
        assert "within 0.3 seconds" in late.message
        assert told(details.ErrorInfo, late).reason == "DEADLINE_EXCEEDED"
        stream = await upstream.stream(rpc("SendStreamingMessage"), say(), CallContext({}, 0.3))
        too_late = await refused(items(stream))
        assert too_late == late
        gate.open()
        await at_rest(world)
        for task in (await world.stub.ListTasks(pb.ListTasksRequest())).tasks:
            assert task.status.state == COMPLETED


@pytest.mark.req("DOOR-02")
async def test_whoever_stops_reading_releases_everything(kind: Kind) -> None:
    gate = Gate()
    async with serving(waiting(gate)) as world, upstream_of(kind, world) as upstream:
        stream = await upstream.stream(rpc("SendStreamingMessage"), say(), PLAIN)
        await anext(stream.items)
        assert world.pipeline.streams.count == 1
        await stream.items.aclose()  # type: ignore[attr-defined]
        gate.open()
        await at_rest(world)


@pytest.mark.req("DOOR-02")
async def test_a_reader_that_is_canceled_releases_everything(kind: Kind) -> None:
    gate = Gate()
    async with serving(waiting(gate)) as world, upstream_of(kind, world) as upstream:
        stream = await upstream.stream(rpc("SendStreamingMessage"), say(), PLAIN)
        reading = asyncio.ensure_future(items(stream))
        await gate.reached.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        gate.open()
        await at_rest(world)


@pytest.mark.req("DOOR-02")
async def test_a_caller_that_is_canceled_waits_for_nothing_any_more(kind: Kind) -> None:
    gate = Gate()
    async with serving(waiting(gate)) as world, upstream_of(kind, world) as upstream:
        sending = asyncio.ensure_future(upstream.unary(rpc("SendMessage"), say(), PLAIN))
        await gate.reached.wait()
        async with asyncio.timeout(30):
            while not world.core.services.log.watched:  # noqa: ASYNC110 - it begins when the task is durable
                await asyncio.sleep(0.001)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        async with asyncio.timeout(30):
            while world.core.services.log.watched:  # noqa: ASYNC110 - the server is told by the network, if there is one
                await asyncio.sleep(0.001)
        gate.open()
        await at_rest(world)


@pytest.mark.req("DOOR-02", "ORDR-01")
async def test_items_come_whole_and_in_order(kind: Kind) -> None:
    size = 500

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(size):
            outlet.emit(chunk(f"{number},", append=number > 0))
            await outlet.room()
        outlet.emit(status_event(COMPLETED))

    async with serving(Actor(act)) as world, upstream_of(kind, world) as upstream:
        seen = await items(await upstream.stream(rpc("SendStreamingMessage"), say(), PLAIN))
        texts = [event.artifact_update.artifact.parts[0].text for _, event in seen if event.HasField("artifact_update")]
        assert texts == [f"{number}," for number in range(size)]


@pytest.mark.req("DOOR-07", "DURA-08")
async def test_a_server_that_stops_is_not_ready_and_says_so(kind: Kind) -> None:
    async with serving(echo()) as world, upstream_of(kind, world) as upstream:
        assert await upstream.ready()
        world.pipeline.leaving = world.pipeline.draining = True
        await world.door.refuse_health()
        async with asyncio.timeout(30):
            while await upstream.ready():  # noqa: ASYNC110 - an answer counts for a moment
                await asyncio.sleep(0.01)
        refusal = await refused(upstream.unary(rpc("GetTask"), pb.GetTaskRequest(id="t"), PLAIN))
        assert (refusal.code, refusal.message) == (code.UNAVAILABLE, "The server is stopping.")
        assert told(details.RetryInfo, refusal).retry_delay.seconds == 1


@pytest.mark.req("DURA-08")
async def test_a_stream_that_the_server_ends_says_why(kind: Kind) -> None:
    gate = Gate()
    async with serving(waiting(gate)) as world, upstream_of(kind, world) as upstream:
        stream = await upstream.stream(rpc("SendStreamingMessage"), say(), PLAIN)
        cut: asyncio.Queue[A2AError] = asyncio.Queue()
        stream.on_cut(cut.put)
        await anext(stream.items)
        ahead = asyncio.ensure_future(refused(items(stream)))
        asked = asyncio.ensure_future(cut.get())
        await asyncio.sleep(0)
        world.pipeline.streams.end_all()
        done, _ = await asyncio.wait([ahead, asked], return_when=asyncio.FIRST_COMPLETED)
        refusal = ahead.result() if ahead in done else status(asked.result())
        assert (refusal.code, refusal.message) == (code.UNAVAILABLE, "The server is stopping.")
        for task in (ahead, asked):
            task.cancel()
        gate.open()
