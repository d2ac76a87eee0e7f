"""The access log: one line per call, through every door, and nothing of what was said."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.support.callers import EVERYWHERE, House, bearer, house
from tests.support.world import say

TOKEN = "t0k-of-ann"
ANN = {"owner": "ann", "hash": "sha256:" + hashlib.sha256(TOKEN.encode()).hexdigest()}
METADATA = [("authorization", f"Bearer {TOKEN}")]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ON: dict[str, Any] = {"log": {"access": True}, "auth": {"tokens": [ANN]}}


class Lines:
    """What the access log has written so far."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture
        self.text = ""

    def calls(self) -> list[dict[str, Any]]:
        self.text += self._capture.readouterr().err
        return [json.loads(line) for line in self.text.splitlines() if '"event":"call"' in line]

    async def reach(self, many: int) -> list[dict[str, Any]]:
        async with asyncio.timeout(30):
            while len(self.calls()) < many:  # noqa: ASYNC110 - what was printed raises no event
                await asyncio.sleep(0.02)
        return self.calls()


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    return Lines(capsys)


@pytest.mark.req("OPER-08")
async def test_a_call_through_any_door_is_one_line(lines: Lines) -> None:
    async with house(gateway=True, relay={"log": {"access": True}}, **ON) as here:
        for door in EVERYWHERE:
            before = len(lines.calls())
            sent = {**bearer(TOKEN), "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "x-request-id": f"r-{door}"}
            await here.told(door, sent)
            far = door.startswith("far-")
            told = (await lines.reach(before + 1 + far))[before:]
            assert len(told) == 1 + far, door
            for line in told:
                assert line.pop("timestamp").endswith("Z")
                assert line.pop("ms") > 0
            version = "0.3" if door.endswith("0.3") else "1.0"
            binding = "jsonrpc" if "jsonrpc" in door else "rest" if "rest" in door else "grpc"
            line = {"level": "info", "event": "call", "rpc": "GetTask", "door": binding, "version": version}
            line |= {"outcome": "TASK_NOT_FOUND", "peer": "127.0.0.1", "trace_id": TRACE, "request_id": f"r-{door}"}
            expected = [{**line, "door": "grpc" if far else binding, "caller": "ann"}]
            assert told == expected + ([{**line, "caller": ""}] if far else []), door
    assert TOKEN not in lines.text


@pytest.mark.req("OPER-08")
async def test_outcomes_callers_and_what_never_was_a_call(lines: Lines) -> None:
    async with house(**ON) as here:
        stub = a2a_pb2_grpc.A2AServiceStub(here.channel)
        task = (await stub.SendMessage(say("hello"), metadata=METADATA)).task
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.GetTask(pb.GetTaskRequest(id=task.id))
        garbage: Any = here.channel.unary_unary("/lf.a2a.v1.A2AService/GetTask")
        with pytest.raises(grpc.aio.AioRpcError):
            await garbage(b"\xff\xff\xff", metadata=METADATA)
        told = await lines.reach(3)
    assert [(line["rpc"], line["caller"], line["outcome"]) for line in told] == [
        ("SendMessage", "ann", "OK"),
        ("GetTask", "", "UNAUTHENTICATED"),
        ("GetTask", "", "INVALID_PARAMS"),
    ]
    assert all("events" not in line for line in told)


async def streamed(here: House, url: str, headers: Mapping[str, str]) -> int:
    body = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "a lighthouse"}]}}
    async with here.session.post(f"{url}/message:stream", json=body, headers=headers) as answer:
        return (await answer.text()).count("data:")


@pytest.mark.req("OPER-08")
async def test_a_stream_is_one_line_at_its_end_with_the_number_of_events(lines: Lines) -> None:
    async with house(gateway=True, relay={"log": {"access": True}}, **ON) as here:
        stub = a2a_pb2_grpc.A2AServiceStub(here.channel)
        request = say("a lighthouse", skill="story")
        events = len([item async for item in stub.SendStreamingMessage(request, metadata=METADATA)])
        near = (await lines.reach(1))[0]
        assert (near["rpc"], near["outcome"], near["events"]) == ("SendStreamingMessage", "OK", events)
        for url, many in ((here.base, 1), (here.gateway, 2)):
            before = len(lines.calls())
            events = await streamed(here, url, bearer(TOKEN))
            told = (await lines.reach(before + many))[before:]
            assert [(line["outcome"], line["events"]) for line in told] == [("OK", events)] * many
        cut = stub.SendStreamingMessage(say("5", skill="run"), metadata=METADATA)
        await cut.read()
        before = len(lines.calls())
        cut.cancel()
        line = (await lines.reach(before + 1))[-1]
        assert (line["outcome"], line["caller"]) == ("CANCELLED", "ann")
        assert line["events"] >= 1


@pytest.mark.req("OPER-08")
async def test_it_is_off_unless_wanted(lines: Lines) -> None:
    async with house(gateway=True, auth={"tokens": [ANN]}) as here:
        for door in EVERYWHERE:
            await here.told(door, bearer(TOKEN))
        await asyncio.sleep(0.3)
    assert lines.calls() == []
