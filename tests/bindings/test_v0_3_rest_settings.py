"""What operators choose about 0.3 reaches its HTTP doors, in a server and in a gateway alone (CONF-08, -27, -50)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from a2a_server.serve import relaying
from a2a_server.settings import Settings
from tests.support.door_old import WHERE, OldClient, Where, request, say, tell
from tests.support.http import house, port_of
from tests.support.stage import Stage

pytestmark = pytest.mark.parametrize("where", WHERE)


@asynccontextmanager
async def housed(where: Where, **settings: Any) -> AsyncIterator[OldClient]:
    """A client of a whole server with these settings, or of a gateway with the same before it."""
    async with aiohttp.ClientSession() as session, house(Stage().agent, **settings) as server:
        if where == "near":
            yield OldClient(session, f"http://127.0.0.1:{port_of(server)}")
            return
        alone = Settings(http="127.0.0.1:0", upstream={"addresses": [str(server.grpc)]}, **settings)
        async with relaying(alone) as address:
            yield OldClient(session, f"http://{address}")


@pytest.mark.req("LRES-05")
async def test_the_spelling_of_answers_without_evidence(where: Where) -> None:
    async with housed(where, gateway={"legacy_json": "kind"}) as client:
        assert (await client.call("message/send", say()))["kind"] == "task"
        (task,) = await client.told("GET", "/v1/tasks")
        assert (task["kind"], task["status"]["state"]) == ("task", "completed")


@pytest.mark.req("BLK-04")
async def test_whether_sends_wait(where: Where) -> None:
    async with housed(where, legacy={"wait": "never"}) as client:
        states = {
            (await client.call("message/send", say(skill="hold")))["status"]["state"],
            (await client.told("POST", "/v1/message:send", say(skill="hold")))["task"]["status"]["state"],
        }
        assert states <= {"submitted", "working"}
        (first, *_) = await client.told("GET", "/v1/tasks")
        assert first["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}


@pytest.mark.req("TENA-02", "LRES-01")
async def test_tenants_have_paths(where: Where) -> None:
    async with housed(where, tenants=["acme"]) as client:
        task = await client.call("message/send", say(), path="/acme/")
        assert [one["id"] for one in await client.told("GET", "/acme/v1/tasks")] == [task["id"]]


@pytest.mark.req("VERS-02", "LRPC-07")
async def test_without_0_3_there_is_none_of_it(where: Where) -> None:
    async with housed(where, legacy={"enabled": False}, tenants=["acme"], default_tenant="acme") as client:
        answer = await client.post(request("message/send", say()))
        error = answer.json["error"]
        assert error["code"] == -32601
        assert '"message/send" is a name of A2A 0.3, which is not served here' in error["message"]
        assert isinstance(error["data"], list)
        for verb, path, body in (
            ("POST", "/v1/message:send", tell()),
            ("GET", "/v1/tasks", None),
            ("POST", "/acme/", request("tasks/get", {"id": "t"})),
            ("GET", "/acme/v1/tasks", None),
        ):
            async with client.session.request(verb, client.base + path, json=body) as response:
                assert response.status in {404, 405}, path
                assert response.headers["Content-Type"] == "application/a2a+json"
        async with client.session.get(f"{client.base}/openapi.json") as response:
            assert not [path for path in (await response.json())["paths"] if path.startswith("/v1/")]


@pytest.mark.req("DOOR-03", "LRES-01")
async def test_with_it_its_routes_are_described(where: Where) -> None:
    async with housed(where) as client, client.session.get(f"{client.base}/openapi.json") as response:
        paths = (await response.json())["paths"]
    assert {"/v1/message:send", "/message:send", "/v1/card"} <= set(paths)


@pytest.mark.req("VERS-01", "VERS-09")
async def test_strict_servers_take_calls_of_0_3_for_what_they_are(where: Where) -> None:
    """CONF-16: a missing version counts as 0.3, which nobody has to say here; a gateway says 1.0 itself."""
    async with housed(where, strict_version=True) as client:
        assert (await client.call("message/send", say()))["status"]["state"] == "completed"
        assert len(await client.told("GET", "/v1/tasks")) == 1
        answer = await client.post(request("ListTasks", {}))
        assert answer.json["error"]["code"] == -32009
