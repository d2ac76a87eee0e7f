"""Streams leave nothing behind in memory, counted in objects: resident memory also settles (spec: STRM-04).

What is kept on purpose is full after the first calls: encoded events (32 MiB per version) and the pages of SQLite.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from a2a_server.agents import Agent, Turn
from tests.support.doors import Door
from tests.support.house import SqliteStore
from tests.support.world import World, say, serving

WARM, CALLS = 1_500, 2_000
ROUNDS = 3
FEW = CALLS // 4
"""An object that stays behind with every call is four times as many, in every round."""

TEXT = "x" * 20_000  # so that few calls fill what keeps encoded events
BODY = b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]},"metadata":{"skill":"%s"}}'

agent = Agent(name="Talker", description="Talks.", version="1.0.0")


@agent.skill(id="tell", tags=["test"])
async def tell(turn: Turn) -> AsyncIterator[str]:
    yield TEXT


@agent.skill(id="linger", tags=["test"])
async def linger(turn: Turn) -> AsyncIterator[str]:
    """Goes on after its client has left."""
    yield TEXT
    await asyncio.sleep(0.02)
    yield "the end"


def request(skill: bytes) -> bytes:
    body = BODY % skill
    head = b"POST /message:stream HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def read_to_the_end(world: World, calls: int) -> None:
    assert world.http is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", world.http.port)
    for _ in range(calls):
        writer.write(request(b"tell"))
        await reader.readuntil(b"TASK_STATE_COMPLETED")
        await reader.readuntil(b"\r\n0\r\n\r\n")
    writer.close()


async def leave_early(world: World, calls: int) -> None:
    assert world.http is not None
    for _ in range(calls):
        reader, writer = await asyncio.open_connection("127.0.0.1", world.http.port)
        writer.write(request(b"linger"))
        await reader.readuntil(b"artifactUpdate")
        writer.transport.abort()


async def read_over_grpc(world: World, calls: int) -> None:
    for _ in range(calls):
        items = await world.stream(say(skill="tell"))
        assert items[-1].HasField("status_update")


async def leave_over_grpc(world: World, calls: int) -> None:
    for _ in range(calls):
        stream = world.stub.SendStreamingMessage(say(skill="linger"))
        await stream.read()
        stream.cancel()


async def census(world: World) -> Counter[str]:
    """What there is, after everything that was under way has ended."""
    async with asyncio.timeout(20):
        while world.core.live_turns or world.pipeline.streams.count:  # noqa: ASYNC110 - turns end by themselves
            await asyncio.sleep(0.01)
    for _ in range(3):
        await asyncio.sleep(0.05)
        gc.collect()
    found = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
    return found + Counter({"blocks of memory": sys.getallocatedblocks() // 4})


@pytest.mark.long
@pytest.mark.req("STRM-04")
@pytest.mark.parametrize(
    ("call", "door"),
    [(read_to_the_end, "rest"), (leave_early, "rest"), (read_over_grpc, "grpc"), (leave_over_grpc, "grpc")],
)
async def test_streams_leave_nothing_behind(
    tmp_path: Path, call: Callable[[World, int], Awaitable[None]], door: Door
) -> None:
    async with serving(agent, store=SqliteStore(tmp_path / "a2a.db"), through=door) as world:
        await asyncio.gather(*(call(world, WARM // 10) for _ in range(10)))
        before, grown = await census(world), {"": 0}
        for _ in range(ROUNDS):
            await asyncio.gather(*(call(world, CALLS // 10) for _ in range(10)))
            after = await census(world)
            grown = {name: count for name, count in (after - before).items() if count > FEW}
            if not grown:
                break
            before = after
    assert grown == {}
