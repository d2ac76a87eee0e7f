"""Headers of HTTP as metadata of calls, through a gateway in the process and one before it (spec: DOOR-10, SPAR)."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Extension
from tests.support import world
from tests.support.doors import http_door
from tests.support.house import FORWARDED, ChannelOptions, ChannelUpstream, GatewayOptions
from tests.support.http import SEND, Answer, get, once, post
from tests.support.stage import Stage

PLACE, TONE = "https://example.com/ext/place/v1", "https://example.com/ext/tone/v1"
RPC = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%b}' % SEND
SENDS = {"REST": post("/message:send"), "JSON-RPC": post("/", RPC)}


def with_fields(request: bytes, *fields: str) -> bytes:
    head, _, body = request.partition(b"\r\n\r\n")
    return b"\r\n".join([head, *(field.encode("latin-1") for field in fields)]) + b"\r\n\r\n" + body


def at(request: bytes, query: str) -> bytes:
    path = request.split(b" ", 2)[1]
    return request.replace(path, path + b"?" + query.encode(), 1)


def failure(answer: Answer) -> str:
    error = answer.json["error"]
    return next(str(each["reason"]) for each in error.get("details") or error["data"] if "reason" in each)


@pytest.fixture(params=["rest", "rest-far"])
async def open_world(request: pytest.FixtureRequest) -> AsyncIterator[tuple[world.World, Stage]]:
    """Everything that the default settings let through, before a server with two extensions."""
    stage = Stage(extensions=[Extension(PLACE, "Says where."), Extension(TONE, "Says how.")])
    async with world.serving(stage.agent, through=request.param, http_options=GatewayOptions()) as opened:
        yield opened, stage


def port_of(opened: world.World) -> int:
    assert opened.http is not None
    return opened.http.port


# -- service parameters


@pytest.mark.req("SPAR-01", "SPAR-02", "SPAR-03", "EXTN-03", "GRPC-05")
@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
async def test_extensions_are_activated_by_a_header_and_said_by_one(
    open_world: tuple[world.World, Stage], send: bytes
) -> None:
    opened, stage = open_world
    for fields in (
        [f"A2A-Extensions: {PLACE}, {TONE}"],
        [f"a2a-EXTENSIONS:  {PLACE} ,{TONE}  "],
        [f"A2A-Extensions: {PLACE}", f"A2A-Extensions: {TONE}, https://unknown.example"],
        [f"Grpc-Metadata-A2A-Extensions: {PLACE},{TONE}"],
    ):
        answer = await once(port_of(opened), with_fields(send, *fields))
        assert {text.strip() for text in answer.headers["A2A-Extensions"].split(",")} == {PLACE, TONE}
        assert answer.headers["Grpc-Metadata-a2a-extensions"] == answer.headers["A2A-Extensions"]
        assert stage.turns[-1].request.extensions == {PLACE, TONE}
    answer = await once(port_of(opened), with_fields(send, f"A2A-Extensions: {PLACE.upper()}"))
    assert "A2A-Extensions" not in answer.headers  # values have a case


@pytest.mark.req("SPAR-02")
async def test_a_stream_says_its_extensions_too(open_world: tuple[world.World, Stage]) -> None:
    opened, _ = open_world
    answer = await once(port_of(opened), with_fields(post("/message:stream"), f"A2A-Extensions: {PLACE}"))
    assert (answer.status, answer.headers["A2A-Extensions"]) == (200, PLACE)


@pytest.mark.req("SPAR-01", "SPAR-02", "VERS-01", "VERS-02", "VERS-06")
@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
async def test_the_version_is_a_header_or_a_parameter(open_world: tuple[world.World, Stage], send: bytes) -> None:
    opened, _ = open_world
    port = port_of(opened)
    for good in (
        with_fields(send, "A2A-Version: 1.0"),
        with_fields(send, "a2a-version: 1.0.7"),
        at(send, "A2A-Version=1.0"),
    ):
        assert "error" not in (await once(port, good)).json
    both = with_fields(at(send, "A2A-Version=1.0"), "A2A-Version: 1.0")
    assert "error" not in (await once(port, both)).json
    for bad in (
        with_fields(send, "A2A-Version: 0.9"),
        at(send, "A2A-Version=0.9"),
        with_fields(at(send, "A2A-Version=0.9"), "A2A-Version: 1.0"),
    ):
        assert failure(await once(port, bad)) == "VERSION_NOT_SUPPORTED"


@pytest.mark.req("VERS-06", "DOOR-02", "DOOR-03")
@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
@pytest.mark.parametrize(("name", "value"), [("A2A-Version", "%00"), ("lastEventId", "%C3%A9"), ("lastEventId", "%0A")])
async def test_parameters_that_no_metadata_can_hold_are_refused(
    open_world: tuple[world.World, Stage], send: bytes, name: str, value: str
) -> None:
    """Whether there is any metadata on the way or not."""
    opened, _ = open_world
    answer = await once(port_of(opened), at(send, f"{name}={value}"))
    assert failure(answer) == "INVALID_PARAMS"
    assert f"{name}: must be printable ASCII" in answer.json["error"]["message"]


@pytest.mark.req("VERS-02")
@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
async def test_who_speaks_1_0_and_says_0_3_is_told_where_0_3_is(
    open_world: tuple[world.World, Stage], send: bytes
) -> None:
    answer = await once(port_of(open_world[0]), with_fields(send, "A2A-Version: 0.3"))
    assert failure(answer) == "VERSION_NOT_SUPPORTED"
    assert "A2A 0.3 is spoken under /v1, by methods such as message/send, and by the" in answer.json["error"]["message"]


# -- grpc-gateway's conventions, before a server that is not ours


@dataclass
class Echo:
    """A gRPC server that tells in metadata and trailers what metadata it was sent."""

    port: int
    sent: list[tuple[str, str | bytes]]
    left: list[float | None]


@asynccontextmanager
async def echo() -> AsyncIterator[Echo]:
    server = grpc.aio.server()
    heard = Echo(server.add_insecure_port("127.0.0.1:0"), [], [])

    async def unary(request: bytes, context: Any) -> bytes:
        heard.sent[:] = list(context.invocation_metadata())
        heard.left[:] = [context.time_remaining()]
        await context.send_initial_metadata((("x-team", "red"), ("trace-bin", b"\x00\xff"), ("x-team", "blue")))
        context.set_trailing_metadata((("x-cost", "3"), ("cost-bin", b"\x01")))
        return pb.Task(id="t").SerializeToString()

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(unary)

    server.add_generic_rpc_handlers((Handler(),))
    await server.start()
    try:
        yield heard
    finally:
        await server.stop(None)


@asynccontextmanager
async def before(heard: Echo, options: GatewayOptions) -> AsyncIterator[int]:
    upstream = ChannelUpstream(ChannelOptions(addresses=(f"127.0.0.1:{heard.port}",)))
    try:
        async with http_door(upstream, options) as door:
            yield door.port
    finally:
        await upstream.close()


@pytest.mark.req("DOOR-10", "AUTN-05")
async def test_headers_become_metadata_and_metadata_headers() -> None:
    raw = bytes(range(256))
    async with echo() as heard, before(heard, GatewayOptions()) as port:
        answer = await once(
            port,
            get(
                "/tasks/t",
                "Authorization: Bearer T",
                "Grpc-Metadata-X-Team: Red",
                "Grpc-Metadata-X-Team: Green",
                f"Grpc-Metadata-Key-Bin: {base64.b64encode(raw).decode()}",
                "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "tracestate: a=b",
                "baggage: c=d",
                "X-Request-ID: r-1",
                "User-Agent: curl/8",
                "Accept-Language: de",
                "Cookie: session=1",
                "X-Forwarded-For: 192.0.2.1",
                "X-Unlisted: x",
            ),
        )
        sent = heard.sent
        assert answer.status == 200
        assert [value for name, value in sent if name == "x-team"] == ["Red", "Green"]
        metadata = dict(sent)
        assert metadata["authorization"] == "Bearer T"
        assert metadata["key-bin"] == raw
        assert metadata["traceparent"] == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        assert (metadata["tracestate"], metadata["baggage"], metadata["x-request-id"]) == ("a=b", "c=d", "r-1")
        assert metadata["grpcgateway-user-agent"] == "curl/8"
        assert metadata["grpcgateway-accept-language"] == "de"
        assert metadata["grpcgateway-host"] == "localhost"
        assert not any("cookie" in name or "x-unlisted" in name or "forwarded-for" in name for name in metadata)
        assert heard.left == [pytest.approx(30, abs=5)]  # the default for reads
        assert answer.headers.getall("Grpc-Metadata-x-team") == ["red", "blue"]
        assert answer.headers["Grpc-Metadata-trace-bin"] == "AP8="
        assert (answer.headers["Grpc-Trailer-x-cost"], answer.headers["Grpc-Trailer-cost-bin"]) == ("3", "AQ==")


@pytest.mark.req("DOOR-10")
async def test_what_is_forwarded_is_a_setting() -> None:
    options = GatewayOptions(forward_headers=("x-team", "cookie"), forward_well_known=("host",))
    async with echo() as heard, before(heard, options) as port:
        await once(port, get("/tasks/t", "X-Team: red", "Cookie: a=b", "Authorization: Bearer T", "Accept: */*"))
        sent = {name: value for name, value in heard.sent if name != "user-agent"}
        assert sent == {"x-team": "red", "cookie": "a=b", "grpcgateway-host": "localhost"}


@pytest.mark.req("DOOR-10")
async def test_grpc_timeout_is_the_deadline_of_the_call() -> None:
    async with echo() as heard, before(heard, GatewayOptions()) as port:
        for text, seconds in (("100S", 100), ("2M", 120), ("99999999H", 30 * 24 * 3600)):
            assert (await once(port, get("/tasks/t", f"Grpc-Timeout: {text}"))).status == 200
            assert heard.left == [pytest.approx(seconds, rel=0.05)]  # gRPC rounds it
        assert (await once(port, get("/tasks/t", "Grpc-Timeout: 0S"))).status == 504
        answer = await once(port, get("/tasks/t", "Grpc-Timeout: soon"))
        assert answer.json["error"]["details"][0]["fieldViolations"][0]["field"] == "Grpc-Timeout"


@pytest.mark.req("DOOR-10")
@pytest.mark.parametrize("name", ["grpc-status", "grpc-timeout", "TE", "content-type", "user-agent", "connection"])
async def test_what_grpc_says_itself_cannot_be_said_for_it(name: str) -> None:
    async with echo() as heard, before(heard, GatewayOptions()) as port:
        answer = await once(port, get("/tasks/t", f"Grpc-Metadata-{name}: x"))
        assert (answer.status, answer.reason) == (400, "INVALID_PARAMS")
        assert heard.sent == []


@pytest.mark.req("DOOR-10")
async def test_a_deadline_ends_a_call_and_a_stream_in_our_own_process(open_world: tuple[world.World, Stage]) -> None:
    opened, stage = open_world
    hold = SEND.replace(b'"message":', b'"metadata":{"skill":"hold"},"message":', 1)
    answer = await once(port_of(opened), post("/message:send", hold, "Grpc-Timeout: 200m"))
    assert (answer.status, failure(answer)) == (504, "DEADLINE_EXCEEDED")
    stream = await once(port_of(opened), post("/message:stream", hold, "Grpc-Timeout: 400m"))
    assert stream.status == 200
    assert b'"DEADLINE_EXCEEDED"' in stream.body.rsplit(b"\n\n", 2)[1]
    assert len(stage.turns) == 2  # their work goes on
    stage.release.set()


def test_cookies_are_not_forwarded_by_default() -> None:
    assert "cookie" not in FORWARDED


# -- how much


@pytest.mark.req("DOOR-04", "DOOR-10")
@pytest.mark.parametrize("count", [2, 40, 97])
async def test_as_many_headers_as_are_let_in_reach_the_server(
    open_world: tuple[world.World, Stage], count: int
) -> None:
    """A name costs a gRPC server more than the door reckons; all the same there is room for all that it lets in."""
    opened, _ = open_world
    names = [f"grpc-metadata-{number:02}: " for number in range(count)]
    room = 12 * 1024 - len("Host: localhost\r\n") - sum(len(name) + 2 for name in names)
    filled = [name + "a" * (room // count) for name in names]
    assert (await once(port_of(opened), get("/tasks", *filled))).status == 200
    answer = await once(port_of(opened), get("/tasks", *filled, "X-One-More: " + "a" * count))
    assert (answer.status, answer.reason) == (431, "HEADERS_TOO_LARGE")
