"""Whatever clients send, and whenever they go, the log of a real process has no stack trace (spec: ERRS-07)."""

from __future__ import annotations

import json
import logging
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.transport.grpc.server import GrpcDoor
from a2a_server.transport.grpc_options import GrpcOptions
from tests.e2e.processes import environment
from tests.support.world import say

SEND, STREAM = b"/lf.a2a.v1.A2AService/SendMessage", b"/lf.a2a.v1.A2AService/SendStreamingMessage"
METHODS = [SEND, STREAM, b"/a2a.v1.A2AService/SendMessage", b"/grpc.health.v1.Health/Check"]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS = 0, 1, 3, 4
END_STREAM, END_HEADERS = 1, 4
CANCEL = struct.pack("!I", 8)


@contextmanager
def doors(path: Path) -> Iterator[tuple[tuple[str, int], tuple[str, int], Path]]:
    """Where the doors of a real process are, and its log; it has ended by itself when the block is left."""
    log = path / "log"
    line = [sys.executable, "-m", "a2a_server", "serve", "a2a_server.demo:agent", "--store", "memory:"]
    line += ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            line,
            cwd=path,
            env=environment(A2A_LIMITS__DRAIN_GRACE="0.1", PYTHONASYNCIODEBUG="0"),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        found: dict[str, tuple[str, int]] = {}
        for text in process.stdout:
            words = text.split()
            if words[:1] in (["grpc"], ["http"]):
                host, _, port = words[1].removeprefix("http://").partition(":")
                found[words[0]] = (host, int(port))
            if text.startswith("Try:"):
                break
        try:
            yield found["grpc"], found["http"], log
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + payload


def literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def begun(method: bytes, *more: tuple[bytes, bytes]) -> bytes:
    pseudo = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", method), (b":authority", b"x")]
    fields = [*pseudo, (b"content-type", b"application/grpc"), (b"te", b"trailers"), *more]
    block = b"".join(literal(name, value) for name, value in fields)
    return PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, END_HEADERS, 1, block)


def body(message: pb.SendMessageRequest) -> bytes:
    wire = message.SerializeToString()
    return b"\0" + struct.pack("!I", len(wire)) + wire


def knock(at: tuple[str, int], sent: bytes, *, stay: float = 0.05, reset: bool = False) -> None:
    """Send this, stay for a moment, and go, without a word if so wished."""
    with socket.create_connection(at) as connection:
        try:
            connection.sendall(sent)
            time.sleep(stay)
        except OSError:
            return
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def traces(log: Path) -> list[str]:
    """The lines that have a stack trace, or that are no event at all."""
    lines = log.read_text().splitlines()
    return [line for line in lines if "Traceback" in line or line.startswith(" ") or "hunter2" in line]


LONG = body(say("200", skill="run"))


@pytest.mark.req("ERRS-07")
def test_broken_grpc(tmp_path: Path) -> None:
    with doors(tmp_path) as (at, _, log):
        for method in METHODS:
            for name in (b"x-note", b"authorization", b"a2a-version", b"traceparent", b"x-note-bin"):
                knock(at, begun(method, (name, b"Bearer hunter2 \xff\xfe")) + frame(DATA, END_STREAM, 1, LONG))
            for junk in (b"\0\0\0\0\x05abcde", b"\x01\0\0\0\x05abcde", b"\0\xff\xff\xff\xffabc", b"\0\0"):
                knock(at, begun(method) + frame(DATA, END_STREAM, 1, junk))
        for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\0", PREFACE + b"\xff" * 40):
            knock(at, sent)
        assert traces(log) == []
        assert grpc.channel_ready_future(grpc.insecure_channel(f"{at[0]}:{at[1]}")).result(5) is None


@pytest.mark.req("ERRS-07")
def test_clients_that_have_gone(tmp_path: Path) -> None:
    stream = json.dumps(
        {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "200"}]}, "metadata": {"skill": "run"}}
    ).encode()
    with doors(tmp_path) as (at, http, log):
        for attempt in range(40):
            stay = attempt * 0.001
            for method in (SEND, STREAM):
                call = begun(method) + frame(DATA, END_STREAM, 1, LONG)
                knock(at, call, stay=stay, reset=bool(attempt % 2))
                knock(at, call + frame(RESET, 0, 1, CANCEL), stay=stay)
            knock(http, request(b"/message:stream", stream), stay=stay, reset=bool(attempt % 2))
            knock(http, request(b"/message:send", stream)[:-5], stay=stay, reset=bool(attempt % 2))
        assert traces(log) == []


def request(path: bytes, content: bytes, header: bytes = b"") -> bytes:
    head = b"POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\na2a-version: 1.0\r\ncontent-type: application/json\r\n" % path
    return head + header + b"content-length: %d\r\n\r\n" % len(content) + content


@pytest.mark.req("ERRS-07")
def test_broken_http(tmp_path: Path) -> None:
    sent = [
        b"\0\xff\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01",
        PREFACE,
        b"GET / HTTP/1.1\r\nfoo\r\n\r\n",
        b"GET http://[::/ HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"GET /tasks?%ff=%fe&pageSize=%ff HTTP/1.1\r\nhost: [::\r\n\r\n",
        b"POST /message:send HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: x\r\n\r\n",
        b"POST /message:send HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        request(b"/\xff\xfe", b"{}"),
        request(b"/tasks/%ff%fe", b"{}"),
        request(b"/message:send", b"\xff\xfe{"),
        request(b"/message:send", b'{"message":{"messageId":"\\ud800"}}'),
        request(b"/message:send", b"{}", b"authorization: Bearer hunter2 \xff\r\ntraceparent: \xff\r\n"),
        request(b"/message:send", b"{}", b"content-encoding: gzip\r\nexpect: x\r\ncookie: \xff=\xfe\r\n"),
        request(b"/message:stream", b"{}", b"last-event-id: \xff\r\n"),
    ]
    with doors(tmp_path) as (_, at, log):
        for one in sent:
            for part in (one, one[:-2]):
                knock(at, part)
                knock(at, part, reset=True)
        assert traces(log) == []


@pytest.mark.req("ERRS-07")
async def test_a_batch_error_of_grpcs_core_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Whether one comes up depends on when a client goes; so here it is logged as grpc.aio and asyncio do it."""
    await GrpcDoor(GrpcOptions()).stop(None)
    gone = import_module("grpc._cython.cygrpc").ExecuteBatchError("Failed grpc_call_start_batch: 2")
    for name in ("grpc._cython.cygrpc", "asyncio"):
        logging.getLogger(name).error("Unexpected", exc_info=gone)
        logging.getLogger(name).error("ours", exc_info=ValueError("told"))
    assert [record.getMessage() for record in caplog.records] == ["ours", "ours"]
