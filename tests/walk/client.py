"""The client of a walk, in a process of its own: reads the port, then makes one call for each line and says "done"."""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc

PAUSE = 0.1
"""How late a receiver of webhooks answers; for half of that a call is still recorded after its answer."""

HELLO = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
OLD_HELLO = {"messageId": "m", "role": "user", "kind": "message", "parts": [{"kind": "text", "text": "hello"}]}


class Http:
    """One connection that is kept open. Head and body are sent at once, as most clients do."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)

    def post(self, path: str, body: object, version: str) -> HTTPResponse:
        text = json.dumps(body)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: {version}"
        self._socket.sendall(f"{head}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        answer = HTTPResponse(self._socket)
        answer.begin()
        assert answer.status == 200, answer.read()
        return answer


class Hooks(BaseHTTPRequestHandler):
    """Takes webhooks. What the server does with the answer to one is no longer part of the walk."""

    protocol_version = "HTTP/1.1"
    arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def do_POST(self) -> None:
        self.arrived.put(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(PAUSE)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the one it replaces
        """Keep quiet: stdout is what the walk listens to."""


def rest_send(port: int) -> Callable[[], object]:
    http = Http(port)
    return lambda: http.post("/message:send", {"message": HELLO}, "1.0").read()


def old_send(port: int) -> Callable[[], object]:
    http = Http(port)
    params = {"message": OLD_HELLO, "configuration": {"blocking": True}}
    return lambda: http.post("/", {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}, "0.3").read()


def grpc_send(port: int) -> Callable[[], object]:
    stub = _stub(port)
    return lambda: stub.SendMessage(_request())


def grpc_stream(port: int) -> Callable[[], object]:
    stub = _stub(port)
    return lambda: list(stub.SendStreamingMessage(_request()))


def _stub(port: int) -> Any:
    """A stub that blocks; the generated types know those of asyncio only."""
    channel: Any = grpc.insecure_channel(f"127.0.0.1:{port}")
    return a2a_pb2_grpc.A2AServiceStub(channel)


def _request() -> pb.SendMessageRequest:
    message = pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="hello")])
    return pb.SendMessageRequest(message=message)


def event(port: int) -> Callable[[], object]:
    """Wait for one event at both ends; the agent is told by others when to say something."""
    hooks = ThreadingHTTPServer(("127.0.0.1", 0), Hooks)
    threading.Thread(target=hooks.serve_forever, daemon=True).start()
    config = {"taskPushNotificationConfig": {"id": "c", "url": f"http://127.0.0.1:{hooks.server_port}/hook"}}
    stream = Http(port).post("/message:stream", {"message": HELLO, "configuration": config}, "1.0")
    events = _events(stream)
    seen = [next(events), next(events)]  # the task, and that it is being worked on

    def both() -> None:
        text = _text(next(events))
        while _text(json.loads(Hooks.arrived.get(timeout=30))) != text:
            pass

    assert seen
    return both


def _events(stream: HTTPResponse) -> Iterator[object]:
    for line in stream:
        if line.startswith(b"data:"):
            yield json.loads(line[5:])


def _text(event: object) -> object:
    """What an artifact's chunk says; None of every other event."""
    match event:
        case {"artifactUpdate": {"artifact": {"parts": [{"text": text}]}}}:
            return text
    return None


CALLS: dict[str, Callable[[int], Callable[[], object]]] = {
    "rest-send": rest_send,
    "grpc-send": grpc_send,
    "grpc-stream": grpc_stream,
    "0.3-send": old_send,
    "event": event,
    "gateway-send": rest_send,
}


def main() -> None:
    call = CALLS[sys.argv[1]](int(sys.stdin.readline()))
    for _ in sys.stdin:
        call()
        time.sleep(PAUSE / 2)
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
