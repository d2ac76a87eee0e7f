"""Calls over HTTP that feel like calls of a grpc.aio stub: begun at once, awaited, iterated, read, canceled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from typing import Any

import aiohttp
import grpc
from google.protobuf.message import Message
from multidict import CIMultiDictProxy

from a2a_proto import a2a_pb2 as pb

Headers = CIMultiDictProxy[str]
Ask = Callable[[], Awaitable[aiohttp.ClientResponse]]


class UnaryCall:
    """One answer."""

    def __init__(self, answer: Awaitable[tuple[Message, Headers]]) -> None:
        self._answer = asyncio.ensure_future(answer)

    def __await__(self) -> Generator[Any, None, Message]:
        message, _ = yield from self._answer.__await__()
        return message

    async def initial_metadata(self) -> tuple[tuple[str, str], ...]:
        _, headers = await asyncio.shield(self._answer)
        return tuple((name.lower(), value) for name, value in headers.items())

    async def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()  # all headers come first

    def cancel(self) -> bool:
        return self._answer.cancel()


class StreamCall:
    """Many answers. `items` reads them off the response, and raises what the door says instead."""

    def __init__(
        self,
        ask: Awaitable[aiohttp.ClientResponse],
        items: Callable[[aiohttp.ClientResponse], AsyncIterator[pb.StreamResponse]],
    ) -> None:
        self._response = asyncio.ensure_future(ask)
        self._read = items
        self._items: AsyncIterator[pb.StreamResponse] | None = None
        self._canceled = False

    async def read(self) -> Any:
        """The next item, or EOF."""
        try:
            if self._items is None:
                self._items = self._read(await self._response)
            return await anext(self._items, grpc.aio.EOF)
        except (aiohttp.ClientError, ConnectionError) as error:
            if self._canceled:
                raise asyncio.CancelledError from error
            raise _broken(error) from error

    async def __aiter__(self) -> AsyncGenerator[pb.StreamResponse, None]:
        while (item := await self.read()) is not grpc.aio.EOF:
            yield item

    async def initial_metadata(self) -> tuple[tuple[str, str], ...]:
        response = await asyncio.shield(self._response)
        return tuple((name.lower(), value) for name, value in response.headers.items())

    def cancel(self) -> bool:
        self._canceled = True
        self._let_go()
        return True

    def _let_go(self) -> None:
        response = self._response
        if response.cancel() or response.cancelled() or response.exception() is not None:
            return
        response.result().close()

    def __del__(self) -> None:
        """A call that nobody holds any more is canceled, as gRPC does."""
        if not self._response.get_loop().is_closed():
            self._let_go()


def _broken(error: Exception) -> grpc.aio.AioRpcError:
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, f"the connection broke: {error!r}")


async def perform(ask: Awaitable[aiohttp.ClientResponse]) -> tuple[aiohttp.ClientResponse, bytes]:
    """Ask, and read the whole answer."""
    try:
        async with await ask as response:
            return response, await response.read()
    except (aiohttp.ClientError, ConnectionError) as error:
        raise _broken(error) from error
