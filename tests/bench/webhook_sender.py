"""How many webhooks one sender delivers on one core: python -m tests.bench.webhook_sender.

The receiver is a process of its own that does nothing but read and acknowledge. Both are pinned to a core each.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import cast

import uvloop
from joserfc.jwk import ECKey

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.push import Notice, PushConfig
from tests.support.house import Addresses, Signer, SystemClock, WebhookPolicy, WebhookSender

COUNT = 10_000
AT_ONCE = (1, 8, 64)
BODY = b'{"statusUpdate":{"taskId":"t-41","contextId":"c-9","status":{"state":"TASK_STATE_COMPLETED"}}}'


class Acknowledging(asyncio.Protocol):
    """The least that is HTTP."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's descends from nothing
        self.read = b""

    def data_received(self, data: bytes) -> None:
        self.read += data
        head, found, body = self.read.partition(b"\r\n\r\n")
        if found and len(body) >= int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            self.read = b""  # the next request comes when this one has been answered
            self.transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def receive() -> None:
    server = await asyncio.get_running_loop().create_server(Acknowledging, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - to the one who started it
    await server.serve_forever()


async def send(port: int) -> None:
    key = ECKey.generate_key("P-256")
    for name, sign in (("plain", None), ("signed", Signer([key], "https://agents.example", SystemClock()))):
        sender = WebhookSender(WebhookPolicy(addresses=Addresses.of(loopback=True)), SystemClock(), sign=sign)
        await sender.open()
        for at_once in AT_ONCE:
            await _measure(sender, port, name, at_once)
        await sender.close()


async def _measure(sender: WebhookSender, port: int, name: str, at_once: int) -> None:
    config = pb.TaskPushNotificationConfig(id="c", url=f"http://127.0.0.1:{port}/hook", token="tok-1")
    numbers = iter(range(COUNT))

    async def work() -> None:
        for number in numbers:
            made = Notice(PushConfig(config), "t-41", number, f"d-{number}", 1, "application/a2a+json", BODY)
            assert (await sender.send(made)).delivered

    began, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(at_once)))
    rate, cost = COUNT / (time.perf_counter() - began), (time.process_time() - used) / COUNT
    print(f"{name:6} {at_once:3} at once: {rate:6,.0f} a second, {cost * 1e6:4.0f} µs of the core each")  # noqa: T201


def main() -> None:
    if sys.argv[1:] == ["receive"]:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        uvloop.run(receive())
        return
    command = [sys.executable, "-m", "tests.bench.webhook_sender", "receive"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        try:
            uvloop.run(send(int(receiver.stdout.readline())))
        finally:
            receiver.terminate()


if __name__ == "__main__":
    main()
