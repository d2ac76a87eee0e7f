"""A streaming call over a channel (spec: STRM, RPLY-05)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc

from a2a_server.errors import A2AError
from gateway.channel.presence import Presence
from gateway.channel.refusals import pairs, refusal_of
from gateway.channel.replay import Item, Numbers
from gateway.upstream import Metadata

Cut = Callable[[A2AError], Awaitable[None]]


class ChannelStream:
    """Items one by one: gRPC hands over each by itself, so there is never a second one to put beside it."""

    def __init__(
        self,
        begin: Callable[[], tuple[Any, Presence]],
        seconds: float | None,
        numbers: Numbers,
        streams: set[ChannelStream],
        *,
        batch: Callable[[Item], Sequence[Item]],
    ) -> None:
        self._begin = begin
        self._numbers = numbers
        self._batch = batch
        self._seconds = seconds
        self._streams = streams
        self.cut: Cut | None = None
        self.ended = asyncio.Event()
        self.metadata: Metadata = ()
        self.items: AsyncIterator[Sequence[Item]] = self._read()

    def on_cut(self, cut: Cut) -> None:
        """Say how the reader is told that this gateway stops; an upstream that stops tells by itself."""
        self.cut = cut

    def on_ready(self, take: Callable[[Sequence[Item]], bool]) -> None:
        """Make no use of it: gRPC wakes its reader anyway."""

    async def _read(self) -> AsyncIterator[Sequence[Item]]:
        self._streams.add(self)
        (call, presence), numbers = self._begin(), self._numbers
        try:
            self.metadata = numbers.answered(pairs(await call.initial_metadata()))
            if numbers.active:
                yield ()  # it has been accepted, and with a cursor the first item may take its time
            async for wire in call:
                presence.answered()
                yield self._batch(numbers.read(wire))
        except grpc.aio.AioRpcError as error:
            presence.failed(error)
            raise refusal_of(error, self._seconds) from None
        finally:
            call.cancel()  # does nothing to a call that is over
            self._streams.discard(self)
            self.ended.set()
