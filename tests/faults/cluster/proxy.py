"""A TCP proxy that cuts, slows down, or swallows what goes through it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

_CHUNK = 65_536


class Proxy:
    """Stands between a server and its database."""

    def __init__(self, dsn: str) -> None:
        self._parts = urlsplit(dsn)
        self.dsn = ""
        """Of the database, through the proxy."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.delay = 0.0
        """Seconds that each piece waits."""
        self.cuts = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        user = self._parts.netloc.rpartition("@")[0]
        self.dsn = self._parts._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self._open.set()
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset all connections."""
        self.cuts += len(self._writers)
        for writer in tuple(self._writers):
            writer.transport.abort()

    def swallow(self) -> None:
        """Pass nothing on, and close nothing, as a network does that is cut in two."""
        self._open.clear()

    def heal(self) -> None:
        self._open.set()
        self.delay = 0.0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, up_writer}
        ways = ((reader, up_writer), (up_reader, writer))
        tasks = [asyncio.create_task(self._pass(source, sink)) for source, sink in ways]
        self._tasks.update(tasks)
        await asyncio.wait(tasks)
        self._tasks.difference_update(tasks)
        self._writers -= {writer, up_writer}

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(_CHUNK):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        sink.close()
