"""Streams: an error before the first event is an ordinary answer, one after it the last frame (spec: STRM-07)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, cast

from aiohttp import web

from a2a_server.errors import ErrorCodes
from gateway import headers
from gateway.errors import explain
from gateway.frames import Frames
from gateway.readers import FAREWELL_SECONDS, Place
from gateway.replies import SERVER, Fields
from gateway.upstream import Item, Stream

Encode = Callable[[bytes], bytes]
"""The JSON of a serialised event; the same bytes for every reader of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Writes one upstream stream into one response."""

    place: Place
    frames: Frames
    encode: Encode
    codes: ErrorCodes
    extra: Fields

    async def run(self, stream: Stream) -> web.StreamResponse:
        """Write all events; what goes wrong before the first one is raised."""
        stream.on_cut(self.place.cut)
        async with aclosing(cast("Any", stream.items)) as items:
            try:
                first = await anext(items, ())
            except asyncio.CancelledError:
                if (farewell := self.place.farewelled()) is None:
                    raise
                raise farewell from None
            response = await self._begin(stream)
            with suppress(ConnectionError):  # the client may go at any time
                await self._relay(first, items)
                await response.write_eof()
        return response

    async def _begin(self, stream: Stream) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": self.frames.content_type, **_HEADERS})
        for name, value in (*headers.outgoing(stream.metadata), *self.extra):
            response.headers.add(name, value)
        await response.prepare(self.place.request)
        self.place.response = response
        return response

    async def _relay(self, first: Sequence[Item], items: AsyncIterator[Sequence[Item]]) -> None:
        """The response has begun, so every end is told within it."""
        try:
            await self._write(first)
            async for batch in items:
                await self._write(batch)
        except asyncio.CancelledError:
            if (farewell := self.place.farewelled()) is None:
                raise
            await self._say(farewell)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the client is told something
            await self._say(error)

    async def _write(self, batch: Sequence[Item]) -> None:
        """All that is ready in one write: half of an event's cost is the write."""
        event, encode = self.frames.event, self.encode
        await self.place.write(b"".join([event(item.number, encode(item.wire)) for item in batch]))

    async def _say(self, error: Exception) -> None:
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self.place.write(self.frames.error(explain(error, self.codes)))
        except TimeoutError:  # nobody reads
            self.place.abort()


_HEADERS = {
    "Server": SERVER,
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # or nginx would hold events back
}
