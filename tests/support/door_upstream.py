"""An upstream that says what a test has written down, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_gateway.upstream import Answer, CallContext, MetadataPairs, UpstreamAnswer
from a2a_proto import a2a_pb2 as pb
from tests.support.house import A2AError


class Event(NamedTuple):
    """One item of a stream."""

    number: int
    wire: bytes


def event(number: int, text: str = "") -> Event:
    artifact = pb.Artifact(artifact_id="a", parts=[pb.Part(text=text or str(number))])
    update = pb.TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact)
    return Event(number, pb.StreamResponse(artifact_update=update).SerializeToString())


Script = Callable[["Playing"], AsyncIterator[Sequence[Event]]]


class Playing:
    """An open stream."""

    metadata: MetadataPairs = ()

    def __init__(self, script: Script) -> None:
        self.closed = asyncio.Event()
        self.take: Callable[[Sequence[Event]], bool] | None = None
        self.cut: Callable[[A2AError], Awaitable[None]] | None = None
        self.items = self._items(script)

    async def _items(self, script: Script) -> AsyncIterator[Sequence[Event]]:
        try:
            async for batch in script(self):
                yield batch
        finally:
            self.closed.set()

    def on_ready(self, take: Callable[[Sequence[Event]], bool]) -> None:
        self.take = take

    def on_cut(self, cut: Callable[[A2AError], Awaitable[None]]) -> None:
        self.cut = cut


class Scripted:
    """Answers every unary call alike, and every stream by the script."""

    def __init__(self, answer: Message | Exception | None = None, script: Script | None = None) -> None:
        self.answer = answer if answer is not None else pb.Task(id="t")
        self.script = script
        self.asked: list[tuple[str, Message, CallContext]] = []
        self.streams: list[Playing] = []

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        self.asked.append((method.name, request, context))
        if isinstance(self.answer, Exception):
            raise self.answer
        return Answer(self.answer)

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> Playing:
        self.asked.append((method.name, request, context))
        assert self.script is not None
        self.streams.append(Playing(self.script))
        return self.streams[-1]

    async def identify(self, context: CallContext) -> str:
        """Everybody may call."""
        return ""

    async def ready(self) -> bool:
        return True


def plays(*batches: Sequence[Event] | Exception) -> Script:
    """Say all of this, one after another."""

    async def script(playing: Playing) -> AsyncIterator[Sequence[Event]]:
        for batch in batches:
            await asyncio.sleep(0)
            if isinstance(batch, Exception):
                raise batch
            yield batch

    return script
