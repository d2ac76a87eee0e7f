"""Reading streams with their numbers, through either upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from a2a_gateway.upstream import CallContext, Upstream, UpstreamStream
from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import AgentPort, Outlet, TurnRequest
from tests.bindings.actors import COMPLETED, Actor, chunk, log_of, status
from tests.support.upstreams import Kind, rpc, upstream_of
from tests.support.world import World, serving

Numbered = list[tuple[int, pb.StreamResponse]]


@asynccontextmanager
async def place(agent: AgentPort, kind: Kind, **options: Any) -> AsyncIterator[tuple[World, Upstream]]:
    async with serving(agent, **options) as world, upstream_of(kind, world) as upstream:
        yield world, upstream


async def subscribe(upstream: Upstream, task_id: str, cursor: object = None, **metadata: str) -> UpstreamStream:
    told = {name.replace("_", "-"): (value,) for name, value in metadata.items()}
    if cursor is not None:
        told["last-event-id"] = cursor if isinstance(cursor, tuple) else (str(cursor),)
    return await upstream.stream(rpc("SubscribeToTask"), pb.SubscribeToTaskRequest(id=task_id), CallContext(told))


async def read(stream: UpstreamStream, seen: Numbered | None = None) -> Numbered:
    """All items with their numbers; into `seen`, so that what came before an error counts."""
    seen = [] if seen is None else seen
    async for batch in stream.items:
        seen += [(item.number, pb.StreamResponse.FromString(item.wire)) for item in batch]
    return seen


def numbers(seen: Numbered) -> list[int]:
    return [number for number, _ in seen]


async def on_the_wire(world: World, task_id: str, after: int = 0) -> Numbered:
    """What a stream that misses nothing shows of the whole log."""
    entries = await log_of(world.core, task_id)
    return [
        (entry.number, entry.event) for entry in entries if entry.number > after and not entry.event.HasField("message")
    ]


def story(chapters: int, ends: pb.TaskState = COMPLETED) -> Actor:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(chapters):
            outlet.emit(chunk(f"{number},", append=number > 0))
            await outlet.room()
        outlet.emit(status(ends))

    return Actor(act)
