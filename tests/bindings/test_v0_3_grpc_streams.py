"""Streams of 0.3 over gRPC: `final` at the very end, finished tasks, slow readers, drain (spec: LGRP-03, CONF-11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_proto import a2a_v0_3_pb2_grpc
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    AUTH,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT,
    REJECTED,
    WORKING,
    Actor,
    Gate,
    asking,
    at_rest,
    begun,
    chunk,
    echo,
    status,
    until,
    waiting,
)
from tests.support.house import REPLAY, Limits
from tests.support.old import NOW, get, kinds, send, stream, subscribe, tell
from tests.support.world import ByHeader, Refusal, World, as_user, refusal, serving

pytestmark = pytest.mark.only_through("grpc", why="it is about 0.3's own gRPC service")


async def rest(items: AsyncIterator[v03.StreamResponse], seen: list[v03.StreamResponse]) -> Refusal:
    """Read on to the error that a stream must end with."""
    try:
        async for item in items:
            seen.append(item)  # noqa: PERF401 - what came before the error counts
    except grpc.aio.AioRpcError as error:
        return refusal(error)
    raise AssertionError("the stream ended well")


@pytest.mark.req("LRPC-05", "LMAP-01")
@pytest.mark.parametrize("ends", [COMPLETED, FAILED, REJECTED, CANCELED, INPUT])
async def test_only_the_status_that_closes_a_stream_is_final(store: Store, ends: pb.TaskState) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(WORKING, "one"))
        outlet.emit(chunk("a"))
        await outlet.durable()
        outlet.emit(status(WORKING, "two"))
        outlet.emit(chunk("b", append=True, last=True))
        outlet.emit(status(ends, "over"))

    async with serving(Actor(act), store=store) as world:
        items = await stream(world, tell())
    old = v03.TaskState.Name(ends).removeprefix("TASK_STATE_")  # the same numbers
    assert kinds(items)[0] == "task"
    assert kinds(items)[-1] == f"{old}!"
    assert [kind for kind in kinds(items) if kind.endswith("!")] == [f"{old}!"]
    assert [item.artifact_update.append for item in items if item.HasField("artifact_update")] == [False, True]
    assert [item.artifact_update.last_chunk for item in items if item.HasField("artifact_update")] == [False, True]
    assert [part.text for part in items[-1].status_update.status.update.content] == ["over"]


@pytest.mark.req("LRPC-05")
async def test_a_question_is_not_final_where_streams_stay_open_for_it(store: Store) -> None:
    async with serving(asking(), store=store, keep_open_on_input=True) as world:
        items = aiter(world.old.SendStreamingMessage(tell()))
        seen = [await anext(items)]
        while kinds(seen)[-1] != "INPUT_REQUIRED":
            seen.append(await anext(items))
        await send(world, tell("me", task_id=seen[0].task.id, configuration=NOW))
        seen += [item async for item in items]
    assert kinds(seen)[-1] == "COMPLETED!"
    assert "INPUT_REQUIRED!" not in kinds(seen)


@pytest.mark.req("LRPC-05")
async def test_waiting_for_credentials_elsewhere_is_not_final() -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(AUTH, "Log in there."))
        await gate.wait()
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act)) as world:
        items = aiter(world.old.SendStreamingMessage(tell()))
        seen = [await anext(items)]
        while kinds(seen)[-1] != "AUTH_REQUIRED":
            seen.append(await anext(items))
        gate.open()
        seen += [item async for item in items]
    assert kinds(seen)[-1] == "COMPLETED!"


@pytest.mark.req("LRPC-05")
async def test_credentials_that_are_wanted_in_band_are_final() -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        event = status(AUTH, "Your key?")
        event.status_update.metadata["inBand"] = True
        outlet.emit(event)

    async with serving(Actor(act)) as world:
        items = await stream(world, tell())
    assert kinds(items)[-1] == "AUTH_REQUIRED!"


@pytest.mark.req("LGRP-03")
@pytest.mark.parametrize("ends", [COMPLETED, FAILED, REJECTED])
async def test_a_finished_task_is_shown_once_and_that_is_all(store: Store, ends: pb.TaskState) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(chunk("a", last=True))
        outlet.emit(status(ends))

    async with serving(Actor(act), store=store) as world:
        task = await send(world, tell())
        (only,) = await subscribe(world, task.id)
        assert only.WhichOneof("payload") == "task"
        assert only.task == task == await get(world, task.id)
        await at_rest(world)


@pytest.mark.req("LGRP-03")
async def test_somebody_elses_finished_task_is_not_shown() -> None:
    async with serving(echo(), authenticator=ByHeader()) as world:
        task = await send(world, tell(), metadata=as_user("ann"))
        assert len(await subscribe(world, task.id, metadata=as_user("ann"))) == 1
        answer = await rest(world.old.TaskSubscription(name_of(task.id), metadata=as_user("bob")), [])
    assert (answer.code, answer.reason) == (grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND")


def name_of(task_id: str) -> v03.TaskSubscriptionRequest:
    return v03.TaskSubscriptionRequest(name=f"tasks/{task_id}")


@pytest.mark.req("LMAP-01", "SUBS-01", "SUBS-02", "ORDR-02")
async def test_many_resubscribe_to_a_running_task_and_see_its_end(store: Store) -> None:
    gate, readers = Gate(), 8
    async with serving(waiting(gate), store=store) as world:
        sender = asyncio.ensure_future(stream(world, tell()))
        task_id = await begun(world)
        seen: list[list[v03.StreamResponse]] = [[] for _ in range(readers)]

        async def follow(into: list[v03.StreamResponse]) -> None:
            async for item in world.old.TaskSubscription(name_of(task_id)):
                into.append(item)  # noqa: PERF401 - others look while it grows

        following = [asyncio.ensure_future(follow(into)) for into in seen]
        await until(lambda: all(seen))
        gate.open()
        assert kinds(await sender)[-1] == "COMPLETED!"
        await asyncio.gather(*following)
        for items in seen:
            assert items[0].task.id == task_id
            assert kinds(items)[-1] == "COMPLETED!"
            assert items[-1] == seen[0][-1]
        await at_rest(world)


@pytest.mark.req("LMAP-01", "SUBS-06")
async def test_who_subscribes_to_a_task_that_waits_sees_what_comes_next(store: Store) -> None:
    async with serving(asking(), store=store) as world:
        task = await send(world, tell())
        items = aiter(world.old.TaskSubscription(name_of(task.id)))
        first = await anext(items)
        assert first.task.status.state == v03.TASK_STATE_INPUT_REQUIRED
        await send(world, tell("me", task_id=task.id))
        assert kinds([item async for item in items])[-1] == "COMPLETED!"


@pytest.mark.req("GEN-07")
async def test_a_client_that_leaves_stops_nothing() -> None:
    gate = Gate()
    async with serving(waiting(gate)) as world:
        call = world.old.SendStreamingMessage(tell())
        task_id = (await call.read()).task.id
        call.cancel()
        await until(lambda: not world.pipeline.streams.count)
        gate.open()
        await world.reaches(task_id, COMPLETED)
        await at_rest(world)


@pytest.mark.req("RPLY-06", "ORDR-03")
async def test_a_slow_reader_is_cut_with_a_reason_and_holds_nobody_up() -> None:
    gate, end = Gate(), Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gate.wait()
        for number in range(200):
            outlet.emit(chunk(f"{number}".rjust(64 * 1024)))
            await outlet.durable()
        await end.wait()
        outlet.emit(status(COMPLETED))

    limits = Limits(stream_lag=50, drain_grace=0.05)
    window = (("grpc.http2.lookahead_bytes", 16 * 1024), ("grpc.http2.bdp_probe", 0))
    async with (
        serving(Actor(act), limits=limits) as world,
        grpc.aio.insecure_channel(f"127.0.0.1:{world.port}", options=window) as channel,
    ):
        old = a2a_v0_3_pb2_grpc.A2AServiceStub(channel)
        task = await send(world, tell(configuration=NOW))
        slow = aiter(old.TaskSubscription(name_of(task.id)))
        await anext(slow)
        gate.open()
        await end.reached.wait()  # the agent was not held up
        seen: list[v03.StreamResponse] = []
        answer = await rest(slow, seen)
        assert (answer.code, answer.reason) == (grpc.StatusCode.UNAVAILABLE, "SLOW_READER")
        assert len(seen) < 200
        end.open()
        assert kinds(await subscribe(world, task.id)) in (["task"], ["task", "COMPLETED!"])
        await at_rest(world)


@pytest.mark.req("DURA-08")
async def test_a_server_that_stops_lets_streams_end_and_then_ends_them() -> None:
    async with serving(waiting(Gate()), limits=Limits(drain_grace=0.05)) as world:
        sender = aiter(world.old.SendStreamingMessage(tell()))
        seen = [await anext(sender)]
        await world.core.drain()
        seen += [item async for item in sender]
        assert kinds(seen)[-1] == "FAILED!"
    async with serving(asking()) as world:
        task = await send(world, tell())
        waits = aiter(world.old.TaskSubscription(name_of(task.id)))
        await anext(waits)
        await world.core.drain()
        world.pipeline.streams.end_all()
        answer = await rest(waits, [])
        assert (answer.code, answer.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")


async def numbered(world: World, task_id: str, **metadata: str) -> list[v03.StreamResponse]:
    told = (("x-a2a-extensions", REPLAY), *((name.replace("_", "-"), value) for name, value in metadata.items()))
    return await subscribe(world, task_id, metadata=told)


@pytest.mark.req("RPLY-02", "RPLY-03", "RPLY-05")
async def test_events_tell_their_numbers_to_who_asks_and_a_cursor_is_honoured(store: Store) -> None:
    async with serving(echo(), store=store) as world:
        call = world.old.SendStreamingMessage(tell(), metadata=(("x-a2a-extensions", REPLAY),))
        items = [item async for item in call]
        assert ("x-a2a-extensions", REPLAY) in tuple(await call.initial_metadata())
        known = [int(getattr(item, str(item.WhichOneof("payload"))).metadata[REPLAY]) for item in items]
        assert known == sorted(set(known))
        again = await numbered(world, items[0].task.id, last_event_id=str(known[0]))
        assert again == items[1:]
        assert kinds(again)[-1] == "COMPLETED!"
        assert kinds(await numbered(world, items[0].task.id)) == ["task"]
