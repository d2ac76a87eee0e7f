"""JSON-RPC 2.0 to the letter: envelopes, ids and errors as bytes on the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Violation
from tests.support.door_events import loads
from tests.support.door_upstream import Scripted, event, plays
from tests.support.doors import SERVICE, http_door
from tests.support.errors_table import ROWS, STANDARD, Row
from tests.support.house import A2AError, Reason
from tests.support.http import Answer, get, once, post

INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD = "type.googleapis.com/google.rpc.BadRequest"
TASK = b'{"id":"t","status":{"state":"TASK_STATE_WORKING"}}'


def scripted(answer: Message | Exception | None = None) -> Scripted:
    return Scripted(answer or pb.Task(id="t", status=pb.TaskStatus(state=pb.TASK_STATE_WORKING)))


async def told(body: bytes, *fields: str, upstream: Scripted | None = None, path: str = "/") -> Answer:
    async with http_door(upstream or scripted()) as door:
        return await once(door.port, post(path, body, *fields))


def call(**members: Any) -> bytes:
    request: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}} | members
    return json.dumps({name: value for name, value in request.items() if value is not ...}).encode()


def refusal(answer: Answer, code: int) -> Any:
    """The error object of an answer, its shape checked."""
    body = loads(answer.body)
    assert set(body) == {"jsonrpc", "id", "error"}
    assert body["jsonrpc"] == "2.0"
    error = body["error"]
    assert set(error) == {"code", "message", "data"}
    assert error["code"] == code
    assert error["message"].startswith(STANDARD.get(code, ""))
    assert all("@type" in detail for detail in error["data"])
    return error


def violations(error: Any) -> dict[str, str]:
    (bad,) = [detail for detail in error["data"] if detail["@type"] == BAD]
    return {violation["field"]: violation["description"] for violation in bad["fieldViolations"]}


# -- ids


@pytest.mark.req("JRPC-04", "JRPC-05", "JRPC-01", "MEDI-03")
@pytest.mark.parametrize(
    "request_id",
    [
        b'""',
        b'"q-7"',
        '"ünï-🦊"'.encode(),
        b'"\\"\\\\\\n"',
        b"0",
        b"1",
        b"-7",
        b"1.5",
        b"1.0",
        b"-0.25",
        b"null",
        b"9007199254740991",
        b"-9007199254740991",
        b"9007199254740993",
        b"18446744073709551615",
        b"-9223372036854775808",
        b'"' + b"x" * 1024 + b'"',
    ],
)
async def test_ids_come_back_as_they_were(request_id: bytes) -> None:
    body = b'{"jsonrpc":"2.0","id":%b,"method":"GetTask","params":{"id":"t"}}' % request_id
    answer = await told(body)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.body == b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, TASK)
    failed = await told(body, upstream=scripted(A2AError(Reason.TASK_NOT_FOUND, "Task not found.")))
    assert failed.body.startswith(b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32001,' % request_id)


@pytest.mark.req("JRPC-04", "JRPC-06")
@pytest.mark.parametrize(
    ("request_id", "said"),
    [
        (..., "is required; notifications are not served"),
        (True, "must be a string, a number or null"),
        ([1], "must be a string, a number or null"),
        ({}, "must be a string, a number or null"),
        (2**64, "must be a string, a whole number of at most 64 bits, or one below 2^53"),
        (-(2**63) - 1, "must be a string, a whole number of at most 64 bits, or one below 2^53"),
        (2.0**53, "must be a string, a whole number of at most 64 bits, or one below 2^53"),
        (1e300, "must be a string, a whole number of at most 64 bits, or one below 2^53"),
        ("x" * 1025, "must have at most 1024 characters, got 1025"),
    ],
)
async def test_what_is_no_id(request_id: object, said: str) -> None:
    upstream = scripted()
    answer = await told(call(id=request_id), upstream=upstream)
    error = refusal(answer, -32600)
    assert (answer.status, answer.json["id"], violations(error)) == (200, None, {"id": said})
    assert error["message"] == f"Request payload validation error: id: {said}"
    assert not upstream.asked


@pytest.mark.req("JRPC-04", "JRPC-06")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (call(id=..., method="Nonsense"), -32601),
        (call(id=..., params=[]), -32602),
        (call(id=..., params={"id": 7}), -32602),
        (call(id=...), -32600),
        (call(id=..., jsonrpc="1.0"), -32600),
    ],
)
async def test_a_missing_id_is_judged_last(body: bytes, code: int) -> None:
    """So that it hides no other fault (CONF-51); and nothing happens."""
    upstream = scripted()
    answer = await told(body, upstream=upstream)
    assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (200, None, code)
    assert not upstream.asked


# -- envelopes


@pytest.mark.req("JRPC-06", "JRPC-08")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"jsonrpc":"2.0",}',
        b'{"id":NaN}',
        b'{"id":1}{"id":2}',
        b"\xff\xfe",
        b'{"id":"\\ud800"}',
        b'{"id":1,"id":2}',
        b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"a","id":"b"}}',
        b"[" * 65 + b"]" * 65,
        b'{"id":1e999}',
    ],
)
async def test_what_is_no_json(body: bytes) -> None:
    answer = await told(body)
    error = refusal(answer, -32700)
    assert (answer.status, answer.json["id"]) == (200, None)
    assert error["data"] == [{"@type": INFO, "reason": "PARSE_ERROR", "domain": "a2a-server"}]


@pytest.mark.req("JRPC-06", "JRPC-08", "ERRS-04")
async def test_a_parse_error_as_bytes() -> None:
    answer = await told(b"{")
    assert answer.body == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,'
        b'"message":"Invalid JSON payload: unexpected end of data (line 1, column 2)",'
        b'"data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"PARSE_ERROR","domain":"a2a-server"}]}}'
    )


@pytest.mark.req("JRPC-06")
@pytest.mark.parametrize("body", [b"[]", b"[" + call() + b"]", b"1", b'"GetTask"', b"null", b"true"])
async def test_what_is_no_request_object(body: bytes) -> None:
    answer = await told(body)
    refusal(answer, -32600)
    assert (answer.status, answer.json["id"]) == (200, None)


@pytest.mark.req("JRPC-06", "JRPC-04")
@pytest.mark.parametrize(
    ("members", "code", "field"),
    [
        ({"jsonrpc": ...}, -32600, "jsonrpc"),
        ({"jsonrpc": "1.0"}, -32600, "jsonrpc"),
        ({"jsonrpc": 2.0}, -32600, "jsonrpc"),
        ({"method": ...}, -32600, "method"),
        ({"method": None}, -32600, "method"),
        ({"method": 7}, -32600, "method"),
        ({"method": ["GetTask"]}, -32600, "method"),
        ({"method": ""}, -32601, "method"),
        ({"method": "gettask"}, -32601, "method"),
        ({"method": "GetTask "}, -32601, "method"),
        ({"method": "GetAgentCard"}, -32601, "method"),
        ({"method": "rpc.discover"}, -32601, "method"),
        ({"method": "__init__"}, -32601, "method"),
        ({"params": []}, -32602, "params"),
        ({"params": ["t"]}, -32602, "params"),
        ({"params": "t"}, -32602, "params"),
        ({"params": 1}, -32602, "params"),
        ({"params": False}, -32602, "params"),
    ],
)
async def test_what_is_no_call(members: dict[str, Any], code: int, field: str) -> None:
    """The id could be read, so that it comes back all the same."""
    upstream = scripted()
    answer = await told(call(id="q", **members), upstream=upstream)
    error = refusal(answer, code)
    assert (answer.status, answer.json["id"], list(violations(error))) == (200, "q", [field])
    assert not upstream.asked


@pytest.mark.req("JRPC-02")
@pytest.mark.parametrize(
    "name",
    [
        "message/send",
        "message/stream",
        "tasks/get",
        "tasks/cancel",
        "tasks/resubscribe",
        "tasks/pushNotificationConfig/set",
        "agent/getAuthenticatedExtendedCard",
    ],
)
async def test_names_of_0_3_are_told_apart(name: str) -> None:
    error = refusal(await told(call(method=name)), -32601)
    known = ", ".join(method.name for method in SERVICE.methods)
    assert error["message"] == (
        f'Method not found: method: "{name}" is a name of A2A 0.3, which is not served here; 1.0 has {known}'
    )


@pytest.mark.req("JRPC-02", "JRPC-03", "GEN-06")
@pytest.mark.parametrize("params", [{}, None, ...])
async def test_absent_params_are_an_empty_request(params: object) -> None:
    """It reaches the upstream for every method; what is missing in it is the upstream's to say."""
    upstream = Scripted(pb.Task(), plays((event(1),)))
    async with http_door(upstream) as door:
        for method in SERVICE.methods:
            answer = await once(door.port, post("/", call(method=method.name, params=params, extra=[1])))
            assert answer.status == 200
            assert b'"error"' not in answer.body
    kinds = [GetMessageClass(method.input_type)() for method in SERVICE.methods]
    assert [(name, request) for name, request, _ in upstream.asked] == [
        (method.name, kind) for method, kind in zip(SERVICE.methods, kinds, strict=True)
    ]


@pytest.mark.req("JRPC-06", "ERRS-04", "ERRS-05", "JRPC-08")
async def test_every_fault_of_the_params_is_named_as_json_spells_it() -> None:
    message = {"messageId": 7, "role": "ROLE_X", "parts": [{"text": "a"}, {"text": 1}, {"text": "a", "url": "b"}]}
    configuration = {"historyLength": "many", "return_immediately": 1}
    params = {"message": message, "configuration": configuration, "unknown": True}
    error = refusal(await told(call(method="SendMessage", params=params)), -32602)
    assert error["message"] == "Invalid parameters: 6 fields of the request are wrong."
    assert list(violations(error)) == [
        "message.messageId",
        "message.role",
        "message.parts[1].text",
        "message.parts[2].url",
        "configuration.historyLength",
        "configuration.returnImmediately",
    ]
    assert error["data"][1] == {"@type": INFO, "reason": "INVALID_PARAMS", "domain": "a2a-protocol.org"}


@pytest.mark.req("ERRS-05", "JRPC-08")
async def test_faults_that_the_server_finds_are_spelled_as_json_too() -> None:
    fault = Violation("message.message_id", "is required")
    error = A2AError(Reason.INVALID_PARAMS, "message.message_id: is required", violations=[fault])
    answer = await told(call(method="SendMessage", params={}), upstream=scripted(error))
    assert answer.body == (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,'
        b'"message":"Invalid parameters: message.messageId: is required","data":['
        b'{"@type":"type.googleapis.com/google.rpc.BadRequest",'
        b'"fieldViolations":[{"field":"message.messageId","description":"is required"}]},'
        b'{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INVALID_PARAMS","domain":"a2a-protocol.org"}]}}'
    )


# -- failures


@pytest.mark.req("JRPC-06", "ERRS-07")
async def test_what_nobody_foresaw_is_a_server_fault() -> None:
    answer = await told(call(), upstream=scripted(RuntimeError("secret")))
    error = refusal(answer, -32603)
    assert (answer.status, error["message"]) == (200, "Internal error")
    assert "secret" not in answer.body.decode()


@pytest.mark.req("ERRS-01", "ERRS-04", "JRPC-08", "STRM-07")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.reason)
async def test_an_error_in_a_stream_is_its_last_event(row: Row) -> None:
    """The same object that a plain call would be refused with."""
    error = A2AError(Reason[row.reason], "What happened.", metadata={"taskId": "t"})
    plain = refusal(await told(call(), upstream=scripted(error)), row.jsonrpc)
    upstream = Scripted(script=plays((event(1),), error))
    answer = await told(call(id="s", method="SubscribeToTask"), upstream=upstream)
    first, last, rest = answer.body.split(b"\n\n")
    assert (answer.status, answer.headers["Content-Type"], rest) == (200, "text/event-stream", b"")
    assert first.startswith(b'id: 1\ndata: {"jsonrpc":"2.0","id":"s","result":{"artifactUpdate":{')
    name, data = last.split(b"\n")
    assert name == b"event: error"
    assert loads(data.removeprefix(b"data: ")) == {"jsonrpc": "2.0", "id": "s", "error": plain}


@pytest.mark.req("MEDI-03")
@pytest.mark.parametrize(
    ("reason", "http"),
    [
        ("UNAUTHENTICATED", 401),
        ("PERMISSION_DENIED", 403),
        ("BODY_TOO_LARGE", 413),
        ("OVERLOADED", 429),
        ("UNAVAILABLE", 503),
        ("TASK_NOT_FOUND", 200),
        ("DEADLINE_EXCEEDED", 200),
        ("INTERNAL", 200),
    ],
)
async def test_errors_about_the_exchange_keep_their_status(reason: str, http: int) -> None:
    for method in ("GetTask", "SubscribeToTask"):
        error = A2AError(Reason[reason], "What happened.", retry_after=2)
        upstream = Scripted(error, plays(error))
        answer = await told(call(method=method), upstream=upstream)
        assert (answer.status, answer.headers["Content-Type"]) == (http, "application/json")
        assert answer.headers["Retry-After"] == "2"
        assert set(answer.json) == {"jsonrpc", "id", "error"}


# -- the way of a call


@pytest.mark.req("JRPC-01", "SPAR-02", "VERS-06")
@pytest.mark.parametrize(("path", "fields"), [("/?A2A-Version=1.0", ()), ("/", ("a2a-VERSION: 1.0",))])
async def test_parameters_come_in_headers_or_in_the_query(path: str, fields: tuple[str, ...]) -> None:
    upstream = scripted()
    answer = await told(call(), *fields, "A2A-Extensions: urn:x", upstream=upstream, path=path)
    assert answer.status == 200
    ((_, _, context),) = upstream.asked
    assert context.metadata["a2a-version"] == ("1.0",)
    assert context.metadata["a2a-extensions"] == ("urn:x",)


@pytest.mark.req("MEDI-03", "MEDI-05")
@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=utf-8", "application/a2a+json"]
)
async def test_bodies_that_say_they_are_json(content_type: str) -> None:
    assert (await told(call(), f"Content-Type: {content_type}")).json["result"]["id"] == "t"


@pytest.mark.req("MEDI-03", "MEDI-05")
@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "application/json; charset=latin-1"])
async def test_bodies_that_say_they_are_something_else(content_type: str) -> None:
    upstream = scripted()
    answer = await told(call(), f"Content-Type: {content_type}", upstream=upstream)
    refusal(answer, -32005)
    assert (answer.json["id"], upstream.asked) == (None, [])


@pytest.mark.req("JRPC-01")
@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE", "PATCH", "HEAD"])
async def test_only_post_is_a_call(verb: str) -> None:
    async with http_door(scripted()) as door:
        answer = await once(door.port, get("/", verb=verb), head=verb == "HEAD")
    assert (answer.status, answer.headers["Allow"]) == (405, "OPTIONS, POST")


@pytest.mark.req("JRPC-07", "MEDI-04", "SSEV-01")
async def test_a_stream_as_bytes() -> None:
    upstream = Scripted(script=plays((event(7, "a"), event(8, "b\n\r\u2028")), (event(9, "c"),)))
    answer = await told(call(id="s", method="SubscribeToTask"), upstream=upstream)
    update = '{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"%s"}]}}}'
    frame = 'id: %d\ndata: {"jsonrpc":"2.0","id":"s","result":%s}\n\n'
    expected = [frame % (number, update % text) for number, text in ((7, "a"), (8, "b\\n\\r\u2028"), (9, "c"))]
    assert answer.body.decode() == "".join(expected)
