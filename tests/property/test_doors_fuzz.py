"""Anything at both HTTP doors of a real server: never its fault, always our error shape, and it goes on."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.processes import serving
from tests.support.door_events import event_of, loads
from tests.support.effort import effort

AGENT = str(Path(__file__).parents[1] / "support" / "door_agent.py")
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
OLD_MESSAGES = [
    {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]},
    {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hello"}]},
]
COMMON = ["/message:send", "/message:stream", "/tasks/t:cancel", "/tasks/t/pushNotificationConfigs"]
PATHS = [*COMMON, "/x/message:send", *(f"/v1{path}" for path in COMMON), "/v1/tasks/t:subscribe"]
METHODS = [
    *("SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "SubscribeToTask", "GetExtendedAgentCard"),
    *("message/send", "message/stream", "tasks/get", "tasks/resubscribe", "tasks/pushNotificationConfig/set"),
    *("tasks/pushNotificationConfig/get", "agent/getAuthenticatedExtendedCard", "tasks/list"),
]
MEMBERS = [
    *("messageId", "message_id", "role", "parts", "text", "raw", "data", "url", "metadata", "taskId", "extensions"),
    *("kind", "content", "file", "bytes", "fileWithUri", "inputRequest", "toolUseId"),
]
TYPES = ["application/json", "application/a2a+json"]


def _with(message: dict[str, Any], members: dict[str, Any]) -> dict[str, Any]:
    return {"message": {**message, **members}}


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
names = st.sampled_from(
    [
        *(*MEMBERS, "message", "configuration", "id", "tenant", "historyLength", "pageSize"),
        *("config", "name", "pushNotificationConfig", "pushNotification", "schemes", "authentication"),
    ]
)
likely = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(names, inner), max_leaves=20)
requests = st.one_of(
    values,
    likely,
    likely.map(lambda part: {"message": MESSAGE, "configuration": part}),
    likely.map(lambda part: {"message": {**MESSAGE, "metadata": part}}),
    likely.map(lambda part: {"message": {**MESSAGE, "parts": [part]}}),
    *(st.dictionaries(names, likely).map(partial(_with, message)) for message in (MESSAGE, *OLD_MESSAGES)),
)
bounded = settings(
    max_examples=effort(40, everything=150),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


class Client:
    """One connection, which every answer leaves usable, or says that it does not."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def ask(self, verb: str, path: str, body: bytes | None, content_type: str = TYPES[0]) -> tuple[int, str, bytes]:
        self._connection.request(verb, path, body, {"Content-Type": content_type})
        answer = self._connection.getresponse()
        told = answer.read()
        assert answer.status < 500, (answer.status, told)
        if answer.will_close:  # what refuses a body before it is there does not wait for it, and says so
            assert (answer.status >= 400, answer.headers["Connection"], bool(body)) == (True, "close", True)
        self._connection.request("GET", "/healthz")
        alive = self._connection.getresponse()
        assert (alive.status, alive.read()) == (200, b'{"status":"alive"}')
        return answer.status, answer.headers.get("Content-Type", ""), told

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    nowhere = {"A2A_PUSH__ALLOW_LOOPBACK": "true", "A2A_PUSH__ALLOW_HOSTS": "127.0.0.1"}  # no host of somebody's
    with serving(AGENT, "--store", "memory:", cwd=tmp_path_factory.mktemp("fuzzed"), **nowhere) as server:
        yield int(server.http.rpartition(":")[2].strip("/"))


@pytest.fixture
def client(port: int) -> Iterator[Client]:
    made = Client(port)
    yield made
    made.close()


def assert_rest(status: int, content_type: str, told: bytes) -> None:
    """A success, a stream, or the one shape of an error (ERRS-02)."""
    if content_type == "text/event-stream":
        assert status == 200
        for frame in told.decode().removesuffix("\n\n").split("\n\n"):
            assert isinstance(event_of(frame).data, dict)
        return
    assert content_type in TYPES, content_type
    body = loads(told)
    if status != 200:
        assert [*body] == ["error"] or {*body} - {"type"} == {"error", "code", "message"}  # 0.3 says it twice
        error = body["error"]
        assert set(error) == {"code", "status", "message", "details"}
        assert error["code"] == status
        assert all("@type" in detail for detail in error["details"])


def assert_jsonrpc(status: int, content_type: str, told: bytes) -> list[Any]:
    """One response object, or a stream of them (JRPC-05)."""
    if content_type == "text/event-stream":
        answers = [event_of(frame).data for frame in told.decode().removesuffix("\n\n").split("\n\n")]
    else:
        assert content_type == "application/json"
        answers = [loads(told)]
    for answer in answers:
        assert set(answer) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
        if "error" in answer:
            assert set(answer["error"]) <= {"code", "message", "data"}
            data = answer["error"].get("data", [])
            assert "reason" in data if isinstance(data, dict) else all("@type" in detail for detail in data)
    assert status in {200, 413}
    return answers


@pytest.mark.req("ERRS-02", "ERRS-07", "JSON-12")
@bounded
@given(path=st.sampled_from(PATHS), body=st.binary(), content_type=st.sampled_from([*TYPES, "text/plain", ""]))
def test_bytes_at_rest(client: Client, path: str, body: bytes, content_type: str) -> None:
    assert_rest(*client.ask("POST", path, body, content_type))


@pytest.mark.req("JRPC-05", "JRPC-06", "ERRS-07")
@bounded
@given(body=st.binary())
def test_bytes_at_jsonrpc(client: Client, body: bytes) -> None:
    assert_jsonrpc(*client.ask("POST", "/", body))


@pytest.mark.req("ERRS-02", "ERRS-07", "GEN-06")
@bounded
@given(path=st.sampled_from(PATHS), value=requests)
def test_json_at_rest(client: Client, path: str, value: object) -> None:
    assert_rest(*client.ask("POST", path, json.dumps(value).encode()))


@pytest.mark.req("JRPC-04", "JRPC-05", "JRPC-06", "GEN-06")
@bounded
@given(value=values | st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params"]), values))
def test_json_at_jsonrpc(client: Client, value: object) -> None:
    assert_jsonrpc(*client.ask("POST", "/", json.dumps(value).encode()))


@pytest.mark.req("JRPC-04", "JRPC-05", "JRPC-06")
@bounded
@given(
    method=st.sampled_from(METHODS) | st.text(),
    params=requests,
    request_id=st.text(max_size=1024) | st.integers(1 - 2**53, 2**53 - 1) | st.none(),
)
def test_calls_at_jsonrpc(client: Client, method: str, params: object, request_id: object) -> None:
    call = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    for answer in assert_jsonrpc(*client.ask("POST", "/", json.dumps(call).encode())):
        assert answer["id"] == request_id or answer["error"]["code"] == -32700  # lone surrogates are no JSON


@pytest.mark.req("ERRS-02", "REST-07", "QPAR-02")
@bounded
@given(
    verb=st.sampled_from(["GET", "POST", "DELETE", "PUT", "PATCH"]),
    path=st.lists(
        st.binary(max_size=8)
        | st.sampled_from([b"tasks", b"pushNotificationConfigs", b"extendedAgentCard", b"v1", b"task", b"card"])
    ),
    suffix=st.sampled_from(["", ":cancel", ":subscribe", "%3Acancel", ":", "::cancel"]),
    query=st.dictionaries(st.text() | names, st.text()),
)
def test_paths_and_queries(client: Client, verb: str, path: list[bytes], suffix: str, query: dict[str, str]) -> None:
    target = "/" + "/".join(quote_from_bytes(segment, safe="") for segment in path) + suffix
    pairs = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in query.items())
    status, content_type, told = client.ask(verb, f"{target}?{pairs}", None)
    if target == "/" and verb == "POST":
        assert_jsonrpc(status, content_type, told)
    else:
        assert_rest(status, content_type, told)


def _quoted(text: str) -> str:
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="")
