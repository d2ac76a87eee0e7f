"""A receiver of webhooks that only counts: one program.

`POST` is acknowledged, after a pause if wanted; `GET` says how many there were, and how many told the end of a task.
"""

from __future__ import annotations

import asyncio

import click
import uvloop
from aiohttp import web

_END = b"TASK_STATE_COMPLETED"


class Counter:
    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._count = 0
        self._ends = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            return web.Response(text=f"{self._count} {self._ends}")
        self._ends += _END in await request.read()
        if self._pause:
            await asyncio.sleep(self._pause)
        self._count += 1
        return web.Response(status=204)


async def serve(port: int, pause: float) -> None:
    runner = web.ServerRunner(web.Server(Counter(pause)))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


@click.command()
@click.option("--port", type=int, required=True)
@click.option("--pause", type=float, default=0.0, help="Seconds before each answer.")
def main(port: int, pause: float) -> None:
    """Serve until killed."""
    uvloop.run(serve(port, pause))


if __name__ == "__main__":
    main()
