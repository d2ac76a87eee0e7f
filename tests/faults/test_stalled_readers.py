"""Readers that take nothing, and what they cost a server and a gateway: no copy each (spec: DOOR-04, RPLY-06)."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.processes import ROOT, serving
from tests.e2e.test_gateway import Gateway, gateway

pytestmark = pytest.mark.long  # they wait until memory settles

AGENT = str(ROOT / "tests" / "support" / "torrent.py")
MEGABYTE = 2**20


@contextmanager
def places(folder: Path) -> Iterator[dict[str, Gateway]]:
    """A server, and a gateway before it, each with its HTTP door."""
    with (
        serving(AGENT, "--store", "memory:", cwd=folder, A2A_KEEP_STREAMS_OPEN_ON_INPUT="true") as server,
        gateway("--upstream", server.address, cwd=folder) as before,
    ):
        yield {"in process": Gateway(server.process, server.http, ""), "over a channel": before}


def memory(of: Gateway) -> int:
    """Megabytes that the process has."""
    told = Path(f"/proc/{of.process.pid}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in told.splitlines() if line.startswith("VmRSS")) // 1024


def send(to: Gateway, text: str, **address: str) -> Any:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **address}
    status, _, told = to.ask("POST", "/message:send", {"message": message})
    assert status == 200, told
    return told["task"]


def stalled(stack: ExitStack, to: Gateway, task: str, number: int) -> socket.socket:
    """A subscriber that reads nothing, by REST or JSON-RPC."""
    client = stack.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", urlsplit(to.url).port or 0))
    if number % 2:
        client.sendall(f"GET /tasks/{task}:subscribe HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    else:
        call = {"jsonrpc": "2.0", "id": number, "method": "SubscribeToTask", "params": {"id": task}}
        body = json.dumps(call).encode()
        fields = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        head = f"POST / HTTP/1.1\r\n{fields}\r\n\r\n"
        client.sendall(head.encode() + body)
    return client


def settles(of: Gateway) -> int:
    """Wait until memory grows no more, and say how much there is."""
    before, now = -1, memory(of)
    while now > before + 1:
        time.sleep(1)
        before, now = now, memory(of)
    return now


@pytest.mark.req("RPLY-06", "DOOR-04")
@pytest.mark.parametrize("which", ["in process", "over a channel"])
def test_a_large_task_is_not_copied_for_each_reader(tmp_path: Path, which: str) -> None:
    with places(tmp_path) as found, ExitStack() as stack:
        to = found[which]
        task = send(to, "x" * (10 * MEGABYTE))
        before = memory(to)
        for number in range(30):
            stalled(stack, to, task["id"], number)
            time.sleep(0.1)  # gRPC brings each its own copy, for a moment
        grown = settles(to) - before
        assert to.ask("GET", "/tasks?pageSize=1")[0] == 200
    assert grown < 200, grown  # 300 would be one copy for each


@pytest.mark.req("RPLY-06", "DOOR-04")
@pytest.mark.parametrize("which", ["in process", "over a channel"])
def test_a_torrent_is_not_kept_for_who_does_not_read(tmp_path: Path, which: str) -> None:
    with places(tmp_path) as found, ExitStack() as stack:
        to, server = found[which], found["in process"]
        task = send(server, "hello")
        for number in range(40):
            stalled(stack, to, task["id"], number)
        time.sleep(0.5)
        before = memory(to)
        again = send(server, "more", taskId=task["id"])
        assert again["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        grown = settles(to) - before
        assert to.ask("GET", "/tasks?pageSize=1")[0] == 200
    assert grown < 400, grown  # of which the server itself keeps the task, thrice; one copy for each would be 1,200
