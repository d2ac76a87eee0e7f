"""What a skill returns or yields, as events (spec: EXEC-03, EXEC-05, GEN-08)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

from a2a_server.agents.artifact import Whole
from a2a_server.agents.parts import Chunk
from a2a_server.agents.turn import Event, Turn
from generated import a2a_pb2 as pb

Result: TypeAlias = Whole | Event | pb.Message
Yield: TypeAlias = Chunk | pb.Artifact | Event | pb.Message

_EVENTS = (pb.StreamResponse, pb.TaskStatusUpdateEvent, pb.TaskArtifactUpdateEvent)
_WHOLE = (*_EVENTS, pb.Message, pb.Artifact)


async def deliver(turn: Turn, result: Result) -> None:
    """Make an artifact of a return value. Events and messages are passed on as they are; None is nothing."""
    if isinstance(result, pb.Message):
        await turn.reply(result)
    elif isinstance(result, _EVENTS):
        await turn.emit(result)
    elif result is not None:
        await turn.add_artifact(result)


async def relay(turn: Turn, items: AsyncGenerator[Yield]) -> None:
    """Stream the yielded values into one artifact; events, messages and whole artifacts are passed on in between."""
    async with aclosing(items), turn.artifact() as out:
        async for item in items:
            if isinstance(item, _WHOLE):
                await deliver(turn, item)
            elif item is not None:
                await out.write(item)
