"""Makes a streaming call over a channel, repeats it while that is safe, and reads its items (spec: STRM, RPLY-05)."""

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

from a2a_gateway.channel.call_failures import Reachability, client_error, pairs, pauses, unreachable
from a2a_gateway.channel.endings import BatchReader, EndCheck
from a2a_gateway.channel.endpoints import ChannelConnection, Endpoint, Endpoints
from a2a_gateway.channel.event_numbers import EventNumbers, NumberedItem
from a2a_gateway.upstream import MessageStream, MetadataPairs, is_read
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import ChannelOptions

ACCEPT_SECONDS = 1.0
"""A connection that has not accepted a call for this many seconds counts as full."""

REFUSAL_SECONDS = 0.25
"""How many seconds an upstream has to refuse a cursor before the stream counts as begun."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """The request of a streaming call."""

    method: MethodDescriptor
    message: bytes
    metadata: MetadataPairs
    timeout: float | None
    """How many seconds the client allows for the whole call."""
    deadline: float | None
    """When these seconds end, on the monotonic clock."""
    rest: MessageStream | None = None
    """The messages that follow, if the method takes a stream of them."""

    @property
    def left(self) -> float | None:
        return None if self.deadline is None else self.deadline - time.monotonic()


@dataclass(slots=True, eq=False)
class StreamAttempt:
    """One attempt to begin a stream. It counts as a call on its connection until its creator closes it.

    While a connection has as many calls as the server allows, gRPC lets further calls wait silently. But it reports
    when the headers of a call have been sent. Until then the request is not sent, and the call can use another
    connection.
    """

    _endpoints: Endpoints
    _patience: float
    call: Any = None
    sent: bool = False
    """Whether the upstream may have received the request."""
    _connection: ChannelConnection | None = None
    _accepted: bool = False
    reachability: Reachability = field(init=False)
    """The reachability of the address that is called."""

    async def begin(self, request: StreamRequest) -> Any:  # noqa: ANN401 - grpc's type wants messages
        """Return the call once the upstream has accepted it."""
        end = time.monotonic() + self._patience
        while not await self._try_connection(request, end):
            self.close()
        return self.call

    async def _try_connection(self, request: StreamRequest, end: float) -> bool:
        soon = end if request.deadline is None else min(end, request.deadline)
        endpoint, connection = await self._endpoints.connection("streams", soon - time.monotonic())
        connection.calls += 1
        self._connection, self.reachability = connection, endpoint.reachability
        self.call = connection.streaming(request.method)(timeout=request.left, metadata=request.metadata)
        if not await self._is_accepted(endpoint, connection, end):
            return False
        connection.accepted += 1
        self._accepted = True
        return await self._send(request)

    async def _is_accepted(self, endpoint: Endpoint, connection: ChannelConnection, end: float) -> bool:
        """Wait until the upstream accepts the call; False if another connection should be tried."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(end - time.monotonic(), 0), ACCEPT_SECONDS)):
                    await self.call.wait_for_connection()
                    return True
            connected = connection.state() is State.READY
            if connected and connection.accepted:
                endpoint.capacity.learn(connection.accepted)
            if time.monotonic() >= end:
                if connected:
                    text = "The agent's server accepts no more streams now."
                    raise A2AError(Reason.UNAVAILABLE, text, retry_after=1)
                endpoint.reachability.lost("no connection in time")
                raise unreachable()
            if connected:
                return False

    async def _send(self, request: StreamRequest) -> bool:
        """Send the request; False if the call ended before, and may be repeated.

        If the call ended for another reason, its reader gets that error.
        """
        self.sent = True
        try:
            await self.call.write(request.message)
        except asyncio.InvalidStateError:
            self.sent = False
        except grpc.aio.AioRpcError:
            # The call has just ended, and gRPC no longer knows why. No full request was sent, so it may be repeated.
            self.sent = False
            return False
        if request.rest is None:
            with suppress(grpc.aio.InternalError):  # the call has just ended; its reader gets the error
                await self.call.done_writing()
        return True

    def close(self) -> None:
        if self.call is not None:
            self.call.cancel()  # has no effect on a call that has ended
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.calls -= 1
            connection.accepted -= self._accepted
        self._accepted = False


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
    _sending: asyncio.Task[None] | None = None
    """Sends the messages that follow the first one."""
    _fault: A2AError | None = None
    """The error in one of these messages, if there is one."""

    def on_cut(self, cut: Callable[[A2AError], Awaitable[None]]) -> None:
        """Register how to end the stream when this gateway stops. If the upstream stops, it ends the stream itself."""
        self.cut = cut

    def on_ready(self, take: Callable[[Sequence[NumberedItem]], bool]) -> None:
        """Do nothing: gRPC wakes its reader in any case."""

    @property
    def items(self) -> AsyncIterator[Sequence[NumberedItem]]:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[NumberedItem]:
        """Return the next batch. This class is no generator, because a generator keeps a reference to its last item."""
        if self.ended.is_set():
            raise StopAsyncIteration
        try:
            batch = await (self._begin() if self._batches is None else self._batches.next())
        except grpc.aio.AioRpcError as error:
            if self._attempt is not None:
                self._attempt.reachability.failed(error)
            await self.aclose()
            raise client_error(error, self._request.timeout, self._numbers.answered) from None
        except BaseException:
            await self.aclose()
            if self._fault is not None:
                raise self._fault from None
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
                if not (pause and self._may_repeat(error, attempt, pause)):
                    raise
                attempt.reachability.failed(error)
                attempt.close()
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _first(self, attempt: StreamAttempt) -> Sequence[NumberedItem] | None:
        call, numbers, rest = await attempt.begin(self._request), self._numbers, self._request.rest
        if rest is not None and attempt.sent:  # otherwise the call has ended, and may be repeated
            self._sending = asyncio.create_task(self._send_rest(call, rest))
        self.metadata = numbers.answered(pairs(await call.initial_metadata()))
        batches = BatchReader(call, numbers.read, self._end_check)
        try:
            # With a cursor the first item may arrive late, though the stream has been accepted.
            resumes = numbers.active and numbers.cursors
            first = await (batches.next_within(REFUSAL_SECONDS) if resumes else batches.next())
            numbers.check()
        except BaseException:
            batches.close()
            raise
        attempt.reachability.answered()
        self._batches = batches
        return first

    async def _send_rest(self, call: Any, rest: MessageStream) -> None:  # noqa: ANN401 - as above
        """Send message after message, no faster than the upstream reads them."""
        try:
            async for message in rest:
                await call.write(message.SerializeToString())
            await call.done_writing()
        except A2AError as fault:
            self._fault = fault
            call.cancel()
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError):
            pass  # the call has ended; the reader of its answers gets the error

    def _may_repeat(self, error: grpc.aio.AioRpcError, attempt: StreamAttempt, pause: float) -> bool:
        """Whether to repeat the call: it changes nothing, or the upstream cannot have received it."""
        request = self._request
        if error.code() is not grpc.StatusCode.UNAVAILABLE or (attempt.sent and not is_read(request.method)):
            return False
        return request.left is None or request.left > pause

    async def aclose(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
        if self._attempt is not None:
            self._attempt.close()
        if self._batches is not None:
            self._batches.close()
        self._streams.discard(self)
        self.ended.set()
