"""HTTP doors that are told to stop: calls end, streams say goodbye, clients go elsewhere (spec: DURA-08, DOOR-07)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from a2a_server.serve import Server, relaying
from a2a_server.settings import Settings
from tests.support.house import Limits
from tests.support.http import SEND, Answer, Wire, get, house, once, port_of, post, wire
from tests.support.stage import Stage

PATIENT = Limits(drain_grace=30.0)


def hold(text: str = "hello", skill: str = "hold") -> bytes:
    told = SEND.replace(b"hello", text.encode())
    return told.replace(b'"message":', b'"metadata":{"skill":"%b"},"message":' % skill.encode(), 1)


async def begun(stage: Stage, count: int) -> None:
    async with asyncio.timeout(30):
        while len(stage.turns) < count:  # noqa: ASYNC110 - the skills run in this very loop
            await asyncio.sleep(0.001)


async def turned_away(port: int) -> None:
    """Wait until the door says that it is not ready."""
    async with asyncio.timeout(30):
        while (await once(port, get("/readyz"))).status == 200:  # noqa: ASYNC110 - as a balancer asks
            await asyncio.sleep(0.01)


def goodbye(answer: Answer) -> None:
    assert (answer.status, answer.reason) == (503, "UNAVAILABLE")
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Connection"] == "close"


async def events(connection: Wire) -> list[Any]:
    """All events of a stream to its end; an error is one of them."""
    found = []
    while chunk := await connection.chunk():
        for event in chunk.decode().strip().split("\n\n"):
            found += [orjson.loads(line[6:]) for line in event.split("\n") if line.startswith("data: ")]
    return found


# -- the server's own door


@pytest.mark.req("DURA-08", "DOOR-07", "ERRS-06")
async def test_it_turns_away_first_and_lets_calls_end() -> None:
    stage = Stage()
    async with house(stage.agent, limits=PATIENT) as server:
        port = port_of(server)
        async with wire(port) as idle, wire(port) as caller, wire(port) as reader:
            assert (await idle.ask(get("/readyz"))).json == {"status": "ready"}
            await caller.send(post("/message:send", hold("sent")))
            await reader.send(post("/message:stream", hold("streamed")))
            await begun(stage, 2)
            draining = asyncio.ensure_future(server.drain())
            await turned_away(port)

            assert await idle.ended() == b""  # nothing was asked of it
            assert (await once(port, get("/healthz"))).status == 200  # alive it is
            for request in (
                post("/message:send"),
                post("/message:stream"),
                get("/tasks"),
                get("/.well-known/agent-card.json"),
                get("/readyz"),
            ):
                goodbye(await once(port, request))
            rpc = await once(port, post("/", b'{"jsonrpc":"2.0","id":1,"method":"ListTasks"}'))
            assert (rpc.status, rpc.json["error"]["code"], rpc.headers["Retry-After"]) == (503, -32603, "1")
            assert not draining.done()

            stage.release.set()
            answer = await caller.answer()
            assert (answer.status, answer.headers["Connection"]) == (200, "close")
            assert answer.json["task"]["artifacts"][0]["parts"][0]["text"] == "sent"
            assert (await reader.head())[1] == 200
            assert (await events(reader))[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert await reader.ended() == b""
            await draining


@pytest.mark.req("DURA-08", "STRM-10")
@pytest.mark.parametrize("binding", ["rest", "jsonrpc"])
async def test_who_watches_what_goes_on_is_told_to_come_back(binding: str) -> None:
    stage = Stage()
    async with house(stage.agent) as server:
        port = port_of(server)
        asked = (await once(port, post("/message:send", hold(skill="ask")))).json["task"]
        path = f"/tasks/{asked['id']}:subscribe"
        rpc = b'{"jsonrpc":"2.0","id":7,"method":"SubscribeToTask","params":{"id":"%b"}}' % asked["id"].encode()
        async with wire(port) as reader:
            await reader.send(get(path) if binding == "rest" else post("/", rpc))
            await reader.head()
            await reader.chunk()
            await server.drain()
            (last,) = await events(reader)
            assert await reader.ended() == b""
        error = last["error"]
        assert error["code"] == (503 if binding == "rest" else -32603)
        details = error["details" if binding == "rest" else "data"]
        assert [detail["reason"] for detail in details if "reason" in detail] == ["UNAVAILABLE"]
        assert [detail["retryDelay"] for detail in details if "retryDelay" in detail] == ["1s"]


@pytest.mark.req("DURA-08")
async def test_nothing_listens_afterwards() -> None:
    async with house(Stage().agent) as server:
        port = port_of(server)
    with pytest.raises(ConnectionError):
        await once(port, get("/healthz"))
    before = asyncio.all_tasks()
    assert before == {asyncio.current_task()}


# -- a gateway on its own


@asynccontextmanager
async def gateway_before(
    server: Server, **settings: Any
) -> AsyncIterator[tuple[int, asyncio.Event, asyncio.Task[None]]]:
    """A gateway that goes when the event is set; its port, and the task that it lives in."""
    told = Settings(http="127.0.0.1:0", upstream={"addresses": [str(server.grpc)]}, **settings)
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def live() -> None:
        async with relaying(told) as address:
            ready.set_result(address.port)
            await leave.wait()

    life = asyncio.ensure_future(live())
    try:
        yield await ready, leave, life
    finally:
        leave.set()
        await asyncio.wait([life])
        if not life.cancelled():
            life.result()


@pytest.mark.req("DURA-08", "DOOR-07", "DOOR-01")
async def test_a_gateway_lets_calls_end_and_tells_readers_to_come_back() -> None:
    stage = Stage()
    async with house(stage.agent, http="none") as server, gateway_before(server, limits=PATIENT) as (port, leave, life):
        async with wire(port) as idle, wire(port) as caller, wire(port) as reader:
            assert (await idle.ask(get("/readyz"))).json == {"status": "ready"}
            await caller.send(post("/message:send", hold("sent")))
            await reader.send(post("/message:stream", hold("streamed")))
            await begun(stage, 2)
            await reader.head()
            await reader.chunk()
            leave.set()
            await turned_away(port)
            assert await idle.ended() == b""
            goodbye(await once(port, post("/message:send")))
            goodbye(await once(port, post("/message:stream")))
            assert not life.done()

            stage.release.set()
            answer = await caller.answer()
            assert answer.json["task"]["artifacts"][0]["parts"][0]["text"] == "sent"
            last = (await events(reader))[-1]
            ended = "statusUpdate" in last and last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert ended or last["error"]["status"] == "UNAVAILABLE"  # whichever came first
        await life


@pytest.mark.req("DURA-08", "DOOR-07")
async def test_a_gateway_takes_calls_until_balancers_have_noticed() -> None:
    stage = Stage()
    slow = Limits(drain_delay=3600)
    async with house(stage.agent, http="none") as server, gateway_before(server, limits=slow) as (port, leave, life):
        leave.set()
        await turned_away(port)
        assert (await once(port, post("/message:send"))).status == 200
        life.cancel()  # an hour would be long


@pytest.mark.req("DURA-08")
async def test_a_gateway_does_not_wait_for_ever() -> None:
    stage = Stage()
    hasty = Limits(drain_grace=0.1)
    async with house(stage.agent, http="none") as server, gateway_before(server, limits=hasty) as (port, leave, life):
        async with wire(port) as caller, wire(port) as reader:
            await caller.send(post("/message:send", hold("sent")))
            await reader.send(post("/message:stream", hold("streamed")))
            await begun(stage, 2)
            await reader.head()
            await reader.chunk()
            leave.set()
            last = (await events(reader))[-1]
            assert last["error"]["details"][-1]["retryDelay"] == "1s"
            assert last["error"]["message"] == "The gateway is stopping."
            answer = await caller.answer()
            assert answer.status == 503
            await life
        stage.release.set()
    assert len(stage.turns) == 2
