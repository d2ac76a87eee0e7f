"""HTTP as it looks on the wire: what is sent is up to the test, be it no HTTP at all."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from multidict import CIMultiDict, CIMultiDictProxy

from a2a_server.serve import Agents, Server, running
from a2a_server.settings import Settings
from tests.support.house import Limits

PATIENCE = 10.0
SEND = b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}'


@dataclass(frozen=True)
class Answer:
    """One response."""

    version: str
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def reason(self) -> str:
        """What the ErrorInfo of a refusal says."""
        return next(str(detail["reason"]) for detail in self.json["error"]["details"] if "reason" in detail)


class Wire:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, data: bytes, *, head: bool = False) -> Answer:
        await self.send(data)
        return await self.answer(head=head)

    async def answer(self, *, head: bool = False) -> Answer:
        """Read one response; `head` says that it has no body, being one to HEAD."""
        async with asyncio.timeout(PATIENCE):
            version, status, headers = await self.head()
            bodiless = head or status < 200 or status in (204, 304)
            body = b"" if bodiless else await self._body(headers)
        return Answer(version, status, headers, body)

    async def head(self) -> tuple[str, int, CIMultiDictProxy[str]]:
        """Read a response up to its body."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, status, _ = lines[0].split(" ", 2)
        pairs = [line.split(": ", 1) for line in lines[1:] if line]
        return version, int(status), CIMultiDictProxy(CIMultiDict([(name, value) for name, value in pairs]))

    async def _body(self, headers: CIMultiDictProxy[str]) -> bytes:
        if "Content-Length" in headers:
            return await self.reader.readexactly(int(headers["Content-Length"]))
        if headers.get("Transfer-Encoding") != "chunked":
            return await self.reader.read()
        body = b""
        while chunk := await self.chunk():
            body += chunk
        return body

    async def chunk(self) -> bytes:
        """Read one chunk; the last one is empty."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def ended(self) -> bytes:
        """Wait until the server closes, and say what it has sent until then."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


@asynccontextmanager
async def wire(
    port: int, *, host: str = "127.0.0.1", source: str = "", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Wire]:
    """Connect for the duration of the block, from the address `source`."""
    name, local = "localhost" if tls else None, (source, 0) if source else None
    reader, writer = await asyncio.open_connection(
        host, port, ssl=tls, server_hostname=name, local_addr=local, limit=2**20
    )
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


async def once(port: int, data: bytes, *, head: bool = False, **more: Any) -> Answer:
    """One request on a connection of its own."""
    async with wire(port, **more) as connection:
        return await connection.ask(data, head=head)


@asynccontextmanager
async def deaf(port: int) -> AsyncIterator[socket.socket]:
    """A client that will not read, with the smallest buffer there is."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)  # noqa: FBT003 - socket has it so
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port))
    try:
        yield client
    finally:
        client.close()


def get(path: str, *fields: str, verb: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{verb} {path} HTTP/{version}", "Host: localhost", *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def post(path: str, body: bytes = SEND, *fields: str, verb: str = "POST", version: str = "1.1") -> bytes:
    if not any(field.lower().startswith("content-type:") for field in fields):
        fields = (*fields, "Content-Type: application/json")
    return get(path, *fields, f"Content-Length: {len(body)}", verb=verb, version=version) + body


@asynccontextmanager
async def house(agent: Agents, **settings: Any) -> AsyncIterator[Server]:
    """A whole server as `a2ad serve` makes it, in memory and on free ports."""
    told = {"store": "memory:", "grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "limits": Limits(drain_grace=0.05)}
    async with running(Settings(**{**told, **settings}), agent) as server:
        yield server


def port_of(server: Server) -> int:
    assert server.http is not None
    return server.http.port
