"""What skills return and yield."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from google.protobuf import struct_pb2
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, InvalidAgentResponse, Turn, data_part, file_part, text_part
from a2a_server.agents.agent import Yield
from a2a_server.agents.parts import as_message, from_struct, to_python, to_struct
from a2a_server.agents.testing import Record, run_turn
from a2a_server.agents.turn import Result


async def returning(result: object) -> Record:
    agent = Agent("Returns", "Returns what it was made with.", "1.0.0")

    @agent.skill(id="give", tags=["test"])
    async def give(turn: Turn) -> Result:
        return cast("Result", result)

    return await run_turn(agent)


async def yielding(*items: object) -> Record:
    agent = Agent("Yields", "Yields what it was made with.", "1.0.0")

    @agent.skill(id="give", tags=["test"])
    async def give(turn: Turn) -> AsyncIterator[Yield]:
        for item in items:
            yield cast("Yield", item)

    return await run_turn(agent)


@pytest.mark.req("AGNT-01")
@pytest.mark.req("EXEC-05")
async def test_a_text_becomes_one_artifact_and_the_task_is_completed() -> None:
    record = await returning("HELLO")
    [artifact] = record.artifacts
    assert (artifact.artifact_id, artifact.name) == ("task-1", "give")
    assert list(artifact.parts) == [pb.Part(text="HELLO")]
    assert [event.WhichOneof("payload") for event in record.events] == ["artifact_update", "status_update"]
    assert record.events[0].artifact_update.last_chunk
    assert not record.events[0].artifact_update.append
    assert record.state == "COMPLETED"


@pytest.mark.req("EXEC-05")
@pytest.mark.parametrize(
    "value",
    [{"a": [1, 2.5, None, True, "x", {}]}, [], {}, [1, 2], 7, 7.5, True, False, [[]], -(2**53)],
    ids=repr,
)
async def test_any_other_json_value_becomes_a_data_part(value: object) -> None:
    record = await returning(value)
    assert record.data == [value]
    assert type(record.data[0]) is type(value)
    assert record.state == "COMPLETED"


async def test_a_tuple_is_a_list() -> None:
    assert (await returning((1, 2))).data == [[1, 2]]


async def test_nothing_is_just_completed() -> None:
    record = await returning(None)
    assert (record.state, len(record.events)) == ("COMPLETED", 1)


async def test_an_empty_text_is_a_result_too() -> None:
    assert list((await returning("")).artifacts[0].parts) == [pb.Part(text="")]


@pytest.mark.parametrize("content", [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")])
async def test_bytes_become_a_file(content: object) -> None:
    record = await returning(content)
    assert list(record.artifacts[0].parts) == [pb.Part(raw=b"\x00\xff", media_type="application/octet-stream")]


async def test_a_part_and_a_list_of_parts_become_one_artifact() -> None:
    parts = [text_part("see"), file_part(b"GIF", filename="a.gif")]
    assert list((await returning(parts[1])).artifacts[0].parts) == [parts[1]]
    assert list((await returning(parts)).artifacts[0].parts) == parts


async def test_an_artifact_keeps_what_it_says_and_gets_what_it_lacks() -> None:
    record = await returning(pb.Artifact(description="mine", parts=[text_part("x")]))
    assert record.artifacts[0] == pb.Artifact(
        artifact_id="task-1", name="give", description="mine", parts=[text_part("x")]
    )
    named = pb.Artifact(artifact_id="a", name="b", parts=[text_part("x")])
    assert (await returning(named)).artifacts[0] == named


async def test_a_message_is_the_last_word() -> None:
    record = await returning(pb.Message(parts=[text_part("Bye")]))
    assert (record.state, record.says) == ("COMPLETED", "Bye")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (datetime.now(UTC), "data: datetime"),
        ({"at": {"time": datetime.now(UTC)}}, "data.at.time: datetime"),
        ([{1: 2}], "data[0]: JSON keys are text, not int"),
        ({"a": [float("nan")]}, "data.a[0]: JSON has no nan"),
        (float("inf"), "data: JSON has no inf"),
        (2**53 + 1, "beyond 2**53"),
        ({"set": {1, 2}}, "data.set: set"),
        (object(), "data: object"),
        ([text_part("a"), "b"], "data[0]: Part"),
        (pb.Part(), "a part needs one of"),
        (pb.Task(), "data: Task"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_what_json_cannot_say_is_refused_naming_the_place(value: object, place: str) -> None:
    with pytest.raises(InvalidAgentResponse) as caught:
        await returning(value)
    assert place in str(caught.value)


async def test_data_may_nest_as_deep_as_parsers_read() -> None:
    def nested(depth: int) -> object:
        return {"in": nested(depth - 1)} if depth else "core"

    record = await returning(nested(30))
    wrapped = pb.SendMessageResponse(task=record.task)
    assert pb.SendMessageResponse.FromString(wrapped.SerializeToString()) == wrapped
    with pytest.raises(InvalidAgentResponse, match="nested deeper than 30"):
        await returning(nested(31))


async def test_a_value_that_contains_itself_is_too_deep() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(InvalidAgentResponse, match="nested deeper"):
        await returning(loop)


@pytest.mark.req("AGNT-01")
async def test_yielded_texts_stream_into_one_artifact() -> None:
    record = await yielding("one ", "two ", "three")
    updates = [event.artifact_update for event in record.events[:-1]]
    assert [(update.append, update.last_chunk) for update in updates] == [(False, False), (True, False), (True, True)]
    assert {update.artifact.artifact_id for update in updates} == {"task-1"}
    assert record.text == "one two three"
    assert record.state == "COMPLETED"


async def test_yielded_values_of_all_kinds_join_the_stream() -> None:
    record = await yielding("text", b"raw", {"n": 1}, None, text_part("part"))
    [artifact] = record.artifacts
    assert [part.WhichOneof("content") for part in artifact.parts] == ["text", "raw", "data", "text"]


async def test_a_generator_that_yields_nothing_completes() -> None:
    assert (await yielding()).state == "COMPLETED"


STATUS = pb.TaskStatusUpdateEvent(
    status=pb.TaskStatus(state=pb.TASK_STATE_WORKING, message=pb.Message(role=pb.ROLE_AGENT, parts=[text_part("hm")])),
)
STATUS.metadata["tokens"] = 3
CHUNK = pb.TaskArtifactUpdateEvent(artifact=pb.Artifact(artifact_id="own", parts=[text_part("x")]), append=True)


WRAPPED = [pb.StreamResponse(status_update=STATUS), pb.StreamResponse(artifact_update=CHUNK)]


@pytest.mark.parametrize(
    ("given", "expected"), [*zip([STATUS, CHUNK], WRAPPED, strict=True), *zip(WRAPPED, WRAPPED, strict=True)]
)
async def test_events_pass_as_they_are(given: Message, expected: pb.StreamResponse) -> None:
    for record in (await yielding(given), await returning(given)):
        assert record.events[0] == expected
        assert record.events[0] is not expected
        assert record.state == "COMPLETED"


async def test_events_keep_their_place_between_chunks() -> None:
    record = await yielding("a", STATUS, pb.Artifact(parts=[text_part("whole")]), "b")
    kinds = [event.WhichOneof("payload") for event in record.events]
    assert kinds == ["artifact_update", "status_update", "artifact_update", "artifact_update", "status_update"]
    assert [artifact.artifact_id for artifact in record.artifacts] == ["task-1", "task-2"]
    assert [part.text for part in record.artifacts[0].parts] == ["a", "b"]


@pytest.mark.parametrize(
    "state", [pb.TASK_STATE_FAILED, pb.TASK_STATE_REJECTED, pb.TASK_STATE_COMPLETED, pb.TASK_STATE_INPUT_REQUIRED]
)
async def test_nothing_follows_an_event_that_stops_the_task(state: pb.TaskState) -> None:
    record = await returning(pb.TaskStatusUpdateEvent(status=pb.TaskStatus(state=state)))
    assert [event.status_update.status.state for event in record.events] == [state]


async def test_a_yielded_question_saves_the_state() -> None:
    record = await yielding(pb.TaskStatusUpdateEvent(status=pb.TaskStatus(state=pb.TASK_STATE_INPUT_REQUIRED)))
    assert record.blob


async def test_the_author_may_change_and_yield_an_event_again() -> None:
    agent = Agent("Reuse", "Uses one event twice.", "1.0.0")

    @agent.skill(id="reuse", tags=["test"])
    async def reuse(turn: Turn) -> AsyncIterator[pb.StreamResponse]:
        event = pb.StreamResponse(artifact_update=CHUNK)
        for text in ("1", "2"):
            event.artifact_update.artifact.parts[0].text = text
            yield event

    assert (await run_turn(agent)).text == "12"


async def test_a_generator_that_fails_is_closed_and_its_error_comes_through() -> None:
    agent = Agent("Breaks", "Breaks in the middle.", "1.0.0")
    cleaned = []

    @agent.skill(id="breaks", tags=["test"])
    async def breaks(turn: Turn) -> AsyncIterator[str]:
        try:
            yield "one"
            raise RuntimeError("boom")
        finally:
            cleaned.append(turn.task_id)

    with pytest.raises(RuntimeError, match="boom"):
        await run_turn(agent)
    assert cleaned == ["task"]


async def test_a_refused_chunk_closes_the_generator_at_once() -> None:
    agent = Agent("Wrong", "Yields what JSON does not know.", "1.0.0")
    cleaned = []

    @agent.skill(id="wrong", tags=["test"])
    async def wrong(turn: Turn) -> AsyncIterator[Yield]:
        try:
            yield cast("Yield", object())
        finally:
            cleaned.append(turn.task_id)

    with pytest.raises(InvalidAgentResponse):
        await run_turn(agent)
    assert cleaned == ["task"]


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@given(json_values)
def test_json_comes_back_as_it_went(value: object) -> None:
    part = pb.Part.FromString(data_part(value).SerializeToString())  # type: ignore[arg-type]
    assert to_python(part.data) == value


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), json_values))
def test_metadata_comes_back_as_it_went(fields: dict[str, Any]) -> None:
    assert from_struct(to_struct(fields)) == fields


def test_whole_numbers_are_ints_while_they_are_exact() -> None:
    value = struct_pb2.Value(number_value=3.0)
    assert type(to_python(value)) is int
    assert type(to_python(struct_pb2.Value(number_value=1e300))) is float


def test_a_value_that_says_nothing_is_none() -> None:
    assert to_python(struct_pb2.Value()) is None


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (text_part("# x", media_type="text/markdown"), pb.Part(text="# x", media_type="text/markdown")),
        (file_part(b"x", filename="a.png"), pb.Part(raw=b"x", filename="a.png", media_type="image/png")),
        (file_part(b"x"), pb.Part(raw=b"x", media_type="application/octet-stream")),
        (file_part("https://e.org/a", media_type="image/gif"), pb.Part(url="https://e.org/a", media_type="image/gif")),
        (data_part("x", media_type="x/y"), pb.Part(data=struct_pb2.Value(string_value="x"), media_type="x/y")),
    ],
    ids=["text", "named", "bytes", "url", "data"],
)
def test_parts_are_quickly_made(part: pb.Part, expected: pb.Part) -> None:
    assert part == expected


def test_a_message_of_the_author_s_own_is_copied() -> None:
    own = pb.Message(parts=[text_part("x")], extensions=["urn:x"])
    message = as_message(own)
    assert message.role == pb.ROLE_AGENT
    assert (message.parts, list(message.extensions)) == (own.parts, ["urn:x"])
    assert own.role == pb.ROLE_UNSPECIFIED
