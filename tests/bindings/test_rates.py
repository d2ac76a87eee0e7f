"""Callers that call too often: refused until they have tokens again, and told so, the same through every door."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle
from typing import Any, NamedTuple

import grpc
import pytest
import structlog
from aiohttp import ClientSession
from google.rpc import error_details_pb2, status_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2_grpc
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.serve import running
from a2a_server.settings import Settings
from tests.support.callers import EVERYWHERE, House, bearer, house
from tests.support.house import Admission, demo_agent

HEADERS = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit", "ratelimit-policy")
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}


def token(owner: str, **more: Any) -> dict[str, Any]:
    return {"owner": owner, "hash": "sha256:" + hashlib.sha256(owner.encode()).hexdigest(), **more}


TWO = {"tokens": [token("ann"), token("bob")]}


class Asked(NamedTuple):
    """What became of a call: the HTTP status or the gRPC code, and all headers or metadata in lower case."""

    status: object
    headers: Mapping[str, str]
    body: Any = None

    @property
    def refused(self) -> bool:
        return self.status in (429, grpc.StatusCode.RESOURCE_EXHAUSTED)

    @property
    def left(self) -> int:
        return int(self.headers["x-ratelimit-remaining"])


async def get_task(here: House, door: str, headers: Mapping[str, str]) -> Asked:
    """Ask for a task that nobody has."""
    if not door.startswith("grpc"):
        base = here.gateway if door.startswith("far-") else here.base
        kind = door.removeprefix("far-")
        if kind.startswith("rest"):
            path = "/v1/tasks/nobodys" if kind == "rest-0.3" else "/tasks/nobodys"
            request = here.session.get(base + path, headers=headers)
        else:
            method = "tasks/get" if kind == "jsonrpc-0.3" else "GetTask"
            body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"id": "nobodys"}}
            request = here.session.post(base + "/", json=body, headers=headers)
        async with request as answer:
            told = {name.lower(): value for name, value in answer.headers.items()}
            return Asked(answer.status, told, await answer.json(content_type=None))
    metadata = [(name.lower(), value) for name, value in headers.items()]
    old = door == "grpc-0.3"
    stub = (a2a_v0_3_pb2_grpc if old else a2a_pb2_grpc).A2AServiceStub(here.channel)
    asked = v03.GetTaskRequest(name="tasks/nobodys") if old else pb.GetTaskRequest(id="nobodys")
    try:
        await stub.GetTask(asked, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        told = {name: value for name, value in error.trailing_metadata() or () if isinstance(value, str)}
        details = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
        assert isinstance(details, bytes)
        return Asked(error.code(), told, status_pb2.Status.FromString(details))
    raise AssertionError("nobody has this task")


@pytest.mark.req("LIMT-03", "LIMT-04")
async def test_one_bucket_is_emptied_through_any_door_and_every_answer_tells_what_is_left() -> None:
    calls = len(EVERYWHERE)
    async with house(gateway=True, auth=TWO, rates={"per_caller": f"{calls}/h"}) as here:
        for left, door in zip(range(calls - 1, -1, -1), EVERYWHERE, strict=True):
            asked = await get_task(here, door, bearer("ann"))
            assert not asked.refused, (door, asked)
            assert asked.left == left, door
            assert int(asked.headers["x-ratelimit-limit"]) == calls
            assert asked.headers["ratelimit-policy"] == f'"caller";q={calls};w=3600'
            assert asked.headers["ratelimit"].startswith(f'"caller";r={left};t=')
            assert time.time() < int(asked.headers["x-ratelimit-reset"]) < time.time() + 3602
            assert "retry-after" not in asked.headers
        for door in EVERYWHERE:
            asked = await get_task(here, door, bearer("ann"))
            assert asked.refused, (door, asked)
            assert asked.left == 0
            assert [name for name in asked.headers if name.removeprefix("grpc-trailer-") in HEADERS] == [*HEADERS], door
            if not door.startswith("grpc"):
                assert 0 < int(asked.headers["retry-after"]) <= 3600 // calls + 1, door
        assert not (await get_task(here, "rest", bearer("bob"))).refused


@pytest.mark.req("LIMT-03")
async def test_the_refusal_has_the_form_of_each_binding() -> None:
    async with house(auth=TWO, rates={"per_caller": "1/h"}) as here:
        await get_task(here, "rest", bearer("ann"))
        rest = await get_task(here, "rest", bearer("ann"))
        assert rest.body["error"]["code"] == 429
        assert rest.body["error"]["status"] == "RESOURCE_EXHAUSTED"
        kinds = {detail["@type"].rpartition(".")[2]: detail for detail in rest.body["error"]["details"]}
        assert kinds["ErrorInfo"]["reason"] == "OVERLOADED"
        assert kinds["ErrorInfo"]["metadata"] == {"limit": "caller", "operation": "GetTask"}
        assert 3500 < float(kinds["RetryInfo"]["retryDelay"].rstrip("s")) <= 3600
        rpc = await get_task(here, "jsonrpc", bearer("ann"))
        assert (rpc.status, rpc.body["id"], rpc.body["error"]["code"]) == (429, 7, -32052)
        for door in ("grpc", "grpc-0.3"):
            status = (await get_task(here, door, bearer("ann"))).body
            retry = error_details_pb2.RetryInfo()
            assert any(packed.Unpack(retry) for packed in status.details)
            assert 3500 < retry.retry_delay.seconds <= 3600


async def test_successes_and_streams_tell_what_is_left_over_grpc_too() -> None:
    request = pb.SendMessageRequest(
        message=pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="hello")])
    )
    async with house(gateway=True, rates={"per_caller": "100/h"}) as here:
        stub = a2a_pb2_grpc.A2AServiceStub(here.channel)
        call = stub.SendMessage(request)
        await call
        assert dict(await call.trailing_metadata())["x-ratelimit-remaining"] == "99"
        stream = stub.SendStreamingMessage(request)
        assert [item async for item in stream]
        assert dict(await stream.initial_metadata())["x-ratelimit-remaining"] == "98"
        left = 98
        for base in (here.base, here.gateway):
            for path in ("/message:send", "/message:stream"):
                async with here.session.post(base + path, json={"message": MESSAGE}) as answer:
                    left -= 1
                    assert answer.status == 200
                    assert answer.headers["X-RateLimit-Remaining"] == str(left)
                    assert not [name for name in answer.headers if name.lower().endswith("-x-ratelimit-remaining")]
                    await answer.read()


async def test_streams_are_refused_before_they_begin() -> None:
    async with house(gateway=True, rates={"per_caller": "1/h"}) as here:
        await get_task(here, "grpc", {})
        for base in (here.base, here.gateway):
            async with here.session.post(base + "/message:stream", json={"message": MESSAGE}) as answer:
                assert answer.status == 429
                assert answer.headers["X-RateLimit-Remaining"] == "0"
                assert "Retry-After" in answer.headers


@pytest.mark.req("LIMT-03")
async def test_operations_have_weights_and_rates_of_their_own() -> None:
    rules = [
        {"operations": ["SendMessage"], "weight": 3},
        {"operations": ["ListTasks", "GetExtendedAgentCard"], "rate": "2/h"},
    ]
    async with house(auth=TWO, rates={"per_caller": "7/h", "operations": rules}) as here:

        async def send() -> tuple[int, str]:
            url, headers = here.base + "/message:send", bearer("ann")
            async with here.session.post(url, json={"message": MESSAGE}, headers=headers) as answer:
                return answer.status, answer.headers["X-RateLimit-Remaining"]

        async def list_tasks() -> tuple[int, str]:
            async with here.session.get(here.base + "/tasks", headers=bearer("ann")) as answer:
                return answer.status, answer.headers["RateLimit-Policy"]

        assert [await send() for _ in range(3)] == [(200, "4"), (200, "1"), (429, "1")]
        assert (await get_task(here, "grpc", bearer("ann"))).left == 0
        policy = '"caller.ListTasks";q=2;w=3600'
        assert [await list_tasks() for _ in range(3)] == [(200, policy), (200, policy), (429, policy)]


@pytest.mark.req("LIMT-03")
async def test_a_class_of_callers_has_its_own_rates() -> None:
    partners = {"name": "partners", "owners": ["bob"], "per_caller": "5/h"}
    async with house(auth=TWO, rates={"per_caller": "1/h", "classes": [partners]}) as here:
        assert [(await get_task(here, "rest", bearer("ann"))).refused for _ in range(2)] == [False, True]
        told = [await get_task(here, "rest", bearer("bob")) for _ in range(6)]
        assert [asked.refused for asked in told] == [False] * 5 + [True]
        assert told[0].headers["ratelimit-policy"] == '"partners";q=5;w=3600'


async def test_without_rates_nobody_is_told_anything_and_wrong_credentials_cost_nobody_tokens() -> None:
    async with house(auth=TWO) as here:
        assert not [name for name in (await get_task(here, "rest", bearer("ann"))).headers if "ratelimit" in name]
    async with house(auth=TWO, rates={"per_caller": "2/h"}) as here:
        for _ in range(3):
            assert (await get_task(here, "rest", bearer("eve"))).status == 401
        assert (await get_task(here, "rest", bearer("ann"))).left == 1


async def test_tokens_come_back() -> None:
    async with house(rates={"per_caller": "20/s", "burst": 1}) as here:
        assert not (await get_task(here, "rest", {})).refused
        deadline = time.monotonic() + 10
        while (await get_task(here, "rest", {})).refused:
            assert time.monotonic() < deadline


@pytest.mark.req("GATE-05")
@pytest.mark.parametrize(("place", "counted_by"), [("memory:", "replica"), ("", "cluster")])
async def test_the_log_says_where_rates_are_counted(place: str, counted_by: str, postgres: str) -> None:
    with structlog.testing.capture_logs() as logs:
        async with house(store=place or postgres, rates={"per_caller": "5/min"}):
            pass
    told = [line for line in logs if line["event"] == "rates.limited"]
    assert [(line["per_caller"], line["counted_by"]) for line in told] == [("5/min", counted_by)]


@asynccontextmanager
async def replicas(count: int, store: str, **settings: Any) -> AsyncIterator[list[House]]:
    """Servers on one PostgreSQL."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(house(store=store, **settings)) for _ in range(count)]


@pytest.mark.req("GATE-05")
@pytest.mark.parametrize("servers", [2, 3])
@pytest.mark.parametrize("auth", [TWO, {}], ids=["known", "anonymous"])
async def test_servers_on_one_postgresql_share_rates(servers: int, auth: dict[str, Any], postgres: str) -> None:
    """Calls from many sides exceed 40 by an eighth of the bucket for each further server, at most."""
    headers, calls = bearer("ann") if auth else {}, cycle(("rest", "grpc", "jsonrpc"))

    async def call(server: House, times: int) -> int:
        answers = [await get_task(server, door, headers) for _, door in zip(range(times), calls, strict=False)]
        return sum(not answer.refused for answer in answers)

    async with replicas(servers, postgres, auth=auth, rates={"per_caller": "40/d"}) as here:
        let_through = sum(await asyncio.gather(*(call(server, 20) for server in here * 3)))
        assert 40 <= let_through <= 40 + (servers - 1) * 5
        for server in here:
            refused = await get_task(server, "rest", headers)
            assert (refused.refused, refused.left) == (True, 0)
            assert int(refused.headers["x-ratelimit-reset"]) > time.time() + 80_000
        if auth:
            assert not (await get_task(here[0], "rest", bearer("bob"))).refused


@pytest.mark.req("GATE-05")
async def test_a_server_on_postgresql_that_starts_anew_knows_who_has_called(postgres: str) -> None:
    rates = {"per_caller": "40/d"}
    async with replicas(1, postgres, auth=TWO, rates=rates) as (here,):
        for left in range(39, 19, -1):
            assert (await get_task(here, "rest", bearer("ann"))).left == left
    async with replicas(1, postgres, auth=TWO, rates=rates) as (here,):
        answers = [await get_task(here, "rest", bearer("ann")) for _ in range(26)]
        assert sum(not answer.refused for answer in answers) == 20


@pytest.mark.req("LIMT-02")
async def test_a_caller_has_so_many_calls_under_way() -> None:
    asked, gate = asyncio.Event(), asyncio.Event()

    async def hold(call: Admission) -> None:
        if call.rpc == "ListTasks":
            asked.set()
            await gate.wait()

    async def list_tasks(here: House, owner: str) -> int:
        async with here.session.get(here.base + "/tasks", headers=bearer(owner)) as answer:
            await answer.read()
            return answer.status

    at: dict[str, Any] = {"store": "memory:", "grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}
    settings = Settings(**at, auth=TWO, rates={"calls_per_caller": 1})
    async with running(settings, demo_agent, steps=[hold]) as server, ClientSession() as session:
        here = House(server, session, grpc.aio.insecure_channel(str(server.grpc)))
        first = asyncio.ensure_future(list_tasks(here, "ann"))
        await asked.wait()
        refused = await get_task(here, "jsonrpc", bearer("ann"))
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert (await get_task(here, "grpc", bearer("ann"))).refused
        assert not (await get_task(here, "grpc", bearer("bob"))).refused
        gate.set()
        assert await first == 200
        for _ in range(3):  # refused calls, and those that fail, have left
            assert not (await get_task(here, "grpc", bearer("ann"))).refused
        await here.channel.close()
