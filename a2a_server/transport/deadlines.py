"""How long a client of the gateway waits: nothing is answered after that (spec: DOOR-10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol, cast

from a2a_server.operations.call import Entries
from a2a_server.protocol.errors import deadline_exceeded


class Context(Protocol):
    """What the gateway knows about a call beside its request."""

    @property
    def metadata(self) -> Mapping[str, Sequence[str]]: ...

    @property
    def timeout(self) -> float | None: ...


async def limited(items: AsyncIterator[Entries], deadline: float, context: Context) -> AsyncIterator[Entries]:
    # A timeout around the whole loop would strike while the reader, and not we, is at work.
    async with aclosing(cast("Any", items)):
        while True:
            async with until(deadline, context):
                entries = await anext(items, None)
            if entries is None:
                return
            yield entries


def deadline_of(context: Context) -> float | None:
    return None if context.timeout is None else asyncio.get_running_loop().time() + context.timeout


@asynccontextmanager
async def until(deadline: float | None, context: Context) -> AsyncIterator[None]:
    """Nothing inside raises `TimeoutError` of its own: the pipeline lets only `A2AError` out."""
    try:
        async with asyncio.timeout_at(deadline):
            yield
    except TimeoutError:
        raise deadline_exceeded(context.timeout or 0) from None
