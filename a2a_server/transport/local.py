"""The pipeline as the gateway's upstream in this process: no socket, no second encoding (spec: DOOR-02, DOOR-07)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_server.operations.call import Sink
from a2a_server.ports.authenticator import Credentials
from a2a_server.ports.store import Store, StoreUnavailable
from a2a_server.protocol.errors import A2AError
from a2a_server.transport.open_streams import Waiting, deadline_of, in_time, limited
from a2a_server.transport.pipeline import Pipeline, Stream, UnaryReply

PATIENCE = 1.0
"""How many seconds the store has for a sign of life."""

FRESH = 0.5
"""How many seconds an answer of the store counts, however many ask."""


class LocalUpstream:
    """Calls operations through the pipeline."""

    def __init__(self, pipeline: Pipeline, store: Store) -> None:
        self._pipeline = pipeline
        self._store = store
        self._reachable = False
        self._asked = float("-inf")
        self._cohorts = Cohorts()

    async def identify(self, context: Waiting) -> str:
        """Refuse a caller whose credentials are not valid, and return who it is."""
        work = self._pipeline.identify("", _credentials(context))
        return await in_time(work, deadline_of(context), context)

    async def unary(self, method: MethodDescriptor, request: Message, context: Waiting) -> UnaryReply:
        """Call; work on a task goes on when the deadline passes (GEN-07)."""
        credentials = _credentials(context)
        await self._cohorts.begins()
        work = self._pipeline.unary(method.name, request, credentials, rest=context.rest)
        reply = await (work if context.timeout is None else in_time(work, deadline_of(context), context))
        await asyncio.sleep(0)  # the rest of the cohort comes so far before the first of them is written
        return reply

    async def stream(self, method: MethodDescriptor, request: Message, context: Waiting) -> LocalStream:
        deadline = deadline_of(context)
        credentials = _credentials(context)
        opening = self._pipeline.stream(method.name, request, credentials, shows_numbers=True, rest=context.rest)
        return LocalStream(await in_time(opening, deadline, context), deadline, context)

    async def ready(self) -> bool:
        """Whether the server is not about to stop, and its store answers."""
        if self._pipeline.leaving:
            return False
        if time.monotonic() - self._asked >= FRESH:
            self._reachable = await self._probe()
            self._asked = time.monotonic()
        return self._reachable

    async def _probe(self) -> bool:
        try:
            await asyncio.wait_for(self._store.ping(), PATIENCE)
        except (StoreUnavailable, TimeoutError):
            return False
        return True


def _credentials(context: Waiting) -> Credentials:
    return Credentials(context.metadata, context.certificate, context.peer, context.via, door=context.door)


class Cohorts:
    """Lets calls that arrive at about the same time go through each stage of their work together.

    A processor is faster at what it did a moment ago. Whoever comes while others are under way waits for a few turns of
    the loop, in which the processor would be busy anyway (docs/decisions.md has what that gains).
    """

    _TURNS: Final = 6  # of the loop: what most calls need from here to their answer

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._under_way = False

    def begins(self) -> asyncio.Future[None]:
        """Done when the next cohort begins."""
        loop = asyncio.get_running_loop()
        self._waiting.append(waiter := loop.create_future())
        if not self._under_way:
            self._under_way = True
            loop.call_soon(self._turn, 0)
        return waiter

    def _turn(self, left: int) -> None:
        loop = asyncio.get_running_loop()
        if left:
            loop.call_soon(self._turn, left - 1)
            return
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._under_way = bool(waiting)
        if waiting:
            loop.call_soon(self._turn, self._TURNS)


class LocalStream:
    """Batches of log entries as the operation gives them."""

    __slots__ = ("_stream", "items", "metadata")

    def __init__(self, stream: Stream, deadline: float | None, context: Waiting) -> None:
        self._stream = stream
        self.metadata = stream.metadata
        self.items = stream.items if deadline is None else limited(stream.items, deadline, context)

    def on_cut(self, cut: Callable[[A2AError], Awaitable[None]]) -> None:
        """Say how the reader is told that its stream ends from here: it reads too slowly, or the server stops."""
        self._stream.place.cut = cut

    def on_ready(self, take: Sink) -> None:
        """Offer items to `take` while somebody waits for them."""
        self._stream.items.deliver_to(take)
