"""The least that a server of SSE can do with aiohttp: write prebuilt bytes to everybody. One program.

`GET /subscribe` waits for events, `POST /begin?events=N&pause=S` lets them go, and after them all streams end. Its
answer does not wait for them, so that the load reads while the server writes.
"""

from __future__ import annotations

import asyncio

import click
import uvloop
from aiohttp import web


class Bare:
    """Knows nothing but its subscribers."""

    def __init__(self, size: int) -> None:
        self._first = _frame(0, size)
        self._size = size
        self._responses: list[web.StreamResponse] = []
        self._over = asyncio.Event()
        self._shows: set[asyncio.Task[None]] = set()

    async def subscribe(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        await response.write(self._first)
        self._responses.append(response)
        await self._over.wait()
        return response

    async def begin(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.create_task(self._send(int(request.query["events"]), float(request.query["pause"])))
        self._shows.add(task)
        task.add_done_callback(self._shows.discard)
        return web.Response()

    async def _send(self, events: int, pause: float) -> None:
        for number in range(events):
            await asyncio.sleep(pause)
            frame = _frame(number, self._size)
            for response in self._responses:
                await response.write(frame)
        self._over.set()
        self._responses, self._over = [], asyncio.Event()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        return await (self.begin(request) if request.method == "POST" else self.subscribe(request))


def _frame(number: int, size: int) -> bytes:
    frame = b'id: %d\ndata: {"TASK_STATE_COMPLETED": "' % number
    end = b'"}\n\n'
    return frame + b"x" * (size - len(frame) - len(end)) + end


async def serve(port: int, size: int) -> None:
    runner = web.ServerRunner(web.Server(Bare(size)))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


@click.command()
@click.option("--port", type=int, required=True)
@click.option("--size", type=int, required=True, help="Bytes of an event.")
def main(port: int, size: int) -> None:
    """Serve until killed."""
    uvloop.run(serve(port, size))


if __name__ == "__main__":
    main()
