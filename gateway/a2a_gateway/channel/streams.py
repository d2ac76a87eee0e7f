"""A streaming call over a channel (spec: STRM, RPLY-05)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Self

import grpc

from a2a_gateway.channel.attempt import Attempt, Wanted
from a2a_gateway.channel.endings import Batches, Endings
from a2a_gateway.channel.pauses import is_read, pauses
from a2a_gateway.channel.refusals import pairs, refusal_of
from a2a_gateway.channel.replay import Item, Numbers
from a2a_gateway.upstream import MetadataPairs
from a2a_server.protocol.errors import A2AError

HEADSTART = 0.25
"""How many seconds an upstream has to refuse a cursor after all, before the stream counts as begun."""

Cut = Callable[[A2AError], Awaitable[None]]


class ChannelStream:
    """The items of a call, for as long as somebody reads them."""

    def __init__(  # noqa: PLR0913 - all that a stream is made of
        self,
        attempt: Callable[[], Attempt],
        wanted: Wanted,
        numbers: Numbers,
        streams: set[ChannelStream],
        *,
        attempts: int,
        endings: Endings | None = None,
    ) -> None:
        """With `endings` the last batch is known as such."""
        self._new_attempt = attempt
        self._wanted = wanted
        self._numbers = numbers
        self._streams = streams
        self._attempts = attempts
        self._endings = endings
        self._attempt: Attempt | None = None
        self._batches: Batches | None = None
        self.cut: Cut | None = None
        self.ended = asyncio.Event()
        self.metadata: MetadataPairs = ()

    def on_cut(self, cut: Cut) -> None:
        """Say how the reader is told that this gateway stops; an upstream that stops tells by itself."""
        self.cut = cut

    def on_ready(self, take: Callable[[Sequence[Item]], bool]) -> None:
        """Make no use of it: gRPC wakes its reader anyway."""

    @property
    def items(self) -> AsyncIterator[Sequence[Item]]:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[Item]:
        """No generator, which would hold on to what it has yielded."""
        if self.ended.is_set():
            raise StopAsyncIteration
        try:
            batch = await (self._begin() if self._batches is None else self._batches.next())
        except grpc.aio.AioRpcError as error:
            if self._attempt is not None:
                self._attempt.failed(error)
            await self.aclose()
            raise refusal_of(error, self._wanted.timeout, self._numbers.answered) from None
        except BaseException:
            await self.aclose()
            raise
        if batch is None:
            await self.aclose()
            raise StopAsyncIteration
        return batch

    async def _begin(self) -> Sequence[Item] | None:
        """The first batch. Until it is there, a call that changes nothing may be made again."""
        self._streams.add(self)
        for pause in pauses(self._attempts):
            self._attempt = attempt = self._new_attempt()
            try:
                return await self._first(attempt)
            except grpc.aio.AioRpcError as error:
                if not (pause and self._may_help(error, attempt, pause)):
                    raise
                attempt.failed(error)
                attempt.close()
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _first(self, attempt: Attempt) -> Sequence[Item] | None:
        call, numbers = await attempt.begin(self._wanted), self._numbers
        self.metadata = numbers.answered(pairs(await call.initial_metadata()))
        batches = Batches(call, numbers.read, self._endings)
        try:
            # With a cursor the first item may take its time, though the stream is accepted.
            resumes = numbers.active and numbers.cursors
            first = await (batches.soon(HEADSTART) if resumes else batches.next())
            numbers.check()
        except BaseException:
            batches.close()
            raise
        attempt.answered()
        self._batches = batches
        return first

    def _may_help(self, error: grpc.aio.AioRpcError, attempt: Attempt, pause: float) -> bool:
        """Whether to try again: what changes nothing, and what the upstream cannot have got."""
        wanted = self._wanted
        if error.code() is not grpc.StatusCode.UNAVAILABLE or (attempt.sent and not is_read(wanted.method)):
            return False
        return wanted.left is None or wanted.left > pause

    async def aclose(self) -> None:
        if self._attempt is not None:
            self._attempt.close()
        if self._batches is not None:
            self._batches.close()
        self._streams.discard(self)
        self.ended.set()
