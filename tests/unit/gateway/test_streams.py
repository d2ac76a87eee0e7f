"""Streams on the wire: what is ready goes out at once and in one piece, and who leaves is let go of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import orjson
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_gateway.upstream import Answer, CallContext, UpstreamAnswer
from a2a_proto import a2a_pb2 as pb
from tests.support.door_events import event_of, loads
from tests.support.door_upstream import Event, Playing, Script, Scripted, event, plays
from tests.support.doors import OpenGateway, http_door
from tests.support.house import A2AError, GatewayOptions, Reason
from tests.support.http import Wire, get, once, post, wire

SUBSCRIBE = get("/tasks/t:subscribe")
LINES = get("/tasks/t:subscribe", "Accept: application/x-ndjson")
RPC = post("/", b'{"jsonrpc":"2.0","id":"s","method":"SubscribeToTask","params":{"id":"t"}}')
RPC_LINES = RPC.replace(b"\r\n\r\n", b"\r\nAccept: application/x-ndjson\r\n\r\n")
FORMS = {"rest": SUBSCRIBE, "jsonrpc": RPC, "lines": LINES, "jsonrpc lines": RPC_LINES}
STOPPING = A2AError(Reason.UNAVAILABLE, "The server is stopping.", retry_after=1)


def open_ended(gate: asyncio.Event, *batches: Sequence[Event]) -> Script:
    """Say these, and wait."""

    async def script(playing: Playing) -> AsyncIterator[Sequence[Event]]:
        for batch in batches:
            yield batch
        await gate.wait()

    return script


def numbers(chunk: bytes) -> list[int]:
    """The ids of the events in a chunk."""
    assert chunk.endswith(b"\n\n")
    return [event_of(frame).number for frame in chunk.decode().removesuffix("\n\n").split("\n\n")]


async def subscribed(door: OpenGateway, stack: AsyncExitStack, request: bytes = SUBSCRIBE) -> Wire:
    """A connection whose stream has begun."""
    connection = await stack.enter_async_context(wire(door.port))
    await connection.send(request)
    _, status, _ = await connection.head()
    assert status == 200
    return connection


async def emptied(door: OpenGateway, upstream: Scripted) -> None:
    """Wait until nothing is left of any stream."""
    async with asyncio.timeout(30):
        for playing in upstream.streams:
            await playing.closed.wait()
        while door.streams.count:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.001)


@pytest.mark.req("MEDI-04", "SSEV-03", "SSEV-04")
@pytest.mark.parametrize("form", FORMS)
async def test_a_stream_from_its_head_to_its_end(form: str) -> None:
    upstream = Scripted(script=plays((event(1),), (event(2), event(3))))
    async with http_door(upstream) as door, wire(door.port) as connection:
        answer = await connection.ask(FORMS[form])
        kind = "application/x-ndjson" if form.endswith("lines") else "text/event-stream"
        assert (answer.status, answer.headers["Content-Type"]) == (200, kind)
        assert answer.headers["Cache-Control"] == "no-cache"
        assert answer.headers["X-Accel-Buffering"] == "no"
        assert answer.headers["Transfer-Encoding"] == "chunked"
        for name in ("final", "retry:", "event:"):
            assert name not in answer.body.decode()
        assert (await connection.ask(get("/healthz"))).status == 200  # it has ended, and the connection has not
        await emptied(door, upstream)


@pytest.mark.req("SSEV-04", "ORDR-01")
async def test_what_is_ready_goes_out_in_one_piece_and_waits_for_nothing() -> None:
    gate = asyncio.Event()
    upstream = Scripted(script=open_ended(gate, (event(1), event(2)), (), (event(3), event(4), event(5))))
    async with http_door(upstream) as door, AsyncExitStack() as stack:
        connection = await subscribed(door, stack)
        async with asyncio.timeout(30):
            assert numbers(await connection.chunk()) == [1, 2]
            assert numbers(await connection.chunk()) == [3, 4, 5]
        gate.set()
        assert await connection.chunk() == b""


async def test_a_stream_without_events_has_a_head_and_an_end() -> None:
    async with http_door(Scripted(script=plays())) as door:
        answer = await once(door.port, SUBSCRIBE)
    assert (answer.status, answer.headers["Content-Type"], answer.body) == (200, "text/event-stream", b"")


@pytest.mark.req("SSEV-01", "STRM-07")
async def test_what_cannot_be_written_first_is_an_error_and_later_the_last_event() -> None:
    broken = Event(2, b"\xff\xff")
    async with http_door(Scripted(script=plays((broken,)))) as door:
        answer = await once(door.port, SUBSCRIBE)
        assert (answer.status, answer.reason) == (500, "INVALID_AGENT_RESPONSE")
    async with http_door(Scripted(script=plays((event(1),), (broken,)))) as door:
        answer = await once(door.port, SUBSCRIBE)
        first, last, _ = answer.body.decode().split("\n\n")
        assert event_of(first).number == 1
        assert event_of(last).data["error"]["details"][0]["reason"] == "INVALID_AGENT_RESPONSE"


@pytest.mark.req("DOOR-11")
async def test_lines_end_with_at_most_one_error() -> None:
    error = A2AError(Reason.SLOW_READER, "Too slow.", retry_after=1)
    async with http_door(Scripted(script=plays((event(1), event(2)), error))) as door:
        answer = await once(door.port, LINES)
    *results, last, rest = answer.body.split(b"\n")
    assert [list(loads(line)) for line in results] == [["result"]] * 2
    assert rest == b""
    found = loads(last)
    assert list(found) == ["error"]
    assert (found["error"]["code"], found["error"]["message"]) == (14, "Too slow.")


OLDER = {"0.3": ("/", b"tasks/resubscribe"), "draft": ("/draft", b"SubscribeToTask"), "1.0": ("/", b"SubscribeToTask")}


@pytest.mark.req("DOOR-11", "JRPC-07")
@pytest.mark.parametrize("version", OLDER)
async def test_lines_of_json_rpc_are_responses_in_every_version(version: str) -> None:
    path, method = OLDER[version]
    body = b'{"jsonrpc":"2.0","id":"s","method":"%b","params":{"id":"t"}}' % method
    error = A2AError(Reason.SLOW_READER, "Too slow.", retry_after=1)
    upstream = Scripted(script=plays((event(1), event(2)), error))
    async with http_door(upstream, GatewayOptions(profiles=("draft",)), old=True) as door:
        answer = await once(door.port, post(path, body, "Accept: text/html", "Accept: application/x-ndjson"))
        refused = await once(door.port, post(path, body, "Accept: text/html"))
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    *results, last = [loads(line) for line in answer.body.splitlines()]
    assert [(one["jsonrpc"], one["id"], set(one)) for one in results] == [("2.0", "s", {"jsonrpc", "id", "result"})] * 2
    assert (last["id"], last["error"]["code"], set(last)) == ("s", -32053, {"jsonrpc", "id", "error"})
    assert b'There is text/event-stream, application/x-ndjson; Accept asks for \\"text/html\\".' in refused.body


@pytest.mark.req("DOOR-11")
async def test_lines_that_cannot_begin_are_an_ordinary_error() -> None:
    async with http_door(Scripted(script=plays(A2AError(Reason.TASK_NOT_FOUND, "Task not found.")))) as door:
        answer = await once(door.port, LINES)
    assert (answer.status, answer.headers["Content-Type"]) == (404, "application/a2a+json")
    assert answer.reason == "TASK_NOT_FOUND"


@pytest.mark.req("SSEV-03")
async def test_a_client_of_http_1_0_reads_to_the_end_of_the_connection() -> None:
    upstream = Scripted(script=plays((event(1),), (event(2),)))
    async with http_door(upstream) as door, wire(door.port) as connection:
        await connection.send(get("/tasks/t:subscribe", "Connection: keep-alive", version="1.0"))
        _, status, headers = await connection.head()
        assert (status, headers["Connection"], headers.get("Transfer-Encoding")) == (200, "close", None)
        assert numbers(await connection.ended()) == [1, 2]


# -- events that are offered


@pytest.mark.req("ORDR-01")
@pytest.mark.parametrize("form", FORMS)
async def test_what_is_taken_looks_like_what_is_given(form: str) -> None:
    """Whichever way a batch comes, the bytes are the same."""

    async def offers(playing: Playing) -> AsyncIterator[Sequence[Event]]:
        yield (event(1),)
        assert playing.take is not None
        assert playing.take((event(2), event(3)))
        assert playing.take((event(4),))
        yield (event(5),)

    bodies = []
    for script in (plays((event(1),), (event(2), event(3)), (event(4),), (event(5),)), offers):
        async with http_door(Scripted(script=script)) as door:
            bodies.append((await once(door.port, FORMS[form])).body)
    assert bodies[0] == bodies[1]


async def test_nothing_is_taken_before_the_first_event() -> None:
    takers: list[object] = []

    async def offers(playing: Playing) -> AsyncIterator[Sequence[Event]]:
        takers.append(playing.take)
        yield (event(1),)

    async with http_door(Scripted(script=offers)) as door:
        assert numbers((await once(door.port, SUBSCRIBE)).body) == [1]
    assert takers == [None]


async def test_what_cannot_be_taken_fails_where_it_can_be_told() -> None:
    broken = (Event(2, b"\xff\xff"),)

    async def offers(playing: Playing) -> AsyncIterator[Sequence[Event]]:
        yield (event(1),)
        assert playing.take is not None
        assert not playing.take(broken)
        yield broken

    async with http_door(Scripted(script=offers)) as door:
        answer = await once(door.port, SUBSCRIBE)
    assert answer.body.decode().count("event: error") == 1


@pytest.mark.req("RPLY-06")
async def test_a_client_that_does_not_read_is_offered_no_more_than_it_can_hold() -> None:
    taken, full = 0, asyncio.Event()

    async def offers(playing: Playing) -> AsyncIterator[Sequence[Event]]:
        nonlocal taken
        yield (event(1),)
        assert playing.take is not None
        while playing.take((event(taken + 2, "x" * 100_000),)):
            taken += 1
            await asyncio.sleep(0)
        full.set()
        yield (event(1_000_000),)

    async with http_door(Scripted(script=offers)) as door, AsyncExitStack() as stack:
        connection = await subscribed(door, stack)
        async with asyncio.timeout(30):
            await full.wait()
            seen: list[int] = []
            while chunk := await connection.chunk():
                seen += numbers(chunk)
    assert seen == [*range(1, taken + 2), 1_000_000]
    assert taken < 500  # some megabytes of the kernel's, and then no more


# -- ends from outside


@pytest.mark.req("GEN-07", "ORDR-04")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", ["close", "abort", "half-close"])
async def test_who_leaves_is_let_go_of_at_once(form: str, how: str) -> None:
    """A client that says it has no more to send has left, too: in HTTP nobody can tell the two apart."""
    upstream = Scripted(script=open_ended(asyncio.Event(), (event(1),)))
    async with http_door(upstream) as door, AsyncExitStack() as stack:
        staying = await subscribed(door, stack)
        leaving = await subscribed(door, stack, FORMS[form])
        await leaving.chunk()
        assert door.streams.count == 2
        if how == "close":
            leaving.writer.close()
        elif how == "abort":
            leaving.writer.transport.abort()
        else:
            leaving.writer.write_eof()
        async with asyncio.timeout(30):
            await upstream.streams[1].closed.wait()
        assert not upstream.streams[0].closed.is_set()
        assert numbers(await staying.chunk()) == [1]
        while door.streams.count > 1:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.001)


async def test_who_leaves_before_the_first_event_is_let_go_of_too() -> None:
    gate = asyncio.Event()
    upstream = Scripted(script=open_ended(gate))
    async with http_door(upstream) as door:
        async with wire(door.port) as connection:
            await connection.send(SUBSCRIBE)
            while not upstream.streams or not door.streams.count:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.001)
        await emptied(door, upstream)


@pytest.mark.req("DURA-08", "STRM-07")
@pytest.mark.parametrize("form", FORMS)
async def test_a_stream_that_is_cut_says_why_and_ends(form: str) -> None:
    upstream = Scripted(script=open_ended(asyncio.Event(), (event(1),)))
    async with http_door(upstream) as door, wire(door.port) as connection:
        await connection.send(FORMS[form])
        await connection.head()
        await connection.chunk()
        cut = upstream.streams[0].cut
        assert cut is not None
        await cut(STOPPING)
        await cut(STOPPING)  # once is enough
        farewell = (await connection.chunk()).decode()
        assert await connection.chunk() == b""
        assert "The server is stopping." in farewell
        assert farewell.startswith("event: error\ndata: ") == (not form.endswith("lines"))
        await emptied(door, upstream)


@pytest.mark.req("DURA-08")
async def test_a_cut_that_comes_too_late_does_not_hit_the_next_request() -> None:
    """Whoever cuts does so soon, not at once: the stream may be over by then, and its connection serve another call."""
    asked, remove = asyncio.Event(), asyncio.Event()

    class Slow(Scripted):
        async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
            asked.set()
            await remove.wait()
            return Answer(pb.Task(id="t"))

    upstream = Slow(script=plays((event(1),)))
    async with http_door(upstream) as door, wire(door.port) as connection:
        await connection.send(SUBSCRIBE + get("/tasks/t"))
        assert numbers((await connection.answer()).body) == [1]
        await asked.wait()
        cut = upstream.streams[0].cut
        assert cut is not None
        await cut(STOPPING)
        await asyncio.sleep(0)
        remove.set()
        assert (await connection.answer()).json["id"] == "t"


@pytest.mark.req("DURA-08", "STRM-07")
async def test_a_stream_that_is_cut_before_its_first_event_is_refused() -> None:
    upstream = Scripted(script=open_ended(asyncio.Event()))
    async with http_door(upstream) as door, wire(door.port) as connection:
        await connection.send(SUBSCRIBE)
        while not upstream.streams or upstream.streams[0].cut is None:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        await upstream.streams[0].cut(STOPPING)
        answer = await connection.answer()
        assert (answer.status, answer.reason, answer.headers["Retry-After"]) == (503, "UNAVAILABLE", "1")
        await emptied(door, upstream)


@pytest.mark.req("DURA-08", "RPLY-06")
async def test_a_client_that_does_not_read_its_farewell_is_dropped() -> None:
    async def floods(playing: Playing) -> AsyncIterator[Sequence[Event]]:
        number = 0
        while True:
            number += 1
            yield (event(number, "x" * 100_000),)

    upstream = Scripted(script=floods)
    async with http_door(upstream) as door, AsyncExitStack() as stack:
        connection = await subscribed(door, stack)
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        while upstream.streams[0].cut is None:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)  # stuck, or not yet: the outcome is the same
        await upstream.streams[0].cut(STOPPING)
        await emptied(door, upstream)


# -- many


@pytest.mark.req("ORDR-03", "RPLY-01")
async def test_everybody_sees_the_same_bytes() -> None:
    gate = asyncio.Event()
    batch = (event(2), event(3))

    async def script(playing: Playing) -> AsyncIterator[Sequence[Event]]:
        yield (event(1),)
        await gate.wait()
        assert playing.take is not None
        assert playing.take(batch)
        yield (event(4),)

    upstream = Scripted(script=script)
    async with http_door(upstream, GatewayOptions(streams_per_client=200)) as door, AsyncExitStack() as stack:
        connections = [await subscribed(door, stack) for _ in range(100)]
        first = [await connection.chunk() for connection in connections]
        gate.set()
        rest = [[await connection.chunk() for _ in range(3)] for connection in connections]
        assert len(set(first)) == 1
        assert all(chunks == rest[0] for chunks in rest)
        assert [numbers(chunk) for chunk in rest[0] if chunk] == [[2, 3], [4]]
        await emptied(door, upstream)


@pytest.mark.req("JRPC-07", "ORDR-03")
async def test_everybody_has_an_id_of_their_own() -> None:
    """Also where REST and JSON-RPC readers of one batch, of both versions of HTTP, take turns."""
    batches = ((event(1),), (event(2), event(3)))
    async with http_door(Scripted(script=plays(*batches))) as door:
        rpc = [RPC.replace(b'"s"', b'"%d"' % number) for number in range(3)]
        old = get("/tasks/t:subscribe", version="1.0")
        answers = await asyncio.gather(
            *(once(door.port, one) for one in (rpc[0], SUBSCRIBE, rpc[1], LINES, old, rpc[2]))
        )
    bare = answers[1].body
    assert answers[4].body == bare
    for number, answer in enumerate((answers[0], answers[2], answers[5])):
        told = [event_of(frame).data for frame in answer.body.decode().removesuffix("\n\n").split("\n\n")]
        assert [one["id"] for one in told] == [str(number)] * 3
        plain = [event_of(frame).data for frame in bare.decode().removesuffix("\n\n").split("\n\n")]
        assert [one["result"] for one in told] == plain
    assert [orjson.loads(line)["result"] for line in answers[3].body.splitlines()] == plain
