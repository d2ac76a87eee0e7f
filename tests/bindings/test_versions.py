"""Which protocol version a call speaks (spec: VERS, SPAR-01, CONF-16, CONF-17)."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from tests.support.calls import every_call
from tests.support.house import CallRules
from tests.support.stage import Stage
from tests.support.world import refused, say, serving

NAME = "a2a-version"
GOOD = ["1.0", "1.0.0", "1.0.1", "1.0.99", " 1.0 ", ""]
BAD = ["0.3", "0.3.0", "0.2.5", "1.1", "2.0", "10.0", "01.0", "1", "1.", ".0", "1.0.0.0", "v1.0", "1.0-rc", "1,0", "x"]


@pytest.mark.req("VERS-01", "VERS-04", "GRPC-03")
@pytest.mark.parametrize("version", GOOD)
async def test_the_minor_version_counts_and_the_patch_does_not(version: str) -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        await world.send(say(), metadata=((NAME, version),))
    assert [turn.request.version for turn in stage.turns] == ["1.0"]


@pytest.mark.req("VERS-01")
async def test_a_call_that_names_no_version_speaks_1_0() -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        await world.send(say())
    assert [turn.request.version for turn in stage.turns] == ["1.0"]


@pytest.mark.req("VERS-02", "VERS-08", "VERS-09", "GEN-03", "ERRS-01", "ERRS-03")
@pytest.mark.parametrize("version", BAD)
async def test_another_version_is_refused_by_every_operation(version: str) -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        for name, call in every_call(world, metadata=((NAME, version),)).items():
            refusal = await refused(call())
            assert refusal.code.name == "FAILED_PRECONDITION", name
            assert (refusal.reason, refusal.domain) == ("VERSION_NOT_SUPPORTED", "a2a-protocol.org")
            assert refusal.metadata == {"requestedVersion": version, "supportedVersions": "1.0,0.3"}
            assert version in refusal.message
        assert not (await world.stub.ListTasks(pb.ListTasksRequest())).tasks
    assert not stage.turns


@pytest.mark.req("VERS-09")
async def test_versions_that_disagree_are_none() -> None:
    async with serving(Stage().agent) as world:
        assert await world.send(say(), metadata=((NAME, "1.0"), (NAME, "1.0.1")))
        refusal = await refused(world.send(say(), metadata=((NAME, "1.0"), (NAME, "0.3"))))
    assert refusal.metadata["requestedVersion"] == "1.0,0.3"


@pytest.mark.req("VERS-03")
@pytest.mark.parametrize("metadata", [(), ((NAME, ""),)])
async def test_to_the_letter_a_missing_version_is_0_3(metadata: Any) -> None:
    async with serving(Stage().agent, rules=CallRules(strict_version=True)) as world:
        for name, call in every_call(world, metadata=metadata).items():
            refusal = await refused(call())
            assert refusal.reason == "VERSION_NOT_SUPPORTED", name
            assert refusal.metadata["supportedVersions"] == "1.0,0.3"
        assert await world.send(say(), metadata=((NAME, "1.0"),))


@pytest.mark.req("VERS-01")
@pytest.mark.only_through("grpc", why="over HTTP the card has a form for each version")
async def test_the_public_card_needs_no_version() -> None:
    async with serving(Stage().agent, rules=CallRules(strict_version=True)) as world:
        card = await world.discovery.GetAgentCard(GetAgentCardRequest(), metadata=((NAME, "77.7"),))
    assert card.name == "Stage"


@pytest.mark.req("VERS-05")
async def test_no_answer_names_a_patch() -> None:
    async with serving(Stage().agent) as world:
        call = world.stub.SendMessage(say(), metadata=((NAME, "1.0.1"),))
        await call
        headers = [*(await call.initial_metadata()), *(await call.trailing_metadata())]
    assert not [value for name, value in headers if NAME in name or "1.0.1" in str(value)]
