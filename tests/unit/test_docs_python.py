"""The Python of README and guides says what is true: its blocks run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

import a2a_server
from a2a_proto import a2a_pb2 as pb
from a2a_proto.a2a_pb2_grpc import A2AServiceStub
from a2a_server.agents import Agent, Turn, data_part, text_part
from a2a_server.agents.executor import ExecutorAgent, card_of
from a2a_server.agents.testing import run_turn
from a2a_server.serve import running
from a2a_server.settings import Settings
from tests.support.curl import ROOT
from tests.support.receivers import Received, receiver
from tests.support.traces import NONE, ONE, TWO, traces

README, AUTHORS, EMBEDDING = (ROOT / name for name in ("README.md", "docs/agents.md", "docs/embedding.md"))
EXECUTORS = ROOT / "docs/executors.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SETTINGS = Settings(grpc="127.0.0.1:0", http="127.0.0.1:0", store="memory:")
HELLO = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
SEND = pb.SendMessageRequest(message=pb.Message(message_id="2", role=pb.ROLE_USER, parts=[pb.Part(text="hello")]))


def names_of(page: Path) -> dict[str, Any]:
    """What the blocks of a page define."""
    text = page.read_text("utf-8")
    scope: dict[str, Any] = {"__name__": "guide"}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        source = "\n" * line + block[1]  # so that an error names the page's own line
        exec(compile(source, str(page), "exec"), scope)  # noqa: S102 - our own pages
    return scope


@pytest.fixture
def embedding() -> dict[str, Any]:
    return names_of(EMBEDDING)


@pytest.fixture
def authors() -> dict[str, Any]:
    return names_of(AUTHORS)


async def test_its_server_answers_and_its_step_and_interceptor_see_the_calls(embedding: dict[str, Any]) -> None:
    async with embedding["guarded"](SETTINGS) as server, grpc.aio.insecure_channel(str(server.grpc)) as channel:
        answer = await A2AServiceStub(channel).SendMessage(SEND)
        assert answer.task.artifacts[0].parts[0].text == "HELLO"
        assert embedding["counting"].calls == {"/lf.a2a.v1.A2AService/SendMessage": 1}
        embedding["CLOSED"].add("north")
        for tenant, status in (("north", 403), ("south", 200)):
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"http://{server.http}/{tenant}/message:send", json=HELLO) as refused,
            ):
                assert refused.status == status


@pytest.mark.req("AGNT-10")
async def test_a_program_serves_on_free_ports_and_in_memory(embedding: dict[str, Any]) -> None:
    async with (
        a2a_server.serving(embedding["agent"], tenants=("south",), default_tenant="south") as server,
        aiohttp.ClientSession() as session,
    ):
        async with session.post(f"http://{server.http}/message:send", json=HELLO) as answer:
            assert (await answer.json())["task"]["artifacts"][0]["parts"] == [{"text": "HELLO"}]
        async with session.post(f"http://{server.http}/north/message:send", json=HELLO) as answer:
            assert answer.status == 403


@pytest.mark.req("DOOR-12")
async def test_its_site_has_the_gateway_below_a_path_and_sees_every_call(embedding: dict[str, Any]) -> None:
    seen: list[str] = []

    @web.middleware
    async def note(request: web.Request, handler: Any) -> web.StreamResponse:
        seen.append(request.path)
        answer: web.StreamResponse = await handler(request)
        return answer

    async with embedding["running"](SETTINGS, embedding["agent"]) as server:
        site = await embedding["site"](str(server.grpc))
        site.middlewares.append(note)
        async with TestClient(TestServer(site)) as client:
            answer = await (await client.post("/a2a/message:send", json=HELLO)).json()
            assert answer["task"]["artifacts"][0]["parts"] == [{"text": "HELLO"}]
            card = await (await client.get("/a2a/.well-known/agent-card.json")).json()
            assert "https://site.example/a2a" in {door["url"] for door in card["supportedInterfaces"]}
            assert (await client.get("/elsewhere")).status == 404
    assert seen == ["/a2a/message:send", "/a2a/.well-known/agent-card.json", "/elsewhere"]


@pytest.mark.req("AGNT-02")
async def test_its_executor_says_hello() -> None:
    executor = names_of(EXECUTORS)["HelloExecutor"]()
    agent = ExecutorAgent(executor, card_of(executor, {}))
    async with running(SETTINGS, agent) as server, grpc.aio.insecure_channel(str(server.grpc)) as channel:
        answer = await A2AServiceStub(channel).SendMessage(SEND)
    assert answer.task.artifacts[0].parts[0].text == "Hello, hello!"


async def test_the_guide_s_tests_pass(authors: dict[str, Any]) -> None:
    tests = [test for name, test in authors.items() if name.startswith("test_")]
    assert len(tests) == 9
    for test in tests:
        await test()


@pytest.mark.req("AGNT-01")
async def test_the_guide_s_agents_do_what_it_says(authors: dict[str, Any]) -> None:
    agent, careful, priority = authors["agent"], authors["careful"], authors["PRIORITY"]
    assert isinstance(agent, Agent)
    assert (await run_turn(agent, "a b", skill="measure")).data == [{"letters": 3, "words": 2}]
    framed = (await run_turn(agent, "x", skill="frame")).artifacts[0]
    assert [part.media_type for part in framed.parts] == ["", "image/svg+xml", ""]
    assert (await run_turn(agent, "word", skill="spell")).text == "word"
    composed = await run_turn(agent, skill="compose")
    assert [artifact.name for artifact in composed.artifacts] == ["poem", "translation"]
    assert (await run_turn(agent, "Hello", skill="greet")).says == "Hello to you."
    assert (await run_turn(agent, "Go away", skill="greet")).state == "FAILED"
    for table in (data_part({"bread": 3, "milk": 2}), text_part("- bread: 3\n- milk: 2", media_type="text/markdown")):
        assert (await run_turn(authors["reader"], table)).data == [{"sum": 5}]
    named = pb.Part(text="name,amount\nbread,3\nmilk,2\n", filename="bill.csv", media_type="text/csv")
    assert (await run_turn(authors["reader"], named)).data == [{"sum": 5}]
    thought = await run_turn(careful, extensions=[priority], metadata={priority: "high"})
    assert thought.text == "I thought about it with high priority."


async def test_what_the_guide_s_agents_call_is_in_the_same_trace(authors: dict[str, Any]) -> None:
    async def answer(_: Received) -> web.StreamResponse:
        return web.Response(text="Rain.")

    async with receiver(answer) as service:
        for trace in (ONE, TWO, NONE):
            authors["WEATHER"] = service.url
            asked = await run_turn(authors["agent"], skill="weather", trace=trace)
            assert asked.text == "Rain."
            assert traces([service.last]) == [trace]


def test_the_guide_knows_every_member_of_a_turn() -> None:
    text = AUTHORS.read_text("utf-8")
    members = {name for name in dir(Turn) if not name.startswith("_")} - {"accepted_output_modes", "request"}
    assert {name for name in members if f"turn.{name}" not in text} == set()


@pytest.mark.req("AGNT-01")
async def test_the_readme_s_agent_says_it_louder() -> None:
    assert (await run_turn(names_of(README)["agent"], "hello")).text == "HELLO"
