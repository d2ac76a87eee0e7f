"""Events as bytes: frames, long texts that readers share, and what waits for slow clients (spec: DOOR-04, RPLY-06)."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_gateway.errors import failure_of
from a2a_gateway.http.backlog import NO_TEXT, STALLED_SECONDS, Backlog, SharedText
from a2a_gateway.http.frames import LINES, REST, Frames, jsonrpc_frames, jsonrpc_lines
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.options import GatewayOptions
from tests.support.door_events import event_of, loads
from tests.support.door_upstream import Event, Playing, Scripted, event, plays
from tests.support.doors import OpenGateway, http_door
from tests.support.http import Answer, Wire, deaf, get, once, post, wire

FAILURE = failure_of(A2AError(Reason.TASK_NOT_FOUND, "No such\r\n\ntask: \u2028 \x00"))
SSE = [REST, jsonrpc_frames(b'"q"')]
RPC_LINES = jsonrpc_lines(b'"q"')


@pytest.mark.req("SSEV-01", "SSEV-02", "JRPC-07", "RPLY-01")
def test_what_frames_are() -> None:
    assert REST.event(7, b"{}") == b"id: 7\ndata: {}\n\n"
    assert REST.event(0, b"{}") == b"data: {}\n\n"
    assert jsonrpc_frames(b"1.0").event(7, b"{}") == b'id: 7\ndata: {"jsonrpc":"2.0","id":1.0,"result":{}}\n\n'
    assert jsonrpc_frames(b'"q"').event(0, b"{}") == b'data: {"jsonrpc":"2.0","id":"q","result":{}}\n\n'
    assert REST.comment == jsonrpc_frames(b"1").comment == b": keep-alive\n\n"


@pytest.mark.req("DOOR-11")
def test_what_lines_are() -> None:
    assert LINES.event(7, b"{}") == b'{"result":{}}\n'
    assert LINES.comment == b""
    assert loads(LINES.error(FAILURE))["error"]["code"] == 5  # gRPC's number, as grpc-gateway has it
    assert RPC_LINES.event(7, b"{}") == b'{"jsonrpc":"2.0","id":"q","result":{}}\n'
    assert RPC_LINES.comment == b""
    told = loads(RPC_LINES.error(FAILURE))
    assert (told["id"], told["error"]["code"]) == ("q", -32001)


@pytest.mark.req("RPLY-06")
@pytest.mark.parametrize("frames", [*SSE, LINES, RPC_LINES])
@pytest.mark.parametrize("number", [0, 7])
def test_what_is_around_a_long_event_is_around_every_event(frames: Frames, number: int) -> None:
    before, behind = frames.wrapping(number)
    assert before + b"{}" + behind == frames.event(number, b"{}")


@pytest.mark.req("SSEV-01")
@pytest.mark.parametrize("frames", SSE)
def test_no_error_breaks_a_frame(frames: Frames) -> None:
    frame = frames.error(FAILURE).decode()
    assert frame.endswith("\n\n")
    found = event_of(frame[:-2])
    assert (found.name, found.number) == ("error", 0)
    assert found.data["error"]["message"] == FAILURE.message  # nothing is lost on the way either


@pytest.mark.req("SSEV-01", "SSEV-02", "JRPC-07")
@given(text=st.text(), name=st.text(), number=st.integers(0, 2**53))
@pytest.mark.parametrize("frames", [*SSE, LINES, RPC_LINES])
def test_no_event_breaks_a_frame(frames: Frames, text: str, name: str, number: int) -> None:
    """Not by any text, nor by names that somebody has chosen."""
    artifact = pb.Artifact(artifact_id=text, parts=[pb.Part(text=text, metadata={name: text})])
    told = pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(artifact=artifact))
    frame = frames.event(number, V1.encode(told)).decode()
    if frames in {LINES, RPC_LINES}:
        assert frame.count("\n") == 1
        data = loads(frame)["result"]
    else:
        found = event_of(frame.removesuffix("\n\n"))
        assert found.number == number
        data = found.data.get("result", found.data)
    assert data["artifactUpdate"]["artifact"] == {
        "artifactId": text,
        "parts": [{"text": text, "metadata": {name: text}}],
    }


@dataclass(eq=False)
class Client:
    unsent: int
    text: SharedText = NO_TEXT
    gone: bool = False

    def cut_off(self) -> None:
        self.gone = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def gone(*clients: Client) -> list[bool]:
    return [client.gone for client in clients]


@pytest.mark.req("DOOR-04", "RPLY-06")
def test_the_one_for_whom_the_most_waits_has_to_go() -> None:
    backlog = Backlog(100)
    clients = [Client(40), Client(50), Client(10)]
    for client in clients:
        backlog.add(client)
    assert (backlog.size, gone(*clients)) == (100, [False, False, False])
    late = Client(11)
    backlog.add(late)
    assert (backlog.size, gone(*clients, late)) == (61, [False, True, False, False])


@pytest.mark.req("RPLY-06")
def test_as_many_go_as_it_takes_and_the_last_one_stays() -> None:
    backlog = Backlog(10)
    clients = [Client(6), Client(4), Client(500)]
    for client in clients:
        backlog.add(client)
    assert gone(*clients) == [False, False, True]
    alone = Backlog(10)
    alone.add(clients[2])
    assert alone.size == 500
    alone.add(Client(600))
    assert alone.size == 500


@pytest.mark.req("RPLY-06")
def test_who_has_just_been_sent_something_goes_last(clock: list[float]) -> None:
    backlog = Backlog(100)
    deaf, slow, fresh = Client(40), Client(50), Client(60)
    for client in (deaf, slow):
        backlog.add(client)
    clock[0] += STALLED_SECONDS + 1
    slow.unsent = 45  # has taken something since
    for client in (deaf, slow, fresh):
        backlog.add(client)
    assert gone(deaf, slow, fresh) == [True, False, True]
    assert backlog.size == 45


def test_what_was_taken_is_forgotten() -> None:
    backlog = Backlog(100)
    client = Client(60)
    for unsent in (60, 90, 10):
        client.unsent = unsent
        backlog.add(client)
        assert backlog.size == unsent
    backlog.remove(client)
    backlog.remove(client)
    assert backlog.size == 0


@pytest.mark.req("RPLY-06")
def test_what_is_shared_counts_once() -> None:
    backlog = Backlog(1000)
    text = SharedText(b"x" * 700, beside=50)
    clients = [Client(20, text) for _ in range(10)]
    for client in clients:
        backlog.add(client)
    assert backlog.size == 750 + 200
    for client in clients[1:]:
        backlog.remove(client)
    assert backlog.size == 750 + 20
    other = Client(0, SharedText(b"y" * 300))
    backlog.add(other)
    assert (backlog.size, gone(clients[0], other)) == (300, [True, False])
    backlog.remove(other)
    assert backlog.size == 0
    assert not backlog._holders  # noqa: SLF001 - or texts would stay


BIG = 3_000_000
HUGE = 20_000_000
"""More than the kernel takes."""
SUBSCRIBE = get("/tasks/t:subscribe")
OLD = get("/tasks/t:subscribe", version="1.0")
LONG_LINES = get("/tasks/t:subscribe", "Accept: application/x-ndjson")
RPC = post("/", b'{"jsonrpc":"2.0","id":"s","method":"SubscribeToTask","params":{"id":"t"}}')
FORMS = {"rest": SUBSCRIBE, "jsonrpc": RPC, "lines": LONG_LINES, "http/1.0": OLD}
STOPPING = A2AError(Reason.UNAVAILABLE, "The server is stopping.", retry_after=1)


def long(number: int, size: int = BIG) -> Event:
    return event(number, str(number).ljust(size, "x"))


def texts(form: str, answer: Answer) -> list[tuple[int, str]]:
    """Number and text of each event."""
    if form == "lines":
        told = [(0, loads(line)["result"]) for line in answer.body.splitlines()]
    else:
        frames = answer.body.decode().removesuffix("\n\n").split("\n\n")
        told = [(found.number, found.data) for found in map(event_of, frames)]
    if form == "jsonrpc":
        assert all(list(data) == ["jsonrpc", "id", "result"] and data["id"] == "s" for _, data in told)
        told = [(number, data["result"]) for number, data in told]
    return [(number, data["artifactUpdate"]["artifact"]["parts"][0]["text"]) for number, data in told]


@pytest.mark.req("SSEV-01", "JRPC-07", "DOOR-11")
@pytest.mark.parametrize("form", FORMS)
async def test_what_is_long_looks_like_what_is_short(form: str) -> None:
    """First, last and in between, by itself and beside others."""
    batches = ((long(1),), (event(2),), (event(3), long(4), event(5)), tuple(long(n, 9_000) for n in range(6, 99)))
    async with http_door(Scripted(script=plays(*batches))) as door:
        found = texts(form, await once(door.port, FORMS[form]))
    sizes = [BIG, 1, 1, BIG, 1, *(9_000 for _ in range(6, 99))]
    assert found == [
        (0 if form == "lines" else number, str(number).ljust(size, "x")) for number, size in enumerate(sizes, 1)
    ]


async def test_who_asks_for_the_head_gets_nothing_long() -> None:
    async with http_door(Scripted(script=plays((long(1),)))) as door:
        answer = await once(door.port, get("/tasks/t:subscribe", verb="HEAD"), head=True)
    assert (answer.status, answer.body) == (200, b"")


async def test_what_is_long_and_cannot_be_written_is_an_error() -> None:
    broken = Event(1, b"\xff" * BIG)
    async with http_door(Scripted(script=plays((broken,)))) as door:
        assert (await once(door.port, SUBSCRIBE)).status == 500
    async with http_door(Scripted(script=plays((event(1),), (broken,)))) as door:
        assert (await once(door.port, SUBSCRIBE)).body.count(b"event: error") == 1


@pytest.mark.req("ORDR-03")
async def test_what_is_long_is_not_taken_but_given() -> None:
    async def offers(playing: Playing) -> AsyncIterator[Sequence[Event]]:
        yield (event(1),)
        assert playing.take is not None
        assert not playing.take((long(2),))
        yield (long(2),)

    async with http_door(Scripted(script=offers)) as door:
        found = texts("rest", await once(door.port, SUBSCRIBE))
    assert [number for number, _ in found] == [1, 2]


# -- readers that take it slowly


def shared() -> int:
    """How many long texts are kept."""
    return sum(type(kept) is SharedText and kept is not NO_TEXT for kept in gc.get_objects())


async def becomes(count: int) -> None:
    async with asyncio.timeout(30):
        while shared() != count:  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0.01)


@pytest.mark.req("RPLY-06", "DOOR-04")
async def test_all_who_are_being_sent_it_share_it_and_with_the_last_it_goes() -> None:
    """Also when each has been given bytes of their own, as over a channel, and whatever they speak."""

    async def script(playing: Playing) -> AsyncIterator[Sequence[Event]]:
        yield (long(1, HUGE),)
        await asyncio.Event().wait()

    upstream = Scripted(script=script)
    async with http_door(upstream) as door, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(deaf(door.port)) for _ in range(6)]
        for client, request in zip(clients, (SUBSCRIBE, RPC, LONG_LINES, OLD, SUBSCRIBE, RPC), strict=True):
            await asyncio.get_running_loop().sock_sendall(client, request)
        async with asyncio.timeout(30):
            while len(upstream.streams) < 6 or not _all_wait(door):  # noqa: ASYNC110 - nothing tells when
                await asyncio.sleep(0.01)
        assert shared() == 1
        assert max(connection.unsent for connection in door.door.connections) < HUGE / 10
        await stack.aclose()
        await becomes(0)


def _all_wait(door: OpenGateway) -> bool:
    connections = door.door.connections
    return bool(connections) and all(connection.paused for connection in connections)


@pytest.mark.req("KEEP-01", "SSEV-01")
async def test_nothing_is_said_inside_an_event() -> None:
    upstream = Scripted(script=plays((event(1),), (long(2, HUGE),)))
    async with http_door(upstream, GatewayOptions(keep_alive=0.01)) as door, wire(door.port) as connection:
        await connection.send(SUBSCRIBE)
        await connection.head()
        body = b""
        while chunk := await _slowly(connection):
            body += chunk
    last = body.decode().removesuffix("\n\n").rpartition("\n\n")[2]
    assert event_of(last).number == 2
    assert b"keep-alive" not in body[body.index(b"id: 2") :].removesuffix(b": keep-alive\n\n")


async def _slowly(connection: Wire) -> bytes:
    """One chunk, with pauses in which the server has nothing to do but to look after its streams."""
    size = int(await connection.reader.readuntil(b"\r\n"), 16)
    data = b""
    while len(data) < size + 2:
        data += await connection.reader.readexactly(min(500_000, size + 2 - len(data)))
        await asyncio.sleep(0.02)
    return data[:-2]


@pytest.mark.req("DURA-08", "STRM-10")
@pytest.mark.parametrize("form", FORMS)
async def test_a_stream_that_is_cut_inside_an_event_breaks_off(form: str) -> None:
    """A farewell would look like a part of the event."""
    upstream = Scripted(script=plays((event(1),), (long(2, HUGE),)))
    async with http_door(upstream) as door, wire(door.port) as connection:
        transport: Any = connection.writer.transport
        await connection.send(FORMS[form])
        await connection.head()
        transport.pause_reading()
        async with asyncio.timeout(30):
            while not _all_wait(door):  # noqa: ASYNC110 - nothing tells when
                await asyncio.sleep(0.01)
        cut = upstream.streams[0].cut
        assert cut is not None
        await cut(STOPPING)
        async with asyncio.timeout(30):
            await upstream.streams[0].closed.wait()
        transport.resume_reading()
        rest = await connection.ended()
        assert b"stopping" not in rest
        assert not rest.endswith(b"\r\n0\r\n\r\n")
        await becomes(0)
