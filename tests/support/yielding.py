"""Streaming operations for tests, written as generators."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Self

from tests.support.house import Call, Entries, Sink

Batches = AsyncGenerator[Entries, None]


class Yielded:
    """What a generator yields, as the stream that an operation returns. It has no use for a sink."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entries:
        return await anext(self._batches)

    def deliver_to(self, sink: Sink) -> None:
        pass

    async def aclose(self) -> None:
        await self._batches.aclose()


def yielding(operation: Callable[[Call, Any], Batches]) -> Callable[[Call, Any], Yielded]:
    """Make an operation of a generator function."""

    def stream(call: Call, request: Any) -> Yielded:
        return Yielded(operation(call, request))

    return stream
