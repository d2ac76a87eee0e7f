"""An agent's lifespan in a whole server: before the doors open, and after the last turn (spec: AGNT-07, DURA-08)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.agents import Agent, Turn
from a2a_server.serve import running
from a2a_server.serve.lifespan import LifespanFailed
from a2a_server.settings import Settings
from tests.support.world import say

NOW = {"return_immediately": True}


def settings(store: str = "memory:", **limits: Any) -> Settings:
    limits = {"drain_grace": 5.0, **limits}
    return Settings(grpc="127.0.0.1:0", http="", store=store, limits=limits)


class Life:
    """An agent that notes in which order things happen."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.started = asyncio.Event()
        self.numbers = itertools.count(1)
        self.agent = Agent("Life", "Lives.", "1.0.0", lifespan=self.lifespan)
        self.agent.skill(id="note", tags=["test"], restartable=True)(self.note)

    async def lifespan(self) -> AsyncIterator[int]:
        self.noted.append("open")
        async with asyncio.timeout(60):  # it must be left in the asyncio task that entered it
            yield next(self.numbers)
        self.noted.append("close")

    async def note(self, turn: Turn[int]) -> str:
        if turn.text == "slow":
            await turn.status("Wait …")
            self.started.set()
            await asyncio.sleep(0.2)
        if turn.text == "never" and not turn.rerun:
            await turn.status("Wait …")
            self.started.set()
            await asyncio.Event().wait()
        self.noted.append(f"turn with {turn.resources}")
        return str(turn.resources)


async def send(address: object, text: str, **configuration: bool) -> pb.Task:
    async with grpc.aio.insecure_channel(str(address)) as channel:
        stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)
        answer = await stub.SendMessage(say(text, configuration=configuration))
    task: pb.Task = answer.task
    return task


@pytest.mark.req("AGNT-07")
async def test_it_is_open_from_before_the_first_turn_until_after_the_last() -> None:
    life = Life()
    async with running(settings(), life.agent) as server:
        assert life.noted == ["open"]
        assert (await send(server.grpc, "quick")).artifacts[0].parts[0].text == "1"
        await send(server.grpc, "slow", **NOW)
        await life.started.wait()
    assert life.noted == ["open", "turn with 1", "turn with 1", "close"]


@pytest.mark.req("AGNT-07", "DURA-02")
async def test_turns_that_run_again_have_it(tmp_path: Path) -> None:
    life, kept = Life(), settings(f"sqlite:///{tmp_path / 'a2a.db'}", drain_grace=0.1)
    async with running(kept, life.agent) as server:
        await send(server.grpc, "never", **NOW)
        await life.started.wait()
    async with running(kept, life.agent) as server, asyncio.timeout(30):
        while len(life.noted) < 4:  # noqa: ASYNC110 - the turn is nobody's to wait for
            await asyncio.sleep(0.005)
    assert life.noted == ["open", "close", "open", "turn with 2", "close"]


@pytest.mark.req("AGNT-07", "AGNT-10")
async def test_two_servers_with_one_agent_have_two() -> None:
    life = Life()
    async with running(settings(), life.agent) as one, running(settings(), life.agent) as two:
        told = [(await send(server.grpc, "quick")).artifacts[0].parts[0].text for server in (one, two, one)]
    assert told == ["1", "2", "1"]


@pytest.mark.req("AGNT-07")
async def test_one_that_fails_stops_the_start() -> None:
    async def broken() -> AsyncIterator[None]:
        raise ConnectionRefusedError("no database")
        yield

    agent = Agent("Broken", "Fails.", "1.0.0", lifespan=broken)
    agent.skill(id="x", tags=["test"])(Life().note)
    with pytest.raises(LifespanFailed) as failed:
        async with running(settings(), agent):
            raise AssertionError("it started")
    assert repr(failed.value.__cause__) == "ConnectionRefusedError('no database')"


@pytest.mark.req("AGNT-07", "DURA-08")
async def test_one_that_fails_while_closing_is_logged() -> None:
    async def torn() -> AsyncIterator[None]:
        yield
        raise RuntimeError("torn")

    agent = Agent("Torn", "Fails.", "1.0.0", lifespan=torn)
    agent.skill(id="x", tags=["test"])(Life().note)
    with capture_logs() as logs:
        async with running(settings(), agent) as server:
            await send(server.grpc, "quick")
    assert [entry["log_level"] for entry in logs if entry["event"] == "agent.closing_failed"] == ["error"]


@pytest.mark.req("AGNT-07", "DURA-08")
@pytest.mark.parametrize("stubborn", [False, True])
async def test_one_that_hangs_while_closing_is_left(*, stubborn: bool) -> None:
    async def hangs() -> AsyncIterator[None]:
        yield
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if not stubborn:
                    raise
                stubborn_ones.append(asyncio.current_task())
                await asyncio.sleep(1)
                return

    stubborn_ones: list[Any] = []
    agent = Agent("Hangs", "Hangs.", "1.0.0", lifespan=hangs)
    agent.skill(id="x", tags=["test"])(Life().note)
    with capture_logs() as logs:
        async with asyncio.timeout(30):
            async with running(settings(drain_grace=0.1), agent):
                pass
    assert [entry["seconds"] for entry in logs if entry["event"] == "agent.closing_gave_up"] == [0.5]
    await asyncio.gather(*stubborn_ones)


@pytest.mark.req("AGNT-07")
async def test_a_start_that_waits_says_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_server.serve.lifespan._REMINDER", 0.01)
    ready = asyncio.Event()

    async def slow() -> AsyncIterator[None]:
        await ready.wait()
        yield

    agent = Agent("Slow", "Waits.", "1.0.0", lifespan=slow)
    agent.skill(id="x", tags=["test"])(Life().note)
    with capture_logs() as logs:
        opening = running(settings(), agent)
        entering = asyncio.ensure_future(opening.__aenter__())
        async with asyncio.timeout(30):
            while not logs:  # noqa: ASYNC110 - nobody else tells
                await asyncio.sleep(0.005)
        assert (logs[0]["event"], logs[0]["waits_for"]) == ("agent.opening", "the agent's lifespan")
        ready.set()
        await entering
        await opening.__aexit__(None, None, None)


@pytest.mark.req("AGNT-07")
async def test_a_start_that_is_given_up_closes_what_was_half_open() -> None:
    noted: list[str] = []

    async def half() -> AsyncIterator[None]:
        try:
            await asyncio.Event().wait()
            yield
        finally:
            noted.append("closed")

    agent = Agent("Half", "Waits.", "1.0.0", lifespan=half)
    agent.skill(id="x", tags=["test"])(Life().note)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), running(settings(), agent):
            raise AssertionError("it started")
    assert noted == ["closed"]
