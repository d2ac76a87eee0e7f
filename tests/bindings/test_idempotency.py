"""Sends that are repeated: one result, one run of the agent (spec: ONCE, IDEM-02, CONF-30, CONF-67)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Turn
from a2a_server.ports.store import Store
from tests.support.calls import SOON, key
from tests.support.house import Limits
from tests.support.stage import HandClock, Stage, texts
from tests.support.world import World, kinds, refused, say, serving

TWINS = 50
WINDOW = Limits(idempotency_window=60, drain_grace=0.05, cancel_grace=1.0)


async def total(world: World) -> int:
    return int((await world.stub.ListTasks(pb.ListTasksRequest())).total_size)


# -- by key


@pytest.mark.req("ONCE-01", "IDEM-02")
@pytest.mark.parametrize("skill", ["echo", "ask", "fail", "bare"])
async def test_a_repeated_send_returns_the_first_result(store: Store, skill: str) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        request = say(skill=skill, context_id="c")
        first = await world.send(request, metadata=key())
        for _ in range(3):
            assert await world.send(request, metadata=key()) == first
        (streamed,) = await world.stream(request, metadata=key())
        assert streamed.task == first
        assert await total(world) == 1
    assert len(stage.turns) == 1


@pytest.mark.req("ONCE-01")
async def test_the_context_that_the_server_chose_is_the_same_again(store: Store) -> None:
    async with serving(Stage().agent, store=store) as world:
        first = await world.send(say(), metadata=key())
        assert first.context_id
        assert await world.send(say(), metadata=key()) == first


@pytest.mark.req("ONCE-01")
async def test_how_the_answer_is_wanted_is_no_other_content(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        first = await world.send(say(skill="ask"), metadata=key())
        again = await world.send(say(skill="ask", configuration={"history_length": 0, **SOON}), metadata=key())
    assert again.id == first.id
    assert not again.history
    assert len(stage.turns) == 1


@pytest.mark.req("ONCE-01")
async def test_other_keys_and_no_key_start_anew() -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        metadatas: list[Any] = [key("a"), key("b"), key("A"), None, None]
        tasks = {(await world.send(say(), metadata=metadata)).id for metadata in metadatas}
    assert len(tasks) == len(stage.turns) == 5


@pytest.mark.req("ONCE-01", "DURA-01")
@pytest.mark.parametrize("skill", ["echo", "ask", "chat"])
async def test_a_restart_forgets_no_key(store: Store, skill: str) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        first = await world.stub.SendMessage(say(skill=skill), metadata=key())
    async with serving(stage.agent, store=store) as world:
        assert await world.stub.SendMessage(say(skill=skill), metadata=key()) == first
        refusal = await refused(world.send(say("other", skill=skill), metadata=key()))
        assert list(refusal.fields) == ["idempotency-key"]
    assert len(stage.turns) == 1


# -- other content


@pytest.mark.req("ONCE-02", "ERRS-05")
@pytest.mark.parametrize(
    "other",
    [
        say("other"),
        say(message_id="m-2"),
        say(context_id="c"),
        say(skill="bare"),
        say(references=["t"]),
        say(parts=[pb.Part(text="hello"), pb.Part(text="hello")]),
        say(parts=[pb.Part(text="hello", media_type="text/plain")]),
    ],
)
async def test_another_content_under_the_same_key_is_refused(store: Store, other: pb.SendMessageRequest) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        await world.send(say(), metadata=key())
        for attempt in (world.send(other, metadata=key()), world.stream(other, metadata=key())):
            refusal = await refused(attempt)
            assert refusal.code.name == "INVALID_ARGUMENT"
            assert refusal.fields == {
                "idempotency-key": "'k' was used for another message; use a fresh one for each message"
            }
        assert await total(world) == 1
    assert len(stage.turns) == 1


@pytest.mark.req("ONCE-02", "ONCE-01")
async def test_rivals_for_one_key_start_one_turn(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        rivals = [world.send(say(f"rival {number}"), metadata=key()) for number in range(10)]
        answers = await asyncio.gather(*rivals, return_exceptions=True)
        assert len([answer for answer in answers if isinstance(answer, pb.Task)]) == 1
        assert await total(world) == 1
    assert len(stage.turns) == 1


@pytest.mark.req("ONCE-01", "ERRS-05", "GEN-03")
@pytest.mark.parametrize("metadata", [key(""), key("x" * 256), (*key("a"), *key("b"))])
async def test_keys_that_are_none(metadata: Any) -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        refusal = await refused(world.send(say(), metadata=metadata))
    assert refusal.code.name == "INVALID_ARGUMENT"
    assert refusal.fields == {"idempotency-key": "must be one value of 1 to 255 printable ASCII characters"}
    assert not stage.turns


@pytest.mark.req("ONCE-01")
@pytest.mark.parametrize("value", ["x" * 255, "a b/c:d'\"%~", "*"])
async def test_keys_of_every_printable_kind(store: Store, value: str) -> None:
    async with serving(Stage().agent, store=store) as world:
        first = await world.send(say(), metadata=key(value))
        assert await world.send(say(), metadata=(*key(value), *key(value))) == first


@pytest.mark.req("ONCE-01", "GEN-03")
async def test_a_refused_send_uses_up_no_key() -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        await refused(world.send(say("hello", task_id="nope"), metadata=key()))
        await refused(world.send(say(skill="nope"), metadata=key()))
        assert await world.send(say("something else"), metadata=key())
    assert len(stage.turns) == 1


# -- by message id


@pytest.mark.req("IDEM-02", "ONCE-01", "ONCE-02")
async def test_within_the_window_a_message_id_is_a_key(store: Store) -> None:
    stage, clock = Stage(), HandClock()
    async with serving(stage.agent, store=store, clock=clock, limits=WINDOW) as world:
        first = await world.send(say(message_id="m"))
        clock.advance(59.9)
        assert await world.send(say(message_id="m")) == first
        refusal = await refused(world.send(say("other", message_id="m")))
        assert refusal.fields == {
            "message.message_id": "'m' was used for another message; use a fresh one for each message"
        }
        assert (await world.send(say(message_id="n"))).id != first.id

        clock.advance(0.2)
        assert (await world.send(say("other", message_id="m"))).id != first.id
    assert len(stage.turns) == 3


@pytest.mark.req("IDEM-02", "ONCE-01")
async def test_message_ids_say_nothing_unless_switched_on() -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        tasks = {(await world.send(say(message_id="m"))).id for _ in range(2)}
    assert len(tasks) == len(stage.turns) == 2


@pytest.mark.req("ONCE-01")
async def test_a_key_outlives_the_window_of_message_ids_and_ends_with_its_own(store: Store) -> None:
    stage, clock = Stage(), HandClock()
    limits = Limits(idempotency_window=60, idempotency_key_window=600, drain_grace=0.05)
    async with serving(stage.agent, store=store, clock=clock, limits=limits) as world:
        first = await world.send(say(), metadata=key())
        clock.advance(599)
        assert await world.send(say(), metadata=key()) == first
        clock.advance(1)
        assert (await world.send(say(), metadata=key())).id != first.id
    assert len(stage.turns) == 2


# -- direct messages


@pytest.mark.req("ONCE-01", "SEND-09", "SEND-10")
async def test_a_direct_answer_is_given_again(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        first = await world.stub.SendMessage(say(skill="chat"), metadata=key())
        assert first.message.parts[0].text == "you said hello"
        assert await world.stub.SendMessage(say(skill="chat"), metadata=key()) == first
        assert [item.message for item in await world.stream(say(skill="chat"), metadata=key())] == [first.message]
        assert await total(world) == 0
    assert len(stage.turns) == 1


# -- follow-ups


@pytest.mark.req("ONCE-01", "INTR-02")
async def test_an_answer_is_heard_once(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        asked = await world.send(say(skill="ask"))
        answer = say("red", task_id=asked.id)
        done = await asyncio.gather(*(world.send(answer, metadata=key()) for _ in range(TWINS)))
        assert all(task == done[0] for task in done)
        assert texts(done[0]) == ["red it is"]
        assert [message.parts[0].text for message in done[0].history] == ["hello", "What colour?", "red"]
        refusal = await refused(world.send(say("blue", task_id=asked.id), metadata=key()))
        assert list(refusal.fields) == ["idempotency-key"]
    assert len(stage.turns) == 2


@pytest.mark.req("ONCE-01", "SEND-13")
async def test_a_message_joins_a_running_task_once(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        task = await world.send(say(skill="hold", configuration=SOON))
        await stage.began()
        more = say("more", task_id=task.id, configuration=SOON)
        joined = await asyncio.gather(*(world.send(more, metadata=key()) for _ in range(TWINS)))
        assert {one.id for one in joined} == {task.id}
        assert {len(one.history) for one in joined} == {2}

        stage.release.set()
        done = await world.reaches(task.id, pb.TASK_STATE_COMPLETED)
        assert [message.parts[0].text for message in done.history] == ["hello", "more"]
        assert await world.send(more, metadata=key()) == done
    assert [turn.text for turn in stage.turns] == ["hello", "more"]


@pytest.mark.req("ONCE-01", "SEND-13")
async def test_a_message_that_found_no_room_may_be_sent_again_under_its_key(store: Store) -> None:
    stage = Stage()
    limits = Limits(waiting_messages=1, drain_grace=0.05)
    async with serving(stage.agent, store=store, limits=limits) as world:
        task = await world.send(say(skill="hold", configuration=SOON))
        await stage.began()
        await world.send(say("first", task_id=task.id, configuration=SOON), metadata=key("1"))
        late = say("late", task_id=task.id, configuration=SOON)
        for _ in range(2):
            assert (await refused(world.send(late, metadata=key("2")))).reason == "OVERLOADED"

        (message,) = [say("first", task_id=task.id, configuration=SOON)]
        assert len((await world.send(message, metadata=key("1"))).history) == 2
        stage.release.set()
        await world.reaches(task.id, pb.TASK_STATE_COMPLETED)
        refusal = await refused(world.send(late, metadata=key("2")))
        assert refusal.reason == "UNSUPPORTED_OPERATION"  # a task that is over, and not a result nobody has had
    assert [turn.text for turn in stage.turns] == ["hello", "first"]


# -- streams


@pytest.mark.req("ONCE-01", "STRM-01", "STRM-04")
async def test_a_repeated_stream_of_running_work_follows_it_to_its_end(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        first = world.stub.SendStreamingMessage(say(skill="hold"), metadata=key())
        assert (await first.read()).HasField("task")
        await stage.began()
        again = world.stub.SendStreamingMessage(say(skill="hold"), metadata=key())
        snapshot = await again.read()
        assert snapshot.HasField("task")
        stage.release.set()

        assert kinds([item async for item in _rest(again)])[-1] == "COMPLETED"
        assert kinds([item async for item in _rest(first)])[-1] == "COMPLETED"
    assert len(stage.turns) == 1


async def _rest(stream: Any) -> Any:
    while item := await stream.read():
        yield item


@pytest.mark.req("ONCE-01")
async def test_a_client_that_lost_its_stream_finds_its_task_again(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store) as world:
        stream = world.stub.SendStreamingMessage(say(skill="hold"), metadata=key())
        task_id = (await stream.read()).task.id
        stream.cancel()
        await stage.began()
        again = asyncio.ensure_future(world.send(say(skill="hold"), metadata=key()))
        stage.release.set()
        assert (await again).id == task_id
    assert len(stage.turns) == 1


# -- agents that break the protocol


@pytest.mark.req("ONCE-01", "SEND-14")
async def test_an_error_is_a_result_too(store: Store) -> None:
    stage = Stage()

    @stage.agent.skill(id="break", description="Sends an artifact without parts.", tags=["test"])
    async def break_rules(turn: Turn) -> None:
        stage.turns.append(turn)
        await turn.emit(pb.TaskArtifactUpdateEvent(artifact=pb.Artifact(artifact_id="a")))

    async with serving(stage.agent, store=store) as world:
        first = await refused(world.send(say(skill="break"), metadata=key()))
        assert first.reason == "INVALID_AGENT_RESPONSE"
        assert await refused(world.send(say(skill="break"), metadata=key())) == first
    assert len(stage.turns) == 1
