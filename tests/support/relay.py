"""A network between two servers that can be cut, or swallow what is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random


class Relay:
    """Passes connections on to a port of this machine."""

    def __init__(self) -> None:
        self.target = 0
        self.port = 0
        self.passing = asyncio.Event()
        """Cleared: connections stay open, and nothing gets through any more."""
        self.passing.set()
        self.passed = 0
        """How many connections there were."""
        self._open: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End all connections. New ones are taken."""
        for task in self._open:
            task.cancel()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.passed += 1
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                there, back = await asyncio.open_connection("127.0.0.1", self.target)
                ways = [asyncio.ensure_future(self._pass(*way)) for way in ((reader, back), (there, writer))]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    back.transport.abort()
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                await self.passing.wait()
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def relay() -> AsyncIterator[Relay]:
    """A relay that listens. Set its `target` before anybody calls."""
    one = Relay()
    server = await asyncio.start_server(one.take, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        one.cut()
        await asyncio.sleep(0)


@asynccontextmanager
async def broken_relay() -> AsyncIterator[Relay]:
    """A relay that cuts connections, and swallows what is sent, all the time."""
    async with relay() as one:
        breaking = asyncio.create_task(_breaks(one))
        yield one
        breaking.cancel()


async def _breaks(one: Relay) -> None:
    dice = Random(one.port)
    while True:
        await asyncio.sleep(dice.uniform(0.02, 0.2))
        one.passing.clear()
        await asyncio.sleep(dice.uniform(0.0, 0.1))
        one.passing.set()
        if dice.random() < 0.5:
            one.cut()
