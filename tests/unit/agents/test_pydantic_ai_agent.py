"""Agents of pydantic-ai, with its own test models: text, data, questions, memory and cancel (spec: AGNT-08)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, DeferredToolRequests, ModelMessage
from pydantic_ai.exceptions import CallDeferred
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.test import TestModel

import a2a_server
from a2a_proto import a2a_pb2 as pb
from a2a_proto.a2a_pb2_grpc import A2AServiceStub
from a2a_server.agents import data_part, file_part
from a2a_server.agents.pydantic_ai_agent import MOST_HISTORY, PydanticAIAgent
from a2a_server.agents.recognition import recognised
from a2a_server.agents.testing import Record, run_turn
from tests.support.house import A2AError

Stream = AsyncIterator[str | DeltaToolCalls]


class City(BaseModel):
    name: str
    people: int


def served(agent: Agent[None, Any]) -> PydanticAIAgent:
    found = recognised(agent)
    assert isinstance(found, PydanticAIAgent)
    return found


def said(messages: list[ModelMessage]) -> list[Any]:
    """The contents that a model was given, oldest first."""
    return [getattr(part, "content", None) for message in messages for part in message.parts]


def parrot(**options: Any) -> PydanticAIAgent:
    """Answers with all that was said, as JSON."""

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> Stream:
        yield json.dumps(said(messages))

    return served(Agent(FunctionModel(stream_function=stream), name="Parrot", **options))


@pytest.mark.req("AGNT-08")
async def test_the_text_of_the_model_is_streamed_into_one_artifact() -> None:
    record = await run_turn(served(Agent(TestModel(custom_output_text="one two three"))), "hello")
    assert (record.state, record.text) == ("COMPLETED", "one two three")
    assert len(record.artifacts) == 1
    chunks = [event for event in record.events if event.HasField("artifact_update")]
    assert len(chunks) > 1
    assert [chunk.artifact_update.last_chunk for chunk in chunks] == [*[False] * (len(chunks) - 1), True]


@pytest.mark.req("AGNT-08")
async def test_structured_output_is_a_data_part() -> None:
    model = TestModel(custom_output_args={"name": "Bern", "people": 134_000})
    record = await run_turn(served(Agent(model, output_type=City)), "capital?")
    assert (record.state, record.data) == ("COMPLETED", [{"name": "Bern", "people": 134_000}])


async def test_an_output_file_is_a_file() -> None:
    async def picture(text: str) -> BinaryContent:
        return BinaryContent(text.encode(), media_type="image/x")

    record = await run_turn(served(Agent(TestModel(custom_output_args={"text": "!"}), output_type=picture)), "draw")
    (part,) = record.artifacts[-1].parts
    assert (part.raw, part.media_type) == (b"!", "image/x")


@pytest.mark.req("AGNT-08")
async def test_each_tool_call_is_a_status_and_each_text_an_artifact() -> None:
    async def stream(messages: list[ModelMessage], _: AgentInfo) -> Stream:
        if len(messages) > 1:
            yield "sunny"
            return
        yield "Let me look."
        yield {1: DeltaToolCall(name="weather", json_args='{"city": "Bern"}')}

    agent = Agent(FunctionModel(stream_function=stream))

    @agent.tool_plain
    def weather(city: str) -> str:
        return f"sun in {city}"

    record = await run_turn(served(agent), "weather?")
    assert [artifact.parts[0].text for artifact in record.artifacts] == ["Let me look.", "sunny"]
    statuses = [event.status_update.status for event in record.events if event.HasField("status_update")]
    assert [part.text for status in statuses for part in status.message.parts] == ["Tool: weather"]


async def test_data_and_files_reach_the_model_and_links_are_refused() -> None:
    record = await run_turn(parrot(), ["look", data_part({"a": 1})])
    assert json.loads(record.text) == [["look", '{"a": 1}']]
    seen: list[Any] = []

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> Stream:
        seen.extend(said(messages))
        yield "ok"

    await run_turn(served(Agent(FunctionModel(stream_function=stream))), [file_part(b"x", media_type="image/png")])
    assert seen == [[BinaryContent(b"x", media_type="image/png")]]
    with pytest.raises(A2AError, match="follows no link"):
        await run_turn(parrot(), file_part("https://files.example/a", media_type="image/png"))


# -- the conversation


@pytest.mark.req("AGNT-08")
async def test_a_context_remembers_what_was_said() -> None:
    agent = parrot(system_prompt="Be brief.")
    first = await run_turn(agent, "one")
    second = await run_turn(agent, "two", context=first)
    assert json.loads(second.text) == ["Be brief.", "one", first.text, "two"]


async def test_a_conversation_that_grows_too_long_forgets_its_beginning_but_not_the_system_prompt() -> None:
    agent, long = parrot_of_one_word(), "x" * (MOST_HISTORY // 3)
    record = await run_turn(agent, f"0{long}")
    for number in range(1, 5):
        record = await run_turn(agent, f"{number}{long}", context=record)
    kept = [part.get("content", "")[:9] for message in record.remembered["pydantic-ai"] for part in message["parts"]]
    assert kept == ["Be brief.", f"3{'x' * 8}", "ok", f"4{'x' * 8}", "ok"]


def parrot_of_one_word() -> PydanticAIAgent:
    return served(Agent(TestModel(custom_output_text="ok"), system_prompt="Be brief."))


# -- questions


def careful() -> PydanticAIAgent:
    """Deletes a file if it may, and tells what the tool said."""

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> Stream:
        last = messages[-1]
        results = [part for part in last.parts if part.part_kind == "tool-return"]
        if results:
            yield json.dumps([part.content for part in results])
            return
        yield {0: DeltaToolCall(name="delete", json_args='{"path": "a.txt"}', tool_call_id="c1")}
        if "and ask" in str(said([last])):
            yield {1: DeltaToolCall(name="ask_boss", json_args="{}", tool_call_id="c2")}

    agent = Agent(FunctionModel(stream_function=stream), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        return f"deleted {path}"

    @agent.tool_plain
    def ask_boss() -> str:
        raise CallDeferred

    return served(agent)


async def question() -> tuple[PydanticAIAgent, Record]:
    agent = careful()
    return agent, await run_turn(agent, "delete a.txt")


@pytest.mark.req("AGNT-08")
async def test_a_tool_that_needs_approval_is_a_question() -> None:
    _, asked = await question()
    assert asked.state == "INPUT_REQUIRED"
    assert asked.says == 'Approve delete({"path": "a.txt"})?'
    (request,) = data_of(asked)["requests"]
    assert request == {"id": "c1", "kind": "approval", "tool": "delete", "args": {"path": "a.txt"}}


def data_of(record: Record) -> Any:
    _, part = record.task.status.message.parts
    return json_format.MessageToDict(part.data)


@pytest.mark.req("AGNT-08")
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("yes", "deleted a.txt"),
        ("Keep it.", "Keep it."),
        (data_part({"c1": True}), "deleted a.txt"),
        (data_part({"c1": False}), "The tool call was denied."),
        (data_part({"c1": "Not today."}), "Not today."),
        (data_part({"c1": {"path": "b.txt"}}), "deleted b.txt"),
    ],
)
async def test_the_answer_goes_back_to_the_tool(answer: str | pb.Part, outcome: str) -> None:
    agent, asked = await question()
    done = await run_turn(agent, answer, after=asked)
    assert (done.state, json.loads(done.text)) == ("COMPLETED", [outcome])
    assert done.saved == {"own": []}
    kinds = [part["part_kind"] for message in done.remembered["pydantic-ai"] for part in message["parts"]]
    assert kinds == ["user-prompt", "tool-call", "tool-return", "text"]


@pytest.mark.parametrize("answer", [data_part({"c2": True}), data_part([1]), data_part({}), data_part({"c1": 5})])
async def test_an_answer_to_something_else_is_refused(answer: pb.Part) -> None:
    agent, asked = await question()
    with pytest.raises(A2AError, match="c1"):
        await run_turn(agent, answer, after=asked)


async def test_several_requests_are_answered_at_once() -> None:
    agent = careful()
    asked = await run_turn(agent, "delete and ask")
    assert [request["kind"] for request in data_of(asked)["requests"]] == ["approval", "external"]
    done = await run_turn(agent, data_part({"c1": True, "c2": {"boss": "fine"}}), after=asked)
    assert json.loads(done.text) == ["deleted a.txt", {"boss": "fine"}]


async def test_what_other_tasks_said_meanwhile_is_kept() -> None:
    agent, asked = await question()
    other = await run_turn(agent, "no file this time", context=asked)
    other = await run_turn(agent, "no", after=other)
    after = replace(asked, context=other.context)
    done = await run_turn(agent, "yes", after=after)
    prompts = [
        part["content"] for message in done.remembered["pydantic-ai"] for part in message["parts"] if is_prompt(part)
    ]
    assert prompts == ["no file this time", "delete a.txt"]


def is_prompt(part: dict[str, Any]) -> bool:
    return bool(part["part_kind"] == "user-prompt")


# -- ends


@pytest.mark.req("AGNT-08")
async def test_a_cancel_stops_the_run() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> Stream:
        try:
            yield "thinking"
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    record = await run_turn(served(Agent(FunctionModel(stream_function=stream))), "hi", cancel_after=2)
    assert record.canceled
    assert begun.is_set()
    await asyncio.wait_for(ended.wait(), 30)


@pytest.mark.req("AGNT-08")
async def test_it_is_served_and_a_fault_tells_the_client_nothing() -> None:
    async def stream(messages: list[ModelMessage], _: AgentInfo) -> Stream:
        raise RuntimeError("secret")
        yield ""

    message = pb.Message(message_id="1", role=pb.ROLE_USER, parts=[pb.Part(text="hi")])
    async with (
        a2a_server.serving(Agent(FunctionModel(stream_function=stream), name="F")) as server,
        grpc.aio.insecure_channel(str(server.grpc)) as channel,
    ):
        answer = await A2AServiceStub(channel).SendMessage(pb.SendMessageRequest(message=message))
        assert answer.task.status.state == pb.TASK_STATE_FAILED
        assert "secret" not in str(answer)


def test_its_card_is_made_of_its_name_and_description() -> None:
    card = served(Agent(TestModel(), name="Weather", description="Tells the weather.")).card
    assert (card.name, card.description) == ("Weather", "Tells the weather.")
    given = pb.AgentCard(
        name="Given", description="d", version="3", skills=[pb.AgentSkill(id="a"), pb.AgentSkill(id="b")]
    )
    agent = recognised(Agent(TestModel()), {}, given)
    assert agent is not None
    assert agent.card == given


def test_an_agent_that_needs_deps_is_told_at_the_start() -> None:
    with pytest.raises(ValueError, match="Deps needs deps of type City, which a server cannot make"):
        recognised(Agent(TestModel(), deps_type=City, name="Deps"))
