"""SIGTERM ends a server whatever its agents do, and the next start finds no task without a turn (spec: DURA-08)."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.e2e.processes import Running
from tests.e2e.processes import serving as process
from tests.support.world import say

GRACE = 0.5
FAILED = pb.TASK_STATE_FAILED
LATER: dict[str, Any] = {"return_immediately": True}

AGENT = """
import asyncio
import time

from a2a_server.agents import Agent

agent = Agent("Stays", "Does not end.", "1.0.0")


def skill(function):
    return agent.skill(id=function.__name__, tags=["test"])(function)


@skill
async def swallow(turn):
    await turn.status("at work")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


@skill
async def block(turn):
    await turn.status("at work")
    await asyncio.sleep(0.3)
    time.sleep(30)


@skill
async def thread(turn):
    await turn.status("at work")
    await asyncio.to_thread(time.sleep, 30)


@skill
async def chatter(turn):
    while True:
        try:
            await turn.status("at work")
            await asyncio.sleep(0.001)
        except BaseException:
            pass


@skill
async def later(turn):
    async def ends():
        raise SystemExit(3)

    await asyncio.create_task(ends())


@skill
async def exits(turn):
    raise KeyboardInterrupt
"""


def opened(path: Path) -> Any:
    (path / "stays.py").write_text(AGENT)
    store = f"sqlite:///{path / 'a2a.db'}"
    return process("stays.py", "--store", store, cwd=path, A2A_LIMITS__DRAIN_GRACE=str(GRACE))


def stub_of(server: Running) -> Any:
    channel: Any = grpc.insecure_channel(server.address)
    return a2a_pb2_grpc.A2AServiceStub(channel)


def at_work(server: Running, skill: str, tasks: int) -> None:
    stub = stub_of(server)
    for _ in range(tasks):
        stub.SendMessage(say(skill=skill, configuration=LATER), timeout=10)
    while sum(task.status.state == pb.TASK_STATE_WORKING for task in listed(server)) < tasks:
        time.sleep(0.01)


def listed(server: Running) -> list[pb.Task]:
    return list(stub_of(server).ListTasks(pb.ListTasksRequest(page_size=100), timeout=10).tasks)


@pytest.mark.long
@pytest.mark.req("DURA-08", "AGNT-05")
@pytest.mark.parametrize(("skill", "tasks"), [("swallow", 5), ("block", 1), ("thread", 3), ("chatter", 3)])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_is_gone_in_time(tmp_path: Path, skill: str, tasks: int, number: signal.Signals) -> None:
    with opened(tmp_path) as server:
        at_work(server, skill, tasks)
        if skill == "block":
            time.sleep(0.5)
        # Nobody reads the process's stderr, which a chattering agent fills.
        server.process.send_signal(number)
        began = time.monotonic()
        server.process.wait(GRACE + 20)
        assert time.monotonic() - began < GRACE + 5
    with opened(tmp_path) as server:
        found = listed(server)
        assert [task.status.state for task in found] == [FAILED] * tasks
        reasons = {task.status.message.metadata["reason"] for task in found}
        assert reasons == {"SERVER_INTERRUPTED" if skill == "block" else "SERVER_STOPPED"}


@pytest.mark.long
@pytest.mark.req("DURA-08")
def test_a_second_signal_ends_a_blocked_process_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        at_work(server, "block", 1)
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(2) == 128 + signal.SIGTERM


@pytest.mark.req("SEND-12", "EXEC-04")
@pytest.mark.parametrize("skill", ["later", "exits"])
def test_an_agent_cannot_end_the_server(tmp_path: Path, skill: str) -> None:
    with opened(tmp_path) as server:
        for _ in range(3):
            task = stub_of(server).SendMessage(say(skill=skill), timeout=10).task
            assert (task.status.state, task.status.message.metadata["reason"]) == (FAILED, "AGENT_FAILED")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
