"""Frames as bytes: one data field, whatever an event holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_gateway.errors import failure_of
from a2a_gateway.http.frames import LINES, REST, Frames, jsonrpc_frames, jsonrpc_lines
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.json_v1 import V1
from tests.support.door_events import event_of, loads

FAILURE = failure_of(A2AError(Reason.TASK_NOT_FOUND, "No such\r\n\ntask: \u2028 \x00"))
SSE = [REST, jsonrpc_frames(b'"q"')]
RPC_LINES = jsonrpc_lines(b'"q"')


@pytest.mark.req("SSEV-01", "SSEV-02", "JRPC-07", "RPLY-01")
def test_what_frames_are() -> None:
    assert REST.event(7, b"{}") == b"id: 7\ndata: {}\n\n"
    assert REST.event(0, b"{}") == b"data: {}\n\n"
    assert jsonrpc_frames(b"1.0").event(7, b"{}") == b'id: 7\ndata: {"jsonrpc":"2.0","id":1.0,"result":{}}\n\n'
    assert jsonrpc_frames(b'"q"').event(0, b"{}") == b'data: {"jsonrpc":"2.0","id":"q","result":{}}\n\n'
    assert REST.comment == jsonrpc_frames(b"1").comment == b": keep-alive\n\n"


@pytest.mark.req("DOOR-11")
def test_what_lines_are() -> None:
    assert LINES.event(7, b"{}") == b'{"result":{}}\n'
    assert LINES.comment == b""
    assert loads(LINES.error(FAILURE))["error"]["code"] == 5  # gRPC's number, as grpc-gateway has it
    assert RPC_LINES.event(7, b"{}") == b'{"jsonrpc":"2.0","id":"q","result":{}}\n'
    assert RPC_LINES.comment == b""
    told = loads(RPC_LINES.error(FAILURE))
    assert (told["id"], told["error"]["code"]) == ("q", -32001)


@pytest.mark.req("RPLY-06")
@pytest.mark.parametrize("frames", [*SSE, LINES, RPC_LINES])
@pytest.mark.parametrize("number", [0, 7])
def test_what_is_around_a_long_event_is_around_every_event(frames: Frames, number: int) -> None:
    before, behind = frames.around(number)
    assert before + b"{}" + behind == frames.event(number, b"{}")


@pytest.mark.req("SSEV-01")
@pytest.mark.parametrize("frames", SSE)
def test_no_error_breaks_a_frame(frames: Frames) -> None:
    frame = frames.error(FAILURE).decode()
    assert frame.endswith("\n\n")
    found = event_of(frame[:-2])
    assert (found.name, found.number) == ("error", 0)
    assert found.data["error"]["message"] == FAILURE.message  # nothing is lost on the way either


@pytest.mark.req("SSEV-01", "SSEV-02", "JRPC-07")
@given(text=st.text(), name=st.text(), number=st.integers(0, 2**53))
@pytest.mark.parametrize("frames", [*SSE, LINES, RPC_LINES])
def test_no_event_breaks_a_frame(frames: Frames, text: str, name: str, number: int) -> None:
    """Not by any text, nor by names that somebody has chosen."""
    artifact = pb.Artifact(artifact_id=text, parts=[pb.Part(text=text, metadata={name: text})])
    told = pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(artifact=artifact))
    frame = frames.event(number, V1.encode(told)).decode()
    if frames in {LINES, RPC_LINES}:
        assert frame.count("\n") == 1
        data = loads(frame)["result"]
    else:
        found = event_of(frame.removesuffix("\n\n"))
        assert found.number == number
        data = found.data.get("result", found.data)
    assert data["artifactUpdate"]["artifact"] == {
        "artifactId": text,
        "parts": [{"text": text, "metadata": {name: text}}],
    }
