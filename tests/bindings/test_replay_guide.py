"""The guide to replay says what is true: its client follows a task over broken connections."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import grpc
import pytest

from a2a_server.ports.agent import Outlet, TurnRequest
from tests.bindings.actors import COMPLETED, Actor, Gate, chunk, status, until
from tests.bindings.numbered import on_the_wire
from tests.support.world import say, serving

GUIDE = Path(__file__).parents[2] / "docs" / "replay.md"


@pytest.mark.req("RPLY-02", "RPLY-05")
@pytest.mark.only_through("grpc", why="the guide's client speaks gRPC")
async def test_the_guide_s_client_misses_nothing() -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    scope: dict[str, Any] = {"__name__": "guide"}
    exec(compile(source, str(GUIDE), "exec"), scope)  # noqa: S102 - our own guide
    gates = [Gate(), Gate()]

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for gate in gates:
            outlet.emit(chunk("x"))
            await outlet.durable()
            await gate.wait()
        outlet.emit(status(COMPLETED))

    async with serving(Actor(act)) as world, grpc.aio.insecure_channel(f"127.0.0.1:{world.port}") as channel:
        task = await world.send(say(configuration={"return_immediately": True}))
        seen: list[Any] = []

        async def follow() -> None:
            async for event in scope["follow"](channel, task.id):
                kind = event.WhichOneof("payload")
                number = int(getattr(event, kind).metadata[scope["REPLAY"]])
                seen.append((number, kind))

        following = asyncio.ensure_future(follow())
        for gate in gates:
            await gate.reached.wait()
            count = len(await on_the_wire(world, task.id))
            await until(lambda expected=count: len(seen) == expected)  # type: ignore[misc]
            world.pipeline.streams.end_all()  # the connection breaks
            gate.open()
        await following
        assert seen == [(number, event.WhichOneof("payload")) for number, event in await on_the_wire(world, task.id)]
