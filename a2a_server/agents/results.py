"""What a skill yields, as events (spec: EXEC-03, EXEC-05, GEN-08)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.feed import Feed
from a2a_server.agents.parts import Chunk
from a2a_server.agents.turn import EVENTS, Event, Turn

Yield: TypeAlias = Chunk | pb.Artifact | Event | pb.Message

_WHOLE = (*EVENTS, pb.Message, pb.Artifact)


async def relay(turn: Turn, feed: Feed, items: AsyncGenerator[Yield]) -> None:
    """Stream the yielded values into one artifact; events, messages and whole artifacts are passed on in between."""
    async with aclosing(items), turn.artifact() as out:
        async for item in items:
            if isinstance(item, _WHOLE):
                turn._deliver(item)  # noqa: SLF001 - authors yield instead
                await feed.room()
            elif item is not None:
                await out.write(item)
