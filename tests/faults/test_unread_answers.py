"""gRPC answers that nobody reads: bounded together, and others get theirs (spec: LIMT-01, DOOR-04)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.agents import Agent, Turn
from a2a_server.serve import Server
from tests.faults.test_half_open_calls import GET_TASK, PATIENCE, STREAM, Raw, honest, raw
from tests.support.http import house

STRANGER = "127.0.0.7"
MEGABYTE = 2**20
ROOM = 32 * MEGABYTE
CALLS = 30
LITTLE = 1500
"""What clients take of a stream: the first items, which are small."""
MOST = 15
"""How many answers of a megabyte fit: each is kept twice, and is a little larger."""
FULL = b"Clients leave too much unread: %d bytes (transport.max_unsent_bytes). Try again later."

QUICK = {"write_timeout": 0.5}

agent = Agent(name="Flood", description="Says a lot.", version="1")


@agent.skill(id="flood", tags=["test"])
async def flood(turn: Turn) -> str:
    return "x" * int(turn.text)


def asking(size: int) -> pb.SendMessageRequest:
    return pb.SendMessageRequest(message=pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text=str(size))]))


async def task_of(channel: grpc.aio.Channel, size: int) -> pb.GetTaskRequest:
    """A task whose artifact has so many bytes."""
    stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)
    sent = await stub.SendMessage(asking(size), timeout=PATIENCE)
    return pb.GetTaskRequest(id=sent.task.id)


async def read_by(channel: grpc.aio.Channel, request: pb.GetTaskRequest) -> int:
    """The bytes of an answer that is read."""
    stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)
    return int((await stub.GetTask(request, timeout=PATIENCE)).ByteSize())


@pytest.mark.req("LIMT-01", "DOOR-04")
@pytest.mark.parametrize("method", [GET_TASK, STREAM])
@pytest.mark.parametrize("ahead", [0, 16])
async def test_large_answers_are_bounded_together(method: str, ahead: int) -> None:
    options = {"max_unsent_bytes": ROOM, "accept_ahead": ahead}
    async with house(agent, transport=options) as server, honest(server) as channel:
        task = await task_of(channel, MEGABYTE)
        async with raw(server, method, source=STRANGER, window=LITTLE) as deaf:
            deaf.call(CALLS, task if method == GET_TASK else asking(MEGABYTE))
            await deaf.read(CALLS - MOST)
            assert len(deaf.ended) == deaf.told(FULL % ROOM, status=8) == CALLS - MOST
            for _ in range(3):  # at another address, there is an equal part
                assert await read_by(channel, task) > MEGABYTE
        await there_is_room(server, task)


async def there_is_room(server: Server, task: pb.GetTaskRequest) -> None:
    """See that as many as before are accepted again, a moment after the client has left."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async with raw(server, GET_TASK, source=STRANGER, window=0) as client:
                client.call(MOST, task)
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await client.read(1)
                if not client.ended:
                    return


@pytest.mark.req("LIMT-01")
async def test_who_reads_gets_all_however_much_that_is() -> None:
    async with house(agent, transport={"max_unsent_bytes": 4 * MEGABYTE}) as server, honest(server) as channel:
        task = await task_of(channel, 3 * MEGABYTE)  # one alone takes more than there is
        for _ in range(10):
            assert await read_by(channel, task) > 3 * MEGABYTE


async def streams_are_over(server: Server, *, begun: int) -> None:
    """Wait until so many streams have begun, and then until all of them are over for the server."""
    async with asyncio.timeout(PATIENCE):
        while server.pipeline.streams.count < begun:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.01)
        while server.pipeline.streams.count:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)


async def closed_by_server(client: Raw) -> None:
    """Read until the server closes the connection."""
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await client.read(1_000)


@pytest.mark.req("LIMT-01", "DOOR-04")
@pytest.mark.parametrize("method", [GET_TASK, STREAM])
@pytest.mark.parametrize("ahead", [0, 16])
async def test_who_goes_on_reading_nothing_loses_the_connection(method: str, ahead: int) -> None:
    options = {"max_unsent_bytes": ROOM, "accept_ahead": ahead}
    with capture_logs() as logs:
        async with house(agent, transport=options, streams=QUICK) as server, honest(server) as channel:
            task = await task_of(channel, MEGABYTE)
            async with raw(server, method, source=STRANGER, window=LITTLE) as deaf:
                deaf.call(MOST, task if method == GET_TASK else asking(MEGABYTE))
                await closed_by_server(deaf)
                await there_is_room(server, task)
            assert await read_by(channel, task) > MEGABYTE
    lines = [entry for entry in logs if entry["event"] == "grpc.answers_unread"]
    assert [(line["peer"], line["log_level"]) for line in lines] == [(STRANGER, "warning")]
    assert 0 < lines[0]["bytes"] <= ROOM
    assert not [entry for entry in logs if entry["log_level"] in {"error", "critical"}]


@pytest.mark.req("LIMT-01")
async def test_what_a_stream_was_sending_counts_until_grpc_lets_go() -> None:
    """Its end is told to its client meanwhile, and the next one at the same address has no room."""
    options = {"max_unsent_bytes": ROOM}
    async with house(agent, transport=options, streams=QUICK) as server, honest(server) as channel:
        task = await task_of(channel, MEGABYTE)
        async with (
            raw(server, STREAM, source=STRANGER, window=LITTLE) as deaf,
            raw(server, GET_TASK, source=STRANGER) as other,
        ):
            deaf.call(MOST, asking(MEGABYTE))
            await streams_are_over(server, begun=MOST)
            other.call(1, task)
            await other.read(1)
            assert other.told(FULL % ROOM, status=8) == 1


@pytest.mark.req("LIMT-01")
async def test_who_reads_again_after_the_cut_is_told_and_keeps_the_connection() -> None:
    options = {"max_unsent_bytes": ROOM}
    async with house(agent, transport=options, streams=QUICK) as server, honest(server) as channel:
        task = await task_of(channel, MEGABYTE)
        async with raw(server, STREAM, source=STRANGER, window=LITTLE) as late:
            late.call(MOST, asking(MEGABYTE))
            await streams_are_over(server, begun=MOST)
            late.open_windows()
            await late.read(MOST)
            assert late.told(b"The reader took nothing for 0.5 seconds; the stream was cut.", status=14) == MOST
            await there_is_room(server, task)
            late.call(1, asking(1))
            late.open_windows()
            await late.read(MOST + 1)
            assert late.told(b"", status=0) == 1
