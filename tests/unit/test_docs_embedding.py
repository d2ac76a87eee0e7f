"""The guide to programs of one's own says what is true: its Python blocks run, one after the other."""

from __future__ import annotations

import re
from typing import Any

import aiohttp
import grpc
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from a2a_proto import a2a_pb2 as pb
from a2a_proto.a2a_pb2_grpc import A2AServiceStub
from a2a_server.settings import Settings
from tests.support.curl import ROOT

GUIDE = (ROOT / "docs/embedding.md").read_text("utf-8")
SETTINGS = Settings(grpc="127.0.0.1:0", http="127.0.0.1:0", store="memory:")
HELLO = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
SEND = pb.SendMessageRequest(message=pb.Message(message_id="2", role=pb.ROLE_USER, parts=[pb.Part(text="hello")]))


@pytest.fixture
def guide() -> dict[str, Any]:
    """What the blocks of the guide define."""
    scope: dict[str, Any] = {"__name__": "guide"}
    for block in re.findall(r"^```python\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE):
        exec(block, scope)  # noqa: S102 - our own guide
    return scope


async def test_its_server_answers_and_its_step_and_interceptor_see_the_calls(guide: dict[str, Any]) -> None:
    async with guide["serving"](SETTINGS) as server, grpc.aio.insecure_channel(str(server.grpc)) as channel:
        answer = await A2AServiceStub(channel).SendMessage(SEND)
        assert answer.task.artifacts[0].parts[0].text == "HELLO"
        assert guide["counting"].calls == {"/lf.a2a.v1.A2AService/SendMessage": 1}
        guide["CLOSED"].add("north")
        for tenant, status in (("north", 403), ("south", 200)):
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"http://{server.http}/{tenant}/message:send", json=HELLO) as refused,
            ):
                assert refused.status == status


@pytest.mark.req("DOOR-12")
async def test_its_site_has_the_gateway_below_a_path_and_sees_every_call(guide: dict[str, Any]) -> None:
    seen: list[str] = []

    @web.middleware
    async def note(request: web.Request, handler: Any) -> web.StreamResponse:
        seen.append(request.path)
        answer: web.StreamResponse = await handler(request)
        return answer

    async with guide["running"](SETTINGS, guide["agent"]) as server:
        site = await guide["site"](str(server.grpc))
        site.middlewares.append(note)
        async with TestClient(TestServer(site)) as client:
            answer = await (await client.post("/a2a/message:send", json=HELLO)).json()
            assert answer["task"]["artifacts"][0]["parts"] == [{"text": "HELLO"}]
            card = await (await client.get("/a2a/.well-known/agent-card.json")).json()
            assert "https://site.example/a2a" in {door["url"] for door in card["supportedInterfaces"]}
            assert (await client.get("/elsewhere")).status == 404
    assert seen == ["/a2a/message:send", "/a2a/.well-known/agent-card.json", "/elsewhere"]
