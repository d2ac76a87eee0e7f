"""`GET /openapi.json` on the wire: as true as the upstream lets it be (spec: DOOR-03)."""

from __future__ import annotations

import socket

import pytest
from google.rpc import code_pb2, status_pb2

from a2a_proto import a2a_pb2 as pb
from tests.support.door_upstream import Scripted
from tests.support.doors import http_door
from tests.support.house import A2AError, ChannelOptions, ChannelUpstream, Reason, StatusError
from tests.support.http import get, once

PAGE = get("/openapi.json")
AWAY = A2AError(Reason.UNAVAILABLE, "Away.", retry_after=1)


@pytest.mark.req("DOOR-03", "ERRS-06")
async def test_without_its_upstream_it_is_away_and_nobody_keeps_that() -> None:
    upstream = Scripted(AWAY)
    async with http_door(upstream) as door:
        answer = await once(door.port, PAGE)
        assert (answer.status, answer.reason, answer.headers["Retry-After"]) == (503, "UNAVAILABLE", "1")
        assert answer.headers["Cache-Control"] == "no-store"
        upstream.answer = pb.AgentCard(name="Back", version="2")
        answer = await once(door.port, PAGE)
        assert (answer.status, answer.json["info"]["title"]) == (200, "Back")
        assert (answer.headers["Cache-Control"], answer.json["security"]) == ("public, max-age=60", [])


@pytest.mark.req("DOOR-03", "DOOR-01", "ERRS-06")
async def test_so_it_is_where_nothing_listens() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        upstream = ChannelUpstream(ChannelOptions(addresses=(f"127.0.0.1:{nobody.getsockname()[1]}",)))
        async with http_door(upstream) as door:
            answer = await once(door.port, PAGE)
        await upstream.close()
    assert (answer.status, answer.reason) == (503, "UNAVAILABLE")


@pytest.mark.req("DOOR-03", "DOOR-01")
@pytest.mark.parametrize("code", [code_pb2.UNIMPLEMENTED, code_pb2.UNAUTHENTICATED])
async def test_a_server_that_tells_no_card_has_its_routes_described_all_the_same(code: int) -> None:
    async with http_door(Scripted(StatusError(status_pb2.Status(code=code)))) as door:
        answer = await once(door.port, PAGE)
    assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
    assert "security" not in answer.json
    assert "is not available" in answer.json["info"]["description"]
    assert "/message:send" in answer.json["paths"]
