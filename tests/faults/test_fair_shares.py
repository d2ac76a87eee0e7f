"""One caller who takes all there is, beside another one: a whole server, its settings and its doors (spec: LIMT-02)."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession

from a2a_server.agents import Agent, Turn
from a2a_server.serve import running
from a2a_server.settings import Settings
from tests.faults.test_push_neighbours import dead_hosts
from tests.support.callers import bearer
from tests.support.house import demo_agent
from tests.support.receivers import receiver

HOSTS = 400
"""As many unreachable hosts as held up another caller's webhooks for two minutes, before owners shared."""
ANN, BOB = bearer("ann"), bearer("bob")


@asynccontextmanager
async def open_server(agent: Any, **chosen: Any) -> AsyncIterator[tuple[ClientSession, str]]:
    tokens = [{"owner": name, "hash": f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"} for name in ("ann", "bob")]
    at: dict[str, Any] = {"store": "memory:", "grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "auth": {"tokens": tokens}}
    async with running(Settings(**at, **chosen), agent) as server, ClientSession() as session:
        yield session, f"http://{server.http}"


async def send(
    session: ClientSession, base: str, who: Mapping[str, str], *, hook: str = "", wait: bool = True
) -> tuple[int, str]:
    """Send a message; returns the status of the answer and the state of the task."""
    configuration: dict[str, Any] = {"returnImmediately": not wait}
    if hook:
        configuration["taskPushNotificationConfig"] = {"url": hook}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    body = {"message": message, "configuration": configuration}
    async with session.post(f"{base}/message:send", json=body, headers=who) as answer:
        told = await answer.json(content_type=None)
        return answer.status, told["task"]["status"]["state"] if answer.status == 200 else ""


@pytest.mark.req("LIMT-02")
async def test_a_webhook_leaves_before_any_of_400_unreachable_hosts_has_given_up() -> None:
    push = {"allow_loopback": True, "https_only": False}
    with dead_hosts(HOSTS) as dead:
        async with receiver() as client, open_server(demo_agent, push=push) as (session, base):
            told = await asyncio.gather(*(send(session, base, ANN, hook=url) for url in dead))
            assert [status for status, _ in told] == [200] * HOSTS
            for _ in range(5):
                before, began = len(client.received), time.monotonic()
                await send(session, base, BOB, hook=client.url)
                while len(client.received) == before:
                    await asyncio.sleep(0.01)
                    assert time.monotonic() - began < 10.0  # an attempt may take 15 seconds
                await asyncio.sleep(0.3)


@pytest.mark.req("LIMT-02")
@pytest.mark.parametrize("each", [2, 4], ids=["slots are left", "no slot is left"])
async def test_a_send_gets_its_turn_beside_one_who_fills_the_queue(each: int) -> None:
    agent, gates, begun = Agent(name="Slow", description="Slow.", version="1"), asyncio.Semaphore(0), Counter[str]()

    @agent.skill(id="slow", description="Slow.", tags=["slow"])
    async def slow(turn: Turn) -> str:
        owner = turn.caller.owner
        begun[owner] += 1
        if owner == "ann":
            await gates.acquire()
        return "done"

    limits = {"running_turns": 4, "running_turns_per_caller": each, "waiting_turns": 100, "drain_grace": 0.1}
    async with open_server(agent, limits=limits) as (session, base):
        told = await asyncio.gather(*(send(session, base, ANN, wait=False) for _ in range(150)))
        refused = sum(status == 429 for status, _ in told)
        assert 0 < refused <= 50
        bobs = asyncio.ensure_future(send(session, base, BOB))
        if each == 4:
            await asyncio.sleep(0.05)
            assert begun["bob"] == 0
            for _ in range(2):  # two of hers end: owners take turns, though a hundred of hers have waited for longer
                gates.release()
        async with asyncio.timeout(30):
            assert await bobs == (200, "TASK_STATE_COMPLETED")
        assert begun["ann"] <= each + 2
