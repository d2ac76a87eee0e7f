"""A policy elsewhere decides about calls: what it is asked, what its answers do, and what happens without one."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from aiohttp import web
from pydantic import ValidationError
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.settings import Settings
from tests.support.callers import EVERYWHERE, KNOWN, House, bearer, house
from tests.support.calls import every_call
from tests.support.world import refusal, refused, say

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

ANN = bearer("ann-token")
AUTH = {
    "tokens": [
        {
            "owner": "ann",
            "hash": "sha256:" + hashlib.sha256(b"ann-token").hexdigest(),
            "tenant": "north",
            "scopes": ["reader", "a2a:SendMessage"],
        }
    ],
    "roles": [{"name": "reader", "scopes": ["a2a:GetTask", "a2a:ListTasks"]}],
}


@dataclass
class Decider:
    """An Open Policy Agent, for all that the server can see."""

    url: str = ""
    result: Any = True
    answer: Answer | None = None
    inputs: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)

    async def decide(self, request: web.Request) -> web.StreamResponse:
        told = await request.json()
        assert list(told) == ["input"]
        assert request.headers["Content-Type"] == "application/json"
        self.inputs.append(told["input"])
        self.headers.append(request.headers)
        if self.answer is not None:
            return await self.answer(request)
        return web.json_response({"result": self.result})


@asynccontextmanager
async def deciding(**policy: Any) -> AsyncIterator[tuple[Decider, dict[str, Any]]]:
    """A policy, and the settings of a server that asks it."""
    decider = Decider()
    app = web.Application()
    app.router.add_post("/v1/data/a2a/allow", decider.decide)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        decider.url = f"http://{host}:{port}/v1/data/a2a/allow"
        yield decider, {"auth": AUTH, "policy": {"url": decider.url, **policy}}
    finally:
        await runner.cleanup()


def stub(here: House) -> Any:
    return a2a_pb2_grpc.A2AServiceStub(here.channel)


METADATA = (("authorization", "Bearer ann-token"),)


@pytest.mark.req("AUTZ-01", "AUTZ-04")
async def test_no_operation_gets_past_the_policy() -> None:
    """Asked as a caller whose scopes allow everything."""
    known = {"tokens": [{"owner": "ann", "hash": AUTH["tokens"][0]["hash"], "extended_card": True}]}
    async with deciding(cache=0) as (decider, settings), house(**{**settings, "auth": known}) as here:
        decider.result = False
        for rpc, ask in every_call(here, metadata=METADATA).items():
            assert (await refused(ask())).reason == "PERMISSION_DENIED", rpc
        methods = {method.name for method in pb.DESCRIPTOR.services_by_name["A2AService"].methods}
        assert {said["operation"] for said in decider.inputs} == methods


@pytest.mark.req("AUTZ-04")
async def test_the_policy_is_asked_at_every_door() -> None:
    async with deciding(cache=0) as (decider, settings), house(gateway=True, **settings) as here:
        for door in EVERYWHERE:
            decider.result = True
            assert await here.told(door, ANN) == KNOWN, door
            decider.result = False
            assert (await here.told(door, ANN)).code == "PERMISSION_DENIED", door
    assert {said["door"] for said in decider.inputs} == {"grpc", "rest", "jsonrpc"}
    assert {said["version"] for said in decider.inputs} == {"1.0", "0.3"}
    assert decider.inputs[0] == {
        "operation": "GetTask",
        "skill": "",
        "owner": "ann",
        "tenant": "north",
        "scopes": ["a2a:GetTask", "a2a:ListTasks", "a2a:SendMessage"],
        "peer": "127.0.0.1",
        "task": "nobodys",
        "version": "1.0",
        "door": "grpc",
    }


async def test_messages_say_which_skill_or_task_they_are_for() -> None:
    async with deciding() as (decider, settings), house(**settings) as here:
        answer = await stub(here).SendMessage(say("ask"), metadata=METADATA)
        assert (decider.inputs[-1]["skill"], decider.inputs[-1]["task"]) == ("echo", "")
        with pytest.raises(grpc.aio.AioRpcError):
            await stub(here).SendMessage(say("x", task_id=answer.task.id, skill="echo"), metadata=METADATA)
        assert (decider.inputs[-1]["skill"], decider.inputs[-1]["task"]) == ("", answer.task.id)


async def test_the_caller_is_told_why_and_before_anything_is_made() -> None:
    async with deciding() as (decider, settings), house(**settings) as here:
        decider.result = {"allow": False, "reason": "Closed on\nSundays."}
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub(here).SendMessage(say("hello"), metadata=METADATA)
        told = refusal(caught.value)
        assert told.code is grpc.StatusCode.PERMISSION_DENIED
        assert told.message == "The server's policy does not allow this call: Closed onSundays."
        decider.result = {"allow": True, "reason": "As always."}
        assert (await stub(here).ListTasks(pb.ListTasksRequest(), metadata=METADATA)).total_size == 0


@pytest.mark.req("AUTZ-02")
async def test_owners_stay_apart_whatever_the_policy_says() -> None:
    other = {"owner": "bob", "hash": "sha256:" + hashlib.sha256(b"bob").hexdigest(), "tenant": "north"}
    async with deciding() as (_, settings):
        settings["auth"] = {**AUTH, "tokens": [*AUTH["tokens"], other]}
        async with house(**settings) as here:
            answer = await stub(here).SendMessage(say("hello"), metadata=METADATA)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub(here).GetTask(
                    pb.GetTaskRequest(id=answer.task.id), metadata=[("authorization", "Bearer bob")]
                )
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_nobody_asks_about_the_card_or_about_strangers_and_scopes_come_first() -> None:
    async with deciding() as (decider, settings), house(gateway=True, **settings) as here:
        async with here.session.get(f"{here.base}/.well-known/agent-card.json") as answer:
            assert answer.status == 200
        assert (await here.told("rest", {})).code == "UNAUTHENTICATED"
        with pytest.raises(grpc.aio.AioRpcError):
            await stub(here).CancelTask(pb.CancelTaskRequest(id="x"), metadata=METADATA)
    assert decider.inputs == []


async def test_answers_are_kept_and_questions_shared() -> None:
    gate = asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        await gate.wait()
        return web.json_response({"result": True})

    async with deciding(cache=60, timeout=5) as (decider, settings), house(**settings) as here:
        decider.answer = slow
        calls = [asyncio.create_task(here.told("grpc", ANN)) for _ in range(5)]
        while not decider.inputs:  # noqa: ASYNC110 - the other side tells nobody
            await asyncio.sleep(0.01)
        calls[0].cancel()  # who leaves takes the answer from nobody
        await asyncio.sleep(0.05)
        gate.set()
        assert await asyncio.gather(*calls[1:]) == [KNOWN] * 4
        assert await here.told("grpc", ANN) == KNOWN
        assert len(decider.inputs) == 1
        await here.told("rest", ANN)
        assert len(decider.inputs) == 2  # another door is another question


async def test_an_answer_counts_no_longer_than_the_setting_says() -> None:
    async with deciding(cache=0.2) as (decider, settings), house(**settings) as here:
        assert await here.told("grpc", ANN) == KNOWN
        decider.result = False
        await asyncio.sleep(0.3)
        assert (await here.told("grpc", ANN)).code == "PERMISSION_DENIED"


async def stalling(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    raise AssertionError


async def failing(_: web.Request) -> web.StreamResponse:
    raise web.HTTPInternalServerError


async def leading_elsewhere(_: web.Request) -> web.StreamResponse:
    raise web.HTTPTemporaryRedirect("/v1/data/a2a/allow?again")


def telling(body: bytes) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body)

    return answer


BAD = [b"", b"{}", b"[]", b"null", b"true", b"\xff", b'{"result":null}', b'{"result":"true"}', b'{"result":1}']
BAD += [b'{"result":{}}', b'{"result":{"allow":1}}', b'{"result":{"allow":true,"reason":7}}', b'{"result":[true]}']


@pytest.mark.parametrize("answer", [stalling, failing, leading_elsewhere, *map(telling, BAD)])
async def test_without_an_answer_nothing_is_allowed(answer: Answer) -> None:
    async with deciding(timeout=0.2) as (decider, settings), house(**settings) as here:
        decider.answer = answer
        with capture_logs() as logged:
            for _ in range(3):
                told = await here.told("grpc", ANN)
                assert (told.code, told.retry) == ("UNAVAILABLE", True)
        (line,) = [line for line in logged if line["event"] == "policy.failed"]  # once a minute
        assert line["calls"] == 1
        decider.answer = None
        assert await here.told("grpc", ANN) == KNOWN


async def test_a_policy_that_nobody_serves_allows_nothing() -> None:
    async with deciding() as (_, settings):
        pass
    async with house(**settings) as here:
        assert (await here.told("rest", ANN)).code == "UNAVAILABLE"
        async with here.session.get(f"{here.base}/.well-known/agent-card.json") as answer:
            assert answer.status == 200


async def test_the_policy_knows_who_asks() -> None:
    async with deciding(token="opa-secret") as (decider, settings), house(**settings) as here:
        assert await here.told("grpc", ANN) == KNOWN
        assert decider.headers[0]["Authorization"] == "Bearer opa-secret"
        assert "opa-secret" not in str(Settings(**settings))


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ({"url": "ftp://policy.example"}, "url"),
        ({"url": "policy.example/allow"}, "url"),
        ({"url": "https://policy.example", "timeout": 0}, "timeout"),
        ({"url": "https://policy.example", "cache": -1}, "cache"),
        ({"token": "secret"}, "url"),
        ({"url": "https://policy.example", "ca": "x"}, "ca"),
    ],
)
def test_settings_that_cannot_be_are_refused(policy: Any, name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(policy=policy)
    (fault,) = caught.value.errors()
    assert name in str(fault["loc"]) + str(fault["msg"])
    assert "secret" not in str(fault["msg"])
