"""gRPC messages that lack their end: what is held of them is bounded together (spec: LIMT-01, DOOR-04)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from grpc_reflection.v1alpha import reflection_pb2
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.serve import Server
from a2a_server.transport.grpc import waiting_calls
from tests.faults.test_half_open_calls import GET_TASK, PATIENCE, REFLECT, Raw, honest, raw
from tests.support.http import house
from tests.support.stage import Stage

LARGEST, MOST = 100_000, 400_000
BOUNDS = {"max_message_bytes": LARGEST, "max_unfinished_bytes": MOST}
TOLD = (
    b"Too much is being sent at once: at most %d bytes (transport.max_unfinished_bytes),"
    b" and half of them from one address or caller." % MOST
)
CANCEL = "/lf.a2a.v1.A2AService/CancelTask"
SEVERAL = 0.5
"""Seconds in which the server looks several times."""


def saying(size: int) -> pb.SendMessageRequest:
    text = [pb.Part(text="x" * size)]
    return pb.SendMessageRequest(message=pb.Message(message_id="m", role=pb.ROLE_USER, parts=text))


LARGE = pb.CancelTaskRequest(id="unknown", metadata={"text": "x" * 50_000})


async def small_and_large_are_served(server: Server) -> None:
    async with honest(server) as channel:
        stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)
        for size in (1, 90_000):
            sent = await stub.SendMessage(saying(size), timeout=PATIENCE)
            assert sent.task.status.state == pb.TASK_STATE_COMPLETED


async def begun(client: Raw, number: int) -> list[int]:
    return [await client.all_but_the_last_byte(LARGE) for _ in range(number)]


async def finish(client: Raw, streams: list[int]) -> None:
    """Complete what has not been ended; all of it is answered: there is no such task."""
    left = [stream for stream in streams if stream not in client.ended]
    for stream in left:
        client.finish(stream, LARGE)
    await client.read(len(streams))
    assert client.told(b"", status=5) == len(left)


async def read_what_comes(*clients: Raw) -> None:
    for client in clients:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.read(1_000), SEVERAL)


@asynccontextmanager
async def clients_from(server: Server, *sources: int, token: str = "") -> AsyncIterator[list[Raw]]:
    async with AsyncExitStack() as stack:
        made = [raw(server, CANCEL, source=f"127.0.0.{source}", token=token) for source in sources]
        yield [await stack.enter_async_context(one) for one in made]


@pytest.mark.req("LIMT-01", "DOOR-04")
@pytest.mark.parametrize("ahead", [0, 16])
@pytest.mark.parametrize("connections", [1, 3])
async def test_one_address_may_have_half(connections: int, ahead: int) -> None:
    """The oldest calls end, in whatever connections they are; the others go on."""
    with capture_logs() as logs:
        async with (
            house(Stage().agent, transport=BOUNDS | {"accept_ahead": ahead}) as server,
            clients_from(server, *[7] * connections) as clients,
        ):
            streams = [await begun(client, 6 // connections) for client in clients]
            await read_what_comes(*clients)
            told = sum(client.told(TOLD, status=8) for client in clients)
            assert 2 <= told == sum(len(client.ended) for client in clients) <= 4
            if connections == 1:
                assert streams[0][-1] not in clients[0].ended
            await small_and_large_are_served(server)
            for client, begun_there in zip(clients, streams, strict=True):
                await finish(client, begun_there)
    assert not [entry for entry in logs if entry["log_level"] in {"error", "critical"}]


@pytest.mark.req("LIMT-01", "DOOR-04")
async def test_all_addresses_together_may_have_no_more_than_the_bound() -> None:
    async with house(Stage().agent, transport=BOUNDS) as server, clients_from(server, 2, 3, 4, 5, 6) as clients:
        streams = [await begun(client, 2) for client in clients]
        await read_what_comes(*clients)
        told = sum(client.told(TOLD, status=8) for client in clients)
        assert 2 <= told == sum(len(client.ended) for client in clients) <= 6
        await small_and_large_are_served(server)
        for client, begun_there in zip(clients, streams, strict=True):
            await finish(client, begun_there)


@pytest.mark.req("LIMT-01", "DOOR-04")
async def test_one_caller_may_not_send_from_everywhere() -> None:
    """What it sends from many addresses counts together; others go on sending, and strangers count by address."""
    hashed = {name: "sha256:" + hashlib.sha256(f"{name}-token".encode()).hexdigest() for name in ("ann", "bob")}
    auth = {"tokens": [{"owner": name, "hash": digest} for name, digest in hashed.items()]}
    async with (
        house(Stage().agent, auth=auth, transport=BOUNDS) as server,
        clients_from(server, 2, 3, token="ann-token") as anns,
        clients_from(server, 4, token="bob-token") as bobs,
    ):
        streams = {client: await begun(client, 3) for client in anns}
        await read_what_comes(*anns)
        assert 2 <= sum(client.told(TOLD, status=8) for client in anns) <= 4
        streams[bobs[0]] = await begun(bobs[0], 2)
        async with clients_from(server, 5, token="nobody") as strangers:
            await begun(strangers[0], 1)
            await read_what_comes(*bobs, *strangers)
            assert not bobs[0].ended
            assert not strangers[0].ended
        for client, begun_there in streams.items():
            await finish(client, begun_there)


@pytest.mark.req("LIMT-01")
async def test_calls_that_have_brought_little_are_left_alone() -> None:
    async with house(Stage().agent, transport=BOUNDS) as server, raw(server, GET_TASK) as client:
        client.begin(100)
        await read_what_comes(client)
        assert not client.ended


@pytest.mark.req("LIMT-01")
async def test_further_messages_of_a_call_count_as_well() -> None:
    """A call may wait for them as long as it likes, but not hold more than the bound."""
    first, further = (reflection_pb2.ServerReflectionRequest(list_services="x" * size) for size in (0, 50_000))
    options = BOUNDS | {"message_timeout": 0.2}
    with capture_logs() as logs:
        async with house(Stage().agent, transport=options) as server, raw(server, REFLECT) as client:
            for _ in range(6):
                await client.all_but_the_last_byte(further, first)
            await read_what_comes(client)
            assert 2 <= client.told(TOLD, status=8) == len(client.ended) <= 4
    assert not [entry for entry in logs if entry["log_level"] in {"error", "critical"}]


@pytest.mark.req("LIMT-01")
async def test_one_message_alone_always_fits() -> None:
    options = BOUNDS | {"max_unfinished_bytes": 1}
    async with house(Stage().agent, transport=options) as server, raw(server, CANCEL) as client:
        streams = await begun(client, 1)
        await read_what_comes(client)
        await finish(client, streams)


@pytest.mark.req("LIMT-01")
async def test_where_the_system_does_not_tell_calls_count_with_what_they_may_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_calls, "bytes_from", lambda _: None)
    async with house(Stage().agent, transport=BOUNDS) as server, raw(server, GET_TASK) as client:
        client.begin(6)
        await client.read(4)
        assert client.told(TOLD, status=8) == 4
        await read_what_comes(client)
        assert len(client.ended) == 4
