"""Answers that leave together: none is late, lost or out of order (design 5)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import structlog
from aiohttp import web

from a2a_gateway.http.backlog import Backlog
from a2a_gateway.http.connection import Protocol
from a2a_gateway.http.outbox import Outbox
from a2a_gateway.http.replies import Answering, Flow, Reply
from a2a_server.protocol.options import GatewayOptions
from tests.support.http import get, post


class Socket(asyncio.Transport):
    """Notes what is written, in one list for all; as uvloop's, it does not like to be written to when it is closed."""

    def __init__(self, name: str, log: list[tuple[str, bytes]]) -> None:
        super().__init__()
        self._name, self._log = name, log
        self.closed = self.broken = False

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed or self.broken:
            raise RuntimeError("the handler is closed")
        self._log.append((self._name, bytes(data)))

    def close(self) -> None:
        self._log.append((self._name, b"closed"))


async def test_what_is_ready_leaves_with_the_next_turn_of_the_loop() -> None:
    written: list[tuple[str, bytes]] = []
    outbox = Outbox(asyncio.get_running_loop())
    first = outbox.put(Socket("a", written), b"1")
    assert outbox.put(Socket("b", written), b"2") == first == outbox.round
    assert written == []
    await asyncio.sleep(0)
    assert written == [("a", b"1"), ("b", b"2")]
    assert outbox.round > first


async def test_a_full_outbox_does_not_wait() -> None:
    written: list[tuple[str, bytes]] = []
    outbox = Outbox(asyncio.get_running_loop())
    rounds = [outbox.put(Socket("a", written), b"%d" % number) for number in range(8)]
    assert [text for _, text in written] == [b"%d" % number for number in range(8)]
    assert all(round_ < outbox.round for round_ in rounds)
    outbox.put(Socket("b", written), b"next")
    await asyncio.sleep(0)
    assert written[8:] == [("b", b"next")]


async def test_who_has_gone_keeps_nobody_from_his_answer() -> None:
    written: list[tuple[str, bytes]] = []
    outbox = Outbox(asyncio.get_running_loop())
    gone, broken, there = Socket("gone", written), Socket("broken", written), Socket("there", written)
    for socket in (gone, broken, there):
        outbox.put(socket, b"answer")
    gone.closed = broken.broken = True
    with structlog.testing.capture_logs() as told:
        await asyncio.sleep(0)
    assert written == [("there", b"answer")]
    assert [line["event"] for line in told] == ["http.unwritten"]
    outbox.put(there, b"another")
    await asyncio.sleep(0)
    assert written[1:] == [("there", b"another")]


async def test_who_says_that_nothing_more_comes_gets_the_answer_all_the_same() -> None:
    written: list[tuple[str, bytes]] = []
    connection = await _connection(Socket("a", written))
    connection.say(b"answer")
    assert connection.eof_received() is None  # type: ignore[func-returns-value]  # the transport may close
    assert written == [("a", b"answer")]
    connection.force_close()
    connection.connection_lost(None)


async def _answer(request: web.BaseRequest) -> Answering:
    if request.path == "/flow":
        flow = Flow(request)
        flow.hand(b"flow")
        return flow
    return Reply(b"", "text/plain")


async def _connection(socket: Socket) -> Protocol:
    loop = asyncio.get_running_loop()
    server = web.Server(cast("Any", _answer))
    own: Any = {"options": GatewayOptions(), "outbox": Outbox(loop), "backlog": Backlog(2**20), "draining": False}
    connection = Protocol(server, _answer, loop=loop, **own)
    connection.connection_made(socket)
    await asyncio.sleep(0)
    return connection


async def test_what_flows_comes_after_the_answer_before_it() -> None:
    written: list[tuple[str, bytes]] = []
    connection = await _connection(Socket("a", written))
    connection.data_received(get("/whole") + get("/flow"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert [text.startswith(b"HTTP/1.1 200") or text for _, text in written] == [True, b"flow"]
    connection.force_close()
    connection.connection_lost(None)


async def test_who_is_still_sending_gets_the_time_to_see_the_answer() -> None:
    """Closed at once, the connection would be reset, and the answer with it (RFC 9112, 9.6)."""
    written: list[tuple[str, bytes]] = []
    connection = await _connection(Socket("a", written))
    connection.data_received(post("/whole", b"0123456789")[:-5])
    for _ in range(5):
        await asyncio.sleep(0)
    (answer,) = [text for _, text in written]
    assert b"Connection: close" in answer
    connection.data_received(b"56789")
    for _ in range(5):
        await asyncio.sleep(0)
    assert written[1:] == [("a", b"closed")]


async def test_an_answer_leaves_before_its_connection_is_closed() -> None:
    written: list[tuple[str, bytes]] = []
    connection = await _connection(Socket("a", written))
    connection.say(b"answer")
    connection.force_close()
    assert written == [("a", b"answer"), ("a", b"closed")]
    connection.connection_lost(None)
    await asyncio.sleep(0)
    assert len(written) == 2


async def test_an_answer_leaves_before_that_of_the_next_request() -> None:
    """What flows is written as it comes, so that what was said before must be out."""
    written: list[tuple[str, bytes]] = []
    connection = await _connection(Socket("a", written))
    connection.say(b"answer")
    connection.speak()
    assert written == [("a", b"answer")]
    connection.speak()
    assert len(written) == 1
    connection.force_close()
    connection.connection_lost(None)
