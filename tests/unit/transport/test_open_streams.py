"""Streams whose reader leaves, stops reading or asks for too many, and what of them stays in the process."""

import asyncio
import socket
import struct
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.operations.call import Call
from a2a_server.protocol.errors import A2AError
from a2a_server.transport.open_streams import OpenStream, OpenStreams
from tests.support.yielding import Batches, Yielded, yielding
from tests.unit.transport.doors import Door, eventually, item, open_door, refusal_of, refused

CHUNK = "x" * 32_768  # two of them fill HTTP/2's first window


@dataclass(slots=True)
class Source:
    """A stream that goes on for ever and notes when it was let go of."""

    text: str = CHUNK
    given: int = 0
    pause: float = 0.0
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, call: Call, request: Message) -> Yielded:
        return Yielded(self._batches())

    async def _batches(self) -> Batches:
        try:
            while True:
                self.given += 1
                yield (item(self.given, self.text),)
                await asyncio.sleep(self.pause)
        finally:
            self.closed.set()


class Silent(Source):
    """A stream that gives one item and then waits for ever."""

    def __call__(self, call: Call, request: Message) -> Yielded:
        return Yielded(self._batches())

    async def _batches(self) -> Batches:
        try:
            yield (item(1, "first"),)
            await asyncio.Event().wait()
        finally:
            self.closed.set()


async def released(door: Door, source: Source) -> None:
    """Wait until nothing of the stream is left: no generator, no place, no handler."""
    await asyncio.wait_for(source.closed.wait(), 5)
    await eventually(lambda: not door.pipeline.streams.count)
    await eventually(lambda: not any("HandleExc" in task.get_name() for task in asyncio.all_tasks()))


@pytest.mark.parametrize("source", [Source(), Silent()], ids=["while sending", "while waiting"])
async def test_a_client_that_vanishes_is_released_at_once(source: Source) -> None:
    async with open_door({"SendStreamingMessage": source}) as door:
        call = door.stub.SendStreamingMessage(pb.SendMessageRequest())
        await call.read()
        await asyncio.sleep(0.1)
        call.cancel()
        await released(door, source)


async def test_a_connection_that_breaks_is_released_at_once() -> None:
    source = Silent()
    async with open_door({"SendStreamingMessage": source}) as door:
        await door.stub.SendStreamingMessage(pb.SendMessageRequest()).read()
        await door.channel.close()
        await released(door, source)


@pytest.mark.parametrize("source", [Source(pause=0.001), Silent()], ids=["while sending", "while waiting"])
async def test_a_deadline_that_passes_is_released_at_once(source: Source) -> None:
    async with open_door({"SendStreamingMessage": source}) as door:
        call = door.stub.SendStreamingMessage(pb.SendMessageRequest(), timeout=1.0)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            _ = [answer async for answer in call]
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await released(door, source)


async def test_a_unary_call_ends_with_its_deadline() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow(call: Call, request: Message) -> Message:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        raise AssertionError

    async with open_door({"SendMessage": slow}) as door:
        for timeout in (0.5, 2, 8):  # on a busy machine, a call may end before it has arrived
            call = partial(door.stub.SendMessage, pb.SendMessageRequest(), timeout=timeout)
            assert (await refused(call)).code == grpc.StatusCode.DEADLINE_EXCEEDED
            if begun.is_set():
                break
        await asyncio.wait_for(ended.wait(), 30)


async def test_a_reader_that_stops_is_cut_and_told_why() -> None:
    source = Source()
    async with open_door({"SendStreamingMessage": source}, streams=OpenStreams(write_timeout=0.2)) as door:
        call = door.stub.SendStreamingMessage(pb.SendMessageRequest())
        await call.read()
        await released(door, source)
        given = source.given
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read_all(call)
    refusal = refusal_of(caught.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "SLOW_READER")
    assert given == source.given < 1000  # what fits into the windows of HTTP/2, which grow


async def test_a_reader_that_never_took_the_first_item_is_told_too() -> None:
    source = Source(text="x" * 1_000_000)
    async with open_door({"SendStreamingMessage": source}, streams=OpenStreams(write_timeout=0.2)) as door:
        call = door.stub.SendStreamingMessage(pb.SendMessageRequest())
        await call.initial_metadata()
        await released(door, source)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            _ = [answer async for answer in call]
    assert refusal_of(caught.value).reason == "SLOW_READER"


async def read_all(call: Any) -> None:
    while await call.read():
        pass


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name: str, value: str) -> bytes:
    """HPACK: a literal header without indexing, its name new."""
    return b"\x00" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


def silent_client(port: int) -> socket.socket:
    """Ask for a stream by hand and never read a byte of the answer."""
    client = socket.create_connection(("127.0.0.1", port))
    path = "/lf.a2a.v1.A2AService/SendStreamingMessage"
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "a", "te": "trailers"}
    headers = b"".join(literal(*field) for field in {**fields, "content-type": "application/grpc"}.items())
    settings = frame(4, 0, 0, b"")
    request = frame(1, 4, 1, headers) + frame(0, 1, 1, b"\x00" + struct.pack(">I", 0))
    client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + request)
    return client


async def test_a_peer_that_reads_nothing_at_all_is_cut_while_others_are_served() -> None:
    source = Source()
    async with open_door({"SendStreamingMessage": source}, streams=OpenStreams(write_timeout=0.3)) as door:
        with silent_client(door.address.port):
            await eventually(lambda: source.given > 0)
            assert await door.stub.GetTask(pb.GetTaskRequest(id="t"), timeout=10)
            await released(door, source)


async def test_streams_of_all_anonymous_callers_together_are_bounded() -> None:
    source = Silent()
    async with open_door({"SendStreamingMessage": source}, streams=OpenStreams(per_caller=1, total=2)) as door:
        calls = [door.stub.SendStreamingMessage(pb.SendMessageRequest()) for _ in range(2)]
        for call in calls:
            await call.read()
        refusal = await refused(lambda: door.stub.SendStreamingMessage(pb.SendMessageRequest()).read())
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        calls[0].cancel()
        await asyncio.wait_for(source.closed.wait(), 5)
        assert await door.stub.SendStreamingMessage(pb.SendMessageRequest()).read()


def test_callers_do_not_count_for_each_other_and_leave_nothing_behind() -> None:
    streams = OpenStreams(per_caller=1)
    ann, bob = OpenStream("ann"), OpenStream("bob")
    streams.admit(ann)
    streams.admit(bob)
    assert streams.count == 2
    with pytest.raises(A2AError):
        streams.admit(OpenStream("ann"))
    streams.release(ann)
    streams.release(bob)
    assert streams.count == 0
    streams.admit(OpenStream("ann"))
    assert streams.count == 1


async def test_streams_that_are_left_at_the_end_are_sent_elsewhere() -> None:
    source = Silent()
    async with open_door({"SendStreamingMessage": source}) as door:
        call = door.stub.SendStreamingMessage(pb.SendMessageRequest())
        await call.read()
        await door.pipeline.streams.settle(0.05)
        assert door.pipeline.streams.count == 1
        door.pipeline.streams.end_all()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        await released(door, source)
        await door.pipeline.streams.settle(1)
    refusal = refusal_of(caught.value)
    assert (refusal.code, refusal.reason, refusal.retry_after) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", 1)


@pytest.mark.req("DURA-08")
@pytest.mark.parametrize("spoken", ["1.0", "0.3"])
async def test_a_stream_that_is_ended_while_its_first_item_leaves_is_told_so(spoken: str) -> None:
    """gRPC sends its metadata along with the first item, and would not send a status before it knows them gone."""
    streams = OpenStreams()

    @yielding
    async def source(call: Call, request: Message) -> Batches:
        asyncio.get_running_loop().call_soon(streams.end_all)
        yield (item(1, "x"),)
        await asyncio.Event().wait()

    async with open_door({"SendStreamingMessage": source}, streams=streams) as door:
        for _ in range(20):
            if spoken == "1.0":
                stream = door.stub.SendStreamingMessage(pb.SendMessageRequest())
            else:
                stream = door.old.SendStreamingMessage(v03.SendMessageRequest())
            async with asyncio.timeout(30):
                refusal = await refused(partial(read_all, stream))
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
