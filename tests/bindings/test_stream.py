"""SendStreamingMessage: what a stream shows, when it begins and when it ends (spec: STRM, EXEC-02, CONF-06)."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, Plan, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    AUTH,
    COMPLETED,
    FAILED,
    INPUT,
    REJECTED,
    SUBMITTED,
    WORKING,
    Actor,
    Gate,
    asking,
    at_rest,
    begun,
    chunk,
    cut_short,
    echo,
    hold_commits,
    log_of,
    says,
    status,
    until,
    waiting,
)
from tests.support.house import Limits
from tests.support.world import kinds, refused, say, serving


@pytest.mark.req("STRM-01", "STRM-03", "STRM-04", "STRM-06", "EXEC-02", "MSGS-02", "STAT-03")
@pytest.mark.parametrize("end", [COMPLETED, FAILED, REJECTED])
async def test_the_task_comes_first_and_its_end_comes_last(store: Store, end: pb.TaskState) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(chunk("a"))
        outlet.emit(status(WORKING, "half way"))
        outlet.emit(chunk("b", append=True, last=True))
        outlet.emit(status(end))

    async with serving(Actor(act), store=store) as world:
        items = await world.stream(say())
        name = pb.TaskState.Name(end).removeprefix("TASK_STATE_")
        assert kinds(items) == ["task", "WORKING", "artifact_update", "WORKING", "artifact_update", name]
        task = items[0].task
        assert task.status.state == SUBMITTED
        for item in items[1:]:
            update = item.status_update if item.HasField("status_update") else item.artifact_update
            assert (update.task_id, update.context_id) == (task.id, task.context_id)
        await at_rest(world)


@pytest.mark.req("STRM-01", "STRM-02", "SEND-10", "STRM-06")
async def test_a_message_is_the_first_item_and_the_last(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(pb.StreamResponse(message=says("hi")))

    async with serving(Actor(act, plan=Plan(direct=True)), store=store) as world:
        items = await world.stream(say())
        assert kinds(items) == ["message"]
        message = items[0].message
        assert (message.role, bool(message.message_id), bool(message.context_id)) == (pb.ROLE_AGENT, True, True)
        await at_rest(world)


@pytest.mark.req("STRM-02")
async def test_the_stream_of_a_message_closes_though_the_agent_lingers() -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(pb.StreamResponse(message=says("hi")))
        await gate.wait()

    async with serving(Actor(act, plan=Plan(direct=True))) as world:
        assert kinds(await world.stream(say())) == ["message"]
        gate.open()
        await at_rest(world)


@pytest.mark.req("EXEC-02", "STRM-01")
@pytest.mark.parametrize("first", [status(WORKING, "on it"), chunk("a"), status(INPUT, "What?"), status(FAILED, "no")])
async def test_whatever_a_direct_turn_begins_with_the_task_goes_in_front(
    store: Store, first: pb.StreamResponse
) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        event = pb.StreamResponse()
        event.CopyFrom(first)
        outlet.emit(event)
        if first.HasField("artifact_update") or first.status_update.status.state == WORKING:
            outlet.emit(status(COMPLETED))

    async with serving(Actor(act, plan=Plan(direct=True)), store=store) as world:
        items = await world.stream(say())
        assert kinds(items)[:2] == ["task", "WORKING"]
        assert items[0].task.status.state == SUBMITTED
        assert kinds(items)[-1] in {"COMPLETED", "INPUT_REQUIRED", "FAILED"}
        await at_rest(world)


@pytest.mark.req("STRM-08")
async def test_the_first_item_does_not_wait_for_the_work(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world:
        items = aiter(world.stub.SendStreamingMessage(say()))
        assert (await anext(items)).HasField("task")
        assert (await anext(items)).status_update.status.state == WORKING
        assert not gate.opened.is_set()
        gate.open()
        assert [item.status_update.status.state async for item in items] == [COMPLETED]


@pytest.mark.req("STRM-08", "ORDR-01")
async def test_events_arrive_while_the_agent_works(store: Store) -> None:
    gates = [Gate() for _ in range(5)]

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number, gate in enumerate(gates):
            outlet.emit(chunk(str(number), append=number > 0))
            await gate.wait()
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act), store=store) as world:
        items = aiter(world.stub.SendStreamingMessage(say()))
        await anext(items)
        await anext(items)
        for number, gate in enumerate(gates):
            assert (await anext(items)).artifact_update.artifact.parts[0].text == str(number)
            gate.open()
        assert kinds([item async for item in items]) == ["COMPLETED"]


@pytest.mark.req("STRM-05", "INTR-01")
async def test_a_question_closes_the_stream(store: Store) -> None:
    async with serving(asking("Who?"), store=store) as world:
        items = await world.stream(say())
        assert kinds(items) == ["task", "WORKING", "INPUT_REQUIRED"]
        assert items[-1].status_update.status.message.parts[0].text == "Who?"
        again = await world.stream(say("me", task_id=items[0].task.id))
        assert kinds(again) == ["task", "COMPLETED"]
        assert again[0].task.status.state == WORKING
        await at_rest(world)


@pytest.mark.req("STRM-05")
async def test_a_setting_keeps_streams_open_over_questions() -> None:
    async with serving(asking("Who?"), keep_open_on_input=True) as world:
        items = aiter(world.stub.SendStreamingMessage(say()))
        begin = [await anext(items) for _ in range(3)]
        assert kinds(begin)[-1] == "INPUT_REQUIRED"
        await world.send(say("me", task_id=begin[0].task.id))
        assert kinds([item async for item in items]) == ["WORKING", "COMPLETED"]


@pytest.mark.req("STRM-07", "GEN-03")
async def test_a_refusal_comes_instead_of_a_stream() -> None:
    async with serving(agent := echo()) as world:
        call = world.stub.SendStreamingMessage(pb.SendMessageRequest())
        answer = await refused(anext(aiter(call)))
        assert (answer.code, answer.fields) == (grpc.StatusCode.INVALID_ARGUMENT, {"message": "is required"})
        assert not agent.requests
        await at_rest(world)


@pytest.mark.req("STRM-07", "CAPA-01")
async def test_an_agent_that_does_not_stream_refuses_at_once() -> None:
    agent = waiting(Gate(), streaming=False)
    async with serving(agent) as world:
        answer = await refused(world.stream(say()))
        assert (answer.code, answer.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "UNSUPPORTED_OPERATION")
        assert not agent.requests


@pytest.mark.req("STRM-10", "DURA-08")
async def test_an_error_in_mid_stream_is_its_last_item(store: Store) -> None:
    """A turn that another process will take over: the stream says that this server is going away."""
    gate = Gate()
    async with serving(waiting(gate, plan=Plan(restartable=True)), store=store) as world:
        items = aiter(world.stub.SendStreamingMessage(say()))
        first = await anext(items)
        await gate.reached.wait()
        draining = asyncio.ensure_future(world.core.drain())
        seen, answer = await cut_short(items)
        assert (answer.code, answer.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
        assert kinds([first, *seen]) == ["task", "WORKING"]
        await draining


@pytest.mark.req("STRM-10", "ERRS-07")
async def test_a_store_that_breaks_in_mid_stream_ends_the_stream_without_details(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world:
        items = aiter(world.stub.SendStreamingMessage(say()))
        await anext(items)
        await anext(items)

        async def broken(write: object) -> bool:
            raise OSError("/secret/path: no space left")

        store.commit = broken  # type: ignore[method-assign]
        gate.open()
        _, answer = await cut_short(items)
        assert (answer.code, answer.message) == (grpc.StatusCode.INTERNAL, "Internal error.")
        assert "secret" not in str(answer)
        await at_rest(world)


@pytest.mark.req("GEN-07", "STRM-10")
async def test_nothing_is_left_of_clients_that_vanish(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world:
        await world.stub.ListTasks(pb.ListTasksRequest())  # with the first call grpc starts tasks of its own
        tasks_before = len(asyncio.all_tasks())
        calls = [world.stub.SendStreamingMessage(say()) for _ in range(10)]
        ids = [(await anext(aiter(call))).task.id for call in calls]
        calls += [world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task_id)) for task_id in ids]
        for call in calls[10:]:
            await anext(aiter(call))
        assert world.pipeline.streams.count == 20
        for call in calls:
            call.cancel()
        await until(lambda: not (world.pipeline.streams.count or world.core.services.log.watched))
        assert len(world.core.live_turns) == 10
        gate.open()
        for task_id in ids:
            await world.reaches(task_id, COMPLETED)
        await at_rest(world)
        await until(lambda: len(asyncio.all_tasks()) <= tasks_before)


@pytest.mark.req("GEN-07")
async def test_a_deadline_in_mid_stream_leaves_the_work_alone() -> None:
    gate = Gate()
    async with serving(waiting(gate)) as world:
        items = aiter(world.stub.SendStreamingMessage(say(), timeout=1.0))
        task_id = (await anext(items)).task.id
        _, answer = await cut_short(items)
        assert answer.code == grpc.StatusCode.DEADLINE_EXCEEDED
        gate.open()
        await world.reaches(task_id, COMPLETED)
        await at_rest(world)


@pytest.mark.req("STRM-01", "DURA-01")
async def test_nothing_is_streamed_before_it_is_durable(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world:
        items = aiter(world.stub.SendStreamingMessage(say()))
        task_id = (await anext(items)).task.id
        await anext(items)
        disk = hold_commits(store)
        gate.open()
        await disk.reached.wait()
        late = asyncio.ensure_future(anext(items))
        assert (await world.get(task_id)).status.state == WORKING
        assert not late.done()
        disk.open()
        assert (await late).status_update.status.state == COMPLETED


@pytest.mark.req("STRM-03", "SEND-13")
async def test_messages_that_join_are_not_shown_in_streams(store: Store) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        message = await outlet.next_message()
        outlet.emit(chunk(message.parts[0].text, last=True))
        await gate.wait()
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act), store=store) as world:
        stream = asyncio.ensure_future(world.stream(say()))
        task_id = await begun(world)
        more = asyncio.ensure_future(world.stream(say("more", task_id=task_id)))
        await gate.reached.wait()
        gate.open()
        assert kinds(await stream) == ["task", "WORKING", "artifact_update", "COMPLETED"]
        assert kinds(await more) == ["task", "artifact_update", "COMPLETED"]
        assert [entry.event.WhichOneof("payload") for entry in await log_of(world.core, task_id)].count("message") == 1


@pytest.mark.req("INTR-06", "STRM-04")
async def test_a_stream_of_a_message_that_waits_outlives_the_stop_of_the_turn_before_it(store: Store) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.number == 1:
            await gate.wait()
        outlet.emit(status(INPUT, "What else?") if request.number == 1 else status(COMPLETED))

    async with serving(Actor(act), store=store) as world:
        first = asyncio.ensure_future(world.stream(say()))
        task_id = await begun(world)
        items = aiter(world.stub.SendStreamingMessage(say("more", task_id=task_id)))
        seen = [await anext(items)]
        gate.open()
        seen += [item async for item in items]
        assert kinds(await first) == ["task", "WORKING", "INPUT_REQUIRED"]
        assert kinds(seen) == ["task", "INPUT_REQUIRED", "WORKING", "COMPLETED"]


@pytest.mark.req("AGNT-04", "STRM-08", "STAT-03")
async def test_a_task_that_waits_for_its_turn_is_streamed_as_submitted() -> None:
    gate = Gate()
    async with serving(waiting(gate), limits=Limits(running_turns=1, drain_grace=0.05)) as world:
        await world.send(say(configuration={"return_immediately": True}))
        items = aiter(world.stub.SendStreamingMessage(say()))
        assert (await anext(items)).task.status.state == SUBMITTED
        gate.open()
        assert kinds([item async for item in items]) == ["WORKING", "COMPLETED"]


@pytest.mark.req("INTR-06")
async def test_authorization_out_of_band_keeps_the_stream_open(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(AUTH, "Log in at example.com."))
        await gate.wait()
        outlet.emit(status(WORKING))
        outlet.emit(status(COMPLETED))

    gate = Gate()
    async with serving(Actor(act), store=store) as world:
        items = aiter(world.stub.SendStreamingMessage(say()))
        seen = [await anext(items) for _ in range(3)]
        assert kinds(seen)[-1] == "AUTH_REQUIRED"
        gate.open()
        assert kinds([item async for item in items]) == ["WORKING", "COMPLETED"]
