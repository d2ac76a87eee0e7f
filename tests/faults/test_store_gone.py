"""The SQLite files under a running server: deleted, replaced, moved, or opened by a second server (spec: DURA-07)."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2_grpc
from tests.e2e.processes import Running, command, serving
from tests.e2e.test_gateway import gateway
from tests.support.old import tell
from tests.support.world import refused, say

DELETED = "its database file was deleted or moved"
REPLACED = "its database file was replaced"
NO_LOG = "its write-ahead log was deleted or moved"
NO_INDEX = "the index of its write-ahead log was deleted or moved"


@dataclass
class House:
    """A server process with its store in a folder of its own, and clients of it."""

    server: Running
    path: Path
    stub: Any
    old: Any
    health: Any
    http: aiohttp.ClientSession

    async def send(self) -> str:
        """The id of a new task, which is finished."""
        return str((await self.stub.SendMessage(say())).task.id)

    async def tasks(self) -> set[str]:
        return {task.id for task in (await self.stub.ListTasks(pb.ListTasksRequest(page_size=100))).tasks}

    async def becomes(self, *, ready: bool) -> None:
        """Wait until both doors say so, each in its own way."""
        wanted = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
        async with asyncio.timeout(30):
            async for answer in self.health.Watch(health_pb2.HealthCheckRequest()):
                if answer.status == wanted:
                    break
            while (await self.http.get("/readyz")).status != (200 if ready else 503):  # noqa: ASYNC110 - as a balancer
                await asyncio.sleep(0.05)

    def kill(self) -> None:
        self.server.process.kill()
        self.server.process.wait()

    def stop(self) -> str:
        """Stop it in order; returns what it has logged."""
        self.server.process.terminate()
        logged = self.server.process.communicate(timeout=20)[1]
        assert self.server.process.returncode == 0
        return logged


@asynccontextmanager
async def house(path: Path, store: str = "") -> AsyncIterator[House]:
    path.parent.mkdir(exist_ok=True)
    options = "--store", store or f"sqlite:///{path}", "--log-level", "error"
    with serving(*options, cwd=path.parent) as server:
        async with (
            grpc.aio.insecure_channel(server.address) as channel,
            aiohttp.ClientSession(server.http) as http,
        ):
            stubs = a2a_pb2_grpc.A2AServiceStub(channel), a2a_v0_3_pb2_grpc.A2AServiceStub(channel)
            yield House(server, path, *stubs, health_pb2_grpc.HealthStub(channel), http)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "a2a.db"


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    """By a sound copy, as who restores a backup under a running server does it."""
    copy = path.with_name("copy.db")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    copy.replace(path)


def move(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def put_back(path: Path) -> None:
    path.parent.with_name("elsewhere").rename(path.parent)


Damage = Callable[[Path], None]
LOST: list[tuple[Damage, str]] = [(delete, DELETED), (replace, REPLACED), (move, DELETED)]


# -- what clients are told

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
V0_3_MESSAGE = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hello"}]}
KIND_MESSAGE = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
INFO = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "UNAVAILABLE", "domain": "a2a-server"}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def check_grpc(call: Awaitable[Any], text: str) -> None:
    refusal = await refused(call)
    assert (refusal.code.name, refusal.reason, refusal.message) == ("UNAVAILABLE", "UNAVAILABLE", text)


async def check_http(house: House, path: str, body: Any, expected: Any, **headers: str) -> None:
    async with house.http.post(path, json=body, headers=headers) as response:
        assert (response.status, response.headers["Retry-After"], await response.json()) == (503, "1", expected)


async def check_all_doors(house: House, why: str) -> None:
    """Sends are refused in every binding, each in its own form."""
    text = f"The store cannot serve now: {why}."
    status = {"code": 503, "status": "UNAVAILABLE", "message": text, "details": [INFO, RETRY]}
    envelope = {"jsonrpc": "2.0", "id": 1}
    error = {"code": -32603, "message": f"Internal error: {text}"}
    await check_grpc(house.stub.SendMessage(say()), text)
    await check_grpc(house.stub.SendStreamingMessage(say()).read(), text)
    await check_grpc(house.old.SendMessage(tell()), text)
    await check_http(house, "/message:send", {"message": MESSAGE}, {"error": status})
    new = {**envelope, "error": {**error, "data": [INFO, RETRY]}}
    await check_http(house, "/", rpc("SendMessage", message=MESSAGE), new, **{"A2A-Version": "1.0"})
    numbered = {**status, "details": [{**INFO, "metadata": {"jsonrpcCode": "-32603"}}, RETRY]}
    old = {"error": numbered, "code": -32603, "message": text}
    await check_http(house, "/v1/message:send", {"message": V0_3_MESSAGE}, old)
    kind = {**envelope, "error": {**error, "data": {"reason": "UNAVAILABLE"}}}
    await check_http(house, "/", rpc("message/send", message=KIND_MESSAGE), kind)


@pytest.mark.req("DURA-07", "ERRS-06", "DOOR-07")
@pytest.mark.parametrize(("damage", "why"), LOST)
async def test_without_its_database_a_server_neither_writes_nor_reads(path: Path, damage: Damage, why: str) -> None:
    async with house(path) as home:
        task = await home.send()
        damage(path)
        await check_all_doors(home, why)
        text = f"The store cannot serve now: {why}."
        await check_grpc(home.stub.GetTask(pb.GetTaskRequest(id=task)), text)
        await check_grpc(home.stub.ListTasks(pb.ListTasksRequest()), text)
        await home.becomes(ready=False)
        logged = home.stop()
    assert logged.count("store.gone") == 1
    assert why in logged
    assert "Traceback" not in logged


@pytest.mark.req("DURA-07", "DOOR-07")
async def test_a_gateway_of_its_own_passes_it_on(path: Path) -> None:
    async with house(path) as home:
        with gateway("--upstream", home.server.address, cwd=path.parent) as apart:
            delete(path)
            await home.becomes(ready=False)
            text = f"The store cannot serve now: {DELETED}."
            status = {"code": 503, "status": "UNAVAILABLE", "message": text, "details": [INFO, RETRY]}
            code, headers, answer = await asyncio.to_thread(apart.ask, "POST", "/message:send", {"message": MESSAGE})
            assert (code, headers["Retry-After"], answer) == (503, "1", {"error": status})
            code, _, answer = await asyncio.to_thread(apart.ask, "GET", "/readyz")
            assert (code, answer["error"]["message"]) == (503, "Calls would not be served now.")


@pytest.mark.req("DURA-07", "DOOR-07")
@pytest.mark.parametrize(
    ("suffix", "why", "end"),
    [
        ("-wal", NO_LOG, House.kill),
        pytest.param("-wal", NO_LOG, House.stop, marks=pytest.mark.long),
        ("-shm", NO_INDEX, House.kill),
    ],
)
async def test_without_its_log_a_server_saves_what_it_has_and_writes_no_more(
    path: Path, suffix: str, why: str, end: Callable[[House], object]
) -> None:
    async with house(path) as home:
        told = {await home.send()}
        beside(path, suffix).unlink()
        told.add(await home.send())  # it may not be noticed at once
        await home.becomes(ready=False)
        await check_all_doors(home, why)
        assert await home.tasks() == told  # reads show what the database has
        end(home)
    async with house(path) as home:
        assert await home.tasks() == told
        await home.send()


@pytest.mark.req("DURA-07", "DURA-01")
@pytest.mark.parametrize("store", ["", "sqlite:///a2a.db"])
async def test_when_the_folder_is_back_the_server_goes_on(path: Path, store: str) -> None:
    """A relative name means the place that it meant at the start, wherever the working directory is moved."""
    async with house(path, store) as home:
        told = {await home.send()}
        for noticed in (False, True):
            move(path)
            await check_grpc(home.stub.SendMessage(say()), f"The store cannot serve now: {DELETED}.")
            if noticed:
                await home.becomes(ready=False)
            put_back(path)
            if noticed:
                await home.becomes(ready=True)
            assert await home.tasks() == told
            told.add(await home.send())
        home.kill()
    async with house(path) as home:
        assert await home.tasks() == told


@pytest.mark.req("DURA-07", "STRM-01")
async def test_a_running_turn_waits_for_the_folder(path: Path) -> None:
    """A refusal is certain: what the turn wrote is not there twice, and nothing of it is missing."""
    async with house(path) as home:
        stream = aiter(home.stub.SendStreamingMessage(say("8", skill="run")))
        items = [await anext(stream) for _ in range(4)]
        move(path)
        await home.becomes(ready=False)
        put_back(path)
        items += [item async for item in stream]
        text = "".join(part.text for item in items for part in item.artifact_update.artifact.parts)
        assert text == "".join(f"lap {lap}\n" for lap in range(1, 9)) + "8 laps done."
        assert items[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


@pytest.mark.req("DURA-07", "DURA-01")
async def test_no_send_is_acknowledged_into_the_void(path: Path) -> None:
    """Sends never pause while the folder comes and goes. What was acknowledged is there afterwards."""
    told: set[str] = set()
    refusals: list[grpc.StatusCode] = []

    async def press(home: House) -> None:
        while home.server.process.returncode is None:
            try:
                told.add(await home.send())
            except grpc.aio.AioRpcError as error:
                refusals.append(error.code())

    async with house(path) as home:
        pressing = [asyncio.ensure_future(press(home)) for _ in range(8)]
        for _ in range(10):
            await asyncio.sleep(0.05)
            move(path)
            await asyncio.sleep(0.02)
            put_back(path)
        assert await home.send()
        home.kill()
        await asyncio.gather(*pressing)
    assert set(refusals) == {grpc.StatusCode.UNAVAILABLE}
    assert len(refusals) > len(pressing)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert told <= {row[0] for row in connection.execute("SELECT id FROM tasks")}


@pytest.mark.req("DURA-07")
@pytest.mark.parametrize("end", [House.kill, pytest.param(House.stop, marks=pytest.mark.long)])
async def test_a_database_that_takes_the_place_is_left_as_it_is(path: Path, end: Callable[[House], object]) -> None:
    """The log that lies beside it belongs to the one before. SQLite would apply it to any file of this name."""
    other = path.parent.with_name("other") / "a2a.db"
    async with house(other) as home:
        told = {await home.send() for _ in range(3)}
        home.stop()
    async with house(path) as home:
        for _ in range(30):
            await home.send()
        shutil.move(other, path)
        await home.becomes(ready=False)
        end(home)
    async with house(path) as home:
        assert await home.tasks() == told
        home.stop()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# -- a second server


def without_lock(path: Path) -> Path:
    beside(path, ".lock").unlink()
    return path


def symlink(path: Path) -> Path:
    link = path.with_name("link.db")
    link.symlink_to(path)
    return link


def linked_folder(path: Path) -> Path:
    link = path.parent.with_name("link")
    link.symlink_to(path.parent)
    return link / path.name


def hard_link(path: Path) -> Path:
    link = path.with_name("hard.db")
    link.hardlink_to(path)
    return link


@pytest.mark.req("DURA-09")
async def test_a_second_server_is_refused_whatever_name_it_has(path: Path) -> None:
    lock = f"{path}.lock"
    async with house(path) as home:
        told = {await home.send()}
        for under, holds in (
            (symlink, lock),
            (linked_folder, lock),
            (hard_link, "a lock on the file itself"),
            (without_lock, "a lock on the file itself"),
        ):
            name = under(path)
            options = "serve", "--grpc", "127.0.0.1:0", "--http", "none", "--store", f"sqlite:///{name}"
            done = await asyncio.to_thread(command, *options, cwd=path.parent)
            said = f"the store {name} is in use by another server, which holds {holds}"
            assert (done.returncode, done.stderr) == (1, f"Error: {said}\n")
            told.add(await home.send())
        home.stop()
    async with house(path.with_name("link.db")) as home:
        assert await home.tasks() == told
