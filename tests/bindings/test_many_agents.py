"""Several agents in one server, each with card, skills, schemes, scopes and limits of its own (spec: DOOR-06)."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web
from grpc.aio import insecure_channel

from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2, discovery_pb2_grpc
from a2a_server import serving
from a2a_server.agents import Agent, Extension, Turn
from a2a_server.serve import Server
from a2a_server.serve.lifespan import LifespanFailed
from tests.support import strangers
from tests.support.http import get, house, once, port_of
from tests.support.receivers import Received, receiver
from tests.support.stage import Stage
from tests.support.strangers import told
from tests.support.tenant_doors import DRAFT, WAYS, tenant_door

CARD = "/.well-known/agent-card.json"
TABLES: list[dict[str, Any]] = [{"tenant": "weather"}, {"tenant": "travel", "push": False}]


def agents() -> dict[str, Agent]:
    """One that streams and has webhooks, and one that does neither."""
    weather = Agent(name="Weather", description="Knows the weather.", version="1.0.0")
    travel = Agent(name="Travel", description="Plans journeys.", version="2.0.0", streaming=False)

    @weather.skill(id="forecast", tags=["sky"])
    async def forecast(turn: Turn) -> str:
        return f"Sunny in {turn.text}, says {turn.tenant}."

    @travel.skill(id="plan", tags=["train"])
    async def plan(turn: Turn) -> str:
        return f"A train to {turn.text}, says {turn.tenant}."

    return {"weather": weather, "travel": travel}


@asynccontextmanager
async def town(**settings: Any) -> AsyncIterator[Server]:
    async with house(agents(), **{"agents": TABLES, "gateway": DRAFT, **settings}) as server:
        yield server


async def card_at(server: Server, path: str, *fields: str) -> Any:
    answer = await once(port_of(server), get(path, *fields))
    assert answer.status == 200, answer
    return answer.json


@pytest.mark.req("DOOR-06", "TENA-02", "TENA-05", "TENA-06", "CAPA-01", "CAPA-02", "CARD-08", "LMAP-01", "DRFT-01")
@pytest.mark.parametrize("way", WAYS)
async def test_each_tenant_has_its_agent_through_every_door(way: str) -> None:
    """One of them streams and has webhooks; the other refuses both. Tasks of one are unknown to the other."""
    async with town() as server, tenant_door(server, way) as door:
        assert "Sunny in Rome, says weather." in await door.send("weather", "Rome")
        assert "A train to Rome, says travel." in await door.send("travel", "Rome")
        assert "Sunny in Rome, says weather." in await door.send("", "Rome")

        assert "Sunny in Rome, says weather." in await door.stream("weather", "Rome")
        assert "This agent does not stream." in await door.stream("travel", "Rome")

        ours, theirs = await door.task_of("weather", "Rome"), await door.task_of("travel", "Rome")
        assert "Sunny" in await door.get("weather", ours)
        assert "Sunny" in await door.get("", ours)
        assert "train" in await door.get("travel", theirs)
        for tenant, task_id in (("travel", ours), ("weather", theirs), ("", theirs)):
            answer = await door.get(tenant, task_id)
            assert "not found" in answer.lower() or "not_found" in answer.lower() or "no task" in answer.lower()
            assert "Rome" not in answer

        assert "hooks.example" in await door.hook("weather", ours)
        assert "This agent does not deliver push notifications." in await door.hook("travel", theirs)

        for asked in (door.send("nobody", "Rome"), door.stream("nobody", "Rome"), door.get("nobody", ours)):
            assert "The caller may not act in this tenant." in await asked


@pytest.mark.req("DOOR-06", "CARD-02", "CARD-03", "CARD-08", "XCARD-01")
async def test_each_has_a_card_of_its_own_in_every_version() -> None:
    async with town() as server:
        for prefix, name in (("", "Weather"), ("/weather", "Weather"), ("/travel", "Travel")):
            card = await card_at(server, f"{prefix}{CARD}")
            assert card["name"] == name
            assert card["capabilities"]["streaming"] is (name == "Weather")
            assert card["capabilities"]["pushNotifications"] is (name == "Weather")
            assert [skill["id"] for skill in card["skills"]] == [{"Weather": "forecast", "Travel": "plan"}[name]]
            new = [door for door in card["supportedInterfaces"] if door["protocolVersion"] == "1.0"]
            assert {door.get("tenant", "") for door in new} == {prefix.strip("/")}
            old = await card_at(server, f"{prefix}{CARD}", "A2A-Version: 0.3")
            assert (old["name"], old["capabilities"]["streaming"]) == (name, name == "Weather")
            assert old["url"] == f"http://{server.http}{prefix}/"
            assert (await card_at(server, f"{prefix}/.well-known/agent.json"))["name"] == name
            assert (await card_at(server, f"/draft{prefix}{CARD}"))["name"] == name
        async with insecure_channel(str(server.grpc)) as channel:
            stub = discovery_pb2_grpc.DiscoveryStub(channel)
            for tenant, name in (("", "Weather"), ("weather", "Weather"), ("travel", "Travel")):
                card = await stub.GetAgentCard(discovery_pb2.GetAgentCardRequest(tenant=tenant))
                assert card.name == name
                assert {door.tenant for door in card.supported_interfaces if door.protocol_version == "1.0"} == {tenant}


@pytest.mark.req("DOOR-06")
async def test_a_tenant_without_an_agent_has_no_card() -> None:
    async with town() as server:
        for path in (f"/nobody{CARD}", "/nobody/.well-known/agent.json", f"/draft/nobody{CARD}"):
            assert (await once(port_of(server), get(path))).status == 404, path
        async with insecure_channel(str(server.grpc)) as channel:
            asked = discovery_pb2_grpc.DiscoveryStub(channel).GetAgentCard(
                discovery_pb2.GetAgentCardRequest(tenant="nobody")
            )
            with pytest.raises(Exception, match="There is no such agent"):
                await asked


@pytest.mark.req("DOOR-06", "TENA-06")
async def test_another_agent_may_have_the_root() -> None:
    async with town(default_tenant="travel") as server, tenant_door(server, "rest") as door:
        assert (await card_at(server, CARD))["name"] == "Travel"
        assert "A train to Rome, says travel." in await door.send("", "Rome")


# -- a directory


@pytest.mark.req("DOOR-06", "TENA-04")
@pytest.mark.parametrize("way", WAYS)
async def test_the_root_may_be_a_directory(way: str) -> None:
    tables = [{"tenant": "weather"}, {"tenant": "travel"}, {"tenant": "secret", "listed": False}]
    chosen = {**agents(), "secret": Stage().agent}
    async with (
        house(chosen, agents=tables, directory="All of us", gateway=DRAFT) as server,
        tenant_door(server, way) as door,
    ):
        card = await card_at(server, CARD)
        assert (card["name"], [skill["id"] for skill in card["skills"]]) == ("All of us", ["weather", "travel"])
        assert card["skills"][1]["name"] == "Travel"
        assert "/travel/.well-known/agent-card.json" in card["skills"][1]["description"]
        answer = await door.send("", "Rome")
        assert "must name an agent: travel, weather" in answer
        assert "secret" not in answer
        assert "A train to Rome" in await door.send("travel", "Rome")


# -- callers


def callers(**tenants: str) -> dict[str, Any]:
    return {
        "tokens": [
            {
                "owner": owner,
                "tenant": tenant,
                "hash": f"sha256:{hashlib.sha256((owner * 12).encode()).hexdigest()}",
                "extended_card": True,
            }
            for owner, tenant in tenants.items()
        ]
    }


def with_token(owner: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {owner * 12}"}


@pytest.mark.req("TENA-06", "TENA-05", "TENA-04", "DOOR-06")
@pytest.mark.parametrize("way", ["grpc", "rest", "jsonrpc-0.3", "rest-draft"])
async def test_a_caller_who_belongs_to_a_tenant_gets_its_agent(way: str) -> None:
    async with (
        town(auth=callers(ann="travel", ben="")) as server,
        tenant_door(server, way, **with_token("ann")) as ann,
        tenant_door(server, way, **with_token("ben")) as ben,
    ):
        assert "A train to Rome" in await ann.send("", "Rome")
        assert "The caller may not act in this tenant." in await ann.send("weather", "Rome")
        assert "Sunny" in await ben.send("", "Rome")
        assert "A train" in await ben.send("travel", "Rome")


@pytest.mark.req("DOOR-06", "GATE-07", "AUTZ-05", "TENA-04")
@pytest.mark.parametrize("way", ["grpc", "rest", "jsonrpc", "rest-0.3", "jsonrpc-draft"])
async def test_an_agent_may_need_scopes(way: str) -> None:
    """Who lacks them is told what is told about an agent that does not exist."""
    auth = callers(ann="", ben="")
    auth["tokens"][0]["scopes"], auth["tokens"][1]["scopes"] = ["a2a:SendMessage", "traveller"], ["a2a:SendMessage"]
    auth["roles"] = [{"name": "traveller", "scopes": ["travel"]}]
    tables = [{"tenant": "weather"}, {"tenant": "travel", "scopes": ["travel"]}]
    async with (
        town(auth=auth, agents=tables) as server,
        tenant_door(server, way, **with_token("ann")) as ann,
        tenant_door(server, way, **with_token("ben")) as ben,
    ):
        assert "A train" in await ann.send("travel", "Rome")
        assert "Sunny" in await ben.send("weather", "Rome")
        denied, unknown = await ben.send("travel", "Rome"), await ben.send("nobody", "Rome")
        assert denied == unknown
        assert "The caller may not act in this tenant." in denied
        for tenant, needed in (("weather", {}), ("travel", {"list": ["travel"]})):
            card = await card_at(server, f"/{tenant}{CARD}")
            assert card["securityRequirements"] == [{"schemes": {"bearer": needed}}]


@pytest.mark.req("DOOR-06", "GATE-02")
async def test_a_card_has_the_schemes_that_lead_to_its_agent() -> None:
    """A credential that is bound to another tenant is of no use here."""
    hashed = f"sha256:{hashlib.sha256(b'x' * 40).hexdigest()}"
    auth = {**callers(ann="travel"), "api_keys": [{"owner": "ben", "tenant": "weather", "hash": hashed}]}
    async with town(auth=auth) as server:
        for tenant, scheme in (("travel", "bearer"), ("weather", "apiKey")):
            card = await card_at(server, f"/{tenant}{CARD}")
            assert list(card["securitySchemes"]) == [scheme]
            assert [list(needed["schemes"]) for needed in card["securityRequirements"]] == [[scheme]]


@pytest.mark.req("DOOR-06", "XCARD-01", "XCARD-03")
async def test_each_has_an_extended_card_of_its_own() -> None:
    stage = Stage(extended=lambda card, caller: _named(card, f"for {caller.owner}"))
    chosen = {**agents(), "stage": stage.agent}
    tables = [*TABLES, {"tenant": "stage"}]
    async with house(chosen, agents=tables, auth=callers(ann="")) as server:
        fields = [f"Authorization: Bearer {'ann' * 12}"]
        assert (await card_at(server, "/stage/extendedAgentCard", *fields))["description"] == "for ann"
        refused = await once(port_of(server), get("/weather/extendedAgentCard", *fields))
        assert (refused.status, refused.reason) == (400, "UNSUPPORTED_OPERATION")
        assert (await card_at(server, f"/stage{CARD}"))["capabilities"]["extendedAgentCard"] is True
        assert (await card_at(server, f"/weather{CARD}"))["capabilities"]["extendedAgentCard"] is False


def _named(card: pb.AgentCard, description: str) -> pb.AgentCard:
    card.description = description
    return card


@pytest.mark.req("TENA-04", "AUTZ-02", "DOOR-06")
@pytest.mark.parametrize("caller", ["nobody", "of another tenant"])
async def test_an_agent_that_is_not_listed_is_like_one_that_does_not_exist(caller: str) -> None:
    """Every route, version and profile, right and wrong: status, headers and body, byte for byte."""
    tables = [{"tenant": "open"}, {"tenant": "north", "listed": False}]
    chosen = {"open": Stage().agent, "north": Stage(extended=lambda card, _: card).agent}
    said = {"nobody": [], "of another tenant": [f"Authorization: Bearer {'ann' * 12}"]}[caller]
    rates = {"wrong_credentials": 0}  # the test presents many
    auth = callers(ann="open", ben="north")
    async with house(chosen, agents=tables, auth=auth, gateway=DRAFT, rates=rates) as server:
        port, differing = port_of(server), []
        for probe in strangers.probes():
            if await told(port, probe, "north", said) != await told(port, probe, "ghost", said):
                differing.append(probe)  # noqa: PERF401 - as above
        assert not differing
        metadata = [("authorization", field.removeprefix("Authorization: ")) for field in said]
        async with insecure_channel(str(server.grpc)) as channel:
            for call in strangers.calls():
                assert await call.told(channel, "north", metadata) == await call.told(channel, "ghost", metadata), call


@pytest.mark.req("DOOR-06", "AUTZ-01")
async def test_the_operator_s_policy_is_asked_about_the_skill_of_the_right_agent() -> None:
    async def allow(_: Received) -> web.Response:
        return web.json_response({"result": True})

    async with (
        receiver(allow) as policy,
        town(policy={"url": policy.url}) as server,
        tenant_door(server, "rest") as door,
    ):
        for tenant in ("weather", "travel", ""):
            await door.send(tenant, "Rome")
        asked = [orjson.loads(one.body)["input"] for one in policy.received]
    assert [(one["tenant"], one["skill"]) for one in asked] == [("weather", "forecast"), ("travel", "plan")]


# -- limits, extensions, lives


@pytest.mark.req("DOOR-06", "AGNT-04", "LIMT-02")
async def test_an_agent_may_have_limits_of_its_own() -> None:
    """The turns of one that is full hold up nobody else's; the others share what is left to all."""
    slow, quick = Stage(), Stage()
    tables = [{"tenant": "slow", "running_turns": 1, "turn_timeout": 60}, {"tenant": "quick"}, {"tenant": "last"}]
    chosen = {"slow": slow.agent, "quick": quick.agent, "last": quick.agent}
    async with house(chosen, agents=tables) as server:
        served = server.core.services.agents
        assert served.of("slow").slots is not served.of("quick").slots
        assert served.of("quick").slots is served.of("last").slots
        assert (served.of("slow").limits.turn_timeout, served.of("quick").limits.turn_timeout) == (60, 3600)
        async with tenant_door(server, "rest") as door:
            held = [asyncio.create_task(door.hold("slow")) for _ in range(2)]
            await slow.began()
            async with asyncio.timeout(30):
                while not served.of("slow").slots.waiting:  # noqa: ASYNC110 - the server runs in this very loop
                    await asyncio.sleep(0.005)
            assert "hello" in await door.send("quick", "hello")
            assert len(slow.turns) == 1
            slow.release.set()
            assert all("COMPLETED" in answer for answer in await asyncio.gather(*held))


@pytest.mark.req("DOOR-06", "TIMO-02")
async def test_a_turn_takes_as_long_as_its_agent_may() -> None:
    stage = Stage()
    tables = [{"tenant": "hasty", "turn_timeout": 0.05}, {"tenant": "patient"}]
    chosen = {"hasty": stage.agent, "patient": stage.agent}
    async with house(chosen, agents=tables) as server, tenant_door(server, "rest") as door:
        patient = asyncio.create_task(door.hold("patient"))
        await stage.began()
        assert "TASK_STATE_FAILED" in await door.hold("hasty")
        stage.release.set()
        assert "TASK_STATE_COMPLETED" in await patient


@pytest.mark.req("DOOR-06", "EXTN-02", "EXTN-04")
async def test_an_extension_that_one_agent_requires_is_asked_of_its_callers_alone() -> None:
    strict = Agent(
        name="Strict", description="Wants more.", version="1.0.0", extensions=[Extension("urn:x", required=True)]
    )
    strict.skill(id="echo", tags=["test"])(Stage().echo)
    tables = [{"tenant": "strict"}, {"tenant": "stage"}]
    async with (
        house({"strict": strict, "stage": Stage().agent}, agents=tables) as server,
        tenant_door(server, "rest") as plain,
        tenant_door(server, "rest", A2A_Extensions="urn:x") as asking,
    ):
        assert "EXTENSION_SUPPORT_REQUIRED" in await plain.send("strict", "hello")
        assert "TASK_STATE_COMPLETED" in await plain.send("stage", "hello")
        assert "TASK_STATE_COMPLETED" in await asking.send("strict", "hello")


@pytest.mark.req("DOOR-06", "AGNT-07")
async def test_each_has_a_lifespan_and_one_that_fails_stops_the_start_by_name() -> None:
    events: list[str] = []

    def living(name: str, *, fails: bool = False) -> Agent:
        agent = Agent(name=name, description="Lives.", version="1.0.0")

        @agent.lifespan
        async def life() -> AsyncIterator[str]:
            if fails:
                raise RuntimeError("no database")
            events.append(f"{name} opens")
            yield name
            events.append(f"{name} closes")

        @agent.skill(id="who", tags=["test"])
        async def who(turn: Turn) -> str:
            return f"I have {turn.resources}."

        return agent

    async with serving({"one": living("A"), "two": living("B")}) as server, tenant_door(server, "rest") as door:
        assert "I have A." in await door.send("one", "?")
        assert "I have B." in await door.send("two", "?")
    assert events == ["A opens", "B opens", "B closes", "A closes"]
    events.clear()
    with pytest.raises(LifespanFailed, match='the lifespan of the agent "two" failed'):
        async with serving({"one": living("A"), "two": living("B", fails=True)}):
            raise AssertionError("it must not start")
    assert events == ["A opens", "A closes"]


async def test_there_must_be_an_agent() -> None:
    with pytest.raises(ValueError, match=r"there are agents for \[\]"):
        async with serving({}):
            raise AssertionError("it must not start")


async def test_agents_and_settings_must_be_of_the_same_tenants() -> None:
    for given, named in ((agents(), "['travel', 'weather']"), (Stage().agent, "[]"), ({}, "[]")):
        told = f"there are agents for {named}, and settings of agents for ['weather']"
        with pytest.raises(ValueError, match=re.escape(told)):
            async with house(given, agents=[{"tenant": "weather"}]):
                raise AssertionError("it must not start")
