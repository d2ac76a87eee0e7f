"""A client that does what it is told: calls come as JSON lines on standard input, answers leave on standard output.

A line `{"id": 7, "on": "rest", "call": "get", "with": {"task": "t"}}` is answered by `{"id": 7, "item": …}` for each
item of a stream, and at last by `{"id": 7, "result": …}` or `{"id": 7, "error": {"type", "message", …}}`. Calls may
overlap.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

Call = Callable[[Any, dict[str, Any]], Awaitable[object] | AsyncIterator[object]]
"""Gets the connection that it is to be made on, and what else it was told."""

_LONGEST_LINE = 64 * 1024 * 1024


class Told:
    """Opens connections by name and makes calls on them."""

    def __init__(
        self,
        connect: Callable[[dict[str, Any]], Awaitable[Any]],
        calls: Mapping[str, Call],
        describe: Callable[[Exception], dict[str, Any]],
    ) -> None:
        self._connect = connect
        self._calls = calls
        self._describe = describe
        self._connections: dict[str, Any] = {}
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # some libraries write what they have to say to standard output

    async def run(self) -> None:
        """Work until there is nobody left to be told by."""
        reader = asyncio.StreamReader(_LONGEST_LINE)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        open_calls: set[asyncio.Task[None]] = set()
        while line := await reader.readline():
            call = asyncio.create_task(self._answer(json.loads(line)))
            open_calls.add(call)
            call.add_done_callback(open_calls.discard)
        for call in open_calls:
            call.cancel()
        await asyncio.gather(*open_calls, return_exceptions=True)

    async def _answer(self, order: dict[str, Any]) -> None:
        number = order["id"]
        try:
            async for item in self._make(order):
                self._say(id=number, **item)
        except Exception as error:  # noqa: BLE001 - whoever gave the order decides
            self._say(id=number, error={"type": type(error).__name__, "message": str(error), **self._describe(error)})

    async def _make(self, order: dict[str, Any]) -> AsyncIterator[dict[str, object]]:
        name, details = order["on"], order["with"]
        if order["call"] == "connect":
            self._connections[name] = await self._connect(details)
            yield {"result": None}
            return
        made = self._calls[order["call"]](self._connections[name], details)
        if isinstance(made, AsyncIterator):
            async for item in made:
                yield {"item": item}
            yield {"result": None}
        else:
            yield {"result": await made}

    def _say(self, **line: object) -> None:
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()
