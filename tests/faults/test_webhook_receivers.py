"""Receivers that are slow, dead, rude or endless: each attempt ends in time, with a word (spec: DELV-02, DELV-04)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import structlog
from aiohttp import web

from a2a_server.ports.push import Outcome
from tests.support.effort import effort
from tests.support.receivers import Received, hook, listener, notice, read_request, receiver, reset, sending

SECRET = "hunter2"
FAR = 30.0
BRIEF = 0.3
GIGABYTE = 2**30


def failed(why: str, retry_after: float | None = None, *, final: bool = False) -> Outcome:
    return Outcome(delivered=False, why=why, retry_after=retry_after, final=final)


# -- what is answered


@pytest.mark.req("DELV-02")
@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_only_2xx_is_an_acknowledgement(status: int) -> None:
    async with answering(status) as url, sending() as sender:
        assert await sender.send(notice(url)) == Outcome(delivered=True)


@pytest.mark.req("DELV-02", "SECR-03")
@pytest.mark.parametrize("status", [101, 300, 304, 401, 403, 404, 406, 408, 413, 429, 500, 502, 503, 599, 999])
async def test_nothing_else_is_and_nothing_of_it_is_told(status: int) -> None:
    with structlog.testing.capture_logs() as logs:
        async with answering(status) as url, sending() as sender:
            outcome = await sender.send(notice(url))
    assert outcome == failed(f"status {status}")
    assert SECRET not in repr((outcome, logs))


@pytest.mark.req("DELV-02", "CONF-81")
@pytest.mark.parametrize("status", [400, 405, 415, 422])
async def test_some_answers_are_about_the_one_webhook(status: int) -> None:
    async with answering(status, "Retry-After: 7") as url, sending() as sender:
        assert await sender.send(notice(url)) == failed(f"status {status}", 7.0)._replace(rejected=True)


@pytest.mark.req("DELV-02")
async def test_gone_is_for_good() -> None:
    async with answering(410) as url, sending() as sender:
        assert await sender.send(notice(url)) == failed("status 410", final=True)


@pytest.mark.parametrize(
    ("wish", "seconds"), [("7", 7.0), (" 120 ", 120.0), ("0", 0.0), ("99999", 99999.0), ("soon", None), ("-1", None)]
)
async def test_a_receiver_may_ask_for_time(wish: str, seconds: float | None) -> None:
    async with answering(429, f"Retry-After: {wish}") as url, sending() as sender:
        assert await sender.send(notice(url)) == failed("status 429", seconds)


async def test_a_receiver_may_name_a_time() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
    async with answering(503, f"Retry-After: {soon}") as url, sending() as sender:
        outcome = await sender.send(notice(url))
    assert outcome.retry_after is not None
    assert 300 < outcome.retry_after <= 600


@pytest.mark.req("DELV-02")
async def test_500_then_200() -> None:
    async def answer(_: Received) -> web.StreamResponse:
        return web.Response(status=500 if len(client.received) == 1 else 200)

    async with receiver(answer) as client, sending() as sender:
        assert await sender.send(notice(client.url)) == failed("status 500")
        assert await sender.send(notice(client.url, attempt=2)) == Outcome(delivered=True)
        assert client.received[0].headers["A2A-Delivery-Id"] == client.received[1].headers["A2A-Delivery-Id"]


# -- redirects


@pytest.mark.req("SSRF-01", "PAID-04")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(status: int) -> None:
    """Neither to another place, nor home, nor to a place that nobody may call."""
    async with receiver() as trap:

        async def elsewhere(_: Received) -> web.StreamResponse:
            return web.Response(status=status, headers={"Location": wheres[len(client.received) - 1]})

        async with receiver(elsewhere) as client, sending() as sender:
            wheres = [trap.url, client.url, "http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "//[", ""]
            for number in range(len(wheres)):
                assert await sender.send(notice(client.url, number)) == failed(f"status {status}")
            assert len(client.received) == len(wheres)
        assert trap.received == []


# -- the dead, the slow and the rude


@pytest.mark.req("DELV-04")
async def test_nobody_listens() -> None:
    with socket.socket() as taken:  # bound, not listening
        taken.bind(("127.0.0.1", 0))
        async with sending() as sender:
            assert await sender.send(notice(f"http://127.0.0.1:{taken.getsockname()[1]}/")) == failed("connection")


@pytest.mark.req("DELV-04")
async def test_nobody_accepts() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        async with sending(timeout=BRIEF) as sender:
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
            outcomes = await asyncio.gather(*(sender.send(notice(url, number)) for number in range(4)))
    assert set(outcomes) == {failed("timeout")}


@pytest.mark.req("DELV-04")
async def test_a_receiver_that_hangs() -> None:
    async with listener(hang) as url, sending(timeout=BRIEF) as sender:
        assert await sender.send(notice(url)) == failed("timeout")


@pytest.mark.req("DELV-04")
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_receiver_that_drips(before: bytes) -> None:
    """Each byte comes in time, and the answer never."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(before)
        for letter in b"HTTP/1.1 200 OK\r\nX-Slow: ".removeprefix(before) + b"a" * 4000:
            writer.write(bytes([letter]))
            await writer.drain()
            await asyncio.sleep(0.02)

    async with listener(drip) as url, sending(timeout=BRIEF) as sender:
        assert await sender.send(notice(url)) == failed("timeout")


@pytest.mark.req("DELV-04")
async def test_a_receiver_that_continues_for_ever() -> None:
    async def on_and_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        while True:
            writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.001)

    async with listener(on_and_on) as url, sending(timeout=BRIEF) as sender:
        assert await sender.send(notice(url)) == failed("timeout")


@pytest.mark.req("DELV-04")
async def test_a_receiver_that_does_not_read() -> None:
    async def ignore(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001 - streams cannot say it
        await asyncio.Event().wait()

    async with listener(ignore) as url, sending(timeout=BRIEF) as sender:
        assert await sender.send(notice(url, body=b"x" * 2**24)) == failed("timeout")


@pytest.mark.parametrize("_", range(effort(3, everything=20)))
async def test_a_receiver_that_resets(_: int) -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        reset(writer)

    async with listener(rude) as url, sending() as sender:
        assert await sender.send(notice(url)) == failed("connection")


@pytest.mark.req("SECR-03")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"hunter2\r\n\r\n", "no HTTP"),
        (b"SSH-2.0-hunter2\r\n", "no HTTP"),
        (b"-ERR unknown command hunter2\r\n", "no HTTP"),
        (b"HTTP/1.1 two hunter2\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 hunter2\r\nContent-Length: hunter2\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 hunter2\r\nhunter2 hunter2\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"hunter2" * 20_000 + b"\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: hunter2\r\n" * 20_000 + b"\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: hunter2", "connection"),
        (b"", "connection"),
    ],
)
async def test_a_receiver_that_speaks_something_else(said: bytes, why: str) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(said)
        await writer.drain()

    with structlog.testing.capture_logs() as logs:
        async with listener(babble) as url, sending() as sender:
            outcome = await sender.send(notice(url))
    assert outcome == failed(why)
    assert SECRET not in repr((outcome, logs))


# -- bodies


HEADS = {
    "announced": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % GIGABYTE,
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\n\r\n",
    "packed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % GIGABYTE,
}


@pytest.mark.req("DELV-02", "DELV-04")
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("status", [200, 500])
async def test_a_gigabyte_is_not_read(kind: str, status: int) -> None:
    """The status has said everything; then the sender hangs up."""
    sent = 0
    cut = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(HEADS[kind].replace(b"200 OK", b"%d X" % status))
        piece = b"x" * 65_536
        try:
            while sent < GIGABYTE:
                writer.write(b"10000\r\n%b\r\n" % piece if kind == "chunked" else piece)
                await writer.drain()
                sent += len(piece)
        except ConnectionError:
            cut.set()

    async with listener(flood) as url, sending(timeout=FAR) as sender:
        outcome = await sender.send(notice(url))
        await asyncio.wait_for(cut.wait(), 10)
    assert outcome == (Outcome(delivered=True) if status == 200 else failed("status 500"))
    assert sent < GIGABYTE / 16  # what fits between two sockets


@pytest.mark.req("DELV-02")
@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf",
    ],
)
@pytest.mark.parametrize("rude", [False, True])
async def test_a_body_that_breaks_off_unsays_nothing(head: bytes, *, rude: bool) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(head)
        await writer.drain()
        if rude:
            await asyncio.sleep(0.05)  # a reset overtakes what was written just before
            reset(writer)

    async with listener(break_off) as url, sending() as sender:
        assert [await sender.send(notice(url, number)) for number in (1, 2)] == [Outcome(delivered=True)] * 2


@pytest.mark.req("DELV-02", "DELV-04")
async def test_a_body_that_hangs_unsays_nothing() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await asyncio.Event().wait()

    async with listener(half) as url, sending(timeout=BRIEF) as sender:
        assert await sender.send(notice(url)) == Outcome(delivered=True)


# -- together


@pytest.mark.req("DELV-04")
@pytest.mark.parametrize("_", range(effort(3, everything=20)))
async def test_the_dead_do_not_hold_up_the_living(_: int) -> None:
    async with listener(hang) as dead, receiver() as client, sending(timeout=FAR) as sender:
        waiting = [asyncio.create_task(sender.send(notice(dead, number))) for number in range(10)]
        alive = await asyncio.gather(*(sender.send(notice(client.url, number)) for number in range(10)))
        assert set(alive) == {Outcome(delivered=True)}
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


@pytest.mark.req("SECR-03")
async def test_a_fault_of_our_own_is_told_without_its_words() -> None:
    def sign(_: object) -> str:
        raise LookupError(SECRET)

    with structlog.testing.capture_logs() as logs:
        async with receiver() as client, sending(sign=sign) as sender:
            outcome = await sender.send(notice(hook(client.url, token=SECRET)))
    assert outcome == failed("internal error")
    assert logs == [{"event": "webhook.broken", "log_level": "error", "error": "LookupError"}]


async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


@asynccontextmanager
async def answering(status: int, *fields: str) -> AsyncIterator[str]:
    """A receiver whose answers are full of things that are nobody's business."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        head = [f"HTTP/1.1 {status} {SECRET}", f"X-Secret: {SECRET}", f"Set-Cookie: a={SECRET}", *fields]
        body = "" if status in (101, 204, 304) else SECRET
        writer.write("\r\n".join([*head, f"Content-Length: {len(body)}", "", body]).encode())

    async with listener(talk) as url:
        yield url
