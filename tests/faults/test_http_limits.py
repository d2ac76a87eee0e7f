"""Clients that send too much, or too slowly, or read nothing: bounded, told why, forgotten (spec: DOOR-04, LIMT-01)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from typing import Any

import pytest

from a2a_gateway.channel import ChannelUpstream
from a2a_server.agents import Agent, Turn
from a2a_server.serve import Server
from tests.support.doors import http_door
from tests.support.house import SLOW_READER_PATIENCE, ChannelOptions, GatewayOptions
from tests.support.http import SEND, Answer, Wire, deaf, get, house, once, port_of, post, wire
from tests.support.stage import Stage

HEALTHZ = get("/healthz")


def hold(skill: str = "hold") -> bytes:
    return SEND.replace(b'"message":', b'"metadata":{"skill":"%b"},"message":' % skill.encode(), 1)


def refused(answer: Answer, status: int, reason: str, text: str) -> None:
    assert (answer.status, answer.json["error"]["code"]) == (status, status)
    assert answer.reason == reason
    assert text in answer.json["error"]["message"]


# -- too much


@pytest.mark.req("LIMT-01", "DOOR-04")
@pytest.mark.parametrize("path", ["/message:send", "/message:stream"])
async def test_a_large_body_is_refused_before_it_is_read(path: str) -> None:
    size = len(SEND)
    async with house(Stage().agent, gateway={"max_body_bytes": size}) as server:
        port = port_of(server)
        assert (await once(port, post(path))).status == 200
        declared = get(path, f"Content-Length: {size + 1}", verb="POST")
        chunked = get(path, "Transfer-Encoding: chunked", verb="POST") + b"%x\r\n%b\r\n2\r\n  \r\n" % (size, SEND)
        whole = post(path, SEND + b" ")
        for request in (declared, whole, chunked):
            async with wire(port) as connection:
                answer = await connection.ask(request)
                refused(answer, 413, "BODY_TOO_LARGE", f"at most {size} bytes")
                if request is not whole:
                    assert answer.headers["Connection"] == "close"
                    assert await connection.ended() == b""
        rpc = await once(port, post("/", SEND + b" "))
        assert (rpc.status, rpc.json["error"]["code"]) == (413, -32600)


PATHS = ("/message:send", "/message:stream", "/", "/v1/message:send", "/draft/v1/message:send", "/draft")
OURS = {"tokens": [{"owner": "ann", "hash": "sha256:" + hashlib.sha256(b"ann-token").hexdigest()}]}
KNOWN = "Authorization: Bearer ann-token"
LARGE = SEND.replace(b"hello", b"h" * 20_000)


@asynccontextmanager
async def guarded(*, far: bool) -> AsyncIterator[int]:
    """The port of a gateway to a server that knows its callers, in one process with it or not."""
    gateway = GatewayOptions(profiles=("draft",))
    async with house(Stage().agent, auth=OURS, gateway=asdict(gateway)) as server:
        if not far:
            yield port_of(server)
            return
        upstream = ChannelUpstream(ChannelOptions(addresses=(str(server.grpc),)))
        try:
            async with http_door(upstream, gateway, old=True) as door:
                yield door.port
        finally:
            await upstream.close()


async def turned_away(port: int, request: bytes) -> None:
    async with wire(port) as connection:
        answer = await connection.ask(request)
        assert (answer.status, answer.headers["Connection"]) == (401, "close"), (request, answer)
        assert await connection.ended() == b""


@pytest.mark.req("AUTN-03", "DOOR-04")
@pytest.mark.parametrize("far", [False, True])
async def test_a_strangers_large_body_is_not_read(*, far: bool) -> None:
    """The answer comes although nothing of the body has, whatever the stranger says about versions."""
    said = [(), ("Authorization: Bearer wrong",)]
    asked = [(path, more) for path in PATHS for more in said] + [(path, ("A2A-Version: 99",)) for path in PATHS[:3]]
    async with guarded(far=far) as port:
        requests = []
        for path, more in asked:
            fields = ("Content-Type: application/json", *more)
            requests.append(get(path, *fields, f"Content-Length: {10**6}", verb="POST"))
            chunked = get(path, *fields, "Transfer-Encoding: chunked", verb="POST")
            requests.append(chunked + b"5\r\n[[[[[\r\n")
        await asyncio.gather(*(turned_away(port, request) for request in requests))
        answer = await once(port, post("/message:send", LARGE, KNOWN))
        assert (answer.status, answer.json["task"]["status"]["state"]) == (200, "TASK_STATE_COMPLETED")
        refused(await once(port, post("/message:send", SEND)), 401, "UNAUTHENTICATED", "")


@pytest.mark.req("AUTN-03", "DOOR-04")
async def test_a_strangers_body_is_not_parsed() -> None:
    """Were it, the answer would be about the body."""
    async with guarded(far=False) as port:
        for path in ("/message:send", "/"):
            answer = await once(port, post(path, b"[" * 20_000))
            assert answer.status == 401
        assert (await once(port, post("/message:send", b"[" * 20_000, KNOWN))).status == 400


@pytest.mark.req("LIMT-01", "DOOR-04")
@pytest.mark.parametrize("path", ["/message:send", "/", "/v1/message:send", "/draft/v1/message:send", "/draft"])
async def test_a_body_with_too_many_values_is_413(path: str) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"metadata":{"a":[%b{}]}}}' % (b"{}," * 400)
    async with house(Stage().agent, gateway={"max_json_values": 1000, "profiles": ["draft"]}) as server:
        answer = await once(port_of(server), post(path, body))
        assert answer.status == 413
        assert b"too many values: at most 1000 are taken (gateway.max_json_values)" in answer.body


@pytest.mark.req("LIMT-01", "DOOR-04")
async def test_what_is_held_of_unfinished_bodies_is_bounded() -> None:
    body = SEND + b" " * (48_000 - len(SEND))
    head = post("/message:send", body).removesuffix(body)

    async def begun(stack: AsyncExitStack, port: int, source: str, size: int) -> Wire:
        connection = await stack.enter_async_context(wire(port, source=source))
        await connection.send(head + body[:size])
        await asyncio.sleep(0.05)
        return connection

    async with house(Stage().agent, gateway={"max_unfinished_bytes": 100_000}) as server, AsyncExitStack() as stack:
        port = port_of(server)
        first = await begun(stack, port, "127.0.0.1", 40_000)
        answer = await (await begun(stack, port, "127.0.0.1", 20_000)).answer()
        refused(answer, 429, "OVERLOADED", "at most 100000 bytes, and half of them from one address")
        assert (answer.headers["Retry-After"], answer.headers["Connection"]) == ("1", "close")
        await begun(stack, port, "127.0.0.2", 45_000)
        third = await begun(stack, port, "127.0.0.3", 30_000)  # which is too much for all together
        assert (await third.answer()).status == 429
        rpc = await once(port, post("/", body).replace(body, body[:20_000]))
        assert (rpc.status, rpc.json["error"]["code"]) == (429, -32052)
        first.writer.close()
        await asyncio.sleep(0.05)
        assert (await once(port, post("/message:send"))).status == 200
        again = await begun(stack, port, "127.0.0.1", 40_000)
        assert (await again.ask(body[40_000:])).status == 200


@pytest.mark.req("LIMT-01", "DOOR-04")
async def test_one_caller_may_not_send_from_everywhere() -> None:
    """What it sends from many addresses counts together; others go on sending."""
    hashed = {name: "sha256:" + hashlib.sha256(f"{name}-token".encode()).hexdigest() for name in ("ann", "bob")}
    auth = {"tokens": [{"owner": name, "hash": digest} for name, digest in hashed.items()]}
    body = SEND + b" " * (60_000 - len(SEND))

    async def begun(stack: AsyncExitStack, source: int, name: str) -> Wire:
        connection = await stack.enter_async_context(wire(port, source=f"127.0.0.{source}"))
        request = post("/message:send", body, f"Authorization: Bearer {name}-token")
        await connection.send(request[:-20_000])
        await asyncio.sleep(0.05)
        return connection

    async with (
        house(Stage().agent, auth=auth, gateway={"max_unfinished_bytes": 130_000}) as server,
        AsyncExitStack() as stack,
    ):
        port = port_of(server)
        first = await begun(stack, 1, "ann")
        refused(await (await begun(stack, 2, "ann")).answer(), 429, "OVERLOADED", "from one address or caller")
        other = await begun(stack, 3, "bob")
        for connection in (first, other):
            assert (await connection.ask(body[-20_000:])).status == 200


@pytest.mark.req("LIMT-01", "DOOR-04")
async def test_a_long_target_is_414_and_long_headers_are_431() -> None:
    limits = {"max_url_bytes": 200, "max_header_bytes": 200}
    async with house(Stage().agent, gateway=limits) as server:
        port = port_of(server)
        assert (await once(port, get("/tasks/" + "t" * 193))).status == 404
        refused(await once(port, get("/tasks/" + "t" * 194)), 414, "URI_TOO_LONG", "at most 200 bytes")
        refused(await once(port, get("/tasks?contextId=" + "t" * 200)), 414, "URI_TOO_LONG", "at most 200 bytes")
        assert (await once(port, get("/healthz", "X-A: " + "a" * 190))).status == 200
        refused(await once(port, get("/healthz", "X-A: " + "a" * 210)), 431, "HEADERS_TOO_LARGE", "at most 200 bytes")
        many = [f"X-{number}: a" for number in range(120)]
        refused(await once(port, get("/healthz", *many)), 431, "HEADERS_TOO_LARGE", "at most 100 headers")
        assert (await once(port, get("/healthz", *many[:90]))).status == 200


@pytest.mark.req("LIMT-01", "DOOR-04")
@pytest.mark.parametrize("piece", [1_000, 1_000_000])
async def test_heads_far_beyond_the_bounds_are_refused_in_the_same_words(piece: int) -> None:
    """In however many pieces they come, and before they are all there."""
    many = [f"X-{number}: a" for number in range(1_000)]
    heads = {
        get("/tasks/" + "t" * 100_000): (414, "URI_TOO_LONG", "at most 8190 bytes"),
        get("/tasks", "X-A: " + "a" * 100_000): (431, "HEADERS_TOO_LARGE", "at most 12288 bytes"),
        get("/tasks", *many): (431, "HEADERS_TOO_LARGE", "may have at most"),
    }
    async with house(Stage().agent) as server:
        for head, expected in heads.items():
            async with wire(port_of(server)) as connection:
                assert (await connection.ask(HEALTHZ)).status == 200
                for start in range(0, len(head), piece):
                    connection.writer.write(head[start : start + piece])
                    await asyncio.sleep(0)
                refused(await connection.answer(), *expected)
                assert await connection.ended() == b""


def padded(path: str, size: int, *fields: str) -> bytes:
    """A request whose headers have this size, none of them much of it."""
    own = [f"X-{number:02}: " for number in range(8)]
    room = size - sum(len(line) + 2 for line in ("Host: localhost", *fields, *own))
    own = [line + "a" * (room // 8 + (room % 8 if not number else 0)) for number, line in enumerate(own)]
    return get(path, *fields, *own)


@pytest.mark.req("LIMT-01", "DOOR-04")
async def test_many_headers_that_are_large_together_are_431() -> None:
    most = 12 * 1024
    text = f"All headers together may have at most {most} bytes."
    async with house(Stage().agent) as server:
        port = port_of(server)
        assert (await once(port, padded("/healthz", most))).status == 200
        for path in ("/healthz", "/tasks", "/"):
            refused(await once(port, padded(path, most + 1)), 431, "HEADERS_TOO_LARGE", text)
        large = SEND.replace(b"hello", b"x" * 3 * most)
        async with wire(port) as connection:  # bodies do not count, whatever came before
            for _ in range(2):
                assert (await connection.ask(post("/message:send", large))).status == 200
            assert (await connection.ask(padded("/healthz", most))).status == 200
            answer = await connection.ask(padded("/healthz", most + 1))
            assert (answer.status, answer.headers["Connection"]) == (431, "close")
            assert await connection.ended() == b""


@pytest.mark.req("DOOR-04")
@pytest.mark.parametrize("split", [1, 100, 6_000, 12_000])
async def test_no_way_of_sending_headers_lets_more_in(split: int) -> None:
    """Behind other requests, and in any pieces."""
    before, much = post("/message:send") + HEALTHZ, padded("/healthz", 12 * 1024 + 1)
    async with house(Stage().agent) as server, wire(port_of(server)) as connection:
        await connection.send(before + much[:split])
        await asyncio.sleep(0.01)
        await connection.send(much[split:])
        assert [(await connection.answer()).status for _ in range(3)] == [200, 200, 431]


@pytest.mark.req("LIMT-01", "DOOR-04")
async def test_deep_json_is_refused() -> None:
    def nested(depth: int) -> bytes:
        deep = b'{"a":' * depth + b"1" + b"}" * depth
        return SEND.replace(b'"parts"', b'"metadata":%b,"parts"' % deep)

    for settings, right, wrong in (({}, 20, (64, 12_000)), ({"max_depth": 10}, 5, (11,))):
        deepest = str(settings.get("max_depth", 64))
        async with house(Stage().agent, gateway=settings) as server:
            port = port_of(server)
            assert (await once(port, post("/message:send", nested(right)))).status == 200
            for depth in wrong:
                answer = await once(port, post("/message:send", nested(depth)))
                text = f"deeper than {deepest} objects and lists" if depth < 1024 else "depth limit exceeded"
                refused(answer, 400, "INVALID_PARAMS", text)
                rpc = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%b}' % nested(depth)
                assert (await once(port, post("/", rpc))).json["error"]["code"] == -32700


@pytest.mark.req("LIMT-01", "DOOR-04")
async def test_a_query_of_endless_parameters_is_refused() -> None:
    async with house(Stage().agent) as server:
        query = "&".join(f"x{number}=1" for number in range(1001))
        refused(await once(port_of(server), get(f"/tasks?{query}")), 400, "INVALID_PARAMS", "at most 1000 parameters")


# -- streams


@asynccontextmanager
async def streaming(port: int, *fields: str, path: str = "/message:stream") -> AsyncIterator[tuple[int, Wire]]:
    """A stream that stays open, as far as it is let in."""
    async with wire(port) as connection:
        await connection.send(post(path, hold(), *fields))
        _, status, _ = await connection.head()
        if status == 200:
            await connection.chunk()
        yield status, connection


async def settled(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0.01)


@pytest.mark.req("DOOR-04", "LIMT-02", "KEEP-01")
async def test_an_address_has_so_many_streams_and_gets_them_back() -> None:
    stage = Stage()
    settings = {"streams_per_client": 3, "trusted_proxies": ["127.0.0.1"]}
    async with house(stage.agent, gateway=settings) as server, AsyncExitStack() as stack:
        port = port_of(server)
        for _ in range(3):
            status, _ = await stack.enter_async_context(streaming(port))
            assert status == 200
        answer = await once(port, post("/message:stream", hold()))
        refused(answer, 429, "OVERLOADED", "3 streams open")
        assert answer.headers["Retry-After"] == "1"
        rpc = b'{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":%b}' % hold()
        refused_rpc = await once(port, post("/", rpc))
        assert (refused_rpc.status, refused_rpc.json["error"]["code"]) == (429, -32052)
        async with streaming(port, "X-Forwarded-For: 192.0.2.1") as (status, _):  # somebody else
            assert status == 200
        assert (await once(port, post("/message:send"))).status == 200  # calls are no streams
        await stack.aclose()
        await settled(lambda: server.pipeline.streams.count == 0)
        for _ in range(3):
            status, _ = await stack.enter_async_context(streaming(port))
            assert status == 200
        stage.release.set()


@pytest.mark.req("DOOR-04", "LIMT-02")
async def test_the_door_has_so_many_streams_in_all() -> None:
    stage = Stage()
    settings = {"streams": 2, "trusted_proxies": ["127.0.0.1"]}
    async with house(stage.agent, gateway=settings) as server, AsyncExitStack() as stack:
        for number in range(2):
            await stack.enter_async_context(streaming(port_of(server), f"X-Forwarded-For: 192.0.2.{number}"))
        answer = await once(port_of(server), post("/message:stream", hold(), "X-Forwarded-For: 192.0.2.9"))
        refused(answer, 429, "OVERLOADED", "2 streams open")
        stage.release.set()


# -- too slow

HASTY = {"body_timeout": 0.2, "idle_timeout": 60.0}


@pytest.mark.req("DOOR-04")
@pytest.mark.parametrize("path", ["/message:send", "/"])
async def test_a_body_that_does_not_arrive_is_408(path: str) -> None:
    async with house(Stage().agent, gateway=HASTY) as server, wire(port_of(server)) as connection:
        answer = await connection.ask(post(path)[:-5])
        assert (answer.status, answer.headers["Connection"]) == (408, "close")
        assert "within 0.2 seconds" in answer.json["error"]["message"]
        assert await connection.ended() == b""


@pytest.mark.req("DOOR-04")
async def test_a_body_that_trickles_is_408_too() -> None:
    async with house(Stage().agent, gateway=HASTY) as server, wire(port_of(server)) as connection:
        await connection.send(get("/message:send", "Content-Length: 5000", verb="POST"))

        async def trickle() -> None:
            while True:
                await connection.send(b" ")
                await asyncio.sleep(0.02)

        feeding = asyncio.ensure_future(trickle())
        refused(await connection.answer(), 408, "REQUEST_TIMEOUT", "within 0.2 seconds")
        feeding.cancel()
        await asyncio.wait([feeding])


@pytest.mark.req("DOOR-04")
@pytest.mark.parametrize("before", [b"", HEALTHZ, post("/message:send")], ids=["first", "after a page", "after a call"])
async def test_headers_that_trickle_are_408(before: bytes) -> None:
    async with house(Stage().agent, gateway=HASTY) as server, wire(port_of(server)) as connection:
        if before:
            assert (await connection.ask(before)).status == 200
        for piece in (b"GET /healthz HTTP/1.1\r\n", b"Host: localhost\r\n", b"X-A: "):
            await connection.send(piece)
            await asyncio.sleep(0.02)
        answer = await connection.answer()
        refused(answer, 408, "REQUEST_TIMEOUT", "headers did not arrive within 0.2 seconds")
        assert await connection.ended() == b""


@pytest.mark.req("DOOR-04")
async def test_a_connection_that_says_nothing_is_closed_without_a_word() -> None:
    async with house(Stage().agent, gateway=HASTY) as server, wire(port_of(server)) as connection:
        assert await connection.ended() == b""


@pytest.mark.req("DOOR-04")
async def test_an_idle_connection_is_closed_after_a_while_and_not_before() -> None:
    settings = {"body_timeout": 0.1, "idle_timeout": 0.5}
    async with house(Stage().agent, gateway=settings) as server, wire(port_of(server)) as connection:
        await connection.ask(HEALTHZ)
        await asyncio.sleep(0.25)  # more than a body may take
        assert (await connection.ask(HEALTHZ)).status == 200
        assert await connection.ended() == b""


async def test_a_long_call_is_not_silence() -> None:
    stage = Stage()
    async with house(stage.agent, gateway=HASTY) as server, wire(port_of(server)) as connection:
        asked = asyncio.ensure_future(connection.ask(post("/message:send", hold())))
        await asyncio.sleep(0.6)
        stage.release.set()
        assert (await asked).status == 200


# -- nobody reads

BIG = 4 * 1024 * 1024
flooding = Agent(name="Flood", description="Says a lot.", version="1")


@flooding.skill(id="flood", tags=["test"])
async def flood(turn: Turn) -> None:
    """As much as the text says, in pieces."""
    async with turn.artifact("flood") as out:
        for _ in range(int(turn.text)):
            await out.write("x" * 65536)


def flooded(pieces: int) -> bytes:
    return SEND.replace(b"hello", str(pieces).encode())


@pytest.mark.req("DOOR-04", "RPLY-06")
@pytest.mark.parametrize("kind", ["call", "stream"])
async def test_who_takes_nothing_is_cut_and_costs_others_nothing(kind: str) -> None:
    async with house(flooding, gateway={"write_timeout": 0.4}) as server:
        port, loop = port_of(server), asyncio.get_running_loop()
        task = (await once(port, post("/message:send", flooded(BIG // 65536)))).json["task"]
        request = get(f"/tasks/{task['id']}") if kind == "call" else post("/message:stream", flooded(1000))
        async with deaf(port) as client:
            await loop.sock_sendall(client, request)
            await settled(lambda: clients(server) == 1)
            other = await once(port, post("/message:stream", flooded(20)))
            assert b"TASK_STATE_COMPLETED" in other.body
            await settled(lambda: clients(server) == 0)
        await settled(lambda: server.pipeline.streams.count == 0)


def unsent(server: Server) -> list[int]:
    """What waits for each client."""
    assert server.doors.http is not None
    return [connection.unsent for connection in server.doors.http.connections]


def clients(server: Server) -> int:
    return len(unsent(server))


@pytest.mark.req("DOOR-04", "RPLY-06")
@pytest.mark.parametrize("kind", ["call", "stream"])
async def test_what_waits_for_all_who_take_nothing_has_a_bound(kind: str) -> None:
    size = 8 * 2**20
    room = 2 * size if kind == "call" else size // 16
    async with house(flooding, gateway={"max_unsent_bytes": room}) as server, AsyncExitStack() as stack:
        port, loop = port_of(server), asyncio.get_running_loop()
        task = (await once(port, post("/message:send", flooded(size // 65536)))).json["task"]
        request = get(f"/tasks/{task['id']}") if kind == "call" else post("/message:stream", flooded(1000))
        for _ in range(8):
            client = await stack.enter_async_context(deaf(port))
            await loop.sock_sendall(client, request)
        await settled(lambda: clients(server) < 8 and all(unsent(server)) and sum(unsent(server)) <= room)
        assert clients(server) > 1
        await asyncio.sleep(SLOW_READER_PATIENCE + 0.1)
        assert len((await once(port, get(f"/tasks/{task['id']}"))).body) > size  # in place of those who take nothing


async def test_who_takes_little_by_little_gets_all() -> None:
    async with house(flooding, gateway={"write_timeout": 0.8}) as server:
        port, loop = port_of(server), asyncio.get_running_loop()
        task = (await once(port, post("/message:send", flooded(BIG // 65536)))).json["task"]
        async with deaf(port) as client:
            await loop.sock_sendall(client, get(f"/tasks/{task['id']}", "Connection: close"))
            got = 0
            began = loop.time()
            while piece := await loop.sock_recv(client, 65536):
                got += len(piece)
                if loop.time() - began < 2.5:  # long enough to have been cut thrice
                    await asyncio.sleep(0.05)
        assert got > BIG


# -- and all of it again and again


async def half_a_request(connection: Wire) -> None:
    await connection.send(b"GET /healthz HT")


async def half_a_body(connection: Wire) -> None:
    await connection.send(post("/message:send")[:-5])


async def garbage(connection: Wire) -> None:
    await connection.send(b"\x00\x01\x02\x03\r\n\r\n")
    await connection.ended()


async def too_large(connection: Wire) -> None:
    await connection.ask(get("/message:send", "Content-Length: 999999999", verb="POST"))


async def left_stream(connection: Wire) -> None:
    await connection.send(post("/message:stream", hold()))
    await connection.head()


async def left_call(connection: Wire) -> None:
    await connection.send(post("/message:send", hold()))


async def reset(connection: Wire) -> None:
    await connection.send(post("/message:stream", hold()))
    transport: Any = connection.writer.transport
    transport.abort()


ABUSES: list[Callable[[Wire], Awaitable[None]]] = [
    half_a_request,
    half_a_body,
    garbage,
    too_large,
    left_stream,
    left_call,
    reset,
]


def quiet(server: Server, before: int) -> bool:
    return clients(server) == 0 and server.pipeline.streams.count == 0 and len(asyncio.all_tasks()) <= before


@pytest.mark.req("DOOR-04", "KEEP-01")
async def test_a_thousand_abusive_connections_leave_nothing_behind() -> None:
    stage = Stage()
    limits = {"streams_per_client": 60, "body_timeout": 0.5}
    async with house(stage.agent, gateway=limits) as server:
        port = port_of(server)
        assert (await once(port, HEALTHZ)).status == 200
        await settled(lambda: clients(server) == 0)
        before = len(asyncio.all_tasks())

        async def abuse(number: int) -> None:
            async with wire(port) as connection:
                await ABUSES[number % len(ABUSES)](connection)

        for first in range(0, 1000, 50):
            await asyncio.gather(*(abuse(number) for number in range(first, first + 50)))
        stage.release.set()  # the work of those who have left goes on, and ends
        await settled(lambda: quiet(server, before))
        stage.release.clear()
        async with AsyncExitStack() as stack:  # every place is free again
            for _ in range(60):
                status, _ = await stack.enter_async_context(streaming(port))
                assert status == 200
            stage.release.set()
