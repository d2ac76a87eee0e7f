"""Several workers on one machine, as users start them: `a2ad serve --workers N` (spec: OPER-07)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.e2e.processes import command, environment
from tests.support.cluster_agent import CHUNKS
from tests.support.postgres import Cluster
from tests.support.stage import texts
from tests.support.world import kinds, say

AGENT = str(Path(__file__).parents[1] / "support" / "cluster_agent.py")
PATIENCE = 60
NOW = {"return_immediately": True}
SETTINGS = {"A2A_POSTGRESQL__SESSION": "4", "A2A_POSTGRESQL__CONNECTIONS": "4", "A2A_RELOAD_GRACE": "600"}
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
OWN = [("grpc.use_local_subchannel_pool", 1)]
"""Channels with these options have connections of their own."""

pytestmark = pytest.mark.req("OPER-07")


@dataclass
class Workers:
    """A supervisor with its workers, and everything it says on stderr."""

    process: subprocess.Popen[str]
    dsn: str
    folder: Path
    grpc: str = ""
    http: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def events(self) -> list[dict[str, Any]]:
        found = [line for line in self.lines if line.startswith("{")]
        return [json.loads(line) for line in found]

    def listen(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(self.process.stderr)

    async def says(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until the log has so many lines of an event."""
        async with asyncio.timeout(PATIENCE):
            while len(found := [line for line in self.events if line["event"] == event]) < count:
                assert self.process.poll() is None or event in {line["event"] for line in self.events}, self.lines
                await asyncio.sleep(0.02)
        return found

    @contextmanager
    def open_gate(self) -> Iterator[None]:
        """Let turns that wait go on."""
        (self.folder / "gate").touch()
        yield
        (self.folder / "gate").unlink()

    async def ends(self) -> int:
        return await asyncio.to_thread(self.process.wait, PATIENCE)


@contextmanager
def serving(
    dsn: str, folder: Path, *, agent: str = AGENT, terminal: int | None = None, **variables: str
) -> Iterator[Workers]:
    """Two workers, whose clients keep their connections if a test does not say otherwise."""
    line = [sys.executable, "-m", "a2a_server", "serve", agent, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    if terminal is not None:
        line = [sys.executable, "-c", TAKE_TERMINAL, *line]
    with subprocess.Popen(
        [*line, "--store", dsn, "--workers", "2"],
        cwd=folder,
        env=environment(**{**SETTINGS, **variables}),
        stdin=terminal,
        start_new_session=terminal is not None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        workers = Workers(process, dsn, folder)
        thread = threading.Thread(target=workers.listen)
        thread.start()
        try:
            assert process.stdout is not None
            for said in process.stdout:
                name, _, value = said.strip().partition(" ")
                if name in {"grpc", "http"}:
                    setattr(workers, name, value.strip())
                if said.startswith("Try"):
                    break
            yield workers
        finally:
            process.kill()  # the workers notice
            thread.join(PATIENCE)


@dataclass
class Client:
    """A client with one connection to one worker."""

    stub: Any
    pid: int

    async def get(self, task_id: str) -> pb.Task:
        task: pb.Task = await self.stub.GetTask(pb.GetTaskRequest(id=task_id))
        return task

    async def start(self, text: str, skill: str) -> str:
        """The id of a task that works."""
        task_id = str((await self.stub.SendMessage(say(text, skill=skill, configuration=NOW))).task.id)
        await self.reaches(task_id, lambda task: task.status.state == pb.TASK_STATE_WORKING)
        return task_id

    async def reaches(self, task_id: str, wanted: Callable[[pb.Task], bool]) -> pb.Task:
        async with asyncio.timeout(PATIENCE):
            while not wanted(task := await self.get(task_id)):  # noqa: ASYNC110 - as a client polls
                await asyncio.sleep(0.02)
        return task


def finished(task: pb.Task) -> bool:
    return task.status.state == pb.TASK_STATE_COMPLETED


@asynccontextmanager
async def clients(address: str) -> AsyncIterator[tuple[Client, Client]]:
    """Two clients whose connections lead to two workers."""
    found: dict[int, Client] = {}
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        while len(found) < 2:  # the kernel chooses by chance
            channel = grpc.aio.insecure_channel(address, OWN)
            stub = a2a_pb2_grpc.A2AServiceStub(channel)
            (pid,) = texts((await stub.SendMessage(say(skill="who"))).task)
            if int(pid) in found:
                await channel.close()
            else:
                stack.push_async_callback(channel.close)
                found[int(pid)] = Client(stub, int(pid))
        kept = stack.pop_all()
    async with kept:
        here, there = found.values()
        yield here, there


async def http_pids(url: str, count: int) -> set[int]:
    """The workers that answer over as many connections."""
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    found = set()
    for _ in range(count):
        async with aiohttp.ClientSession() as session:
            answer = await session.post(f"{url}/message:send", json={"message": message, "metadata": {"skill": "who"}})
            task = (await answer.json())["task"]
            found.add(int(task["artifacts"][0]["parts"][0]["text"]))
    return found


def worked_on_by(task: pb.Task) -> str:
    return task.status.message.parts[0].text if task.status.message.parts else ""


def is_free(address: str) -> bool:
    """Whether nobody listens there."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not what():  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def pair(postgres_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Two workers for several tests."""
    dsn = postgres_cluster.fresh()
    with serving(dsn, tmp_path_factory.mktemp("workers"), A2A_LOG__ACCESS="true") as workers:
        yield workers
    postgres_cluster.drop(dsn)


async def test_calls_are_spread_and_any_worker_serves_any_task(pair: Workers) -> None:
    async with clients(pair.grpc) as (here, there):
        assert await http_pids(pair.http, 40) == {here.pid, there.pid}
        streamed, talked = await here.start("one", "chunks"), await here.start("one", "hold")
        items = there.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=streamed))
        seen = [await anext(aiter(items))]
        sending = asyncio.ensure_future(there.stub.SendMessage(say("two", task_id=talked)))
        await here.reaches(talked, lambda task: len(task.history) > 1)
        with pair.open_gate():
            seen += [item async for item in items]
            assert texts((await sending).task) == ["one", "two"]
    chunks = [part.text for item in seen for part in item.artifact_update.artifact.parts]
    assert (kinds(seen)[-1], "".join(chunks)) == ("COMPLETED", "".join(f"{each};" for each in range(CHUNKS)))
    assert {line["worker"] for line in await pair.says("call", 40)} == {1, 2}
    assert [line for line in pair.lines if not line.startswith("{")] == []


def test_two_supervisors_never_share_a_port(pair: Workers, tmp_path: Path) -> None:
    line = ("--grpc", pair.grpc, "--http", "none", "--store", pair.dsn, "--workers", "2")
    code, _, said = refused(tmp_path, *line)
    assert code == 1
    assert f"grpc: {pair.grpc} is already in use by another process" in said


async def test_a_killed_worker_loses_nothing_and_comes_back(pair: Workers) -> None:
    async with clients(pair.grpc) as (here, there):
        task_id = await here.start("go on", "hold-on")
        os.kill(here.pid, signal.SIGKILL)
        await there.reaches(task_id, lambda task: worked_on_by(task) not in {"", str(here.pid)})
        (told,) = await pair.says("worker.ended")
        assert (told["pid"], told["why"]) == (here.pid, "killed by SIGKILL")
        with pair.open_gate():
            assert texts(await there.reaches(task_id, finished)) == ["go on"]
        again = (await pair.says("worker.started", 3))[-1]
        assert again["worker"] == told["worker"]
    async with clients(pair.grpc) as both:
        assert {client.pid for client in both} == {there.pid, again["pid"]}


VERSIONED = """
from a2a_server.agents import Agent, Turn

agent = Agent(name="Versioned", description="Says its version.", version="{version}")


@agent.skill(id="say", tags=["test"])
async def say(turn: Turn) -> str:
    return "{version}"
"""


@dataclass
class Load:
    """Clients that call without a pause, and what became of it."""

    answers: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    over: bool = False

    async def call_grpc(self, address: str) -> None:
        async with grpc.aio.insecure_channel(address, OWN) as channel:
            stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)
            while not self.over:
                try:
                    self.answers += texts((await stub.SendMessage(say())).task)
                except grpc.aio.AioRpcError as error:
                    self.failures.append(f"{error.code().name}: {error.details()}")

    async def call_http(self, url: str) -> None:
        message = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x"}]}}
        async with aiohttp.ClientSession() as session:
            while not self.over:
                try:
                    async with session.post(f"{url}/message:send", json=message) as answer:
                        task = (await answer.json())["task"]
                        self.answers.append(task["artifacts"][0]["parts"][0]["text"])
                except (aiohttp.ClientError, KeyError) as error:
                    self.failures.append(repr(error))


async def test_a_reload_fails_no_call_and_one_that_cannot_be_changes_nothing(own_postgres: str, tmp_path: Path) -> None:
    code, settings = tmp_path / "versioned.py", tmp_path / "a2ad.toml"
    code.write_text(VERSIONED.format(version="1"))
    with serving(own_postgres, tmp_path, agent="versioned", A2A_RELOAD_GRACE="3") as workers:
        load = Load()
        async with asyncio.TaskGroup() as callers:
            for _ in range(2):
                callers.create_task(load.call_grpc(workers.grpc))
                callers.create_task(load.call_http(workers.http))
            settings.write_text("limits.runing_turns = 1\n")
            workers.process.send_signal(signal.SIGHUP)
            (first,) = await workers.says("workers.not_reloaded")
            assert "unknown setting limits.runing_turns" in first["why"]
            settings.write_text('public_url = "https://new.example"\n')
            code.write_text("raise RuntimeError('no model')")
            workers.process.send_signal(signal.SIGHUP)
            _, second = await workers.says("workers.not_reloaded", 2)
            assert second["why"] == "new worker 1 did not start (exit status 2); the old ones go on"
            assert any("no model" in line for line in workers.lines)
            await until(lambda: len(load.answers) > 100)
            assert set(load.answers) == {"1"}
            code.write_text(VERSIONED.format(version="2"))
            workers.process.send_signal(signal.SIGHUP)
            await workers.says("workers.reloaded")
            load.answers.clear()
            await until(lambda: len(load.answers) > 100)
            load.over = True
        assert (load.failures, set(load.answers)) == ([], {"2"})
        async with aiohttp.ClientSession() as session:
            card = await (await session.get(f"{workers.http}/.well-known/agent-card.json")).json()
            assert "https://new.example" in json.dumps(card)
        assert len({line["pid"] for line in await workers.says("worker.started", 4)}) == 4
        assert {line["event"] for line in workers.events if line["level"] == "error"} == {"workers.not_reloaded"}


async def test_a_stop_lets_turns_end_in_all_workers_at_the_same_time(own_postgres: str, tmp_path: Path) -> None:
    with serving(own_postgres, tmp_path, A2A_LIMITS__DRAIN_GRACE="60") as workers:
        async with clients(workers.grpc) as two:
            streams = [aiter(client.stub.SendStreamingMessage(say(skill="hold"))) for client in two]
            for stream in streams:
                assert kinds([await anext(stream), await anext(stream)]) == ["task", "WORKING"]
            workers.process.send_signal(signal.SIGTERM)
            await workers.says("server.draining", 2)
            for client in two:
                os.kill(client.pid, signal.SIGTERM)  # as systemd does, and it is not a second one
            with workers.open_gate():
                for stream in streams:
                    assert kinds([item async for item in stream])[-1] == "COMPLETED"
        assert await workers.ends() == 0
        assert is_free(workers.grpc)


@pytest.mark.parametrize("second", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
async def test_a_second_signal_ends_all_at_once(own_postgres: str, tmp_path: Path, second: signal.Signals) -> None:
    with serving(own_postgres, tmp_path, A2A_LIMITS__DRAIN_GRACE="600") as workers:
        async with clients(workers.grpc) as (here, _):
            await here.start("one", "hold")
            workers.process.send_signal(signal.SIGTERM)
            await workers.says("server.draining", 2)
            workers.process.send_signal(second)
            assert await workers.ends() == 128 + second
            await until(lambda: is_free(workers.grpc) and is_free(workers.http.removeprefix("http://")))


async def test_workers_end_with_their_supervisor(own_postgres: str, tmp_path: Path) -> None:
    with serving(own_postgres, tmp_path, A2A_LIMITS__DRAIN_GRACE="600") as workers:
        async with clients(workers.grpc) as (here, _):
            await here.start("one", "hold")
            workers.process.kill()
            await until(lambda: is_free(workers.grpc) and is_free(workers.http.removeprefix("http://")))
        await until(lambda: len([line for line in workers.events if line["event"] == "supervisor.gone"]) == 2)


@pytest.mark.long
async def test_a_closed_terminal_stops_them(own_postgres: str, tmp_path: Path) -> None:
    """The signal is that of a reload."""
    ours, theirs = os.openpty()
    with serving(own_postgres, tmp_path, terminal=theirs) as workers:
        os.close(theirs)
        os.close(ours)
        assert await workers.ends() == 0
        assert is_free(workers.grpc)
        assert "workers.reloading" not in {line["event"] for line in workers.events}


def test_several_workers_need_a_store_that_they_can_share(tmp_path: Path) -> None:
    done = command("serve", "--workers", "3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: workers = 3 (flag): several workers need a store that processes can share: "
        "set store = postgresql://USER@HOST/DATABASE (it is sqlite:///a2a.db), or workers = 1\n"
    )
    assert list(tmp_path.iterdir()) == []


def refused(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = command("serve", *arguments, cwd=folder)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("door", ["grpc", pytest.param("http", marks=pytest.mark.long)])
def test_a_taken_port_is_told_as_without_workers(own_postgres: str, tmp_path: Path, door: str) -> None:
    """Also if its owner would share it."""
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        line = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", f"--{door}", address, "--store", own_postgres)
        alone, together = refused(tmp_path, *line), refused(tmp_path, *line, "--workers", "2")
    assert alone == together
    assert together[0] == 1
    assert f"{door}: {address} is already in use by another process" in together[2]


@pytest.mark.parametrize("fault", ["agent", pytest.param("database", marks=pytest.mark.long)])
def test_what_stops_one_worker_is_told_once(own_postgres: str, tmp_path: Path, fault: str) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no model')")
    agent = "broken" if fault == "agent" else AGENT
    store = f"{own_postgres}_gone" if fault == "database" else own_postgres
    line = (agent, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", store)
    alone, together = refused(tmp_path, *line), refused(tmp_path, *line, "--workers", "2")
    assert alone == together
    assert together[0] == (2 if fault == "agent" else 1)
    assert [line[:6] for line in together[2].splitlines()].count("Error:") == 1
