"""The requests of the HTTP benchmarks, as clients of the two HTTP bindings write them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from tests.bench.exchange import Broken
from tests.bench.processes import Server
from tests.bench.requests import TEXT

M = TypeVar("M", bound=Message)

_EVENT = "data:"


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, for the load generator or for an ordinary client."""

    verb: str
    path: str
    body: bytes = b""
    streams: bool = False
    version: str = "1.0"
    authorization: str = ""

    @property
    def headers(self) -> dict[str, str]:
        accept = "text/event-stream" if self.streams else "application/json"
        headers = {"Host": "localhost", "User-Agent": "a2a-bench", "Accept": accept}
        if self.version:
            headers["A2A-Version"] = self.version
        if self.authorization:
            headers["Authorization"] = self.authorization
        if self.body:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(self.body))}
        return headers

    def raw(self) -> bytes:
        lines = [f"{self.verb} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + self.body

    def fetch(self, server: Server) -> str:
        """Send it with the standard library's client, for what is not timed."""
        connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=60)
        try:
            connection.request(self.verb, self.path, self.body or None, self.headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise Broken(f"{server.name} answered {self.verb} {self.path} with {answer.status}: {text}")
        return text


class Door(Protocol):
    """An HTTP binding: how a call is written, and where its answer is."""

    name: str

    def send(self, skill: str, text: str = TEXT, *, wait: bool = True) -> Request: ...

    def stream(self, skill: str, text: str = TEXT) -> Request: ...

    def get(self, task_id: str) -> Request: ...

    def page(self, size: int) -> Request: ...

    def subscribe(self, task_id: str) -> Request: ...

    def result(self, answer: Any) -> Any: ...


def ask(door: Door, server: Server, request: Request, kind: type[M]) -> M:
    """Call for a message."""
    return ParseDict(door.result(json.loads(request.fetch(server))), kind())


def listen(door: Door, server: Server, request: Request, kind: type[M]) -> Sequence[M]:
    """Call for a stream and wait for its end."""
    return [ParseDict(door.result(event), kind()) for event in events_of(request.fetch(server))]


def events_of(stream: str) -> Sequence[Any]:
    """What the events of a stream hold, which is JSON."""
    return [json.loads(line.removeprefix(_EVENT)) for line in stream.splitlines() if line.startswith(_EVENT)]


def _message(skill: str, text: str, *, wait: bool = True) -> dict[str, object]:
    message = {"messageId": "bench", "role": "ROLE_USER", "parts": [{"text": text}]}
    request: dict[str, object] = {"message": message, "metadata": {"skill": skill}}
    return request if wait else {**request, "configuration": {"returnImmediately": True}}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Rest:
    name = "REST"

    def send(self, skill: str, text: str = TEXT, *, wait: bool = True) -> Request:
        return Request("POST", "/message:send", _json(_message(skill, text, wait=wait)))

    def stream(self, skill: str, text: str = TEXT) -> Request:
        return Request("POST", "/message:stream", _json(_message(skill, text)), streams=True)

    def get(self, task_id: str) -> Request:
        return Request("GET", f"/tasks/{task_id}")

    def page(self, size: int) -> Request:
        return Request("GET", f"/tasks?pageSize={size}")

    def subscribe(self, task_id: str) -> Request:
        return Request("GET", f"/tasks/{task_id}:subscribe", streams=True)

    def result(self, answer: Any) -> Any:
        return answer


class JsonRpc:
    name = "JSON-RPC"

    def send(self, skill: str, text: str = TEXT, *, wait: bool = True) -> Request:
        return self._call("SendMessage", _message(skill, text, wait=wait))

    def stream(self, skill: str, text: str = TEXT) -> Request:
        return self._call("SendStreamingMessage", _message(skill, text), streams=True)

    def get(self, task_id: str) -> Request:
        return self._call("GetTask", {"id": task_id})

    def page(self, size: int) -> Request:
        return self._call("ListTasks", {"pageSize": size})

    def subscribe(self, task_id: str) -> Request:
        return self._call("SubscribeToTask", {"id": task_id}, streams=True)

    def result(self, answer: Any) -> Any:
        return result_of(answer)

    @staticmethod
    def _call(method: str, params: object, *, streams: bool = False) -> Request:
        return Request("POST", "/", call_body(method, params), streams)


def call_body(method: str, params: object) -> bytes:
    return _json({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def result_of(answer: Any) -> Any:
    if answer.get("jsonrpc") != "2.0" or answer.get("id") != 1 or "result" not in answer:
        raise Broken(f"no result: {answer}")
    return answer["result"]


REST, JSON_RPC = Rest(), JsonRpc()
DOORS: Sequence[Door] = (REST, JSON_RPC)
