"""Questions that are answered by id, as their author writes them (spec: AGNT-01, XTRA-02)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import (
    INPUT_REQUESTS,
    Agent,
    InvalidAgentResponse,
    Turn,
    data_part,
    file_part,
    text_part,
    tool_result_part,
    tool_use_part,
)
from a2a_server.agents.testing import Recorder, run_turn
from a2a_server.domain.input_requests import UNDECLARED, InputRequest, kind_of, put_request, request_in
from a2a_server.protocol.names import INPUT_REQUEST_URI

TurnOf = Callable[..., Turn]


@pytest.fixture
def outlet() -> Recorder:
    outlet = Recorder()
    outlet.input_requests = True
    return outlet


def question(outlet: Recorder) -> pb.Message:
    (event,) = outlet.events
    assert event.status_update.status.state == pb.TASK_STATE_INPUT_REQUIRED
    return event.status_update.status.message


@pytest.mark.req("XTRA-01")
async def test_a_plain_question_is_no_input_request(turn: Turn, outlet: Recorder) -> None:
    await turn.ask("Who?")
    assert not question(outlet).extensions
    assert not question(outlet).HasField("metadata")


@pytest.mark.req("XTRA-01")
@pytest.mark.parametrize(
    "content",
    [
        "Who?\nAnd when?",
        text_part("Who?\nAnd when?"),
        ["Who?", data_part({"a": 1}), "And when?"],
        pb.Message(parts=[pb.Part(text="Who?\nAnd when?")], metadata={"mood": "curious"}),
    ],
)
async def test_the_prompt_is_the_text(turn: Turn, outlet: Recorder, content: Any) -> None:
    await turn.ask(content, request_id="who")
    assert request_in(question(outlet)) == InputRequest("who", "Who?\nAnd when?")
    assert list(question(outlet).extensions) == [INPUT_REQUEST_URI]


@pytest.mark.req("XTRA-01", "SEND-14")
@pytest.mark.parametrize(
    ("content", "request_id", "fault"),
    [
        (data_part({"a": 1}), "r", "an input request needs a text that says what is wanted"),
        ("", "r", "an input request needs a text that says what is wanted"),
        ("Who?", "", "the id of an input request has 1 to 256 printable characters"),
        ("Who?", "a\nb", "the id of an input request has 1 to 256 printable characters"),
        ("Who?", "r" * 257, "the id of an input request has 1 to 256 printable characters"),
    ],
)
async def test_what_is_no_request(turn: Turn, outlet: Recorder, content: Any, request_id: str, fault: str) -> None:
    with pytest.raises(InvalidAgentResponse, match=fault):
        await turn.ask(content, request_id=request_id)
    assert not outlet.events


def test_tools_calls_and_results_are_marked_data() -> None:
    call, result = tool_use_part({"toolUseId": "t", "name": "n"}), tool_result_part("t", [1])
    assert (kind_of(call), kind_of(result)) == ("tool-use", "tool-result")
    with pytest.raises(InvalidAgentResponse, match=r"data\.result: JSON has no nan"):
        tool_result_part("t", float("nan"))


# -- answers


def history(*messages: pb.Message) -> pb.Task:
    return pb.Task(history=messages)


def asks(request_id: str = "r") -> pb.Message:
    message = pb.Message(role=pb.ROLE_AGENT, parts=[text_part("Who?")])
    put_request(message, InputRequest(request_id, "Who?"))
    return message


def says(*parts: pb.Part) -> pb.Message:
    return pb.Message(role=pb.ROLE_USER, parts=parts)


@pytest.mark.req("XTRA-02")
@pytest.mark.parametrize(
    ("parts", "answer", "results"),
    [
        ([tool_result_part("r", "Ann")], "Ann", {"r": "Ann"}),
        ([text_part("here"), tool_result_part("r", None)], None, {"r": None}),
        ([tool_result_part("r", 0)], 0, {"r": 0}),
        ([tool_result_part("s", 1), tool_result_part("r", 2)], 2, {"s": 1, "r": 2}),
        ([text_part("Ann")], "Ann", {}),
        ([data_part({"name": "Ann"})], {"name": "Ann"}, {}),
        ([file_part(b"Ann")], None, {}),
    ],
)
def test_an_answer_is_what_the_client_says(turn_of: TurnOf, parts: list[pb.Part], answer: Any, results: Any) -> None:
    message = says(*parts)
    turn = turn_of(message=message, task=history(says(text_part("hi")), asks(), message))
    assert (turn.answer, turn.results) == (answer, results)


@pytest.mark.req("XTRA-02")
def test_only_the_message_after_the_question_answers_it(turn_of: TurnOf) -> None:
    message = says(text_part("Ann"))
    plain = pb.Message(role=pb.ROLE_AGENT, parts=[text_part("Who?")])
    for before in ([], [plain], [asks(), says(text_part("first"))], [asks(), says(text_part("first")), plain]):
        assert turn_of(message=message, task=history(*before, message)).answer is None


# -- the test kit


def doorman(*extensions: Any) -> Agent:
    agent = Agent("Doorman", "Opens.", "1", extensions=extensions)

    @agent.skill(id="open", tags=["t"])
    async def open_door(turn: Turn) -> str | None:
        if turn.answer is not None:
            return f"{turn.answer}!"
        await turn.ask("The word?", sensitive=True)
        return None

    return agent


@pytest.mark.req("AGNT-01")
async def test_a_test_can_answer_what_was_asked() -> None:
    agent = doorman(INPUT_REQUESTS)
    asked = await run_turn(agent)
    assert (asked.state, asked.says) == ("INPUT_REQUIRED", "The word?")
    assert asked.asked is not None
    assert asked.asked.sensitive
    done = await run_turn(agent, tool_result_part(asked.asked.request_id, "mellon"), after=asked)
    assert (done.text, done.asked) == ("mellon!", None)


@pytest.mark.req("EXTN-01")
async def test_a_test_notices_that_the_extension_is_not_declared() -> None:
    with pytest.raises(InvalidAgentResponse) as caught:
        await run_turn(doorman())
    assert str(caught.value) == UNDECLARED
