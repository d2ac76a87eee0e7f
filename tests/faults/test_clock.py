"""The system's clock a day off, or jumping: nothing is listed twice, repeated, lost, early or never (spec: STAT-04).

libfaketime (Debian: `apt install faketime`) gives the server process a clock that the test sets while it runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import web

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.e2e.processes import ROOT, Running, serving
from tests.support.house import SystemClock
from tests.support.receivers import Received, Receiver, receiver
from tests.support.world import say

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)

AGENT = """
import asyncio

from a2a_server.agents import Agent, Turn

agent = Agent(name="Clockwork", description="Works whatever the clock says.", version="1.0.0")


@agent.skill(id="echo", tags=["test"])
async def echo(turn: Turn) -> str:
    return turn.text


@agent.skill(id="ask", tags=["test"])
async def ask(turn: Turn) -> str | None:
    if turn.number == 1:
        await turn.ask("And then?")
        return None
    return turn.text


@agent.skill(id="tell", tags=["test"])
async def tell(turn: Turn):
    for number in range(30):
        yield f"{number};"
        await asyncio.sleep(0.05)
"""
SLEEP = """
import select
import time

time.sleep = lambda seconds: select.select([], [], [], seconds)  # libfaketime 0.9.10 now and then calls a sleep invalid
"""
JUMPS = ("+1d", "-1d", "+0", "-1d", "+1d", "+0")


@dataclass
class House:
    """A server process whose clock is in a file."""

    server: Running
    stub: Any
    clock: Path

    def shift(self, by: str) -> None:
        """Set the clock so far from the right time, in one step: the server reads the file all the time."""
        new = self.clock.with_name("new")
        new.write_text(by)
        new.replace(self.clock)

    async def send(self, key: str = "", **members: Any) -> pb.Task:
        """A send that is idempotent if there is a key."""
        metadata = (("idempotency-key", key),) if key else ()
        task: pb.Task = (
            await self.stub.SendMessage(say(members.pop("text", "hello"), **members), metadata=metadata)
        ).task
        return task

    async def page(self, token: str = "", size: int = 1) -> tuple[list[str], str]:
        page = await self.stub.ListTasks(pb.ListTasksRequest(page_size=size, page_token=token))
        return [task.id for task in page.tasks], page.next_page_token

    async def walk(self, size: int) -> list[str]:
        ids, token = await self.page("", size)
        while token:
            more, token = await self.page(token, size)
            ids += more
        return ids

    async def ask(self, url: str) -> pb.Task:
        """A task that waits for input, with a webhook."""
        config = pb.TaskPushNotificationConfig(url=url)
        return await self.send(skill="ask", configuration={"task_push_notification_config": config})

    async def told(self, receiver: Receiver, state: str = "") -> None:
        async with asyncio.timeout(20):
            while not any(state.encode() in received.body for received in receiver.received):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def finish(self, tasks: Sequence[pb.Task], *receivers: Receiver) -> None:
        """Answer the questions; the receivers hear of it."""
        for task in tasks:
            await self.send(text="then", task_id=task.id)
        for each in receivers:
            await self.told(each, "COMPLETED")

    async def becomes(self, task_id: str, state: int) -> None:
        async with asyncio.timeout(20):
            while (await self.stub.GetTask(pb.GetTaskRequest(id=task_id))).status.state != state:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@asynccontextmanager
async def house(folder: Path, shift: str = "+0", **variables: str) -> AsyncIterator[House]:
    if LIBRARY is None:
        pytest.skip("libfaketime is not installed (Debian: apt install faketime)")
    (folder / "clockwork.py").write_text(AGENT)
    (folder / "sitecustomize.py").write_text(SLEEP)
    clock = folder / "clock"
    clock.write_text(shift)
    faked = {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        "PYTHONPATH": f"{folder}:{ROOT}",
    }
    options = "clockwork.py", "--store", "sqlite:///a2a.db", "--log-level", "error"
    with serving(*options, cwd=folder, **faked, **variables) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield House(server, a2a_pb2_grpc.A2AServiceStub(channel), clock)


def test_the_steady_clock_cannot_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    begun = clock.steady_ms()
    assert abs(begun - clock.now_ms()) < 10_000
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.now_ms() == 0
    assert 0 <= clock.steady_ms() - begun < 60_000


@pytest.mark.req("LIST-05", "LIST-06", "ONCE-01", "STAT-04")
async def test_lists_and_keys_do_not_care(tmp_path: Path) -> None:
    """A walk in single pages meets every task once that was there at its beginning, with jumps between the pages."""
    told: dict[str, str] = {}
    async with house(tmp_path) as home:
        for number in range(len(JUMPS)):
            home.shift(JUMPS[number])
            told[f"k{number}"] = (await home.send(f"k{number}")).id
        before, token, seen = set(told.values()), "", list[str]()
        for number, shift in enumerate(JUMPS):
            home.shift(shift)
            ids, token = await home.page(token)
            seen += ids
            told[f"l{number}"] = (await home.send(f"l{number}")).id
            for key, task_id in told.items():
                assert (await home.send(key)).id == task_id
            assert sorted(await home.walk(2)) == sorted(told.values())
        while token:
            ids, token = await home.page(token)
            seen += ids
        assert len(seen) == len(set(seen))
        assert before <= set(seen)
    for shift in ("-1d", "+0"):
        async with house(tmp_path, shift) as home:
            assert sorted(await home.walk(2)) == sorted(told.values())
            for key, task_id in told.items():
                assert (await home.send(key)).id == task_id


@pytest.mark.req("STAT-04", "STRM-01")
async def test_a_stream_runs_through_jumps(tmp_path: Path) -> None:
    """A turn may take a minute, which no jump of a day uses up; and the times of its statuses never go back."""
    async with house(tmp_path, A2A_LIMITS__TURN_TIMEOUT="60") as home:
        text, stamps, jumps = "", list[int](), list(JUMPS)
        async for item in home.stub.SendStreamingMessage(say(skill="tell")):
            if item.HasField("artifact_update"):
                text += "".join(part.text for part in item.artifact_update.artifact.parts)
                if jumps:
                    home.shift(jumps.pop())
            elif item.HasField("status_update"):
                stamps.append(item.status_update.status.timestamp.ToMilliseconds())
        assert text == "".join(f"{number};" for number in range(30))
        assert not jumps
        assert stamps == sorted(stamps)
        assert item.status_update.status.state == pb.TASK_STATE_COMPLETED


@pytest.mark.long
@pytest.mark.req("TIMO-01")
async def test_a_question_is_not_given_up_early_and_not_kept_for_ever(tmp_path: Path) -> None:
    async with house(tmp_path, A2A_LIMITS__INPUT_TIMEOUT="10") as home:
        early = await home.send(skill="ask")
        for shift in ("+1d", "-1d"):
            home.shift(shift)
            asked = await home.send(skill="ask")
            await asyncio.sleep(2.5)  # two sweeps
            for task in (early, asked):
                found = await home.stub.GetTask(pb.GetTaskRequest(id=task.id))
                assert found.status.state == pb.TASK_STATE_INPUT_REQUIRED, shift
        await home.becomes(asked.id, pb.TASK_STATE_FAILED)
        home.shift("+0")
        await home.becomes(early.id, pb.TASK_STATE_FAILED)


@pytest.mark.req("PAID-01", "PAID-02", "DELV-01")
@pytest.mark.parametrize("shift", ["-1d", "+1d"])
@pytest.mark.parametrize("again", [False, True], ids=["running", "restarted"])
async def test_webhooks_are_neither_late_nor_given_up(tmp_path: Path, shift: str, *, again: bool) -> None:
    """Neither those of a config that was served before the jump, nor those that wait for their next attempt."""
    variables = {"A2A_PUSH__ALLOW_LOOPBACK": "true", "A2A_PUSH__RETRY_FIRST": "0.5"}
    failing = True

    async def answer(_: Received) -> web.StreamResponse:
        return web.Response(status=500 if failing else 204)

    async with receiver() as good, receiver(answer) as bad:
        async with house(tmp_path, **variables) as home:
            tasks = [await home.ask(hook.url) for hook in (good, bad)]
            await home.told(good, "INPUT_REQUIRED")
            await home.told(bad)
            if not again:
                home.shift(shift)
                bad.received.clear()
                await home.told(bad)  # one more attempt has failed
                failing = False
                await home.finish(tasks, good, bad)
                return
        failing = False
        async with house(tmp_path, shift, **variables) as home:
            await home.finish(tasks, good, bad)
