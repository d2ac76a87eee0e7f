"""No request holds the event loop for long, whatever its shape, be it accepted or refused (spec: LIMT-01, DOOR-04)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.ports.authenticator import Credentials
from tests.support.http import Answer, Wire, get, house, once, port_of, post, wire
from tests.support.stage import Stage

MB = 2**20
PINGS = 7
"""How often somebody else was answered while a large request was read. Without steps it was three times."""


def sent(parts: bytes, more: bytes = b"") -> bytes:
    return b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[%b]},"configuration":{"historyLength":0}%b}' % (
        parts,
        more,
    )


def data(value: bytes) -> bytes:
    return sent(b'{"data":%b}' % value)


async def pings_during(connection: Wire, work: Awaitable[Any]) -> tuple[Any, int]:
    """Do the work, and call again and again meanwhile."""
    running, pings = asyncio.ensure_future(work), 0
    while not running.done():
        assert (await connection.ask(get("/healthz"))).status == 200
        pings += 1
    return await running, pings


ACCEPTED = {
    "text": sent(b'{"text":"%b"}' % (b"x" * 8 * MB)),
    "escapes": sent(b'{"text":"%b"}' % (b"\\n" * 4 * MB)),
    "quotes": sent(b'{"text":"%b"}' % (b"\\u0022" * MB)),
    "brackets": sent(b'{"text":"%b"}' % (b"[{,}]" * MB)),
    "raw": sent(b'{"raw":"%b"}' % b64encode(bytes(6 * MB))),
    "parts": sent(b",".join([b'{"text":"%b"}' % (b"x" * 8000)] * 1000)),
    "unknown": sent(b'{"text":"x"}', b',"other":"%b"' % (b"x" * 8 * MB)),
    "metadata": sent(
        b'{"text":"x"}', b',"metadata":{%b}' % b",".join(b'"%d%b":1' % (i, b"k" * 400) for i in range(20_000))
    ),
}


@pytest.mark.req("LIMT-01", "DOOR-04")
@pytest.mark.parametrize("path", ["/message:send", "/"])
@pytest.mark.parametrize("shape", list(ACCEPTED))
async def test_others_are_served_while_a_large_body_is_read(shape: str, path: str) -> None:
    body = ACCEPTED[shape]
    if path == "/":
        body = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%b}' % body
    request = post(path, body)
    async with house(Stage().agent) as server, wire(port_of(server)) as large, wire(port_of(server)) as small:
        await large.send(request[:-1])
        await asyncio.sleep(0.3)  # until all but the last byte is there
        answer, pings = await pings_during(small, large.ask(request[-1:]))
        assert answer.status == 200
        assert b"TASK_STATE_COMPLETED" in answer.body
        assert pings >= PINGS


@pytest.mark.req("LIMT-01")
@pytest.mark.parametrize("kind", [pb.SendMessageRequest, v03.SendMessageRequest])
async def test_others_are_served_while_a_large_message_is_read(kind: Any) -> None:
    raw = wired(b"".join(entry(b"%d" % i, b"\x20\x01") for i in range(20_000)), kind)
    async with house(Stage().agent) as server:
        reading, turns = asyncio.ensure_future(server.pipeline.read("", kind, raw, Credentials({}))), 0
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        assert len(reading.result().metadata.fields) == 20_000  # type: ignore[attr-defined]
        assert turns >= 10


def channel_to(server: Any) -> Any:
    return grpc.aio.insecure_channel(str(server.grpc), options=[("grpc.max_receive_message_length", -1)])


REFUSED = {
    "objects": data(b"[%b{}]" % (b"{}," * MB)),
    "lists": data(b"[%b1]" % (b"[1]," * MB)),
    "numbers": data(b"[%b1]" % (b"1," * 4 * MB)),
    "members": data(b"{%b}" % b",".join(b'"%d":1' % i for i in range(30_000))),
    "behind a text": sent(b'{"text":"%b"},{"data":[%b{}]}' % (b'\\"' * 4 * MB, b"{}," * 10_000)),
    "behind brackets": sent(b'{"text":"%b"},{"data":[%b{}]}' % (b"[]" * 4 * MB, b"{}," * 10_000)),
    "batch": b"[%b1]" % (b'{"jsonrpc":"2.0"},' * 20_000),
}


@pytest.mark.req("LIMT-01", "DOOR-04")
@pytest.mark.parametrize("path", ["/message:send", "/", "/v1/message:send", "/draft/v1/message:send", "/draft"])
async def test_bodies_with_too_many_values_are_413_wherever_they_are(path: str) -> None:
    async with house(Stage().agent, gateway={"profiles": ["draft"]}) as server:
        for body in REFUSED.values():
            answer: Answer = await once(port_of(server), post(path, body))
            assert answer.status == 413
            assert b"too many values: at most 25000 are taken (gateway.max_json_values)" in answer.body


def entry(key: bytes, value: bytes) -> bytes:
    return field(1, field(1, key) + field(2, value))


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def wired(content: bytes, kind: Any) -> bytes:
    """A request whose message has this metadata."""
    return field(kind.DESCRIPTOR.fields_by_name["metadata"].number, content)


MESSAGES = {
    "values": entry(b"a", field(6, b"\x0a\x00" * 4 * MB)),
    "objects": entry(b"a", field(6, field(1, field(5, b"")) * 2 * MB)),
    "nested lists": entry(b"a", field(6, field(1, field(6, field(1, field(6, b"")))) * 50_000)),
    "members": b"".join(entry(b"%d" % i, b"\x20\x01") for i in range(30_000)),
    "one member": entry(b"a", b"\x20\x01") * 30_000,
    "unknown in objects": b"\xf8\x07\x01" * 200_000,
}
UNKNOWN = {
    "numbers": b"\xf8\x07\x01" * 30_000,
    "long numbers": (b"\xf8\x07" + b"\xff" * 9 + b"\x01") * MB,
    "texts": field(15, b"x") * 30_000,
    "groups": b"\xfb\x07\xfc\x07" * 30_000,
    "open groups": b"\xfb\x07" * MB,
    "doubles": b"\xf9\x07xxxxxxxx" * 30_000,
}


@pytest.mark.req("LIMT-01")
@pytest.mark.parametrize("kind", [pb.SendMessageRequest, v03.SendMessageRequest])
async def test_messages_with_too_many_values_are_refused_wherever_they_are(kind: Any) -> None:
    package = kind.DESCRIPTOR.file.package
    async with house(Stage().agent) as server, channel_to(server) as channel:
        call = channel.unary_unary(f"/{package}.A2AService/SendMessage")
        for raw in (*(wired(content, kind) for content in MESSAGES.values()), *UNKNOWN.values()):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(raw)
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert str(caught.value.details()).endswith("at most 25000 are taken (transport.max_values).")


@pytest.mark.req("LIMT-01")
@pytest.mark.parametrize("package", ["lf.a2a.v1", "a2a.v1"])
async def test_some_unknown_fields_are_ignored(package: str) -> None:
    async with house(Stage().agent) as server, channel_to(server) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(f"/{package}.A2AService/GetTask")(b"\xf8\x07\x01" * 20_000)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT  # nothing else than that it has no id


@pytest.mark.req("LIMT-01")
async def test_many_parts_are_refused_for_their_number() -> None:
    """Whatever else is wrong with them, which would take long to find."""
    raw = pb.SendMessageRequest(message=pb.Message(parts=[pb.Part()] * 10_000)).SerializeToString()
    async with house(Stage().agent) as server, channel_to(server) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")(raw)
        assert caught.value.details() == "message.parts: must have at most 1000 elements, got 10000"
