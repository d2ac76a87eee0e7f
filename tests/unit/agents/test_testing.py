"""The test kit for authors."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, InvalidAgentResponse, Turn, data_part, text_part
from a2a_server.agents.testing import run_turn
from a2a_server.ports.authenticator import Caller
from a2a_server.protocol.errors import A2AError, Reason

agent = Agent("A", "B", "1")


@agent.skill(id="talk", tags=["t"])
async def talk(turn: Turn) -> AsyncIterator[str]:
    yield f"{turn.text}; "
    message = await turn.next_message()
    yield message.parts[0].text


@agent.skill(id="about", tags=["t"])
async def about(turn: Turn) -> dict[str, object]:
    return {
        "caller": turn.caller.owner,
        "tenant": turn.tenant,
        "metadata": turn.metadata,
        "references": [task.id for task in turn.references],
        "history": len(turn.history),
        "role": pb.Role.Name(turn.message.role),
    }


@agent.skill(id="empty", tags=["t"])
async def empty(turn: Turn) -> None:
    if turn.text == "artifact":
        await turn.add_artifact(pb.Artifact())
    await turn.status([])


@agent.skill(id="self-canceled", tags=["t"])
async def self_canceled(turn: Turn) -> None:
    raise asyncio.CancelledError


async def test_messages_may_come_while_the_turn_runs() -> None:
    assert (await run_turn(agent, "one", messages=["two"])).text == "one; two"


async def test_a_turn_that_waits_in_vain_says_so() -> None:
    with pytest.raises(AssertionError, match=r"messages=\[…\]"):
        await run_turn(agent, "one")


async def test_everything_a_turn_depends_on_can_be_given() -> None:
    record = await run_turn(
        agent,
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
        await run_turn(agent, skill="nobody")
    assert caught.value.reason is Reason.INVALID_PARAMS


@pytest.mark.parametrize("what", ["artifact", "message"])
async def test_what_the_server_would_refuse_is_refused(what: str) -> None:
    with pytest.raises(InvalidAgentResponse, match="at least one part"):
        await run_turn(agent, what, skill="empty")


async def test_a_cancel_that_nobody_asked_for_comes_through() -> None:
    with pytest.raises(asyncio.CancelledError):
        await run_turn(agent, skill="self-canceled")


async def test_parts_are_content_too() -> None:
    record = await run_turn(agent, [text_part("a"), data_part(1)], messages=["b"])
    assert record.text == "a; b"
