"""What the log hears of an upstream that goes away and comes back: each change, once (spec: DOOR-01, DOOR-07)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from a2a_gateway.channel import ChannelUpstream, channel_upstream
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason
from tests.unit.gateway.upstreams import PLAIN, channel_to, get, items, refused, rpc
from tests.unit.transport.doors import failing, failing_stream, open_door

pytestmark = pytest.mark.req("DOOR-01", "DOOR-07")

Logs = list[MutableMapping[str, Any]]


@pytest.fixture
def logs() -> Iterator[Logs]:
    with capture_logs() as found:
        yield found


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_upstream, "FRESH", 0.0)


def events(logs: Logs) -> list[str]:
    return [entry["event"] for entry in logs if entry["event"].startswith("upstream.")]


async def send(to: ChannelUpstream) -> None:
    await to.unary(rpc("SendMessage"), pb.SendMessageRequest(), PLAIN)


async def stream(to: ChannelUpstream) -> None:
    await items(await to.stream(rpc("SendStreamingMessage"), pb.SendMessageRequest(), PLAIN))


async def succeeds(to: ChannelUpstream) -> None:
    """Call until an answer comes."""
    async with asyncio.timeout(20):
        while True:
            try:
                await get(to)
            except A2AError:
                await asyncio.sleep(0.02)
            else:
                return


async def test_many_calls_fail_and_many_succeed_and_each_change_is_told_once(logs: Logs) -> None:
    async with open_door() as door:
        port = door.address.port
    async with channel_to(port) as to:
        for _ in range(3):
            for call in (get, send, stream):
                await refused(call(to))
            assert not await to.ready()
        (entry,) = logs
        assert (entry["event"], entry["address"]) == ("upstream.unavailable", f"127.0.0.1:{port}")
        assert "refused" in entry["reason"]
        async with open_door(port=port):
            await succeeds(to)
            for call in (get, send, stream):
                await call(to)
            assert await to.ready()
            assert events(logs) == ["upstream.unavailable", "upstream.back"]
            assert logs[1]["address"] == entry["address"]
        await refused(get(to))
        assert events(logs) == ["upstream.unavailable", "upstream.back", "upstream.unavailable"]


async def test_of_two_servers_the_one_that_went_is_named(logs: Logs) -> None:
    async with (
        open_door() as stays,
        open_door() as goes,
        channel_to(stays.address.port, goes.address.port) as to,
    ):
        assert await to.ready()
        await goes.server.stop(None)
        for _ in range(3):
            assert await to.ready()
            assert await get(to) == "t"
    assert [(entry["event"], entry["address"]) for entry in logs] == [("upstream.unavailable", str(goes.address))]


async def test_a_stream_that_breaks_off_is_told(logs: Logs) -> None:
    begun = asyncio.Event()

    async def endless(call: object, request: object) -> Any:
        begun.set()
        await asyncio.Event().wait()
        yield ()

    async with open_door({"SendStreamingMessage": endless}) as door, channel_to(door.address.port) as to:
        reading = asyncio.ensure_future(refused(stream(to)))
        await begun.wait()
        door.pipeline.streams.end_all()
        await door.server.stop(None)
        await reading
        await refused(get(to))
    assert events(logs) == ["upstream.unavailable"]


async def test_a_server_that_says_nothing_is_missed_by_whoever_asks_whether_it_is_there(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_upstream, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with channel_to(silent.getsockname()[1]) as to:
            assert not await to.ready()
            assert not await to.ready()
    (entry,) = logs
    assert (entry["event"], entry["reason"]) == ("upstream.unavailable", "no sign of life within 0.2 seconds")


async def test_a_server_that_refuses_is_there(logs: Logs) -> None:
    error = A2AError(Reason.UNAVAILABLE, "Not now.", retry_after=1)
    refusing = {"GetTask": failing(error), "SendStreamingMessage": failing_stream(error)}
    async with open_door(refusing) as door, channel_to(door.address.port) as to:
        assert (await refused(get(to))).message == "Not now."
        assert (await refused(stream(to))).message == "Not now."
    assert events(logs) == []
