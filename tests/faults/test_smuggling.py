"""Where one request ends and the next begins: our HTTP door beside a plain aiohttp server (RFC 9112; spec: DOOR-04).

Every row is sent whole, byte by byte, and in sevens, with a request behind it. The row says how both servers answer.
Where they differ it says why. The request behind is a cancel: wherever it is answered, it was read as a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pytest
from aiohttp import web

from tests.support.http import SEND, Wire, get, house, port_of, post, wire
from tests.support.stage import Stage

BEHIND = post("/tasks/behind:cancel", b"")
CHUNKED = "Transfer-Encoding: chunked", "Content-Type: application/json"
SENT = b"%x\r\n%b\r\n0\r\n\r\n" % (len(SEND), SEND)


def chunked(body: bytes, *fields: str, version: str = "1.1", path: str = "/message:send") -> bytes:
    return get(path, *CHUNKED, *fields, verb="POST", version=version) + body


@dataclass(frozen=True)
class SmugglingRow:
    """What is sent, and the statuses of the answers: ours, and the control's where they differ, with the reason."""

    sent: bytes
    ours: Sequence[int]
    control: Sequence[int] = ()
    why: str = ""


BOTH = [200, 404]
"""The request is answered, and so is the one behind it."""
REFUSED = [400]
"""What is wrong ends the connection."""
NO_VERSION = "chunks and HTTP/1.0: ours ends the connection, as RFC 9112, 6.1, has it"

ROWS = {
    "a length": SmugglingRow(post("/message:send"), BOTH),
    "chunks": SmugglingRow(chunked(SENT), BOTH),
    "many chunks": SmugglingRow(chunked(b"".join(b"1\r\n%c\r\n" % byte for byte in SEND) + b"0\r\n\r\n"), BOTH),
    "large hex digits": SmugglingRow(chunked(SENT.replace(b"4b", b"4B")), BOTH),
    "zeros before a size": SmugglingRow(chunked(b"000" + SENT), BOTH),
    "an extension": SmugglingRow(chunked(SENT.replace(b"\r\n", b";a=b\r\n", 1)), BOTH),
    "a trailer": SmugglingRow(chunked(SENT[:-2] + b"X-A: b\r\n\r\n"), BOTH),
    "a length and chunks": SmugglingRow(chunked(SENT, f"Content-Length: {len(SENT)}"), REFUSED),
    "a short length and chunks": SmugglingRow(chunked(SENT, "Content-Length: 3"), REFUSED),
    "two lengths": SmugglingRow(post("/message:send", SEND, "Content-Length: 3"), REFUSED),
    "a space before the colon": SmugglingRow(
        get("/message:send", "Transfer-Encoding : chunked", verb="POST") + SENT, REFUSED
    ),
    "an unknown coding": SmugglingRow(get("/", "Transfer-Encoding: xchunked", verb="POST") + SENT, REFUSED),
    "a folded coding": SmugglingRow(get("/", "Transfer-Encoding:\r\n chunked", verb="POST") + SENT, REFUSED),
    "a bare line feed": SmugglingRow(get("/").replace(b"Host", b"X: y\nHost"), REFUSED),
    "pipelining": SmugglingRow(post("/message:send") * 3, [200, 200, *BOTH]),
    "HTTP/1.0 with chunks": SmugglingRow(
        chunked(SENT, "Connection: keep-alive", version="1.0"), REFUSED, BOTH, NO_VERSION
    ),
    "HTTP/1.0 with a length": SmugglingRow(post("/message:send", SEND, "Connection: keep-alive", version="1.0"), BOTH),
    "an upgrade": SmugglingRow(get("/healthz", "Connection: Upgrade", "Upgrade: websocket"), BOTH),
    "expecting 100": SmugglingRow(post("/message:send", SEND, "Expect: 100-continue"), BOTH),
    "expecting more": SmugglingRow(get("/healthz", "Expect: 200-ok"), [417, 404]),
}


@pytest.fixture
async def ours() -> AsyncIterator[int]:
    async with house(Stage().agent) as server:
        yield port_of(server)


@pytest.fixture
async def control() -> AsyncIterator[int]:
    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=404 if request.path.endswith(":cancel") else 200)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, auto_decompress=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield int(runner.addresses[0][1])
    await runner.cleanup()


async def statuses(port: int, data: bytes, size: int) -> list[int]:
    """The answers to what comes in pieces, until the server closes; 100 is left out."""
    async with wire(port) as connection:
        heard = asyncio.create_task(_heard(connection))  # beside sending: a reset would swallow a refusal
        for start in range(0, len(data), size):
            if heard.done():
                break
            with suppress(ConnectionError):
                await connection.send(data[start : start + size])
            await asyncio.sleep(0.001)
        return await heard


async def _heard(connection: Wire) -> list[int]:
    found: list[int] = []
    while True:
        try:
            answer = await connection.answer()
        except (asyncio.IncompleteReadError, ConnectionError):
            return found
        found += [answer.status] * (answer.status >= 200)


@pytest.mark.req("DOOR-04")
@pytest.mark.parametrize("size", [1_000_000, 7, 1], ids=["whole", "in sevens", "byte by byte"])
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_requests_end_where_the_letter_says(ours: int, control: int, row: SmugglingRow, size: int) -> None:
    last = BEHIND.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    assert await statuses(ours, row.sent + last, size) == list(row.ours)
    assert await statuses(control, row.sent + last, size) == list(row.control or row.ours)
