"""The extension that shows and takes the numbers of events (spec: RPLY-05, EXTN-02, EXTN-07)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import grpc
import pytest

from a2a_gateway.upstream import CallContext
from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import COMPLETED, Actor, Gate, chunk, echo, log_of, status, until, waiting
from tests.bindings.numbered import numbers, on_the_wire, story
from tests.support.house import REPLAY
from tests.support.upstreams import KINDS, rpc, upstream_of
from tests.support.world import refused, say, serving

NOW = {"return_immediately": True}
ASKING = ("a2a-extensions", REPLAY)


def number_in(event: pb.StreamResponse) -> int | None:
    fields = getattr(event, event.WhichOneof("payload") or "").metadata.fields
    return int(fields[REPLAY].number_value) if REPLAY in fields else None


@pytest.mark.req("RPLY-05", "EXTN-02", "EXTN-03", "EXTN-07")
async def test_clients_that_ask_see_numbers_and_use_cursors(store: Store) -> None:
    async with serving(story(5), store=store) as world:
        call = world.stub.SendStreamingMessage(say(), metadata=(ASKING,))
        seen = [event async for event in call]
        assert ASKING in tuple(await call.initial_metadata())
        task_id = seen[0].task.id
        whole = await on_the_wire(world, task_id)
        assert [number_in(event) for event in seen] == numbers(whole)
        for event in seen:
            del getattr(event, event.WhichOneof("payload") or "").metadata.fields[REPLAY]
            getattr(event, event.WhichOneof("payload") or "").ClearField("metadata")
        assert seen == [event for _, event in whole]

        request = pb.SubscribeToTaskRequest(id=task_id)
        call = world.stub.SubscribeToTask(request, metadata=(ASKING, ("last-event-id", "3")))
        assert [number_in(event) async for event in call] == [number for number in numbers(whole) if number > 3]
        last = str(numbers(whole)[-1])
        call = world.stub.SubscribeToTask(request, metadata=(ASKING, ("last-event-id", last)))
        assert [event async for event in call] == []
        assert ASKING in tuple(await call.initial_metadata())


@pytest.mark.req("RPLY-05", "EXTN-02")
@pytest.mark.only_through("grpc", why="over HTTP every event shows its number, so cursors need no extension")
async def test_grpc_clients_that_do_not_ask_see_nothing_of_it() -> None:
    async with serving(story(5)) as world:
        seen = await world.stream(say())
        assert [number_in(event) for event in seen] == [None] * len(seen)
        call = world.stub.SubscribeToTask(
            pb.SubscribeToTaskRequest(id=seen[0].task.id), metadata=(("last-event-id", "1"),)
        )
        assert (await refused(call.read())).reason == "UNSUPPORTED_OPERATION"


@pytest.mark.req("RPLY-05")
async def test_who_asks_changes_nothing_for_the_others(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world:
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        request = pb.SubscribeToTaskRequest(id=task.id)
        asked, plain = (world.stub.SubscribeToTask(request, metadata=metadata) for metadata in ((ASKING,), ()))
        assert number_in(await asked.read()) == len(await log_of(world.core, task.id))
        assert number_in(await plain.read()) is None
        gate.open()
        assert number_in(await asked.read()) == len(await log_of(world.core, task.id))
        assert number_in(await plain.read()) is None
        assert all(number_in(event) is None for _, event in await on_the_wire(world, task.id))


@pytest.mark.req("RPLY-05", "EXTN-01", "CARD-08")
async def test_the_card_of_an_agent_that_streams_declares_it() -> None:
    for agent, declared in ((echo(), [REPLAY]), (waiting(Gate(), streaming=False), [])):
        async with serving(agent) as world:
            card = await world.discovery.GetAgentCard(GetAgentCardRequest())
            assert [extension.uri for extension in card.capabilities.extensions] == declared
            assert not any(extension.required for extension in card.capabilities.extensions)


@pytest.mark.req("RPLY-05")
async def test_the_agent_hears_nothing_of_it() -> None:
    actor = echo()
    async with serving(actor) as world:
        await world.stream(say(), metadata=(ASKING,))
        await world.send(say(), metadata=(ASKING,))
    assert [request.extensions for request in actor.requests] == [frozenset()] * 2


@pytest.mark.req("DOOR-02", "RPLY-05")
@pytest.mark.only_through("grpc", why="what doors call is called itself")
@pytest.mark.parametrize("asks", [False, True])
async def test_both_upstreams_give_the_same_bytes(*, asks: bool) -> None:
    asked = {"a2a-extensions": ("https://example.com/x", REPLAY)} if asks else {}
    context = CallContext({"last-event-id": ("1",), **asked})
    told = []

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(chunk("plain"))
        marked = chunk("with metadata of its own", append=True)
        marked.artifact_update.metadata["mood"] = "fine"
        outlet.emit(marked)
        outlet.emit(status(COMPLETED, "x" * 200))

    async with serving(Actor(act)) as world:
        task = await world.send(say())
        for kind in KINDS:
            async with upstream_of(kind, world) as upstream:
                request = pb.SubscribeToTaskRequest(id=task.id)
                stream = await upstream.stream(rpc("SubscribeToTask"), request, context)
                items = [(item.number, item.wire) async for batch in stream.items for item in batch]
                told.append((items, tuple(stream.metadata)))
    assert told[0] == told[1]
    assert (told[0][1] == (ASKING,)) is asks
    assert (number_in(pb.StreamResponse.FromString(told[0][0][0][1])) is not None) is asks


GUIDE = Path(__file__).parents[2] / "docs" / "replay.md"


@pytest.mark.req("RPLY-02", "RPLY-05")
@pytest.mark.only_through("grpc", why="the guide's client speaks gRPC")
async def test_the_guide_s_client_misses_nothing() -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    scope: dict[str, Any] = {"__name__": "guide"}
    exec(compile(source, str(GUIDE), "exec"), scope)  # noqa: S102 - our own guide
    gates = [Gate(), Gate()]

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for gate in gates:
            outlet.emit(chunk("x"))
            await outlet.durable()
            await gate.wait()
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act)) as world, grpc.aio.insecure_channel(f"127.0.0.1:{world.port}") as channel:
        task = await world.send(say(configuration={"return_immediately": True}))
        seen: list[Any] = []

        async def follow() -> None:
            async for event in scope["follow"](channel, task.id):
                kind = event.WhichOneof("payload")
                number = int(getattr(event, kind).metadata[scope["REPLAY"]])
                seen.append((number, kind))

        following = asyncio.ensure_future(follow())
        for gate in gates:
            await gate.reached.wait()
            count = len(await on_the_wire(world, task.id))
            await until(lambda expected=count: len(seen) == expected)  # type: ignore[misc]
            world.pipeline.streams.end_all()  # the connection breaks
            gate.open()
        await following
        assert seen == [(number, event.WhichOneof("payload")) for number, event in await on_the_wire(world, task.id)]
