"""One try to begin a streaming call: a line, the upstream's consent, and only then the request (spec: DOOR-01)."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from grpc import ChannelConnectivity as State

from a2a_gateway.channel.lines import Line
from a2a_gateway.channel.links import Link, Links
from a2a_gateway.channel.presence import Presence
from a2a_gateway.channel.refusals import away
from a2a_gateway.upstream import MetadataPairs
from a2a_server.protocol.errors import A2AError, Reason

QUEUE = 1.0
"""After how many seconds in which a connection has not taken a call it counts as full."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A streaming call, as it is to be made."""

    method: MethodDescriptor
    request: bytes
    metadata: MetadataPairs
    timeout: float | None
    """How many seconds the client gives it, in all."""
    deadline: float | None
    """When they are over."""

    @property
    def left(self) -> float | None:
        return None if self.deadline is None else self.deadline - time.monotonic()


class Attempt:
    """A call that may begin, and its place on a line. Whoever made it closes it.

    gRPC keeps calls waiting, without a word, while a connection has as many as the server allows. But it tells when a
    call's headers have gone out, and the request goes out after them: as long as it has not, it may go elsewhere.
    """

    def __init__(self, links: Links, patience: float) -> None:
        self._links = links
        self._patience = patience
        self._line: Line | None = None
        self._taken = False
        self._presence: Presence | None = None
        self.sent = False
        """Whether the upstream may have the request."""
        self.call: Any = None

    async def begin(self, wanted: Wanted) -> Any:  # noqa: ANN401 - grpc's type wants messages
        """The call, once the upstream has taken it."""
        end = time.monotonic() + self._patience
        while not await self._offer(wanted, end):
            self.close()
        return self.call

    async def _offer(self, wanted: Wanted, end: float) -> bool:
        soon = end if wanted.deadline is None else min(end, wanted.deadline)
        link, line = await self._links.line("streams", soon - time.monotonic())
        line.calls += 1
        self._line, self._presence = line, link.presence
        self.call = line.streaming(wanted.method)(timeout=wanted.left, metadata=wanted.metadata)
        if not await self._is_taken(link, line, end):
            return False
        line.taken += 1
        self._taken = True
        return await self._send(wanted.request)

    async def _is_taken(self, link: Link, line: Line, end: float) -> bool:
        """Wait; False means that another line is to be tried."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(end - time.monotonic(), 0), QUEUE)):
                    await self.call.wait_for_connection()
                    return True
            connected = line.state() is State.READY
            if connected and line.taken:
                link.capacity.learn(line.taken)
            if time.monotonic() >= end:
                if connected:
                    raise _busy()
                link.presence.lost("no connection in time")
                raise away()
            if connected:
                return False

    async def _send(self, request: bytes) -> bool:
        """Whether the request is on its way, or the call is over already, which whoever reads from it is told."""
        self.sent = True
        try:
            await self.call.write(request)
        except asyncio.InvalidStateError:
            self.sent = False
        except grpc.aio.AioRpcError:
            # The call ended in this moment, and gRPC has forgotten why. But half a request is none: it may go again.
            self.sent = False
            return False
        with suppress(grpc.aio.InternalError):  # as above, but here the call still knows why
            await self.call.done_writing()
        return True

    def answered(self) -> None:
        if self._presence is not None:
            self._presence.answered()

    def failed(self, error: grpc.aio.AioRpcError) -> None:
        if self._presence is not None:
            self._presence.failed(error)

    def close(self) -> None:
        if self.call is not None:
            self.call.cancel()  # does nothing to a call that is over
        line, self._line = self._line, None
        if line is not None:
            line.calls -= 1
            line.taken -= self._taken
        self._taken = False


def _busy() -> A2AError:
    return A2AError(Reason.UNAVAILABLE, "The agent's server takes no more streams now.", retry_after=1)
