"""Receivers of webhooks on loopback, of every temper: real servers, and senders that may call them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDictProxy

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.push import Notice, PushConfig
from tests.support.house import Addresses, SystemClock, WebhookSender
from tests.support.house import WebhookPolicy as Policy

HERE = Policy(addresses=Addresses.of(loopback=True))
BODY = b'{"statusUpdate":{"taskId":"t-41"}}'


class Received(NamedTuple):
    """One request, as a receiver saw it."""

    verb: str
    target: str
    headers: CIMultiDictProxy[str]
    body: bytes
    connection: int
    """The sender's port: the same for all requests of one connection."""


Answer = Callable[[Received], Awaitable[web.StreamResponse]]


async def acknowledge(_: Received) -> web.StreamResponse:
    return web.Response(status=204)


@dataclass
class Receiver:
    """A server that keeps what it was sent, and answers as the test likes."""

    port: int
    answer: Answer
    scheme: str = "http"
    received: list[Received] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with each request."""

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    @property
    def last(self) -> Received:
        return self.received[-1]


@asynccontextmanager
async def receiver(
    answer: Answer = acknowledge, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    made = Receiver(port, answer, "https" if tls else "http")

    async def take(request: web.BaseRequest) -> web.StreamResponse:
        peer = request.transport.get_extra_info("peername") if request.transport else ("", 0)
        seen = Received(request.method, request.path_qs, request.headers, await request.content.read(), peer[1])
        made.received.append(seen)
        made.arrived.set()
        return await made.answer(seen)

    server = web.Server(take)
    listening = await asyncio.get_running_loop().create_server(server, host, port, ssl=tls)
    made.port = listening.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        listening.close()
        await server.shutdown(0)


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listener(talk: Talk, *, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """A server that speaks whatever the test says; yields its URL. A connection ends when `talk` does."""
    talking: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talking.add(task)
        try:
            await talk(reader, writer)
        except (OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass  # the sender has hung up, or the test is over
        finally:
            talking.discard(task)
            writer.close()

    server = await asyncio.start_server(accept, host, 0)
    try:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}/hook"
    finally:
        server.close()
        for task in [*talking]:
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Head and body of a request with a Content-Length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return head + await reader.readexactly(int(length.split(b":")[1]))


def reset(writer: asyncio.StreamWriter) -> None:
    """Hang up in the rudest way there is: with RST instead of FIN."""
    linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


class Names(AbstractResolver):
    """A resolver that answers as it is told, each time with the next of its answers; the last one stays."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not answer:
            raise OSError(None, "no such name")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in answer
        ]

    async def close(self) -> None:
        """Nothing is held."""


@asynccontextmanager
async def sending(policy: Policy = HERE, **options: Any) -> AsyncIterator[WebhookSender]:
    options.setdefault("timeout", 10.0)
    sender = WebhookSender(policy, SystemClock(), **options)
    await sender.open()
    try:
        yield sender
    finally:
        await sender.close()


def hook(url: str, *, token: str = "", scheme: str = "", credentials: str = "", version: str = "1.0") -> PushConfig:
    config = pb.TaskPushNotificationConfig(task_id="t-41", id="c-1", url=url, token=token)
    if scheme:
        config.authentication.scheme = scheme
        config.authentication.credentials = credentials
    return PushConfig(config, version)


def notice(to: str | PushConfig, number: int = 1, *, attempt: int = 1, **changes: Any) -> Notice:
    made = Notice(
        to if isinstance(to, PushConfig) else hook(to),
        "t-41",
        number,
        f"d-{number}",
        attempt,
        "application/a2a+json",
        BODY,
    )
    return made._replace(**changes)


async def happened(event: asyncio.Event) -> None:
    """Wait for something that happens in a server, within the patience of a test."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), 10)
    assert event.is_set()
