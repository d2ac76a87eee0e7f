"""gRPC calls without a message: they end in time, and keep nobody out (spec: LIMT-01, DOOR-07)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.serve import Server
from tests.bench.h2 import Headers, Kind, frame, framed, grpc_headers
from tests.support.http import house
from tests.support.stage import Stage

GET_TASK, STREAM = "/lf.a2a.v1.A2AService/GetTask", "/lf.a2a.v1.A2AService/SendStreamingMessage"
OLD, WATCH, CHECK = "/a2a.v1.A2AService/GetTask", "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check"
SEND = "/lf.a2a.v1.A2AService/SendMessage"
REFLECT = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PATIENCE = 15.0


class Raw:
    """An HTTP/2 connection whose calls begin, go on or not, and take so many bytes of their answers."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: Headers, window: int
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.ended: dict[int, bytes] = {}
        self._headers = headers
        self._next = 1
        self._room = 65_535
        settings = struct.pack(">HIHI", 1, 0, 4, window)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(Kind.SETTINGS, 0, 0, settings))

    def begin(self, number: int, *, ends: bool = False) -> None:
        """Begin so many calls."""
        for _ in range(number):
            headers = self._headers.first if self._next == 1 else self._headers.later
            self.writer.write(frame(Kind.HEADERS, END_HEADERS | (END_STREAM if ends else 0), self._next, headers))
            self._next += 2

    def call(self, number: int, request: Message) -> None:
        """Make so many calls."""
        for _ in range(number):
            self.begin(1)
            message = framed(request.SerializeToString())
            self.writer.write(frame(Kind.DATA, END_STREAM, self._next - 2, message))

    def open_windows(self) -> None:
        """Let all of the answers come."""
        for stream in (0, *range(1, self._next, 2)):
            if stream not in self.ended:
                self.writer.write(frame(Kind.WINDOW_UPDATE, 0, stream, struct.pack(">I", 2**28)))

    async def read(self, ended: int) -> None:
        """Read until so many calls have ended."""
        async with asyncio.timeout(PATIENCE):
            while len(self.ended) < ended:
                await self._read_frame()

    async def _read_frame(self) -> None:
        head = await self.reader.readexactly(9)
        payload = await self.reader.readexactly(int.from_bytes(head[:3], "big"))
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
        if kind == Kind.HEADERS and flags & END_STREAM:
            self.ended[stream] = payload
        elif kind == Kind.PING and not flags & ACK:
            self.writer.write(frame(Kind.PING, ACK, 0, payload))
        elif kind == Kind.WINDOW_UPDATE and not stream:
            self._room += int.from_bytes(payload, "big")

    async def all_but_the_last_byte(self, request: Message, before: Message | None = None) -> int:
        """Begin a call, and send its message but for one byte: 60,000 bytes at most, which its window lets through."""
        self.begin(1)
        rest = framed(before.SerializeToString()) if before is not None else b""
        rest += framed(request.SerializeToString())[:-1]
        async with asyncio.timeout(PATIENCE):
            while rest:
                part, rest = rest[:16_000], rest[16_000:]
                while self._room < len(part):
                    await self._read_frame()
                self._room -= len(part)
                self.writer.write(frame(Kind.DATA, 0, self._next - 2, part))
        return self._next - 2

    def finish(self, stream: int, request: Message) -> None:
        """Send the last byte."""
        self.writer.write(frame(Kind.DATA, END_STREAM, stream, request.SerializeToString()[-1:]))

    def told(self, text: bytes, *, status: int) -> int:
        """How many calls have ended with this status and this text."""
        line = b"grpc-status%c%d" % (len(str(status)), status)
        return sum(line in trailers and text in trailers for trailers in self.ended.values())


@asynccontextmanager
async def raw(
    server: Server, method: str, *, source: str = "127.0.0.1", window: int = 65_535, token: str = ""
) -> AsyncIterator[Raw]:
    headers = grpc_headers(method, authorization=f"Bearer {token}") if token else grpc_headers(method)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.grpc.port, local_addr=(source, 0))
    try:
        yield Raw(reader, writer, headers, window)
    finally:
        writer.close()


@asynccontextmanager
async def honest(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.grpc.port}", options=options) as channel:
        yield channel


async def check(channel: grpc.aio.Channel) -> int:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    return int((await cast("Any", stub).Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)).status)


async def watch(channel: grpc.aio.Channel) -> int:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    call = stub.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
    status = int((await call.read()).status)
    call.cancel()
    return status


async def services(channel: grpc.aio.Channel) -> list[str]:
    stub: Any = cast("Any", reflection_pb2_grpc).ServerReflectionStub(channel)
    asked = stub.ServerReflectionInfo(timeout=PATIENCE)
    for _ in range(2):
        await asked.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        answer = await asked.read()
    await asked.done_writing()
    assert await asked.read() is grpc.aio.EOF
    return [service.name for service in answer.list_services_response.service]


@pytest.mark.req("LIMT-01", "DOOR-07")
@pytest.mark.parametrize("ahead", [0, 16])
@pytest.mark.parametrize("method", [GET_TASK, STREAM, OLD, WATCH, CHECK, REFLECT])
async def test_a_call_whose_message_does_not_come_ends(method: str, ahead: int) -> None:
    options = {"message_timeout": 0.3, "accept_ahead": ahead}
    with capture_logs() as logs:
        async with house(Stage().agent, transport=options) as server, raw(server, method) as client:
            client.begin(40)
            await client.read(40)
    assert client.told(b"The message did not arrive within 0.3 seconds.", status=4) == 40
    assert not [entry for entry in logs if entry["log_level"] in {"error", "critical"}]


@pytest.mark.req("LIMT-01")
@pytest.mark.parametrize("method", [GET_TASK, STREAM, OLD, WATCH, CHECK, REFLECT])
async def test_calls_without_a_message_keep_nobody_out(method: str) -> None:
    async with (
        house(Stage().agent, transport={"max_concurrent_calls": 100}) as server,
        AsyncExitStack() as stack,
        honest(server) as channel,
    ):
        clients = [await stack.enter_async_context(raw(server, method)) for _ in range(5)]
        for client in clients:
            client.begin(200)
        async with asyncio.TaskGroup() as reading:
            for client in clients:
                reading.create_task(client.read(100))
        stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)
        for _ in range(20):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.GetTask(pb.GetTaskRequest(id="none"), timeout=PATIENCE)
            assert caught.value.code() == grpc.StatusCode.NOT_FOUND
            assert await check(channel) == await watch(channel) == health_pb2.HealthCheckResponse.SERVING
            assert "lf.a2a.v1.A2AService" in await services(channel)


@pytest.mark.req("LIMT-01")
async def test_watchers_have_places_of_their_own_and_checks_go_on() -> None:
    options = {"max_concurrent_calls": 3, "max_concurrent_streams": 5}
    async with house(Stage().agent, transport=options) as server, AsyncExitStack() as stack:
        watchers: list[Any] = []
        told: list[object] = []
        for _ in range(2):  # connections with four calls each
            stub: Any = health_pb2_grpc.HealthStub(await stack.enter_async_context(honest(server)))
            for _ in range(4):  # one after another: of those that wait for their message, the oldest would end
                watchers.append(stub.Watch(health_pb2.HealthCheckRequest()))
                told += await asyncio.gather(watchers[-1].read(), return_exceptions=True)
        refused = [one for one in told if isinstance(one, grpc.aio.AioRpcError)]
        assert len(refused) == 3
        assert {one.code() for one in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert {one.details() for one in refused} == {"The server has 5 calls open, the most it may have."}
        channel = await stack.enter_async_context(honest(server))
        assert await check(channel) == health_pb2.HealthCheckResponse.SERVING
        watchers[0].cancel()
        watchers[1].cancel()


@pytest.mark.req("LIMT-01")
async def test_a_call_that_ends_without_a_message_is_told_so() -> None:
    with capture_logs() as logs:
        async with house(Stage().agent) as server, raw(server, GET_TASK) as client:
            client.begin(20, ends=True)
            await client.read(20)
    assert client.told(b"The call has no message.", status=3) == 20
    assert not [entry for entry in logs if entry["log_level"] in {"error", "critical"}]


@pytest.mark.req("LIMT-01")
async def test_one_address_cannot_take_the_places_of_others() -> None:
    stage = Stage()
    request = pb.SendMessageRequest(message=pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="x")]))
    request.metadata["skill"] = "hold"
    async with (
        house(stage.agent, transport={"max_concurrent_calls": 6}) as server,
        raw(server, SEND, source="127.0.0.7") as many,
        honest(server) as channel,
    ):
        for number in range(6):
            many.call(1, request)
            await stage.began(number + 1)
        many.call(1, request)
        await many.read(1)
        assert many.told(b"The server has 6 calls open, the most it may have.", status=8) == 1
        stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)
        others = [asyncio.ensure_future(stub.SendMessage(request, timeout=PATIENCE)) for _ in range(3)]
        await stage.began(9)  # an equal part is three
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.SendMessage(request, timeout=PATIENCE)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        stage.release.set()
        answers = await asyncio.gather(*others)
        assert [answer.task.status.state for answer in answers] == [pb.TASK_STATE_COMPLETED] * 3
