"""An agent's card, its checks at import, the choice of skill; and the kit with which authors test it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import (
    Agent,
    Extension,
    InvalidAgentResponse,
    InvalidParams,
    Turn,
    Violation,
    data_part,
    text_part,
)
from a2a_server.agents.testing import run_turn
from a2a_server.ports import agent as port
from a2a_server.ports.authenticator import Caller
from tests.support.house import A2AError, Reason


async def shout(turn: Turn) -> str:
    """Say it louder."""
    return turn.text.upper()


async def whisper(turn: Turn) -> str:
    return turn.text.lower()


@pytest.fixture
def agent() -> Agent:
    agent = Agent("Voice", "Changes the tone.", "1.2.0")
    agent.skill(id="shout-it", tags=["text"], examples=["hey"], input_modes=["text/plain"])(shout)
    agent.skill(id="whisper", name="Hush", tags=["text"])(whisper)
    return agent


def test_it_is_the_agent_that_the_server_expects(agent: Agent) -> None:
    expected: port.AgentPort = agent
    assert expected.card.name == "Voice"


def test_the_card_says_what_the_author_said(agent: Agent) -> None:
    shout_it = pb.AgentSkill(
        id="shout-it",
        name="Shout it",
        description="Say it louder.",
        tags=["text"],
        examples=["hey"],
        input_modes=["text/plain"],
    )
    hush = pb.AgentSkill(id="whisper", name="Hush", description="Changes the tone.", tags=["text"])
    assert agent.card == pb.AgentCard(
        name="Voice",
        description="Changes the tone.",
        version="1.2.0",
        capabilities=pb.AgentCapabilities(streaming=True, extended_agent_card=False),
        default_output_modes=["text/plain"],
        skills=[shout_it, hush],
    )


def test_the_card_has_room_for_all_the_rest() -> None:
    provider = pb.AgentProvider(url="https://example.org", organization="Example")
    agent = Agent(
        "A",
        "B",
        "1",
        provider=provider,
        documentation_url="https://example.org/docs",
        icon_url="https://example.org/icon",
        default_output_modes=["image/png"],
        streaming=False,
        extensions=[Extension("urn:x", "X", required=True, params={"n": 1})],
    )
    agent.skill(id="s", tags=["t"])(shout)
    card = agent.card
    assert (card.provider, card.documentation_url, card.icon_url) == (
        provider,
        "https://example.org/docs",
        "https://example.org/icon",
    )
    assert not card.capabilities.streaming
    [extension] = card.capabilities.extensions
    assert (extension.uri, extension.description, extension.required, extension.params["n"]) == ("urn:x", "X", True, 1)


def test_nobody_else_changes_the_card(agent: Agent) -> None:
    agent.card.name = "changed"
    assert agent.card.name == "Voice"


def test_the_functions_stay_what_they_are(agent: Agent) -> None:
    assert agent.skill(id="third", tags=["t"])(shout) is shout


def plain(turn: Turn) -> str:
    return turn.text


async def two(turn: Turn, more: str) -> str:
    return turn.text + more


@pytest.mark.parametrize(
    ("skill_id", "tags", "function", "problem"),
    [
        ("whisper", ["t"], shout, "two skills have the id 'whisper'"),
        ("", ["t"], shout, "needs an id"),
        ("x", [], shout, "at least one tag"),
        ("x", [""], shout, "at least one tag"),
        ("x", "text", shout, "a list of texts"),
        ("x", ["t"], plain, "write `async def`"),
        ("x", ["t"], "shout", "write `async def`"),
        ("x", ["t"], two, "one argument, the turn"),
    ],
)
def test_mistakes_show_at_import(agent: Agent, skill_id: str, tags: list[str], function: object, problem: str) -> None:
    with pytest.raises((ValueError, TypeError), match=problem):
        agent.skill(id=skill_id, tags=tags)(function)  # type: ignore[type-var]
    assert len(agent.card.skills) == 2


@pytest.mark.parametrize("member", ["name", "description", "version"])
def test_a_card_needs_its_texts(member: str) -> None:
    texts = {"name": "A", "description": "B", "version": "1"} | {member: ""}
    with pytest.raises(ValueError, match=f"needs a {member}"):
        Agent(texts["name"], texts["description"], texts["version"])


def test_an_agent_without_skills_has_no_card() -> None:
    with pytest.raises(ValueError, match="has no skill"):
        Agent("A", "B", "1").card  # noqa: B018 - reading it is the point


def test_extensions_are_told_apart_by_their_uri() -> None:
    with pytest.raises(ValueError, match="two extensions"):
        Agent("A", "B", "1", extensions=[Extension("urn:x"), Extension("urn:x")])


@pytest.mark.req("SEND-15")
async def test_the_first_skill_answers_unless_another_is_named(agent: Agent) -> None:
    assert (await run_turn(agent, "Hi")).text == "HI"
    assert (await run_turn(agent, "Hi", skill="whisper")).text == "hi"


@pytest.mark.req("SEND-15")
@pytest.mark.parametrize("skill", ["nobody", "", 7, None, ["shout-it"]])
def test_an_unknown_skill_is_refused_naming_the_known_ones(agent: Agent, skill: object) -> None:
    request = pb.SendMessageRequest()
    request.metadata["skill"] = skill  # type: ignore[assignment]  # whatever a client may send
    assert agent.check(request, ()) == [Violation("metadata.skill", "must be one of: shout-it, whisper")]


def test_asking_changes_nothing_in_the_request(agent: Agent) -> None:
    request = pb.SendMessageRequest()
    request.metadata["other"] = 1
    before = request.SerializeToString()
    assert not agent.check(request, ())
    agent.plan(request, b"")
    assert request.SerializeToString() == before


async def test_exceptions_come_through_to_the_server() -> None:
    agent = Agent("A", "B", "1")

    @agent.skill(id="s", tags=["t"])
    async def broken(turn: Turn) -> str:
        raise LookupError(turn.text)

    with pytest.raises(LookupError, match="secret"):
        await run_turn(agent, "secret")


async def test_a_canceled_skill_may_clean_up_and_say_so() -> None:
    agent = Agent("A", "B", "1")

    @agent.skill(id="s", tags=["t"])
    async def slow(turn: Turn) -> None:
        try:
            await turn.status("working")
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await turn.add_artifact(f"partial, because {turn.cancel_metadata}")
            raise

    record = await run_turn(agent, cancel_after=1, cancel_metadata={"why": "lunch"})
    assert record.canceled
    assert record.text == "partial, because {'why': 'lunch'}"
    assert record.state == "WORKING"


@pytest.mark.parametrize("pause", [0, 0.03])
@pytest.mark.parametrize("number", range(1, 5))
async def test_a_cancel_comes_with_the_event_it_is_asked_for_and_stays_in_the_turn(number: int, pause: float) -> None:
    """Also where a timer sends the event, because the skill is slow; the fourth is the end."""
    counter = Agent("Counter", "Counts.", "1.0.0")

    @counter.skill(id="count", tags=["test"])
    async def count(turn: Turn) -> AsyncIterator[str]:
        for digit in "123":
            yield digit
            await asyncio.sleep(pause)

    record = await run_turn(counter, cancel_after=number)
    await asyncio.sleep(0)  # where a cancel would come that has left the turn
    assert (len(record.events), record.canceled) == (number, number < 4)
    assert record.text == "123"[:number]


async def test_a_status_after_an_interruption_takes_the_work_up_again() -> None:
    agent = Agent("A", "B", "1")

    @agent.skill(id="s", tags=["t"])
    async def vault(turn: Turn) -> str:
        await turn.require_auth("Sign in at the terminal.")
        await turn.status("Thank you.")
        return "opened"

    record = await run_turn(agent)
    states = [event.status_update.status.state for event in record.events if event.HasField("status_update")]
    assert states == [pb.TASK_STATE_AUTH_REQUIRED, pb.TASK_STATE_WORKING, pb.TASK_STATE_COMPLETED]


async def test_an_end_stays_the_end_whatever_still_comes() -> None:
    agent = Agent("A", "B", "1")

    @agent.skill(id="s", tags=["t"])
    async def chatty(turn: Turn) -> AsyncIterator[str]:
        await turn.reject("No.")
        await turn.status("Well, perhaps.")
        yield "yes"

    record = await run_turn(agent)
    assert not any(event.status_update.status.state == pb.TASK_STATE_COMPLETED for event in record.events)


async def test_a_direct_answer_is_all_there_is() -> None:
    agent = Agent("A", "B", "1")

    @agent.skill(id="s", tags=["t"], direct=True)
    async def chat(turn: Turn) -> None:
        await turn.reply("Hi")

    record = await run_turn(agent)
    assert [event.WhichOneof("payload") for event in record.events] == ["message"]
    assert agent.plan(pb.SendMessageRequest(), b"").direct


# -- the extended card


def test_without_a_function_there_is_no_extended_card(agent: Agent) -> None:
    assert agent.extended_card(Caller("ann")) is None


def for_friends(card: pb.AgentCard, caller: Caller) -> pb.AgentCard | None:
    card.description += f" Hello, {caller.owner}."
    return card if caller.owner == "ann" else None


@pytest.mark.parametrize("decorated", [True, False])
def test_the_extended_card_depends_on_the_caller(decorated: bool) -> None:  # noqa: FBT001 - a parameter
    agent = Agent("A", "B.", "1", extended=None if decorated else for_friends)
    if decorated:
        assert agent.extended(for_friends) is for_friends
    agent.skill(id="s", tags=["t"])(shout)
    assert agent.card.capabilities.extended_agent_card
    card = agent.extended_card(Caller("ann"))
    assert card is not None
    assert card.description == "B. Hello, ann."
    assert agent.extended_card(Caller("bob")) is None
    assert agent.card.description == "B."


def test_one_function_makes_the_extended_card() -> None:
    agent = Agent("A", "B", "1", extended=for_friends)
    with pytest.raises(ValueError, match="already"):
        agent.extended(for_friends)


# -- extensions


@pytest.mark.req("EXTN-06")
async def test_an_active_extension_checks_the_request() -> None:
    def needs_a_priority(request: pb.SendMessageRequest) -> list[Violation | str]:
        fields = request.metadata.fields
        if "urn:priority" in fields:
            return []
        return ["must name urn:priority", Violation("message.metadata", "is empty")]

    extensions = [Extension("urn:priority", check=needs_a_priority), Extension("urn:free")]
    agent = Agent("A", "B", "1", extensions=extensions)
    agent.skill(id="s", tags=["t"])(shout)
    assert (await run_turn(agent, "x")).state == "COMPLETED"
    assert (await run_turn(agent, "x", extensions=["urn:free", "urn:unknown"])).state == "COMPLETED"
    assert (await run_turn(agent, "x", extensions=["urn:priority"], metadata={"urn:priority": 1})).state == "COMPLETED"
    with pytest.raises(A2AError) as caught:
        await run_turn(agent, "x", extensions=["urn:priority"])
    assert caught.value.violations == (
        Violation("metadata", "must name urn:priority"),
        Violation("message.metadata", "is empty"),
    )


talker = Agent("A", "B", "1")


@talker.skill(id="talk", tags=["t"])
async def talk(turn: Turn) -> AsyncIterator[str]:
    yield f"{turn.text}; "
    message = await turn.next_message()
    yield message.parts[0].text


@talker.skill(id="about", tags=["t"])
async def about(turn: Turn) -> dict[str, object]:
    return {
        "caller": turn.caller.owner,
        "tenant": turn.tenant,
        "metadata": turn.metadata,
        "references": [task.id for task in turn.references],
        "history": len(turn.history),
        "role": pb.Role.Name(turn.message.role),
    }


@talker.skill(id="empty", tags=["t"])
async def empty(turn: Turn) -> None:
    if turn.text == "artifact":
        await turn.add_artifact(pb.Artifact())
    await turn.status([])


@talker.skill(id="self-canceled", tags=["t"])
async def self_canceled(turn: Turn) -> None:
    raise asyncio.CancelledError


async def test_messages_may_come_while_the_turn_runs() -> None:
    assert (await run_turn(talker, "one", messages=["two"])).text == "one; two"


async def test_a_turn_that_waits_in_vain_says_so() -> None:
    with pytest.raises(AssertionError, match=r"messages=\[…\]"):
        await run_turn(talker, "one")


async def test_everything_a_turn_depends_on_can_be_given() -> None:
    record = await run_turn(
        talker,
        skill="about",
        metadata={"k": 1},
        caller=Caller("ann"),
        tenant="acme",
        references=[pb.Task(id="other")],
    )
    assert record.data == [
        {
            "caller": "ann",
            "tenant": "acme",
            "metadata": {"k": 1, "skill": "about"},
            "references": ["other"],
            "history": 1,
            "role": "ROLE_USER",
        }
    ]
    assert record.message is None


async def test_a_refused_request_raises() -> None:
    with pytest.raises(A2AError) as caught:
        await run_turn(talker, skill="nobody")
    assert caught.value.reason is Reason.INVALID_PARAMS


@pytest.mark.req("SEND-04")
async def test_declared_modes_are_enforced_as_by_the_server() -> None:
    reader = Agent("Reader", "Reads.", "1.0.0", default_input_modes=["text"])
    reader.skill(id="read", tags=["text"])(whisper)
    reader.skill(id="look", tags=["image"], input_modes=["image"])(shout)
    assert (await run_turn(reader, "HELLO")).text == "hello"
    picture = [text_part("hi"), pb.Part(raw=b"png", media_type="image/png")]
    assert (await run_turn(reader, picture, skill="look")).text == "HI"
    with pytest.raises(A2AError, match="does not read image/png: defaultInputModes") as caught:
        await run_turn(reader, picture)
    assert caught.value.reason is Reason.CONTENT_TYPE_NOT_SUPPORTED


@pytest.mark.parametrize("what", ["artifact", "message"])
async def test_what_the_server_would_refuse_is_refused(what: str) -> None:
    with pytest.raises(InvalidAgentResponse, match="at least one part"):
        await run_turn(talker, what, skill="empty")


async def test_a_cancel_that_nobody_asked_for_comes_through() -> None:
    with pytest.raises(asyncio.CancelledError):
        await run_turn(talker, skill="self-canceled")


async def test_parts_are_content_too() -> None:
    record = await run_turn(talker, [text_part("a"), data_part(1)], messages=["b"])
    assert record.text == "a; b"


# -- refusals


def picky() -> Agent:
    agent = Agent("Picky", "Takes few things.", "1.0.0")

    async def refuse(turn: Turn) -> None:
        if turn.text == "late":
            await turn.status("Hm …")
        if turn.text == "ask":
            return await turn.ask("What?")
        raise InvalidParams({"metadata.size": "must be at most 10"})

    agent.skill(id="may", tags=["test"], may_refuse=True)(refuse)
    agent.skill(id="direct", tags=["test"], direct=True)(refuse)
    agent.skill(id="plain", tags=["test"])(refuse)
    return agent


@pytest.mark.req("AGNT-12")
@pytest.mark.parametrize("skill", ["may", "direct"])
async def test_a_refusal_is_raised_in_the_test(skill: str) -> None:
    with pytest.raises(InvalidParams) as refusal:
        await run_turn(picky(), "no", skill=skill)
    assert refusal.value.violations == (Violation("metadata.size", "must be at most 10"),)
    assert refusal.value.reason is Reason.INVALID_PARAMS


@pytest.mark.req("AGNT-12")
async def test_a_follow_up_is_refused_as_on_the_server() -> None:
    asked = await run_turn(picky(), "ask")
    with pytest.raises(InvalidParams):
        await run_turn(picky(), "no", after=asked)
    asked = await run_turn(picky(), "ask", skill="direct")
    assert (await run_turn(picky(), "no", after=asked)).state == "FAILED"


@pytest.mark.req("AGNT-12")
@pytest.mark.parametrize(("text", "skill"), [("late", "may"), ("no", "plain"), ("late", "direct")])
async def test_a_late_refusal_fails_the_task(text: str, skill: str) -> None:
    failed = await run_turn(picky(), text, skill=skill)
    assert (failed.state, failed.says) == ("FAILED", "metadata.size: must be at most 10")
