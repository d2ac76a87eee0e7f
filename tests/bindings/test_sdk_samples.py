"""Executors of the kinds of the SDK's samples: on our server as on the SDK's own (spec: AGNT-02)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from a2a.helpers import new_data_part, new_raw_part, new_url_part

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.executor import ExecutorAgent
from a2a_server.ports.store import Store
from tests.bindings.actors import AUTH, CANCELED, COMPLETED, INPUT, WORKING
from tests.support.executors import CARD, V1, bare, sdk_serving
from tests.support.sample_executors import Sample
from tests.support.world import kinds, refused, say, serving

NOW = {"return_immediately": True}

pytestmark = pytest.mark.req("AGNT-02")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two servers, with an executor of its own."""

    executor: Sample
    stub: Any
    metadata: Sequence[tuple[str, str]]

    async def send(self, request: pb.SendMessageRequest) -> Any:
        return await self.stub.SendMessage(request, metadata=self.metadata)

    async def stream(self, request: pb.SendMessageRequest) -> list[Any]:
        return [item async for item in self.stub.SendStreamingMessage(request, metadata=self.metadata)]

    async def cancel(self, task_id: str) -> Any:
        return await self.stub.CancelTask(pb.CancelTaskRequest(id=task_id), metadata=self.metadata)

    async def reaches(self, task_id: str, state: int) -> Any:
        async with asyncio.timeout(30):
            while True:
                task = await self.stub.GetTask(pb.GetTaskRequest(id=task_id), metadata=self.metadata)
                if task.status.state == state:
                    return task
                await asyncio.sleep(0.01)


@asynccontextmanager
async def both(store: Store) -> AsyncIterator[tuple[Side, Side]]:
    """The SDK's server, and ours."""
    theirs, ours = Sample(), Sample()
    async with sdk_serving(theirs) as sdk, serving(ExecutorAgent(ours, CARD), store=store) as world:
        yield Side(theirs, sdk, V1), Side(ours, world.stub, ())


@pytest.mark.parametrize("word", ["events", "picture", "several", "long", "form"])
async def test_events_files_chunks_progress_and_forms_are_the_same(store: Store, word: str) -> None:
    async with both(store) as (sdk, own):
        theirs, ours = [(await side.send(say(word))).task for side in (sdk, own)]
        assert not ours.metadata  # what a status event has beside it; theirs has it in the task, too
        theirs.ClearField("metadata")
        assert bare(ours) == bare(theirs)
        streams = [await side.stream(say(word)) for side in (sdk, own)]
        theirs, ours = ([bare(item) for item in stream] for stream in streams)
        assert ours == theirs


async def test_files_and_data_of_the_client_arrive_the_same(store: Store) -> None:
    request = say("read")
    sent: list[Any] = [
        new_raw_part(b"a bill\xff", "text/plain", "bill.txt"),
        new_url_part("https://example.com/bill.txt", "text/plain"),
        new_data_part({"amount": 12.5, "for": [None, "lunch"]}, "text/plain"),
        pb.Part(text="please", metadata={"urgent": True}),
    ]
    request.message.parts.extend(sent)
    async with both(store) as (sdk, own):
        theirs, ours = [bare(await side.send(request)) for side in (sdk, own)]
    assert ours == theirs
    assert ours.task.artifacts[0].parts[0].data.struct_value["text"] == "read please"


async def test_a_conversation_of_three_turns_is_the_same(store: Store) -> None:
    async with both(store) as (sdk, own):
        told = []
        for side in (sdk, own):
            task = (await side.send(say("form"))).task
            answers = [task]
            for number, word in enumerate(("amount", "date")):
                assert answers[-1].status.state == INPUT
                answer = say(word, task_id=task.id)
                answer.message.message_id = f"answer {number}"  # the SDK keeps no second message of the same id
                answers.append((await side.send(answer)).task)
            for answer in answers:
                answer.ClearField("metadata")  # as above
            told.append([bare(answer) for answer in answers])
        theirs, ours = told
        assert ours == theirs
        assert ours[-1].status.state == COMPLETED


async def test_a_second_task_is_ignored(store: Store) -> None:
    async with both(store) as (sdk, own):
        told = []
        for side in (sdk, own):
            task = (await side.send(say("task"))).task
            again = say("task", task_id=task.id, context_id=task.context_id)
            again.message.message_id = "another"
            told.append((task, (await side.send(again)).task))
        assert [[task.status.state for task in tasks] for tasks in told] == [[INPUT, COMPLETED]] * 2
        assert [len(ended.history) for _, ended in told] == [1, 2]  # the SDK's server loses the message


async def test_a_login_elsewhere_lets_the_executor_go_on(store: Store) -> None:
    async with both(store) as (sdk, own):
        told = []
        for side in (sdk, own):
            waiting = (await side.send(say("grant"))).task
            assert waiting.status.state == AUTH
            side.executor.granted.set()
            told.append((bare(waiting), bare(await side.reaches(waiting.id, COMPLETED))))
        theirs, ours = told
        assert ours == theirs


async def test_a_cancel_has_the_executors_words(store: Store) -> None:
    async with both(store) as (sdk, own):
        told = []
        for side in (sdk, own):
            task = (await side.send(say("wait", configuration=NOW))).task
            await side.reaches(task.id, WORKING)
            told.append(bare(await side.cancel(task.id)))
        theirs, ours = told
        assert ours == theirs
        assert (ours.status.state, ours.status.message.parts[0].text) == (CANCELED, "released")


# -- what is meant to differ (docs/executors.md)


async def test_a_task_that_goes_on_is_working_before_the_executor_says_so(store: Store) -> None:
    async with both(store) as (_, own):
        task = (await own.send(say("form"))).task
        items = await own.stream(say("amount", task_id=task.id))
        told = [item.task.status if item.HasField("task") else item.status_update.status for item in items]
        assert [status.state for status in told][-2:] == [WORKING, INPUT]


async def test_progress_is_not_in_the_history(store: Store) -> None:
    async with both(store) as (_, own):
        assert [message.role for message in (await own.send(say("long"))).task.history] == [pb.ROLE_USER]


async def test_an_executor_may_begin_without_a_task(store: Store) -> None:
    """As many were written for the SDK before 1.0."""
    async with both(store) as (sdk, own):
        theirs = await refused(sdk.send(say("submit")))
        assert theirs.reason == "INVALID_AGENT_RESPONSE"
        assert kinds(await own.stream(say("submit"))) == ["task", "WORKING", "artifact_update", "COMPLETED"]
        assert (await own.send(say("submit"))).task.artifacts[0].parts[0].text == "Tuesday"


async def test_what_fails_after_the_end_changes_nothing(store: Store) -> None:
    async with both(store) as (sdk, own):
        theirs, ours = [bare(await side.send(say("twice"))) for side in (sdk, own)]
        assert ours == theirs
        assert kinds(await own.stream(say("twice"))) == ["task", "COMPLETED"]


@pytest.mark.parametrize("word", ["nothing", "forget"])
async def test_an_executor_that_returns_without_an_end_has_failed(store: Store, word: str) -> None:
    async with both(store) as (_, own):
        assert kinds(await own.stream(say(word))) == ["task", "WORKING", "FAILED"]
