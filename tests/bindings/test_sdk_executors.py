"""Executors of the official SDK on our server answer as on the SDK's own (spec: AGNT-02)."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.executor import ExecutorAgent
from a2a_server.ports.store import Store
from tests.bindings.actors import CANCELED, COMPLETED, FAILED, INPUT, WORKING
from tests.support.executors import CARD, V1, Actor, Stubborn, bare, sdk_serving
from tests.support.world import ByHeader, as_user, kinds, refused, say, serving


@pytest.mark.req("AGNT-02")
@pytest.mark.parametrize(
    "word", ["hello", "work", "chunks", "lazy", "whole", "ask", "login", "reject", "fail", "context"]
)
async def test_a_send_and_a_stream_are_answered_as_by_the_sdk(store: Store, word: str) -> None:
    request = say(word, configuration={"history_length": 5, "accepted_output_modes": ["text/plain"]})
    request.metadata["colour"] = {"red": 1}
    async with sdk_serving(Actor()) as sdk, serving(ExecutorAgent(Actor(), CARD), store=store) as world:
        theirs = await sdk.SendMessage(request, metadata=V1)
        ours = await world.stub.SendMessage(request)
        assert bare(ours) == bare(theirs)
        theirs = [item async for item in sdk.SendStreamingMessage(request, metadata=V1)]
        if word == "login":
            return  # our stream stays open, because the client may log in elsewhere (INTR-06)
        streamed = await world.stream(request)
        if word == "whole":  # we tell each part of it as an event
            assert kinds(streamed) == ["task", "artifact_update", "COMPLETED"]
        else:
            assert [bare(item) for item in streamed] == [bare(item) for item in theirs]


@pytest.mark.req("AGNT-02")
@pytest.mark.parametrize("first", ["ask", "login"])
async def test_a_question_is_answered(store: Store, first: str) -> None:
    async with sdk_serving(Actor()) as sdk, serving(ExecutorAgent(Actor(), CARD), store=store) as world:
        told = []
        for stub, metadata in ((sdk, V1), (world.stub, ())):
            task = (await stub.SendMessage(say(first), metadata=metadata)).task
            answer = say("red", task_id=task.id)
            answer.message.message_id = "another"  # the SDK keeps no second message of the same id
            told.append(ended := (await stub.SendMessage(answer, metadata=metadata)).task)
            assert ended.status.state == COMPLETED
            assert [said.parts[0].text for said in ended.history if said.role == pb.ROLE_USER] == [first, "red"]
        theirs, ours = map(bare, told)
        assert ours == theirs


@pytest.mark.req("AGNT-02")
async def test_a_cancel_is_the_executors(store: Store) -> None:
    executor = Actor()
    async with serving(ExecutorAgent(executor, CARD), store=store) as world:
        task = await world.send(say("wait", configuration={"return_immediately": True}))
        await world.reaches(task.id, WORKING)
        canceled = await world.stub.CancelTask(pb.CancelTaskRequest(id=task.id))
        assert canceled.status.state == CANCELED
        assert executor.canceled == [task.id]


@pytest.mark.req("AGNT-02", "CANC-06")
async def test_an_executor_that_cannot_be_canceled_goes_on(store: Store) -> None:
    executor = Stubborn()
    async with serving(ExecutorAgent(executor, CARD), store=store) as world:
        task = await world.send(say("wait", configuration={"return_immediately": True}))
        await world.reaches(task.id, WORKING)
        for _ in range(2):
            refusal = await refused(world.stub.CancelTask(pb.CancelTaskRequest(id=task.id)))
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TASK_NOT_CANCELABLE")
            assert refusal.message == "The agent did not stop, and works on."
        executor.go_on.set()
        await world.reaches(task.id, COMPLETED)


@pytest.mark.req("AGNT-02")
async def test_what_an_executor_refuses_has_the_sdks_error_and_leaves_no_task(store: Store) -> None:
    async with sdk_serving(Actor()) as sdk, serving(ExecutorAgent(Actor(), CARD), store=store) as world:
        theirs = await refused(sdk.SendMessage(say("refuse"), metadata=V1))
        ours = await refused(world.stub.SendMessage(say("refuse")))
        assert (
            (ours.reason, ours.message)
            == (theirs.reason, theirs.message)
            == ("UNSUPPORTED_OPERATION", "Not on Sundays.")
        )
        assert not (await world.stub.ListTasks(pb.ListTasksRequest())).tasks


@pytest.mark.req("AGNT-02", "EXEC-04")
@pytest.mark.parametrize(("word", "reason"), [("break", "AGENT_FAILED"), ("mix", "INVALID_AGENT_RESPONSE")])
async def test_a_fault_of_the_executor_fails_the_task_as_on_the_sdks_server(
    store: Store, word: str, reason: str
) -> None:
    async with sdk_serving(Actor()) as sdk, serving(ExecutorAgent(Actor(), CARD), store=store) as world:
        await refused(sdk.SendMessage(say(word), metadata=V1))
        (theirs,) = (await sdk.ListTasks(pb.ListTasksRequest(), metadata=V1)).tasks
        items = await world.stream(say(word))
        ours = await world.get(items[0].task.id)
        assert ours.status.state == theirs.status.state == FAILED
        assert ours.status.message.metadata["reason"] == reason
        assert "a fault of" not in str(ours)


@pytest.mark.req("AGNT-02")
async def test_an_executor_knows_who_calls_and_what_was_referred_to(store: Store) -> None:
    executor = Actor()
    async with serving(ExecutorAgent(executor, CARD), store=store, authenticator=ByHeader()) as world:
        first = await world.send(say("work"), metadata=as_user("ann"))
        again = say("context")
        again.message.reference_task_ids.append(first.id)
        await world.send(again, metadata=[*as_user("ann"), ("a2a-extensions", "https://example.com/x")])
        seen = executor.seen[-1]
        assert (seen.call_context.user.is_authenticated, seen.call_context.user.user_name) == (True, "ann")
        assert seen.call_context.state == {}
        assert [task.id for task in seen.related_tasks] == [first.id]
        assert seen.requested_extensions == {"https://example.com/x"}


@pytest.mark.req("AGNT-02", "SEND-13")
async def test_a_further_message_waits_for_its_turn(store: Store) -> None:
    executor = Stubborn()
    async with serving(ExecutorAgent(executor, CARD), store=store) as world:
        task = await world.send(say("wait", configuration={"return_immediately": True}))
        later = asyncio.ensure_future(world.send(say("red", task_id=task.id)))
        async with asyncio.timeout(30):
            while len((await world.get(task.id)).history) < 2:  # noqa: ASYNC110 - as a client polls
                await asyncio.sleep(0.005)
        executor.go_on.set()
        assert (await later).artifacts[0].parts[0].text == "a red one"
        assert [context.get_user_input() for context in executor.seen] == ["wait", "red"]


async def test_a_waiting_task_is_canceled_without_its_executor(store: Store) -> None:
    executor = Actor()
    async with serving(ExecutorAgent(executor, CARD), store=store) as world:
        task = await world.send(say("ask"))
        assert task.status.state == INPUT
        assert (await world.stub.CancelTask(pb.CancelTaskRequest(id=task.id))).status.state == CANCELED
        assert executor.canceled == []
