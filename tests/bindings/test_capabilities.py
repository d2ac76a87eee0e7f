"""What the card does not declare is refused, by name (spec: CAPA, CARD-08)."""

from __future__ import annotations

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from tests.support.calls import every_call
from tests.support.stage import Stage
from tests.support.world import ByHeader, as_user, refused, say, serving

A2A = "a2a-protocol.org"


@pytest.mark.req("CAPA-01", "ERRS-01", "ERRS-03", "STRM-07", "CARD-08")
async def test_an_agent_that_does_not_stream_answers_everything_else() -> None:
    stage = Stage(streaming=False)
    async with serving(stage.agent) as world:
        card = await world.discovery.GetAgentCard(GetAgentCardRequest())
        assert card.capabilities.HasField("streaming")
        assert not card.capabilities.streaming
        task = await world.send(say(skill="ask"))
        for attempt in (
            world.stream(say()),
            world.stream(pb.SendMessageRequest()),
            world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task.id)).read(),
            world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id="nope")).read(),
        ):
            refusal = await refused(attempt)
            assert (refusal.code.name, refusal.reason) == ("FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
            assert refusal.domain == A2A
        assert await world.get(task.id) == task
    assert len(stage.turns) == 1


@pytest.mark.req("CAPA-01", "CARD-08")
async def test_streaming_is_declared_and_works() -> None:
    async with serving(Stage().agent) as world:
        card = await world.discovery.GetAgentCard(GetAgentCardRequest())
        assert card.capabilities.streaming
        assert len(await world.stream(say())) > 1


@pytest.mark.req("CAPA-02", "CARD-08")
@pytest.mark.parametrize("on", [False, True])
async def test_push_is_declared_as_it_is(on: bool) -> None:  # noqa: FBT001 - a row of the table
    async with serving(Stage().agent, push_notifications=on) as world:
        card = await world.discovery.GetAgentCard(GetAgentCardRequest())
        assert card.capabilities.push_notifications is on
        task = await world.send(say(skill="ask"))
        for name, call in every_call(world, task.id).items():
            if "PushNotification" in name and not on:
                assert (await refused(call())).reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"
            elif "PushNotification" in name:
                await call()


def extend(card: pb.AgentCard, caller: object) -> pb.AgentCard | None:
    return card


def extend_for_nobody(card: pb.AgentCard, caller: object) -> pb.AgentCard | None:
    return None


@pytest.mark.req("CAPA-03", "XCARD-01", "ERRS-01", "ERRS-03", "CARD-08")
async def test_an_extended_card_that_is_not_declared_is_unsupported() -> None:
    root, ask = as_user("root"), pb.GetExtendedAgentCardRequest()
    # Without authentication nobody can prove to be anybody, so there the flag is off whatever the agent says.
    for agent, authenticator in ((Stage().agent, ByHeader()), (Stage(extended=extend).agent, None)):
        async with serving(agent, authenticator=authenticator) as world:
            card = await world.discovery.GetAgentCard(GetAgentCardRequest())
            assert card.capabilities.HasField("extended_agent_card")
            assert not card.capabilities.extended_agent_card
            refusal = await refused(world.stub.GetExtendedAgentCard(ask, metadata=root))
            assert (refusal.code.name, refusal.reason) == ("FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
            assert refusal.domain == A2A


@pytest.mark.req("CAPA-04", "ERRS-01", "ERRS-03")
async def test_an_extended_card_that_is_declared_and_missing() -> None:
    agent = Stage(extended=extend_for_nobody).agent
    async with serving(agent, authenticator=ByHeader()) as world:
        assert (await world.discovery.GetAgentCard(GetAgentCardRequest())).capabilities.extended_agent_card
        call = world.stub.GetExtendedAgentCard(pb.GetExtendedAgentCardRequest(), metadata=as_user("root"))
        refusal = await refused(call)
    assert (refusal.code.name, refusal.reason) == ("FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
    assert refusal.domain == A2A
