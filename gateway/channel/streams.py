"""A streaming call over a channel (spec: STRM, RPLY-05)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import grpc

from a2a_server.errors import A2AError
from gateway.channel.endings import Endings, one_by_one, with_ending
from gateway.channel.presence import Presence
from gateway.channel.refusals import pairs, refusal_of
from gateway.channel.replay import Item, Numbers
from gateway.upstream import Metadata

Cut = Callable[[A2AError], Awaitable[None]]


class ChannelStream:
    """The items of a call, for as long as somebody reads them."""

    def __init__(
        self,
        begin: Callable[[], tuple[Any, Presence]],
        seconds: float | None,
        numbers: Numbers,
        streams: set[ChannelStream],
        *,
        endings: Endings | None = None,
    ) -> None:
        """With `endings` the last batch is known as such."""
        self._begin = begin
        self._numbers = numbers
        self._endings = endings
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
            endings = self._endings
            batches = with_ending(call, numbers.read, endings) if endings else one_by_one(call, numbers.read)
            async with aclosing(batches):
                async for batch in batches:
                    presence.answered()
                    yield batch
        except grpc.aio.AioRpcError as error:
            presence.failed(error)
            raise refusal_of(error, self._seconds) from None
        finally:
            call.cancel()  # does nothing to a call that is over
            self._streams.discard(self)
            self.ended.set()
