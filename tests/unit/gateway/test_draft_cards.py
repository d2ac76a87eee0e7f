"""The draft's card, made of cards that tell of several tenants or of no doors at all (spec: DRFT-05)."""

from __future__ import annotations

import pytest

from a2a_proto import a2a_pb2 as pb
from tests.support.door_draft import draft_door
from tests.support.door_upstream import Scripted

CARD = "/.well-known/agent-card.json"


@pytest.mark.req("DRFT-05")
async def test_each_tenant_has_the_doors_once() -> None:
    elsewhere = [
        pb.AgentInterface(url="h:1", protocol_binding="GRPC", protocol_version="1.0", tenant=tenant)
        for tenant in ("north", "south", "north")
    ]
    card = pb.AgentCard(name="A", supported_interfaces=elsewhere, signatures=[pb.AgentCardSignature(signature="s")])
    async with draft_door(Scripted(card)) as client:
        told = await client.told("GET", CARD)
        rest, rpc = client.base, f"{client.base}/"
    assert told["supportedInterfaces"] == [
        {"url": url, "protocolBinding": binding, "tenant": tenant}
        for tenant in ("north", "south")
        for url, binding in ((rest, "HTTP+JSON"), (rpc, "JSONRPC"))
    ]
    assert [(door["url"], door["transport"]) for door in told["additionalInterfaces"]] == [
        (rest, "HTTP+JSON"),
        (rpc, "JSONRPC"),
    ]
    assert "signatures" not in told


@pytest.mark.req("DRFT-05")
async def test_a_card_without_doors_gets_those_of_the_draft() -> None:
    skill = pb.AgentSkill(
        id="s", security_requirements=[pb.SecurityRequirement(schemes={"k": pb.StringList(list=["read"])})]
    )
    async with draft_door(Scripted(pb.AgentCard(name="A", skills=[skill]))) as client:
        told = await client.told("GET", CARD)
        assert [door["url"] for door in told["supportedInterfaces"]] == [client.base, f"{client.base}/"]
    assert told["capabilities"] == {"stateTransitionHistory": False}
    assert told["supportsExtendedAgentCard"] is False
    assert told["skills"][0]["security"] == [{"schemes": {"k": {"list": ["read"]}}}]
