"""Agents of all kinds: what becomes of their events, mistakes and accidents (spec: EXEC, SEND-12, SEND-14, STAT)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf import json_format, struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, Turn
from a2a_server.ports.agent import Outlet, Plan, TurnRequest
from a2a_server.ports.clock import Clock
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    COMPLETED,
    FAILED,
    INPUT,
    REJECTED,
    SUBMITTED,
    WORKING,
    Act,
    Actor,
    Gate,
    at_rest,
    begun,
    chunk,
    log_of,
    says,
    status,
    statuses,
    texts,
    waiting,
)
from tests.support.house import LINGER, Limits, artifact_event, millis
from tests.support.world import kinds, refused, say, serving

NOW = {"return_immediately": True}


# -- return values


def returning(result: Any) -> Agent:
    agent = Agent("Return", "Returns.", "1.0.0")

    @agent.skill(id="answer", tags=["test"])
    async def answer(turn: Turn) -> Any:
        return result

    return agent


@pytest.mark.req("EXEC-05", "AGNT-01", "GEN-08")
@pytest.mark.parametrize("result", [{"a": [1, None]}, [1, 2], 42, 1.5, True])
async def test_any_json_value_becomes_a_data_part(result: object) -> None:
    async with serving(returning(result)) as world:
        task = await world.send(say())
        (part,) = task.artifacts[0].parts
        assert part.WhichOneof("content") == "data"
        assert json_format.MessageToDict(part.data) == result


@pytest.mark.req("EXEC-05")
async def test_text_becomes_a_text_part_and_the_id_is_stable(store: Store) -> None:
    async with serving(returning("hi"), store=store) as world:
        items = await world.stream(say())
        (update,) = (item.artifact_update for item in items if item.HasField("artifact_update"))
        assert (texts(update.artifact), update.last_chunk) == (["hi"], True)
        task = await world.get(items[0].task.id)
        assert [artifact.artifact_id for artifact in task.artifacts] == [update.artifact.artifact_id]
        assert task == await world.get(task.id)


@pytest.mark.req("AGNT-01", "EXEC-05")
async def test_yielded_values_stream_into_one_artifact(store: Store) -> None:
    agent = Agent("Yield", "Yields.", "1.0.0")

    @agent.skill(id="count", tags=["test"])
    async def count(turn: Turn) -> AsyncIterator[str]:
        for number in range(3):
            yield f"{number}"

    async with serving(agent, store=store) as world:
        task = await world.send(say())
        assert [texts(artifact) for artifact in task.artifacts] == [["0", "1", "2"]]


# -- what is passed on


@pytest.mark.req("EXEC-03", "MSGS-02", "ORDR-01")
async def test_events_are_passed_on_as_they_are(store: Store) -> None:
    events: list[pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent] = [
        pb.TaskStatusUpdateEvent(
            status=pb.TaskStatus(
                state=WORKING,
                message=pb.Message(
                    message_id="mine",
                    role=pb.ROLE_AGENT,
                    parts=[pb.Part(raw=b"\0\xff", media_type="image/x", filename="f", metadata={"p": 1})],
                    extensions=["https://e.example"],
                    metadata={"k": {"deep": [1, "2", None]}},
                ),
            ),
            metadata={"progress": 0.5},
        ),
        pb.TaskArtifactUpdateEvent(
            artifact=pb.Artifact(
                artifact_id="mine",
                name="n",
                description="d",
                parts=[pb.Part(data=struct_pb2.Value(number_value=1)), pb.Part(url="https://example.com/f")],
                metadata={"k": True},
                extensions=["https://e.example"],
            ),
            last_chunk=True,
            metadata={"m": "v"},
        ),
    ]
    agent = Agent("Pass", "Passes on.", "1.0.0")

    @agent.skill(id="pass", tags=["test"])
    async def pass_on(turn: Turn) -> None:
        for event in events:
            await turn.emit(event)

    async with serving(agent, store=store) as world:
        items = await world.stream(say())
        task = items[0].task
        got_status, got_artifact = items[2].status_update, items[3].artifact_update
        for got in (got_status, got_artifact):
            assert (got.task_id, got.context_id) == (task.id, task.context_id)
            got.ClearField("task_id")
            got.ClearField("context_id")
        assert got_status.status.HasField("timestamp")
        got_status.status.ClearField("timestamp")
        for filled in ("task_id", "context_id"):
            got_status.status.message.ClearField(filled)
        assert [got_status, got_artifact] == events


@pytest.mark.req("EXEC-03")
async def test_an_author_may_use_an_event_again() -> None:
    agent = Agent("Again", "Says it again.", "1.0.0")

    @agent.skill(id="again", tags=["test"])
    async def other_forms(turn: Turn) -> None:
        event = pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(status=pb.TaskStatus(state=WORKING)))
        await turn.emit(event)
        event.status_update.status.state = COMPLETED
        await turn.emit(event)

    async with serving(agent) as world:
        assert kinds(await world.stream(say())) == ["task", "WORKING", "WORKING", "COMPLETED"]


# -- accidents


async def _crashes(request: TurnRequest, outlet: Outlet) -> None:
    raise RuntimeError("password=hunter2 at /etc/secret")


async def _crashes_later(request: TurnRequest, outlet: Outlet) -> None:
    outlet.emit(chunk("half"))
    await outlet.durable()
    raise KeyError("hunter2")


async def _quits(request: TurnRequest, outlet: Outlet) -> None:
    raise SystemExit("hunter2")


async def _cancels_itself(request: TurnRequest, outlet: Outlet) -> None:
    raise asyncio.CancelledError


@pytest.mark.req("SEND-12", "EXEC-04", "ERRS-07")
@pytest.mark.parametrize("act", [_crashes, _crashes_later, _quits, _cancels_itself])
async def test_an_accident_ends_the_task_and_not_the_call(store: Store, act: Act) -> None:
    async with serving(Actor(act), store=store) as world:
        task = await world.send(say())
        assert task.status.state == FAILED
        message = task.status.message
        assert message.role == pb.ROLE_AGENT
        assert message.parts[0].text == "The agent failed while working on this task."
        assert message.metadata["reason"] == "AGENT_FAILED"
        assert "hunter2" not in str(task)
        assert kinds(await world.stream(say()))[-1] == "FAILED"
        await at_rest(world)


@pytest.mark.req("EXEC-04", "DURA-01")
@pytest.mark.parametrize("step", ["first", "second"])
@pytest.mark.parametrize("takes_back", [False, True])
async def test_a_cancellation_that_the_agent_leaves_behind_hits_nobody(
    store: Store,
    step: str,
    takes_back: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Next would be the commit of its own answer."""

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if step == "second":
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if takes_back:
            task.uncancel()
        outlet.emit(chunk("done"))
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act), store=store) as world:
        for _ in range(3):
            task = await world.send(say(), timeout=10)
            assert (task.status.state, task.artifacts[0].parts[0].text) == (COMPLETED, "done")
        await at_rest(world)


@pytest.mark.req("EXEC-04", "SEND-09")
@pytest.mark.parametrize("act", [_crashes, _quits, _cancels_itself])
async def test_an_accident_of_a_direct_turn_makes_a_failed_task(store: Store, act: Act) -> None:
    async with serving(Actor(act, plan=Plan(direct=True)), store=store) as world:
        assert (await world.send(say())).status.state == FAILED
        assert kinds(await world.stream(say())) == ["task", "WORKING", "FAILED"]
        await at_rest(world)


@pytest.mark.req("SEND-12")
async def test_an_agent_that_gives_up_answers_with_the_failed_task(store: Store) -> None:
    agent = Agent("Sad", "Fails.", "1.0.0")

    @agent.skill(id="fail", tags=["test"])
    async def fail(turn: Turn) -> None:
        if turn.text == "no":
            await turn.reject("Not that.")
        else:
            await turn.fail("Out of ink.")

    async with serving(agent, store=store) as world:
        failed, rejected = await world.send(say()), await world.send(say("no"))
        assert (failed.status.state, failed.status.message.parts[0].text) == (FAILED, "Out of ink.")
        assert (rejected.status.state, rejected.status.message.parts[0].text) == (REJECTED, "Not that.")


# -- broken rules


def deep(levels: int) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    inner = struct
    for _ in range(levels):
        inner = inner.fields["x"].struct_value
    inner.fields["x"].number_value = 1
    return struct


def _artifact(**members: object) -> pb.StreamResponse:
    artifact = pb.Artifact(**{"artifact_id": "a", "parts": [pb.Part(text="x")], **members})  # type: ignore[arg-type]
    return pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(artifact=artifact))


def _speech(**members: object) -> pb.StreamResponse:
    message = pb.Message(**{"parts": [pb.Part(text="x")], **members})  # type: ignore[arg-type]
    update = pb.TaskStatusUpdateEvent(status=pb.TaskStatus(state=WORKING, message=message))
    return pb.StreamResponse(status_update=update)


BROKEN: dict[str, tuple[pb.StreamResponse, str]] = {
    "nothing": (pb.StreamResponse(), "an event needs one of"),
    "a task": (pb.StreamResponse(task=pb.Task(id="x")), "only a direct turn begins the task, and once"),
    "a direct message": (pb.StreamResponse(message=says("hi")), "this interaction has a task"),
    "no state": (status(pb.TASK_STATE_UNSPECIFIED), "status_update.status.state: is required"),
    "an unknown state": (status(99), "unknown value 99"),  # type: ignore[arg-type]
    "no status": (pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(task_id="")), "status_update.status"),
    "a foreign task": (status(WORKING, task_id="other"), "the event is for task other"),
    "no artifact": (
        pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(append=True)),
        "artifact_update.artifact",
    ),
    "no artifact id": (_artifact(artifact_id=""), "artifact_update.artifact.artifact_id: is required"),
    "no parts": (_artifact(parts=[]), "artifact_update.artifact.parts: needs at least one element"),
    "an empty part": (_artifact(parts=[pb.Part()]), "artifact_update.artifact.parts[0]: must hold exactly one of"),
    "too deep": (_artifact(metadata=deep(31)), "artifact_update.artifact.metadata: nests too deeply"),
    "too deep beside an artifact": (
        artifact_event("", "", pb.Artifact(artifact_id="a", parts=[pb.Part(text="x")]), metadata=deep(31)),
        "artifact_update.metadata: nests too deeply",
    ),
    "a silent message": (_speech(parts=[]), "status_update.status.message.parts: needs at least one element"),
    "the user's voice": (_speech(role=pb.ROLE_USER), "an agent speaks with ROLE_AGENT"),
}


@pytest.mark.req("SEND-14", "EXEC-06", "MSGS-03", "SEND-02")
@pytest.mark.parametrize("case", BROKEN)
async def test_an_event_against_the_protocol_is_the_agents_error(case: str) -> None:
    event, why = BROKEN[case]

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        copy = pb.StreamResponse()
        copy.CopyFrom(event)
        outlet.emit(copy)
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act)) as world:
        answer = await refused(world.stub.SendMessage(say()))
        assert (answer.code, answer.reason) == (grpc.StatusCode.INTERNAL, "INVALID_AGENT_RESPONSE")
        task = await world.get(answer.metadata["taskId"])
        assert task.status.state == FAILED
        assert why in task.status.message.parts[0].text
        assert task.status.message.metadata["reason"] == "INVALID_AGENT_RESPONSE"
        assert not task.artifacts
        assert kinds(await world.stream(say())) == ["task", "WORKING", "FAILED"]
        assert (await world.send(say(configuration=NOW))).id
        await at_rest(world)


@pytest.mark.req("SEND-14", "SEND-10")
@pytest.mark.parametrize(
    ("message", "why"),
    [
        (pb.Message(), "message.parts: needs at least one element"),
        (pb.Message(parts=[pb.Part(text="x")], task_id="other"), "a direct answer belongs to no task"),
        (pb.Message(parts=[pb.Part(text="x")], role=pb.ROLE_USER), "an agent speaks with ROLE_AGENT"),
    ],
)
async def test_a_direct_answer_against_the_protocol_is_the_agents_error(message: pb.Message, why: str) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(pb.StreamResponse(message=message))

    async with serving(Actor(act, plan=Plan(direct=True))) as world:
        answer = await refused(world.stub.SendMessage(say()))
        assert (answer.code, answer.reason) == (grpc.StatusCode.INTERNAL, "INVALID_AGENT_RESPONSE")
        task = await world.get(answer.metadata["taskId"])
        assert why in task.status.message.parts[0].text


async def _nothing(request: TurnRequest, outlet: Outlet) -> None:
    pass


async def _half(request: TurnRequest, outlet: Outlet) -> None:
    outlet.emit(status(WORKING, "on it"))
    outlet.emit(chunk("half"))


@pytest.mark.req("EXEC-06")
@pytest.mark.parametrize("plan", [Plan(), Plan(direct=True)])
@pytest.mark.parametrize("act", [_nothing, _half])
async def test_an_agent_that_ends_without_an_end_has_failed(store: Store, act: Act, plan: Plan) -> None:
    async with serving(Actor(act, plan=plan), store=store) as world:
        answer = await refused(world.stub.SendMessage(say()))
        assert answer.reason == "INVALID_AGENT_RESPONSE"
        task = await world.get(answer.metadata["taskId"])
        assert task.status.state == FAILED
        assert "returned without completing" in task.status.message.parts[0].text
        await at_rest(world)


@pytest.mark.req("SEND-14", "EXEC-04")
async def test_a_broken_chunk_is_reported_though_it_was_held_back() -> None:
    """The API for authors holds a chunk for a moment; its fault must not get lost in a timer."""
    agent = Agent("Slow", "Writes slowly.", "1.0.0")

    @agent.skill(id="write", tags=["test"])
    async def write(turn: Turn) -> None:
        async with turn.artifact("a") as out:
            await out.write(pb.Part(text="x", metadata=deep(31)))
            await asyncio.sleep(3 * LINGER)

    async with serving(agent) as world:
        answer = await refused(world.stub.SendMessage(say()))
        assert answer.reason == "INVALID_AGENT_RESPONSE"
        task = await world.get(answer.metadata["taskId"])
        assert "nests too deeply" in task.status.message.parts[0].text


# -- after the end


@pytest.mark.req("STAT-01", "STAT-02", "SEND-14")
@pytest.mark.parametrize("end", [COMPLETED, FAILED, REJECTED])
async def test_what_comes_after_the_end_is_dropped(store: Store, end: pb.TaskState) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(end, "the end"))
        for state in (WORKING, INPUT, COMPLETED, FAILED):
            outlet.emit(status(state, "encore"))
        outlet.emit(chunk("encore"))
        outlet.save(b"encore")

    async with serving(Actor(act), store=store) as world:
        items = await world.stream(say())
        await at_rest(world)
        task = await world.get(items[0].task.id)
        assert kinds(items) == ["task", "WORKING", pb.TaskState.Name(end).removeprefix("TASK_STATE_")]
        assert task.status == items[-1].status_update.status
        assert not task.artifacts
        assert len(await log_of(world.core, task.id)) == 3


@pytest.mark.req("STAT-02")
async def test_nothing_goes_back_to_submitted(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(SUBMITTED))
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act), store=store) as world:
        assert kinds(await world.stream(say())) == ["task", "WORKING", "COMPLETED"]


@pytest.mark.req("STAT-03", "EXEC-02")
async def test_a_task_begins_submitted_and_works_when_the_agent_does(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world:
        task = await world.send(say(configuration=NOW))
        await world.reaches(task.id, WORKING)
        created = (await log_of(world.core, task.id))[0].event.task
        assert created.status.state == SUBMITTED
        gate.open()
        await world.reaches(task.id, COMPLETED)
        assert statuses(await log_of(world.core, task.id)) == ["WORKING", "COMPLETED"]


class Jumpy(Clock):
    """A clock that is set back now and then."""

    def __init__(self) -> None:
        self._times = [5_000, 5_010, 3_000, 6_000, 1, 7_000]

    def now_ms(self) -> int:
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]


@pytest.mark.req("STAT-04")
async def test_the_time_of_a_status_never_goes_back(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(4):
            outlet.emit(status(WORKING, f"{number}"))
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act), store=store, clock=Jumpy()) as world:
        items = await world.stream(say())
        stamps = [item.task.status if item.HasField("task") else item.status_update.status for item in items]
        times = [millis(stamp.timestamp) for stamp in stamps]
        assert all(stamp.HasField("timestamp") for stamp in stamps)
        assert times == sorted(times)


@pytest.mark.req("STAT-04", "EXEC-02")
async def test_the_status_that_makes_the_task_comes_after_those_in_front_of_it(store: Store) -> None:
    class Ticking(Clock):
        ms = 0

        def now_ms(self) -> int:
            self.ms += 1
            return self.ms

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(INPUT, "What?"))

    async with serving(Actor(act, plan=Plan(direct=True)), store=store, clock=Ticking()) as world:
        items = await world.stream(say())
        stamps = [item.task.status if item.HasField("task") else item.status_update.status for item in items]
        times = [millis(stamp.timestamp) for stamp in stamps]
        assert times == sorted(times)


@pytest.mark.req("STAT-04")
async def test_a_status_has_the_time_of_its_making() -> None:
    class Fixed(Clock):
        def now_ms(self) -> int:
            return 1_234_567_890_123

    async with serving(returning("x"), clock=Fixed()) as world:
        task = await world.send(say())
        assert task.status.timestamp.ToJsonString() == "2009-02-13T23:31:30.123Z"


@pytest.mark.req("STAT-05", "DURA-01")
async def test_whoever_has_seen_an_event_finds_its_state(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(20):
            outlet.emit(status(WORKING, f"{number}"))
            await asyncio.sleep(0)
        outlet.emit(status(COMPLETED, "20"))

    async with serving(Actor(act), store=store) as world:
        task_id = ""
        async for item in world.stub.SendStreamingMessage(say()):
            task_id = task_id or item.task.id
            seen = item.status_update.status.message.parts
            if seen:
                found = (await world.get(task_id)).status.message.parts[0].text
                assert int(found) >= int(seen[0].text)


# -- agents that know no measure


@pytest.mark.req("ORDR-01", "AGNT-04")
@pytest.mark.parametrize("patient", [False, True])
async def test_ten_thousand_events_in_a_row(store: Store, *, patient: bool) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(10_000):
            outlet.emit(chunk("x", append=number > 0))
            if patient:
                await outlet.room()
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act), store=store) as world:
        assert len(texts((await world.send(say())).artifacts[0])) == 10_000
        await at_rest(world)


@pytest.mark.req("AGNT-05", "TIMO-02")
async def test_an_agent_that_neither_stops_nor_pauses_does_not_hold_up_the_server() -> None:
    """It swallows its cancellation and goes on emitting; everybody else must still be served."""
    rounds, end = 0, asyncio.Event()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        nonlocal rounds
        while not end.is_set():
            try:
                outlet.emit(chunk("x", append=True))
                await outlet.room()
                rounds += 1
            except asyncio.CancelledError:
                continue

    async with serving(Actor(act), limits=Limits(turn_timeout=0.1, drain_grace=0.05)) as world:
        task = await world.send(say())
        assert task.status.state == FAILED
        before = rounds
        while rounds < before + 100:
            await world.get(task.id)
        end.set()
        await at_rest(world)


@pytest.mark.req("SEND-12", "ERRS-07")
async def test_a_plan_or_check_that_crashes_tells_nothing() -> None:
    class Broken(Actor):
        def plan(self, request: pb.SendMessageRequest, state: bytes) -> Plan:
            raise RuntimeError("hunter2")

    async with serving(Broken(_nothing)) as world:
        answer = await refused(world.stub.SendMessage(say()))
        assert (answer.code, answer.message) == (grpc.StatusCode.INTERNAL, "Internal error.")
        assert "hunter2" not in str(answer)
        answer = await refused(world.stream(say()))
        assert (answer.code, answer.message) == (grpc.StatusCode.INTERNAL, "Internal error.")
        await at_rest(world)


@pytest.mark.req("EXEC-02", "STRM-01")
async def test_a_direct_turn_that_takes_its_time_makes_its_task_late(store: Store) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gate.wait()
        outlet.emit(status(WORKING, "on it"))
        await again.wait()
        outlet.emit(status(COMPLETED))

    again = Gate()
    async with serving(Actor(act, plan=Plan(direct=True)), store=store) as world:
        stream = asyncio.ensure_future(world.stream(say()))
        await gate.reached.wait()
        assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 0
        gate.open()
        await begun(world)
        again.open()
        assert kinds(await stream) == ["task", "WORKING", "COMPLETED"]


@pytest.mark.req("AGNT-01", "SEND-14")
async def test_a_status_and_a_question_without_words_have_no_message(store: Store) -> None:
    agent = Agent("Mute", "Says nothing.", "1.0.0")

    @agent.skill(id="mute", tags=["test"])
    async def mute(turn: Turn) -> None:
        await turn.status()
        if turn.number == 1:
            await turn.ask()

    async with serving(agent, store=store) as world:
        items = await world.stream(say())
        assert kinds(items) == ["task", "WORKING", "WORKING", "INPUT_REQUIRED"]
        assert not any(item.status_update.status.HasField("message") for item in items[1:])
        asked = items[0].task.id
        done = await world.send(say("again", task_id=asked, message_id="m-2"))
        assert done.status.state == COMPLETED
        assert [said.message_id for said in done.history] == ["m-1", "m-2"]
