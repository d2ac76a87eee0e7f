"""Connections to an upstream: more of them the more is asked, and no call that keeps others from being answered."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.protobuf.message import Message
from google.rpc import code_pb2 as code

from a2a_gateway.channel import ChannelUpstream, channel_stream
from a2a_gateway.channel.endpoints import REMEMBER_SECONDS, Capacity
from a2a_gateway.upstream import CallContext, UpstreamStream
from a2a_proto import a2a_pb2 as pb
from a2a_server.operations.call import Call, Operation
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.transport.grpc_options import GrpcOptions
from tests.support.upstreams import PLAIN, channel_to, get, items, refused, rpc
from tests.support.yielding import Batches, Yielded, yielding
from tests.unit.transport.doors import Door, eventually, item, open_door

SEND, STREAM, SUBSCRIBE = rpc("SendMessage"), rpc("SendStreamingMessage"), rpc("SubscribeToTask")


@dataclass
class Waiting:
    """Operations that go on when the test says so."""

    begun: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def stream(self, call: Call, request: Message) -> Yielded:
        return Yielded(self._batches())

    async def _batches(self) -> Batches:
        self.begun += 1
        yield (item(1, "a"),)
        await self.gate.wait()
        yield (item(2, "b"),)

    async def send(self, call: Call, request: Message) -> Message:
        self.begun += 1
        await self.gate.wait()
        return pb.SendMessageResponse(task=pb.Task(id="t"))

    @property
    def operations(self) -> dict[str, Operation]:
        return {"SubscribeToTask": self.stream, "SendStreamingMessage": self.stream, "SendMessage": self.send}


@asynccontextmanager
async def waiting(most: int, **options: Any) -> AsyncIterator[tuple[Waiting, ChannelUpstream]]:
    """A server that allows so many calls on a connection, none of which ends by itself."""
    server = Waiting()
    async with (
        open_door(server.operations, options=GrpcOptions(max_concurrent_streams=most)) as door,
        channel_to(door.address.port, **options) as to,
    ):
        yield server, to
        server.gate.set()


async def subscribed(to: ChannelUpstream, stack: AsyncExitStack) -> UpstreamStream:
    """A stream that has begun."""
    stream = await to.stream(SUBSCRIBE, pb.SubscribeToTaskRequest(id="t"), PLAIN)
    stack.push_async_callback(stream.items.aclose)  # type: ignore[attr-defined]
    async with asyncio.timeout(30):
        assert await anext(stream.items)
    return stream


def connections(to: ChannelUpstream, kind: Any) -> list[int]:
    """How many calls each connection carries."""
    return [connection.calls for endpoint in to._endpoints for connection in endpoint.pools[kind].connections]  # noqa: SLF001 - nothing else shows it


# -- many streams


@pytest.mark.req("DOOR-01", "DOOR-07")
async def test_streams_get_another_connection_when_one_carries_enough() -> None:
    async with waiting(5, calls_per_connection=5) as (server, to), AsyncExitStack() as stack:
        for _ in range(12):
            await subscribed(to, stack)
        assert server.begun == 12
        assert connections(to, "streams") == [5, 5, 2]
        assert await get(to) == "t"
        assert await to.ready()
        await stack.aclose()
        assert connections(to, "streams") == [0, 0, 0]
        await subscribed(to, stack)
        assert connections(to, "streams") == [1, 0, 0]


@pytest.mark.req("DOOR-01")
async def test_a_server_that_takes_less_than_expected_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """And from then on nobody waits for it."""
    monkeypatch.setattr(channel_stream, "ACCEPT_SECONDS", 0.2)
    async with waiting(3) as (server, to), AsyncExitStack() as stack:
        await asyncio.gather(*(subscribed(to, stack) for _ in range(10)))
        assert server.begun == 10
        assert connections(to, "streams") == [3, 3, 3, 1]
        assert await get(to) == "t"
        assert await to.ready()
        begun = time.monotonic()
        for _ in range(3):
            await subscribed(to, stack)
        assert time.monotonic() - begun < 0.2


def test_what_was_learned_is_not_believed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    capacity = Capacity(100)
    capacity.learn(7)
    capacity.learn(9)
    assert capacity.calls == 7
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + REMEMBER_SECONDS + 1)
    assert capacity.calls == 100
    capacity.learn(0)
    assert capacity.calls == 1


@pytest.mark.req("DOOR-01", "ERRS-06")
@pytest.mark.parametrize("method", [SUBSCRIBE, STREAM], ids=["get", "post"])
async def test_a_stream_that_nobody_takes_is_refused_in_time(method: Any) -> None:
    async with waiting(1, connections=1, connect_timeout=1) as (server, to), AsyncExitStack() as stack:
        await subscribed(to, stack)
        begun = time.monotonic()
        refusal = await refused(_items(to, method))
        assert 0.9 < time.monotonic() - begun < 6
        assert (refusal.code, refusal.message) == (code.UNAVAILABLE, "The agent's server accepts no more streams now.")
        assert [packed.TypeName().rpartition(".")[2] for packed in refusal.details] == ["ErrorInfo", "RetryInfo"]
        assert server.begun == 1
        assert connections(to, "streams") == [1]


@pytest.mark.req("DOOR-01", "DOOR-04", "ERRS-06")
async def test_connections_are_not_without_number() -> None:
    async with waiting(9, calls_per_connection=2, connections=2) as (_, to), AsyncExitStack() as stack:
        for _ in range(4):
            await subscribed(to, stack)
        refusal = await refused(_items(to, SUBSCRIBE))
        assert (refusal.code, refusal.message) == (
            code.RESOURCE_EXHAUSTED,
            "The gateway has 4 streams open to the agent's server, the most it may have.",
        )
        assert await get(to) == "t"
        await stack.aclose()
        await subscribed(to, stack)


async def test_who_leaves_while_nobody_takes_the_call_leaves_nothing_behind() -> None:
    async with waiting(1, connections=1) as (server, to), AsyncExitStack() as stack:
        await subscribed(to, stack)
        impatient = asyncio.ensure_future(_items(to, STREAM))
        await asyncio.sleep(0.1)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        assert connections(to, "streams") == [1]
        await stack.aclose()
        await subscribed(to, stack)
        assert server.begun == 2


# -- calls that last


@pytest.mark.req("DOOR-01", "DOOR-07")
async def test_sends_that_wait_for_the_agent_keep_nobody_waiting() -> None:
    async with waiting(4, calls_per_connection=4) as (server, to), AsyncExitStack() as stack:
        sends = [asyncio.ensure_future(to.unary(SEND, pb.SendMessageRequest(), PLAIN)) for _ in range(10)]
        await eventually(lambda: server.begun == 10)
        assert connections(to, "sends") == [4, 4, 2]
        async with asyncio.timeout(30):
            assert await get(to) == "t"
            assert await to.ready()
            await subscribed(to, stack)
        server.gate.set()
        await asyncio.gather(*sends)
        assert connections(to, "sends") == [0, 0, 0]


# -- several addresses


def dead() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.mark.req("DOOR-01")
@pytest.mark.parametrize("what", ["send", "get", "stream", "subscribe"])
async def test_the_first_call_of_all_finds_the_server_that_is_there(what: str) -> None:
    gone = dead()
    async with open_door({"SubscribeToTask": Waiting().stream}) as door:
        for ports in ((gone, door.address.port), (door.address.port, gone), (gone, gone, door.address.port)):
            async with channel_to(*ports) as to:
                await _call(to, what)


@pytest.mark.req("DOOR-01")
async def test_a_server_that_is_there_is_not_waited_for_in_vain() -> None:
    """The other address takes connections and says nothing, so that gRPC goes on hoping."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with open_door() as door, channel_to(silent.getsockname()[1], door.address.port) as to:
            async with asyncio.timeout(3):
                for what in ("send", "get", "stream"):
                    await _call(to, what)


async def test_who_waits_for_a_connection_waits_no_longer_than_it_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with channel_to(silent.getsockname()[1], connect_timeout=60) as to:
            for call in (to.unary(SEND, pb.SendMessageRequest(), CallContext({}, 0.2)), _items(to, STREAM, 0.2)):
                begun = time.monotonic()
                refusal = await refused(call)
                assert (refusal.code, refusal.message[:40]) == (
                    code.DEADLINE_EXCEEDED,
                    "There was no answer within 0.2 seconds. ",
                )
                assert time.monotonic() - begun < 3


@pytest.mark.req("DOOR-01")
async def test_of_two_servers_the_one_that_is_full_gets_no_more() -> None:
    options = GrpcOptions(max_concurrent_streams=9)
    servers = [Waiting(), Waiting()]
    async with AsyncExitStack() as stack:
        doors = [await stack.enter_async_context(open_door(one.operations, options=options)) for one in servers]
        ports = [door.address.port for door in doors]
        to = await stack.enter_async_context(channel_to(*ports, calls_per_connection=2, connections=1))
        await _both(to, doors)
        for _ in range(4):
            await subscribed(to, stack)
        assert [server.begun for server in servers] == [2, 2]
        assert (await refused(_items(to, SUBSCRIBE))).code == code.RESOURCE_EXHAUSTED


# -- streams that are begun again


class Flaky:
    """Refuses the first streams."""

    def __init__(self, failures: int, reason: Reason = Reason.UNAVAILABLE) -> None:
        self.failures = failures
        self.calls = 0
        self._error = A2AError(reason, "Not now.", retry_after=1)

    def __call__(self, call: Call, request: Message) -> Yielded:
        return Yielded(self._batches())

    async def _batches(self) -> Batches:
        self.calls += 1
        if self.calls <= self.failures:
            raise self._error
        yield (item(1, "a"),)


@pytest.mark.req("DOOR-01", "IDEM-01")
async def test_a_stream_that_changes_nothing_is_begun_again() -> None:
    flaky = Flaky(2)
    async with open_door({"SubscribeToTask": flaky}) as door, channel_to(door.address.port) as to:
        assert len(await _items(to, SUBSCRIBE)) == 1
    assert flaky.calls == 3


@pytest.mark.parametrize(
    ("method", "reason", "calls"),
    [(STREAM, Reason.UNAVAILABLE, 1), (SUBSCRIBE, Reason.OVERLOADED, 1), (SUBSCRIBE, Reason.UNAVAILABLE, 3)],
    ids=["a send", "no absence", "not for ever"],
)
async def test_other_streams_are_not(method: Any, reason: Reason, calls: int) -> None:
    flaky = Flaky(99, reason)
    async with open_door({method.name: flaky}) as door, channel_to(door.address.port) as to:
        assert (await refused(_items(to, method))).message == "Not now."
        assert connections(to, "streams") == [0]
    assert flaky.calls == calls


async def test_a_stream_is_not_begun_again_once_it_has_said_something() -> None:
    calls = 0

    @yielding
    async def breaks(call: Call, request: Message) -> Batches:
        nonlocal calls
        calls += 1
        yield (item(1, "a"),)
        raise A2AError(Reason.UNAVAILABLE, "Not now.")

    async with open_door({"SubscribeToTask": breaks}) as door, channel_to(door.address.port) as to:
        assert (await refused(_items(to, SUBSCRIBE))).message == "Not now."
    assert calls == 1


async def _items(to: ChannelUpstream, method: Any, timeout: float | None = None) -> list[Any]:  # noqa: ASYNC109 - the call's
    request = pb.SendMessageRequest() if method is STREAM else pb.SubscribeToTaskRequest(id="t")
    return await items(await to.stream(method, request, CallContext({}, timeout)))


async def _call(to: ChannelUpstream, what: str) -> None:
    if what == "send":
        await to.unary(SEND, pb.SendMessageRequest(), PLAIN)
    elif what == "get":
        await get(to)
    elif what == "stream":
        assert len(await _items(to, STREAM)) == 2
    else:
        async with AsyncExitStack() as stack:
            await subscribed(to, stack)


async def _both(to: ChannelUpstream, doors: list[Door]) -> None:
    """Wait until calls reach both."""
    async with asyncio.timeout(30):
        while not all(door.seen.calls for door in doors):
            await get(to)
            await asyncio.sleep(0.01)
