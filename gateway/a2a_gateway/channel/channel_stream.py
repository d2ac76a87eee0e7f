"""A streaming call over a channel: begin it, repeat it while that is safe, read its items (spec: STRM, RPLY-05)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import grpc
from google.protobuf.descriptor import MethodDescriptor
from grpc import ChannelConnectivity as State

from a2a_gateway.channel.call_failures import Reachability, away, pairs, pauses, refusal_of
from a2a_gateway.channel.endings import BatchReader, EndCheck
from a2a_gateway.channel.endpoints import ChannelConnection, Endpoint, Endpoints
from a2a_gateway.channel.event_numbers import EventNumbers, NumberedItem
from a2a_gateway.upstream import MetadataPairs, is_read
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import ChannelOptions

QUEUE = 1.0
"""A connection that has not accepted a call for this many seconds counts as full."""

HEADSTART = 0.25
"""How many seconds an upstream has to refuse a cursor before the stream counts as begun."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What a streaming call asks for."""

    method: MethodDescriptor
    message: bytes
    metadata: MetadataPairs
    timeout: float | None
    """How many seconds the client allows in all."""
    deadline: float | None
    """When they end, by the monotonic clock."""

    @property
    def left(self) -> float | None:
        return None if self.deadline is None else self.deadline - time.monotonic()


@dataclass(slots=True, eq=False)
class StreamAttempt:
    """One attempt to begin a stream, and the room it takes on a connection. Its creator closes it.

    While a connection has as many calls as the server allows, gRPC lets further calls wait silently. It does report
    when the headers of a call have been sent. The request follows them, so before that the call can go elsewhere.
    """

    _endpoints: Endpoints
    _patience: float
    call: Any = None
    sent: bool = False
    """Whether the upstream may have received the request."""
    _connection: ChannelConnection | None = None
    _taken: bool = False
    reachability: Reachability = field(init=False)
    """Of the address that is called."""

    async def begin(self, request: StreamRequest) -> Any:  # noqa: ANN401 - grpc's type wants messages
        """Return the call once the upstream has accepted it."""
        end = time.monotonic() + self._patience
        while not await self._offer(request, end):
            self.close()
        return self.call

    async def _offer(self, request: StreamRequest, end: float) -> bool:
        soon = end if request.deadline is None else min(end, request.deadline)
        endpoint, connection = await self._endpoints.connection("streams", soon - time.monotonic())
        connection.calls += 1
        self._connection, self.reachability = connection, endpoint.reachability
        self.call = connection.streaming(request.method)(timeout=request.left, metadata=request.metadata)
        if not await self._is_taken(endpoint, connection, end):
            return False
        connection.taken += 1
        self._taken = True
        return await self._send(request.message)

    async def _is_taken(self, endpoint: Endpoint, connection: ChannelConnection, end: float) -> bool:
        """Wait until the upstream accepts the call; False = try another connection."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(end - time.monotonic(), 0), QUEUE)):
                    await self.call.wait_for_connection()
                    return True
            connected = connection.state() is State.READY
            if connected and connection.taken:
                endpoint.capacity.learn(connection.taken)
            if time.monotonic() >= end:
                if connected:
                    text = "The agent's server takes no more streams now."
                    raise A2AError(Reason.UNAVAILABLE, text, retry_after=1)
                endpoint.reachability.lost("no connection in time")
                raise away()
            if connected:
                return False

    async def _send(self, message: bytes) -> bool:
        """Send the request; False = the call ended without it and may be repeated.

        A call that has ended for another reason reports that to its reader.
        """
        self.sent = True
        try:
            await self.call.write(message)
        except asyncio.InvalidStateError:
            self.sent = False
        except grpc.aio.AioRpcError:
            # The call has just ended, and gRPC no longer knows why. No full request was sent, so it may be repeated.
            self.sent = False
            return False
        with suppress(grpc.aio.InternalError):  # the same, but the call still knows why
            await self.call.done_writing()
        return True

    def close(self) -> None:
        if self.call is not None:
            self.call.cancel()  # has no effect on a call that has ended
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.calls -= 1
            connection.taken -= self._taken
        self._taken = False


@dataclass(slots=True, eq=False)
class ChannelStream:
    """The items of a streaming call. The call begins when the first item is asked for."""

    _endpoints: Endpoints
    _options: ChannelOptions
    _request: StreamRequest
    _numbers: EventNumbers
    _streams: set[ChannelStream]
    """The open streams, which this one joins when the call begins."""
    _end_check: EndCheck | None
    """Finds the last batch, to mark it as such."""
    metadata: MetadataPairs = ()
    cut: Callable[[A2AError], Awaitable[None]] | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _attempt: StreamAttempt | None = None
    _batches: BatchReader | None = None

    def on_cut(self, cut: Callable[[A2AError], Awaitable[None]]) -> None:
        """Register how to end the stream when this gateway stops. An upstream that stops ends it by itself."""
        self.cut = cut

    def on_ready(self, take: Callable[[Sequence[NumberedItem]], bool]) -> None:
        """Ignore it: gRPC wakes its reader in any case."""

    @property
    def items(self) -> AsyncIterator[Sequence[NumberedItem]]:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[NumberedItem]:
        """Return the next batch. Not a generator: that would keep a reference to its last batch."""
        if self.ended.is_set():
            raise StopAsyncIteration
        try:
            batch = await (self._begin() if self._batches is None else self._batches.next())
        except grpc.aio.AioRpcError as error:
            if self._attempt is not None:
                self._attempt.reachability.failed(error)
            await self.aclose()
            raise refusal_of(error, self._request.timeout, self._numbers.answered) from None
        except BaseException:
            await self.aclose()
            raise
        if batch is None:
            await self.aclose()
            raise StopAsyncIteration
        return batch

    async def _begin(self) -> Sequence[NumberedItem] | None:
        """Return the first batch. Until it has arrived, a call that changes nothing may be repeated."""
        self._streams.add(self)
        for pause in pauses(self._options.attempts):
            self._attempt = attempt = StreamAttempt(self._endpoints, self._options.connect_timeout)
            try:
                return await self._first(attempt)
            except grpc.aio.AioRpcError as error:
                if not (pause and self._may_help(error, attempt, pause)):
                    raise
                attempt.reachability.failed(error)
                attempt.close()
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _first(self, attempt: StreamAttempt) -> Sequence[NumberedItem] | None:
        call, numbers = await attempt.begin(self._request), self._numbers
        self.metadata = numbers.answered(pairs(await call.initial_metadata()))
        batches = BatchReader(call, numbers.read, self._end_check)
        try:
            # With a cursor the first item may arrive late, though the stream has been accepted.
            resumes = numbers.active and numbers.cursors
            first = await (batches.soon(HEADSTART) if resumes else batches.next())
            numbers.check()
        except BaseException:
            batches.close()
            raise
        attempt.reachability.answered()
        self._batches = batches
        return first

    def _may_help(self, error: grpc.aio.AioRpcError, attempt: StreamAttempt, pause: float) -> bool:
        """Whether to repeat the call: if it changes nothing, or if the upstream cannot have received it."""
        request = self._request
        if error.code() is not grpc.StatusCode.UNAVAILABLE or (attempt.sent and not is_read(request.method)):
            return False
        return request.left is None or request.left > pause

    async def aclose(self) -> None:
        if self._attempt is not None:
            self._attempt.close()
        if self._batches is not None:
            self._batches.close()
        self._streams.discard(self)
        self.ended.set()
