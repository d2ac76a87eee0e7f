"""What the listening server notices by itself, and what it does not give up over one connection (spec: DOOR-04)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, cast

import pytest
import structlog
from aiohttp.test_utils import make_mocked_request

from a2a_gateway.http.body_writer import BodyWriter
from a2a_gateway.http.connection import Connection, head_bytes
from a2a_gateway.http.stream_slots import StreamSlot, StreamSlots
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import GatewayOptions
from tests.support.door_upstream import Event, Playing, Scripted, event, plays
from tests.support.doors import http_door
from tests.support.http import SEND, Wire, get, house, port_of, post, wire
from tests.support.stage import Stage
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
        async with asyncio.timeout(30):
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
    look, failed = Connection.check_timeouts, set[Connection]()

    def fail_at_first(protocol: Connection, now: float) -> None:
        failed.add(protocol) if not failed else None
        if protocol in failed:
            raise RuntimeError("nobody foresaw this")
        look(protocol, now)

    monkeypatch.setattr(Connection, "check_timeouts", fail_at_first)
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
            async with asyncio.timeout(30):
                readers = [asyncio.create_task(connection.chunk()) for connection in (one, other)]
                done, pending = await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
                chunks = [task.result() for task in done]
            for task in pending:
                task.cancel()
            assert chunks == [b": keep-alive\n\n"]
    assert "http.not_kept_alive" in {entry["event"] for entry in logs}


HOLD = SEND.replace(b'"message":', b'"metadata":{"skill":"hold"},"message":', 1)


REQUEST = make_mocked_request("GET", "/")


def refusal(streams: StreamSlots, client: str) -> str:
    with pytest.raises(A2AError) as caught:
        streams.admit(REQUEST, client, b"")
    assert (caught.value.reason, caught.value.retry_after) == (Reason.OVERLOADED, 1)
    return caught.value.message


@pytest.mark.req("DOOR-04", "LIMT-02")
async def test_places_are_counted_for_each_client_and_in_all() -> None:
    streams = StreamSlots(GatewayOptions(streams_per_client=2, streams=3))
    slots = [streams.admit(REQUEST, client, b"") for client in ("a", "a", "b")]
    assert refusal(streams, "a").startswith("Your address has 2 streams open")
    assert refusal(streams, "c").startswith("The gateway has 3 streams open")
    assert streams.count == 3
    for slot in slots:
        slot.free()
        slot.free()  # once is enough
    assert streams.count == 0
    assert not streams._clients  # noqa: SLF001 - clients come and go, and nothing may stay of them


@pytest.mark.req("DOOR-04", "LIMT-02")
async def test_a_request_that_ends_without_its_stream_frees_the_slot() -> None:
    """As when somebody's middleware answers something else."""
    streams = StreamSlots(GatewayOptions())

    async def request() -> None:
        streams.admit(REQUEST, "a", b"")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await asyncio.create_task(request())
    await asyncio.sleep(0)
    assert streams.count == 0


@pytest.mark.req("KEEP-01", "SSEV-01")
async def test_a_comment_is_due_between_events_only() -> None:
    idle = StreamSlots(GatewayOptions()).admit(REQUEST, "a", b"")
    idle.writer = flow = BodyWriter(REQUEST)
    cast("Any", REQUEST.protocol).writing_paused = False
    assert idle.idle_since(time.monotonic())
    flow.between_events = False
    assert not idle.idle_since(time.monotonic())


@asynccontextmanager
async def held(request: bytes, **gateway: Any) -> AsyncIterator[tuple[Wire, Stage]]:
    """A stream whose agent does nothing, after its first event."""
    stage = Stage()
    async with house(stage.agent, gateway=gateway) as server, wire(port_of(server)) as connection:
        await connection.send(request)
        assert (await connection.head())[1] == 200
        yield connection, stage
        stage.release.set()


async def heard(connection: Wire, seconds: float) -> list[bytes]:
    """What comes within a while."""
    found: list[bytes] = []
    try:
        async with asyncio.timeout(seconds):
            while chunk := await connection.chunk():
                found.append(chunk)
    except TimeoutError:
        pass
    return found


@pytest.mark.req("KEEP-01")
@pytest.mark.parametrize("binding", ["rest", "jsonrpc"])
async def test_an_idle_stream_gets_comments_until_it_goes_on(binding: str) -> None:
    rpc = b'{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":%b}' % HOLD
    async with held(post("/message:stream", HOLD) if binding == "rest" else post("/", rpc), keep_alive=0.05) as (
        connection,
        stage,
    ):
        text = b""
        while text.count(b": keep-alive\n\n") < 3:
            text += await connection.chunk()
        assert text.startswith(b"id: 1\n")
        stage.release.set()
        rest = b"".join(await heard(connection, 5))
        assert b"TASK_STATE_COMPLETED" in rest.replace(b": keep-alive\n\n", b"")


@pytest.mark.req("KEEP-01")
async def test_no_stream_is_silent_for_longer_than_the_setting_says() -> None:
    """A proxy with a limit just above it would cut the stream (CONF-85). The shortest of several, on a busy machine."""
    longest, times = 0.4, list[float]()
    async with held(post("/message:stream", HOLD), keep_alive=longest) as (connection, _):
        while len(times) < 5:
            if b": keep-alive\n\n" in await connection.chunk():
                times.append(time.monotonic())
    assert min(after - before for before, after in pairwise(times)) < longest


@pytest.mark.req("KEEP-01")
async def test_a_comment_is_for_idle_streams_only() -> None:
    """Half a minute by default: nothing comes for as long as a test waits."""
    async with held(post("/message:stream", HOLD)) as (connection, _):
        assert not [chunk for chunk in await heard(connection, 0.3) if b"keep-alive" in chunk]
    assert GatewayOptions().keep_alive == 30


@pytest.mark.req("DOOR-11")
async def test_lines_have_no_comments() -> None:
    request = post("/message:stream", HOLD, "Accept: application/x-ndjson")
    async with held(request, keep_alive=0.02) as (connection, _):
        chunks = await heard(connection, 0.3)
        assert chunks
        assert all(line.startswith(b'{"result":') for chunk in chunks for line in chunk.splitlines())


@pytest.mark.req("KEEP-01")
async def test_before_the_first_event_nothing_is_said() -> None:
    """A comment would be the beginning of a stream, and an error could no longer be an ordinary answer."""
    stage = Stage()
    direct = SEND.replace(b'"message":', b'"metadata":{"skill":"maybe"},"message":', 1)
    async with (
        house(stage.agent, gateway={"keep_alive": 0.02}) as server,
        wire(port_of(server)) as connection,
    ):
        await connection.send(post("/message:stream", direct))
        await stage.began()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await connection.reader.read(1)
        stage.release.set()
        assert (await connection.head())[1] == 200


@pytest.mark.req("KEEP-01")
async def test_who_leaves_is_forgotten_at_once_and_the_work_goes_on() -> None:
    stage = Stage()
    async with house(stage.agent) as server:
        async with wire(port_of(server)) as connection:
            await connection.send(post("/message:stream", HOLD))
            await connection.head()
            await connection.chunk()
            assert server.pipeline.streams.count == 1
        async with asyncio.timeout(30):
            while server.pipeline.streams.count:  # noqa: ASYNC110 - nothing tells when
                await asyncio.sleep(0.001)
        stage.release.set()
        async with asyncio.timeout(30), wire(port_of(server)) as connection:
            while b"TASK_STATE_COMPLETED" not in (await connection.ask(get("/tasks"))).body:  # noqa: ASYNC110 - polls
                await asyncio.sleep(0.01)


def test_a_head_has_one_line_for_each_header_or_is_an_error() -> None:
    assert head_bytes(200, [("A", "b\tc"), ("D", "é")]) == "HTTP/1.1 200 OK\r\nA: b\tc\r\nD: é\r\n\r\n".encode()
    for value in ("x\r\nSet-Cookie: y", "x\ny", "x\ry", "x\0", "x\x7f"):
        with pytest.raises(ValueError, match="control characters"):
            head_bytes(200, [("A", value)])
