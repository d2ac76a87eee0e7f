"""What a turn tells its author, and what the author's calls become."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import INPUT_REQUESTS, Agent, InvalidAgentResponse, Turn, data_part, file_part, text_part
from a2a_server.agents.agent import Saved
from a2a_server.agents.parts import to_struct
from a2a_server.agents.testing import Recorder, run_turn
from a2a_server.ports.agent import Plan
from a2a_server.ports.authenticator import Caller

TurnOf = Callable[..., Turn]

MESSAGE = pb.Message(
    message_id="m",
    role=pb.ROLE_USER,
    parts=[
        text_part("one"),
        data_part({"n": 3, "x": 0.5}),
        file_part(b"GIF", filename="a.gif"),
        text_part("two"),
        data_part("second"),
        file_part("https://example.org/b.pdf", filename="b.pdf"),
    ],
)


def test_the_message_is_readable_by_kind(turn_of: TurnOf) -> None:
    turn = turn_of(message=MESSAGE)
    assert turn.text == "one\ntwo"
    assert turn.data == {"n": 3, "x": 0.5}
    assert [(file.filename, file.media_type) for file in turn.files] == [
        ("a.gif", "image/gif"),
        ("b.pdf", "application/pdf"),
    ]
    assert turn.message is MESSAGE
    assert list(turn.parts) == list(MESSAGE.parts)


def test_what_the_message_lacks_is_empty(turn: Turn) -> None:
    assert (turn.text, turn.data, turn.files, turn.metadata) == ("", None, [], {})


def test_everything_around_the_message_is_there(turn_of: TurnOf) -> None:
    task = pb.Task(id="t", history=[MESSAGE])
    other = pb.Task(id="o")
    turn = turn_of(
        task=task,
        number=5,
        metadata=to_struct({"k": [1, {"x": None}]}),
        references=[other],
        rerun=True,
        caller=Caller("ann"),
        tenant="acme",
        extensions=frozenset({"urn:x"}),
        accepted_output_modes=("text/plain",),
    )
    assert (turn.task_id, turn.context_id, turn.number, turn.skill) == ("t", "c", 5, "skill")
    assert (turn.task, list(turn.history), turn.references) == (task, [MESSAGE], [other])
    assert turn.metadata == {"k": [1, {"x": None}]}
    assert (turn.rerun, turn.caller.owner, turn.tenant) == (True, "ann", "acme")
    assert (turn.extensions, turn.accepted_output_modes) == (frozenset({"urn:x"}), ("text/plain",))


@pytest.mark.parametrize(
    ("modes", "media_type", "accepted"),
    [
        ((), "image/png", True),
        (("image/png",), "image/png", True),
        (("image/*",), "image/png", True),
        (("*/*",), "image/png", True),
        (("text/plain",), "text/plain; charset=utf-8", True),
        (("text/plain", "image/jpeg"), "image/png", False),
    ],
)
def test_what_the_client_accepts(
    turn_of: TurnOf,
    modes: tuple[str, ...],
    media_type: str,
    accepted: bool,  # noqa: FBT001 - a parameter
) -> None:
    assert turn_of(accepted_output_modes=modes).accepts(media_type) is accepted


def test_the_agent_s_order_of_preference_counts(turn_of: TurnOf) -> None:
    turn = turn_of(accepted_output_modes=("text/plain", "image/*"))
    assert turn.preferred(["application/pdf", "image/png", "text/plain"]) == "image/png"
    assert turn.preferred(["application/pdf"]) is None
    assert turn_of().preferred(["application/pdf"]) == "application/pdf"


def said(outlet: Recorder) -> tuple[str, str]:
    """State and text of the last event."""
    status = outlet.events[-1].status_update.status
    return pb.TaskState.Name(status.state).removeprefix("TASK_STATE_"), "".join(p.text for p in status.message.parts)


@pytest.mark.req("AGNT-01")
@pytest.mark.parametrize(
    ("call", "state"),
    [
        (Turn.status, "WORKING"),
        (Turn.ask, "INPUT_REQUIRED"),
        (Turn.require_auth, "AUTH_REQUIRED"),
        (Turn.complete, "COMPLETED"),
        (Turn.fail, "FAILED"),
        (Turn.reject, "REJECTED"),
        (Turn.reply, "COMPLETED"),
    ],
)
async def test_each_call_is_one_status_with_a_message(turn: Turn, outlet: Recorder, call: Any, state: str) -> None:
    await call(turn, "words")
    assert said(outlet) == (state, "words")
    assert outlet.events[0].status_update.status.message.role == pb.ROLE_AGENT
    assert len(outlet.events) == 1


async def test_a_message_may_have_parts_and_metadata_of_its_own(turn: Turn, outlet: Recorder) -> None:
    await turn.status([text_part("see"), data_part({"n": 1})], metadata={"progress": 0.5})
    await turn.status(pb.Message(parts=[text_part("x")], reference_task_ids=["sub"]))
    await turn.ask(text_part("part"))
    first, second, third = (event.status_update for event in outlet.events)
    assert list(first.status.message.parts) == [text_part("see"), data_part({"n": 1})]
    assert first.metadata["progress"] == 0.5
    assert (list(second.status.message.reference_task_ids), second.status.message.role) == (["sub"], pb.ROLE_AGENT)
    assert list(third.status.message.parts) == [text_part("part")]


@pytest.mark.parametrize("in_band", [False, True])
async def test_in_band_authorization_is_marked(turn: Turn, outlet: Recorder, in_band: bool) -> None:  # noqa: FBT001
    await turn.require_auth("Sign in.", in_band=in_band)
    update = outlet.events[0].status_update
    assert update.HasField("metadata") is in_band
    assert not in_band or update.metadata["inBand"] is True


async def test_completing_needs_no_words(turn: Turn, outlet: Recorder) -> None:
    await turn.complete()
    assert not outlet.events[0].status_update.status.HasField("message")


@pytest.mark.parametrize(
    "members", [{}, {"direct": True, "number": 3}, {"direct": True, "rerun": True}], ids=["plain", "later", "rerun"]
)
async def test_a_reply_within_a_task_is_its_last_status(
    turn_of: TurnOf, outlet: Recorder, members: dict[str, Any]
) -> None:
    await turn_of(**members).reply("Hi")
    assert said(outlet) == ("COMPLETED", "Hi")


async def test_a_reply_without_a_task_is_a_message(turn_of: TurnOf, outlet: Recorder) -> None:
    await turn_of(direct=True).reply("Hi")
    [event] = outlet.events
    assert event.message == pb.Message(role=pb.ROLE_AGENT, parts=[text_part("Hi")])


async def test_once_something_was_sent_a_direct_turn_has_a_task(turn_of: TurnOf, outlet: Recorder) -> None:
    turn = turn_of(direct=True)
    await turn.status("hm")
    await turn.reply("Hi")
    assert said(outlet) == ("COMPLETED", "Hi")


def test_internal_events_get_their_prefix_once(turn: Turn, outlet: Recorder) -> None:
    turn.internal("tool-start", toolName="search")
    turn.internal("internal:tool-complete", success=True, kind="any")
    assert outlet.internals == [
        ("internal:tool-start", {"toolName": "search"}),
        ("internal:tool-complete", {"success": True, "kind": "any"}),
    ]
    assert not outlet.events


async def test_further_messages_can_be_awaited(turn: Turn, outlet: Recorder) -> None:
    outlet.inbox.append(MESSAGE)
    assert await turn.next_message() is MESSAGE


def test_a_cancel_tells_what_came_with_it(turn: Turn, outlet: Recorder) -> None:
    assert turn.cancel_metadata is None
    outlet.cancel_metadata = to_struct({})
    assert turn.cancel_metadata == {}
    outlet.cancel_metadata = to_struct({"reason": "lunch"})
    assert turn.cancel_metadata == {"reason": "lunch"}


async def test_metadata_must_be_json(turn: Turn, outlet: Recorder) -> None:
    with pytest.raises(InvalidAgentResponse, match=r"metadata\.x: object"):
        await turn.status("hm", metadata={"x": cast("str", object())})
    assert not outlet.events


@pytest.fixture
def agent() -> Agent:
    agent = Agent("Counter", "Counts its turns.", "1.0.0")

    @agent.skill(id="other", tags=["test"])
    async def other(turn: Turn) -> str:
        return "other"

    @agent.skill(id="count", tags=["test"], restartable=True)
    async def count(turn: Turn) -> str | None:
        turn.state["turns"] = turn.state.get("turns", 0) + 1
        if turn.text == "checkpoint":
            await turn.checkpoint(note="kept")
            await turn.status("saved")
        if turn.text != "stop":
            await turn.ask(f"That was turn {turn.state['turns']}. Another?")
            return None
        return f"{turn.state['turns']} turns"

    return agent


@pytest.mark.req("DURA-06")
async def test_what_a_turn_remembers_the_next_one_finds(agent: Agent) -> None:
    first = await run_turn(agent, "go", skill="count")
    assert first.saved == {"turns": 1}
    second = await run_turn(agent, "go", after=first)
    third = await run_turn(agent, "stop", after=second)
    assert (third.text, third.state) == ("3 turns", "COMPLETED")


async def test_a_task_stays_with_its_skill_whatever_follow_ups_name(agent: Agent) -> None:
    first = await run_turn(agent, "go", skill="count")
    assert (await run_turn(agent, "stop", skill="other", after=first)).text == "2 turns"
    assert (await run_turn(agent, "stop")).text == "other"


async def test_a_message_that_came_before_the_end_finds_the_skill_too(agent: Agent) -> None:
    """The server goes on with the task then, although the turn before had completed it."""
    first = await run_turn(agent, "stop", skill="count")
    assert (await run_turn(agent, "stop", after=first)).text == "1 turns2 turns"


async def test_the_default_skill_without_state_costs_no_write(agent: Agent) -> None:
    assert not (await run_turn(agent, "hi")).blob


@pytest.mark.req("DURA-06")
async def test_a_rerun_starts_from_the_checkpoint(agent: Agent) -> None:
    crashed = await run_turn(agent, "checkpoint", skill="count", cancel_after=1)
    assert crashed.canceled
    assert crashed.saved == {"turns": 1, "note": "kept"}
    again = await run_turn(agent, again=crashed)
    assert again.request.rerun
    assert again.saved == {"turns": 2, "note": "kept"}


async def test_the_plan_follows_the_skill_of_the_task(agent: Agent) -> None:
    first = await run_turn(agent, "go", skill="count")
    named = pb.SendMessageRequest()
    named.metadata["skill"] = "count"
    assert agent.plan(pb.SendMessageRequest(), b"") == Plan()
    assert agent.plan(named, b"") == Plan(restartable=True)
    assert agent.plan(pb.SendMessageRequest(), first.blob) == Plan(restartable=True)
    assert agent.plan(named, b"rubbish") == Plan()


async def test_a_skill_that_was_taken_away_fails_its_tasks(agent: Agent) -> None:
    first = await run_turn(agent, "go", skill="count")
    lesser = Agent("Lesser", "Has lost a skill.", "2.0.0")

    @lesser.skill(id="other", tags=["test"])
    async def other(turn: Turn) -> str:
        return "other"

    later = await run_turn(lesser, "stop", after=first)
    assert (later.state, later.says) == (
        "FAILED",
        "This task began with the skill 'count', which is no longer offered.",
    )
    assert lesser.plan(pb.SendMessageRequest(), first.blob) == Plan()


@pytest.mark.parametrize("blob", [b"{", b"[]", b"{}", b"7", b"\xff"])
def test_a_state_of_another_kind_is_refused(blob: bytes) -> None:
    with pytest.raises(InvalidAgentResponse, match="not written by this kind of agent"):
        Saved.load(blob)


@pytest.mark.parametrize("value", [object(), float("nan"), {1: 2}], ids=["object", "nan", "key"])
async def test_a_state_that_is_no_json_is_refused_when_it_is_saved(turn: Turn, outlet: Recorder, value: object) -> None:
    turn.state["bad"] = value
    with pytest.raises(InvalidAgentResponse, match=r"state\.bad"):
        await turn.ask("Well?")
    assert not outlet.events


async def test_the_question_follows_the_state_that_belongs_to_it(
    turn_of: Callable[..., Turn], outlet: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(outlet, "save", lambda blob: order.append(json.loads(blob)["state"]["n"]))
    monkeypatch.setattr(outlet, "emit", lambda event: order.append(event.WhichOneof("payload")))
    turn = turn_of()
    turn.state["n"] = "n"
    await turn.ask("Well?")
    assert order == ["n", "status_update"]


async def test_a_checkpoint_takes_written_chunks_along(turn: Turn, outlet: Recorder) -> None:
    async with turn.artifact() as out:
        await out.write("a")
        await turn.checkpoint()
        assert len(outlet.events) == 1


# -- without words


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("status", pb.TASK_STATE_WORKING),
        ("ask", pb.TASK_STATE_INPUT_REQUIRED),
        ("require_auth", pb.TASK_STATE_AUTH_REQUIRED),
        ("fail", pb.TASK_STATE_FAILED),
        ("reject", pb.TASK_STATE_REJECTED),
        ("complete", pb.TASK_STATE_COMPLETED),
    ],
)
async def test_a_status_needs_no_words(end: str, state: pb.TaskState) -> None:
    agent = Agent("Mute", "Says nothing.", "1.0.0")

    @agent.skill(id="mute", tags=["test"])
    async def mute(turn: Turn) -> None:
        await getattr(turn, end)()

    update = (await run_turn(agent)).events[0].status_update
    assert update == pb.TaskStatusUpdateEvent(status=pb.TaskStatus(state=state))


@pytest.mark.parametrize("end", ["ask", "require_auth"])
async def test_an_input_request_needs_some(end: str) -> None:
    agent = Agent("Mute", "Says nothing.", "1.0.0", extensions=[INPUT_REQUESTS])

    @agent.skill(id="mute", tags=["test"])
    async def mute(turn: Turn) -> None:
        await getattr(turn, end)(sensitive=True)

    with pytest.raises(InvalidAgentResponse, match="needs a text that says what is wanted"):
        await run_turn(agent)


async def test_a_credential_may_be_a_secret() -> None:
    agent = Agent("Guard", "Opens doors.", "1.0.0", extensions=[INPUT_REQUESTS])

    @agent.skill(id="open", tags=["test"])
    async def open_door(turn: Turn) -> str | None:
        if turn.answer is None:
            await turn.require_auth("Who are you?", sensitive=True)
            return None
        return str(turn.answer)

    asked = await run_turn(agent)
    assert (asked.state, asked.says) == ("AUTH_REQUIRED", "Who are you?")
    assert asked.asked is not None
    assert asked.asked.sensitive
    assert (await run_turn(agent, "me", after=asked)).text == "me"


def test_a_text_with_a_name_is_a_file(turn_of: TurnOf) -> None:
    parts = [pb.Part(text="a,b", filename="t.csv"), pb.Part(raw=b""), pb.Part(text="hello")]
    turn = turn_of(message=pb.Message(parts=parts))
    assert turn.files == parts[:2]
    assert turn.text == "a,b\nhello"
