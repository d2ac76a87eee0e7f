"""A gateway that is told to stop while its upstream goes on: calls end, new ones go elsewhere (spec: DURA-08)."""

from __future__ import annotations

import asyncio
from typing import cast

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_gateway.upstream import CallContext, Upstream, UpstreamAnswer, UpstreamStream
from a2a_server.protocol.errors import A2AError, Reason


class Drainable:
    """An upstream, until it is drained."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._draining = False
        self._callers: set[asyncio.Task[object]] = set()
        self._cut: set[asyncio.Task[object]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        self._admit()
        caller = cast("asyncio.Task[object]", asyncio.current_task())
        self._callers.add(caller)
        self._idle.clear()
        try:
            return await self._upstream.unary(method, request, context)
        except asyncio.CancelledError:
            if caller not in self._cut:
                raise
            caller.uncancel()
            raise _stopping() from None
        finally:
            self._callers.discard(caller)
            self._cut.discard(caller)
            if not self._callers:
                self._idle.set()

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamStream:
        self._admit()
        return await self._upstream.stream(method, request, context)

    async def ready(self) -> bool:
        return not self._draining and await self._upstream.ready()

    async def drain(self, seconds: float) -> None:
        """Refuse new calls, and wait for those that somebody waits for. Streams may not end, but can be resumed."""
        self._draining = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            for caller in tuple(self._callers):
                self._cut.add(caller)
                caller.cancel()

    def _admit(self) -> None:
        if self._draining:
            raise _stopping()


def _stopping() -> A2AError:
    return A2AError(Reason.UNAVAILABLE, "The gateway is stopping.", retry_after=1)
