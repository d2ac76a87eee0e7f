"""The public agent card, as a server with settings really serves it (spec: CARD, MSGS-04, GATE-02)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, discovery_pb2_grpc
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.ports.agent import AgentPort
from a2a_server.ports.authenticator import Authenticator, Caller, CardSecurity, Credentials
from a2a_server.serve import running
from a2a_server.settings import Settings
from tests.support.house import Schemes, by_secrets, required_violations
from tests.support.stage import Stage
from tests.support.world import ByHeader, World, as_user, refused, say, serving

MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9.+*-]+")
SECRET, KEY = "s3cr3t-t0k3n", "k3y"


def hashed(secret: str) -> str:
    return f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}"


@asynccontextmanager
async def card_of(
    agent: AgentPort | None = None, **settings: Any
) -> AsyncIterator[tuple[pb.AgentCard, grpc.aio.Channel]]:
    """The card, without any credentials, and a channel to where it says the agent is."""
    chosen = Settings(**{"grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "store": "memory:", **settings})
    async with running(chosen, agent or Stage().agent) as server:
        async with grpc.aio.insecure_channel(str(server.grpc)) as channel:
            card = await discovery_pb2_grpc.DiscoveryStub(channel).GetAgentCard(GetAgentCardRequest())
        async with grpc.aio.insecure_channel(card.supported_interfaces[0].url) as channel:
            yield card, channel


@pytest.mark.req("CARD-02", "CARD-09")
@pytest.mark.only_through("grpc", why="opens all doors of a whole server")
async def test_everything_that_is_required_is_there() -> None:
    async with card_of() as (card, _):
        assert not required_violations(card)
        assert (card.name, card.description, card.version) == ("Stage", "Plays any part.", "1.2.3")
        assert card.HasField("capabilities")
        for modes in (card.default_input_modes, card.default_output_modes):
            assert modes
            assert all(MEDIA_TYPE.fullmatch(mode) for mode in modes)
        assert len(card.skills) == len({skill.id for skill in card.skills}) == 7
        for skill in card.skills:
            assert skill.id
            assert skill.name
            assert skill.description
            assert skill.tags


@pytest.mark.req("CARD-03", "CARD-04", "CARD-05", "CARD-06", "CARD-07", "VERS-05")
@pytest.mark.only_through("grpc", why="opens all doors of a whole server")
async def test_the_interface_is_where_the_card_says() -> None:
    async with card_of() as (card, channel):
        interface = card.supported_interfaces[0]
        assert re.fullmatch(r"127\.0\.0\.1:[1-9][0-9]*", interface.url)
        assert (interface.protocol_binding, interface.protocol_version) == ("GRPC", "1.0")
        answer = await a2a_pb2_grpc.A2AServiceStub(channel).SendMessage(
            say(), metadata=(("a2a-version", interface.protocol_version),)
        )
        assert answer.task.status.state == pb.TASK_STATE_COMPLETED


@pytest.mark.req("CARD-03", "CARD-07")
@pytest.mark.only_through("grpc", why="opens all doors of a whole server")
async def test_behind_a_proxy_the_card_says_what_the_operator_says() -> None:
    async with card_of(public_grpc="agents.example.com:443") as (card, _):
        assert card.supported_interfaces[0].url == "agents.example.com:443"


@pytest.mark.req("CARD-03")
@pytest.mark.only_through("grpc", why="opens all doors of a whole server")
async def test_an_agents_own_idea_of_its_interfaces_is_not_believed() -> None:
    class Boaster:
        def __init__(self, agent: AgentPort) -> None:
            self._agent = agent

        def __getattr__(self, name: str) -> Any:
            return getattr(self._agent, name)

        @property
        def card(self) -> pb.AgentCard:
            card = self._agent.card
            card.supported_interfaces.add(url="https://elsewhere.example.com/", protocol_binding="JSONRPC")
            card.capabilities.push_notifications = True
            return card

    async with card_of(Boaster(Stage().agent), push={"enabled": False}) as (card, _):
        assert [interface.protocol_binding for interface in card.supported_interfaces][:3] == [
            "GRPC",
            "HTTP+JSON",
            "JSONRPC",
        ]
        assert not any("elsewhere" in interface.url for interface in card.supported_interfaces)
        assert not card.capabilities.push_notifications


@pytest.mark.req("MSGS-04", "CARD-10", "SECR-03")
@pytest.mark.only_through("grpc", why="opens all doors of a whole server")
async def test_the_card_declares_what_is_verified_and_holds_no_secret() -> None:
    auth = {
        "tokens": [{"owner": "ann", "hash": hashed(SECRET)}],
        "api_keys": [{"owner": "ben", "hash": hashed(KEY)}],
        "api_key_header": "x-key",
    }
    async with card_of(auth=auth) as (card, channel):
        data = json_format.MessageToDict(card)
        assert data["securitySchemes"] == {
            "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
            "apiKey": {"apiKeySecurityScheme": {"location": "header", "name": "x-key"}},
        }
        assert [list(each) for each in data["securityRequirements"]] == [["schemes"], ["schemes"]]
        alternatives = [dict(requirement.schemes) for requirement in card.security_requirements]
        assert alternatives == [{"bearer": pb.StringList()}, {"apiKey": pb.StringList()}]

        told = str(card)
        for internal in (SECRET, KEY, hashed(SECRET)[7:], "ann", "ben", "memory:", "sqlite", "/root", "python"):
            assert internal not in told

        stub = a2a_pb2_grpc.A2AServiceStub(channel)
        assert (await refused(stub.SendMessage(say()))).reason == "UNAUTHENTICATED"
        for metadata in ((("authorization", f"Bearer {SECRET}"),), (("x-key", KEY),)):
            assert (await stub.SendMessage(say(), metadata=metadata)).task.id


@pytest.mark.req("MSGS-04")
@pytest.mark.only_through("grpc", why="opens all doors of a whole server")
async def test_without_authentication_nothing_is_required() -> None:
    async with card_of() as (card, _):
        assert not card.security_schemes
        assert not card.security_requirements


@pytest.mark.req("CARD-08", "CAPA-01", "CAPA-02", "CAPA-03")
@pytest.mark.only_through("grpc", why="opens all doors of a whole server")
async def test_flags_are_told_even_when_they_are_off() -> None:
    for delivers in (False, True):
        async with card_of(Stage(streaming=False).agent, push={"enabled": delivers}) as (card, _):
            capabilities = json_format.MessageToDict(card)["capabilities"]
            assert capabilities == {"streaming": False, "pushNotifications": delivers, "extendedAgentCard": False}


@pytest.mark.req("IDEM-01", "AUTN-01", "CARD-10")
async def test_everybody_gets_the_same_card() -> None:
    async with serving(Stage().agent, authenticator=ByHeader()) as world:
        cards = [
            await world.discovery.GetAgentCard(GetAgentCardRequest(), metadata=metadata)
            for metadata in ((), as_user("ann"), as_user("root"), (("authorization", "Bearer wrong"),))
        ]
    assert all(card == cards[0] for card in cards)


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


@pytest.mark.req("XCARD-03", "CARD-11")
async def test_whoever_may_not_read_it_is_denied() -> None:
    async with serving(Stage(extended=extend).agent, authenticator=ByHeader()) as world:
        refusal = await refused(extended(world, "ann"))
    assert refusal.code.name == "PERMISSION_DENIED"
    assert refusal.metadata["scope"] == "a2a:GetExtendedAgentCard"


@pytest.mark.req("XCARD-01", "AUTN-02", "CARD-11")
@pytest.mark.parametrize("authenticator", [by_secrets(), Lax()])
async def test_it_needs_an_authenticated_caller(authenticator: Authenticator) -> None:
    if isinstance(authenticator, Schemes):
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
