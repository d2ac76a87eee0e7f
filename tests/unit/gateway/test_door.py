"""What the listening server notices by itself, and what it does not give up over one connection (spec: DOOR-04)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
import structlog

from a2a_gateway.http.connection import Connection
from a2a_gateway.http.stream_slots import StreamSlot
from a2a_server.protocol.options import GatewayOptions
from tests.support.door_upstream import Event, Playing, Scripted, event, plays
from tests.support.doors import http_door
from tests.support.http import get, post, wire
from tests.unit.transport.doors import eventually

SUBSCRIBE = get("/tasks/t:subscribe")
QUICK = GatewayOptions(body_timeout=0.2, write_timeout=0.2, keep_alive=0.04)


async def endless(playing: Playing) -> AsyncIterator[Sequence[Event]]:
    yield (event(1),)
    await asyncio.Event().wait()


# -- more than is read

BEHIND = {
    "requests": get("/healthz") * 2000,
    "many requests": get("/healthz") * 100_000,
    "a body": post("/message:send", b" " * 10_000_000),
}


@pytest.mark.req("DOOR-04", "LIMT-02")
@pytest.mark.parametrize("how", ["close", "abort", "half-close"])
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("together", [True, False], ids=["together", "later"])
async def test_a_client_that_leaves_is_missed_however_much_it_has_sent_behind_a_stream(
    behind: str, how: str, *, together: bool
) -> None:
    options = GatewayOptions(body_timeout=0.2, write_timeout=0.2)  # and no comments, which who has left would refuse
    async with http_door(Scripted(script=endless), options) as door, wire(door.port) as connection:
        connection.writer.write(SUBSCRIBE + BEHIND[behind] if together else SUBSCRIBE)
        await connection.head()
        if not together:
            connection.writer.write(BEHIND[behind])
        await asyncio.sleep(0.05)
        assert door.streams.count == 1
        if how == "abort":
            connection.writer.transport.abort()
        elif how == "half-close":
            connection.writer.write_eof()
        else:
            connection.writer.close()
        async with asyncio.timeout(5):
            while door.streams.count:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.001)


@pytest.mark.parametrize("behind", BEHIND)
async def test_a_stream_goes_on_whatever_comes_behind_it_and_the_connection_ends_with_it(behind: str) -> None:
    gate = asyncio.Event()

    async def script(playing: Playing) -> AsyncIterator[Sequence[Event]]:
        yield (event(1),)
        await gate.wait()
        yield (event(2),)

    async with http_door(Scripted(script=script), QUICK) as door, wire(door.port) as connection:
        connection.writer.write(SUBSCRIBE + BEHIND[behind])
        await connection.head()
        await asyncio.sleep(0.3)  # has been looked at several times
        gate.set()
        told = b""
        while chunk := await connection.chunk():
            told += chunk
        assert told.replace(b": keep-alive\n\n", b"").count(b"data: ") == 2
        assert await connection.ended() == b""


async def test_behind_a_short_stream_all_is_answered() -> None:
    async with http_door(Scripted(script=plays((event(1),)))) as door, wire(door.port) as connection:
        connection.writer.write(SUBSCRIBE + get("/healthz") * 500)
        assert (await connection.answer()).body
        assert [(await connection.answer()).status for _ in range(500)] == [200] * 500


# -- what goes on


@pytest.mark.req("DOOR-04")
async def test_one_connection_that_fails_does_not_end_the_timeouts_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    look, failed = Connection.look, set[Connection]()

    def fail_at_first(protocol: Connection, now: float) -> None:
        failed.add(protocol) if not failed else None
        if protocol in failed:
            raise RuntimeError("nobody foresaw this")
        look(protocol, now)

    monkeypatch.setattr(Connection, "look", fail_at_first)
    with structlog.testing.capture_logs() as logs:
        async with http_door(Scripted(), QUICK) as door, wire(door.port) as broken:
            assert (await broken.ask(get("/healthz"))).status == 200
            await eventually(lambda: bool(failed))
            async with wire(door.port) as slow:
                await slow.send(b"GET /healthz HTTP/1.1\r\nHost:")
                assert (await slow.answer()).status == 408
            assert (await broken.ask(get("/healthz"))).status == 200
    assert "http.not_looked_after" in {entry["event"] for entry in logs}


@pytest.mark.req("KEEP-01")
async def test_one_stream_that_fails_does_not_end_the_comments_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    write_comment, failed = StreamSlot.write_comment, set[StreamSlot]()

    def fail_at_first(place: StreamSlot) -> None:
        failed.add(place) if not failed else None
        if place in failed:
            raise RuntimeError("nobody foresaw this")
        write_comment(place)

    monkeypatch.setattr(StreamSlot, "write_comment", fail_at_first)
    with structlog.testing.capture_logs() as logs:
        async with http_door(Scripted(script=endless), QUICK) as door, wire(door.port) as one, wire(door.port) as other:
            chunks = []
            for connection in (one, other):
                await connection.send(SUBSCRIBE)
                await connection.head()
                await connection.chunk()
            async with asyncio.timeout(5):
                readers = [asyncio.create_task(connection.chunk()) for connection in (one, other)]
                done, pending = await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
                chunks = [task.result() for task in done]
            for task in pending:
                task.cancel()
            assert chunks == [b": keep-alive\n\n"]
    assert "http.not_kept_alive" in {entry["event"] for entry in logs}
