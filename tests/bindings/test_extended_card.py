"""The extended card: for callers who may read it (spec: XCARD, CONF-40)."""

from __future__ import annotations

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.ports.authenticator import Authenticator, Caller, CardSecurity, Credentials
from tests.support.house import StaticAuthenticator, required_violations
from tests.support.stage import Stage
from tests.support.world import ByHeader, World, as_user, refused, serving


def extend(card: pb.AgentCard, caller: Caller) -> pb.AgentCard:
    """One more skill, and the caller's name."""
    card.description += f" For {caller.owner}."
    card.skills.add(id="secret", name="Secret", description="Known to few.", tags=["test"])
    return card


class Everybody:
    """Lets everybody read the extended card, and knows them by name."""

    required = True
    card = ByHeader.card

    async def authenticate(self, credentials: Credentials) -> Caller:
        return Caller(credentials.metadata["x-user"][0], authenticated=True, extended_card=True)


class Lax:
    """Declares a scheme and lets callers through who have not proven anything."""

    required = False
    card: CardSecurity = ByHeader.card

    async def authenticate(self, credentials: Credentials) -> Caller:
        return Caller(extended_card=True)


async def extended(world: World, user: str) -> pb.AgentCard:
    card: pb.AgentCard = await world.stub.GetExtendedAgentCard(pb.GetExtendedAgentCardRequest(), metadata=as_user(user))
    return card


@pytest.mark.req("XCARD-02", "XCARD-03", "XCARD-05", "CARD-08")
async def test_who_may_read_it_gets_a_complete_card() -> None:
    async with serving(Stage(extended=extend).agent, authenticator=ByHeader(), push_notifications=True) as world:
        public = await world.discovery.GetAgentCard(GetAgentCardRequest())
        card = await extended(world, "root")

    assert not required_violations(card)
    assert [skill.id for skill in card.skills] == [*(skill.id for skill in public.skills), "secret"]
    assert card.description == "Plays any part. For root."
    assert card.capabilities == public.capabilities
    assert card.capabilities.extended_agent_card
    assert card.security_schemes == public.security_schemes
    assert list(card.security_requirements) == list(public.security_requirements)
    assert "secret" not in str(public)
    assert card.version != public.version
    assert card.version.startswith(public.version)


@pytest.mark.req("XCARD-03", "XCARD-05")
async def test_its_version_follows_its_content() -> None:
    async with serving(Stage(extended=extend).agent, authenticator=Everybody()) as world:
        ann, ben, again = [await extended(world, user) for user in ("ann", "ben", "ann")]
    assert ann == again
    assert ann.version != ben.version


@pytest.mark.req("XCARD-05")
async def test_an_authors_own_version_is_kept() -> None:
    def versioned(card: pb.AgentCard, caller: Caller) -> pb.AgentCard:
        card.version = "7.7"
        return card

    def unchanged(card: pb.AgentCard, caller: Caller) -> pb.AgentCard:
        return card

    for function, version in ((versioned, "7.7"), (unchanged, "1.2.3")):
        async with serving(Stage(extended=function).agent, authenticator=Everybody()) as world:
            assert (await extended(world, "ann")).version == version


@pytest.mark.req("XCARD-03", "AUTZ-04", "CARD-11")
async def test_whoever_may_not_read_it_is_denied() -> None:
    async with serving(Stage(extended=extend).agent, authenticator=ByHeader()) as world:
        refusal = await refused(extended(world, "ann"))
    assert refusal.code.name == "PERMISSION_DENIED"
    assert refusal.message == "These credentials may not read the extended card."


@pytest.mark.req("XCARD-01", "AUTN-02", "CARD-11")
@pytest.mark.parametrize("authenticator", [StaticAuthenticator(tokens=[], api_keys=[], api_key_header="k"), Lax()])
async def test_it_needs_an_authenticated_caller(authenticator: Authenticator) -> None:
    if isinstance(authenticator, StaticAuthenticator):
        authenticator.card = ByHeader.card
    async with serving(Stage(extended=extend).agent, authenticator=authenticator) as world:
        refusal = await refused(extended(world, "root"))
    assert (refusal.code.name, refusal.reason) == ("UNAUTHENTICATED", "UNAUTHENTICATED")


@pytest.mark.req("XCARD-04", "ERRS-07")
async def test_an_extension_function_that_fails_tells_nothing() -> None:
    def broken(card: pb.AgentCard, caller: Caller) -> pb.AgentCard:
        raise RuntimeError("postgres://admin:hunter2@db.internal/")

    async with serving(Stage(extended=broken).agent, authenticator=ByHeader()) as world:
        refusal = await refused(extended(world, "root"))
    assert (refusal.code.name, refusal.message) == ("INTERNAL", "Internal error.")
    assert "hunter2" not in str(refusal)
    assert set(refusal.metadata) == {"incident"}
