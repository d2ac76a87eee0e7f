"""Every error through every HTTP binding, in both releases' numbers, before and instead of a stream (spec: ERRS)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import pytest
import structlog
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from a2a_gateway.upstream import Answer, CallContext, StreamItem, UpstreamAnswer
from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Violation
from tests.support.errors_table import CODES, NAMES, ROWS, STANDARD, Codes, Row
from tests.support.house import (
    A2AError,
    Address,
    GatewayConfig,
    GatewayOptions,
    HttpDoor,
    Reason,
    StatusError,
    create_app,
)
from tests.support.http import SEND, get, once, post
from tests.support.http import Answer as Told

SECRET = "/etc/secret postgres://admin:hunter2@db.internal/ SELECT"
INFO = "type.googleapis.com/google.rpc.ErrorInfo"


class Refusing:
    """An upstream that has one answer."""

    def __init__(self, error: BaseException | type[BaseException]) -> None:
        self.error = error

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        self._refuse()

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> Any:
        self._refuse()

    async def identify(self, context: CallContext) -> str:
        self._refuse()

    async def ready(self) -> bool:
        return self._refuse()

    def _refuse(self) -> NoReturn:
        raise self.error


class RefusingLate(Refusing):
    """Opens the stream, and then refuses."""

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> Any:
        return LateStream(self)


class LateStream:
    metadata = ()

    def __init__(self, upstream: Refusing) -> None:
        self._upstream = upstream
        self.items: AsyncIterator[Sequence[StreamItem]] = self._items()

    async def _items(self) -> AsyncIterator[Sequence[StreamItem]]:
        self._upstream._refuse()  # noqa: SLF001 - of the same kind
        yield ()

    def on_ready(self, take: object) -> None:
        """Offers nothing."""

    def on_cut(self, cut: object) -> None:
        """Is never cut."""


@asynccontextmanager
async def refusing(upstream: Refusing, codes: Codes = "1.0.1") -> AsyncIterator[int]:
    door = HttpDoor(Address("127.0.0.1", 0).listen("http"), GatewayOptions())
    await door.open(create_app(upstream, GatewayConfig(base="http://a.example", codes=codes)))
    try:
        yield door.port
    finally:
        await door.close()


def rpc(method: str, params: bytes = b'{"id":"t"}') -> bytes:
    return post("/", b'{"jsonrpc":"2.0","id":7,"method":"%b","params":%b}' % (method.encode(), params))


REST = [get("/tasks/t"), post("/message:send"), post("/message:stream"), get("/tasks/t:subscribe")]
JSONRPC = [rpc("GetTask"), rpc("SendMessage", SEND), rpc("SendStreamingMessage", SEND), rpc("SubscribeToTask")]


def expected(row: Row, codes: Codes, text: str) -> dict[str, Any]:
    info = {"@type": INFO, "reason": row.reason, "domain": row.domain, "metadata": {"taskId": "t"}}
    return {"code": row.http_of(codes), "status": row.status_of(codes), "message": text, "details": [info]}


@pytest.mark.req("ERRS-01", "ERRS-02", "ERRS-03", "STRM-07", "MEDI-01")
@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
async def test_rest_says_it(row: Row, codes: Codes) -> None:
    error = A2AError(Reason[row.reason], "Said so.", metadata={"taskId": "t"})
    for upstream in (Refusing(error), RefusingLate(error)):
        async with refusing(upstream, codes) as port:
            for request in REST:
                answer = await once(port, request)
                assert answer.status == row.http_of(codes)
                assert answer.headers["Content-Type"] == "application/a2a+json"
                assert answer.headers["Cache-Control"] == "no-store"
                assert answer.json == {"error": expected(row, codes, "Said so.")}


@pytest.mark.req("ERRS-01", "ERRS-03", "ERRS-04", "JRPC-08", "STRM-07", "MEDI-03")
@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
async def test_jsonrpc_says_it(row: Row, codes: Codes) -> None:
    error = A2AError(Reason[row.reason], "Said so.", metadata={"taskId": "t"})
    text = f"{STANDARD[row.jsonrpc]}: Said so." if row.jsonrpc in STANDARD else "Said so."
    details = expected(row, codes, "")["details"]
    for upstream in (Refusing(error), RefusingLate(error)):
        async with refusing(upstream, codes) as port:
            for request in JSONRPC:
                answer = await once(port, request)
                assert answer.status == row.jsonrpc_http_of(codes)
                assert answer.headers["Content-Type"] == "application/json"
                wanted = {"code": row.jsonrpc, "message": text, "data": details}
                assert answer.json == {"jsonrpc": "2.0", "id": 7, "error": wanted}


def test_no_error_of_the_catalogue_is_forgotten() -> None:
    assert [reason.name for reason in Reason] == NAMES


async def answers(error: BaseException) -> tuple[Told, Told]:
    """What REST and JSON-RPC say."""
    async with refusing(Refusing(error)) as port:
        return await once(port, REST[0]), await once(port, JSONRPC[0])


@pytest.mark.req("ERRS-05")
async def test_every_fault_is_named_in_json_spelling() -> None:
    faults = [Violation("message.message_id", "is required"), Violation("page_size", "must lie in 1..100, got 500")]
    shown = [
        {"field": "message.messageId", "description": "is required"},
        {"field": "pageSize", "description": "must lie in 1..100, got 500"},
    ]
    for answer in await answers(A2AError(Reason.INVALID_PARAMS, "Two are wrong.", violations=faults)):
        error = answer.json["error"]
        bad, info = error.get("details") or error["data"]
        assert bad == {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": shown}
        assert info == {"@type": INFO, "reason": "INVALID_PARAMS", "domain": "a2a-protocol.org"}


@pytest.mark.req("ERRS-06")
@pytest.mark.parametrize(
    ("reason", "http", "delay"),
    [(Reason.UNAVAILABLE, 503, "1s"), (Reason.OVERLOADED, 429, "0.200s"), (Reason.SLOW_READER, 503, "2.500s")],
)
async def test_what_may_work_later_says_when(reason: Reason, http: int, delay: str) -> None:
    for answer in await answers(A2AError(reason, "Later.", retry_after=float(delay[:-1]))):
        assert answer.status == http
        assert int(answer.headers["Retry-After"]) == math.ceil(float(delay[:-1]))
        error = answer.json["error"]
        (retry,) = [each for each in error.get("details") or error["data"] if each["@type"].endswith("RetryInfo")]
        assert retry["retryDelay"] == delay


METADATA = 'resource_metadata="http://a.example/.well-known/oauth-protected-resource"'


@pytest.mark.req("AUTN-02", "ERRS-02")
async def test_who_may_not_is_told_how_to() -> None:
    for answer in await answers(
        A2AError(Reason.UNAUTHENTICATED, "Who are you?", metadata={"challenge": 'Bearer realm="a2a"'})
    ):
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == f'Bearer realm="a2a", {METADATA}'
    for answer in await answers(A2AError(Reason.PERMISSION_DENIED, "Not you.")):
        assert answer.status == 403


@pytest.mark.req("ERRS-07", "SECR-03")
@pytest.mark.parametrize("error", [RuntimeError(SECRET), ValueError(SECRET), TimeoutError(SECRET), KeyError(SECRET)])
async def test_what_nobody_foresaw_is_told_to_the_log_alone(error: Exception) -> None:
    with structlog.testing.capture_logs() as logs:
        for upstream in (Refusing(error), RefusingLate(error)):
            async with refusing(upstream) as port:
                for request in (*REST, *JSONRPC, get("/.well-known/agent-card.json"), get("/readyz")):
                    answer = await once(port, request)
                    assert answer.status == (200 if request.startswith(b"POST / ") else 500)
                    told = answer.json["error"]
                    assert told["message"] in ("Internal error.", "Internal error")
                    (info,) = told.get("details") or told["data"]
                    assert (info["reason"], list(info["metadata"])) == ("INTERNAL", ["incident"])
                    assert info["metadata"]["incident"] in str(logs)
                    assert not any(word in answer.body.decode() for word in [*SECRET.split(), type(error).__name__])
    assert {entry["event"] for entry in logs} == {"gateway.failed"}


def foreign(code: int, *details: Message, text: str = "Said so.") -> StatusError:
    """An error of a server that has never heard of our catalogue."""
    status = status_pb2.Status(code=code, message=text)
    for detail in details:
        status.details.add().Pack(detail)
    return StatusError(status)


GOOGLE = [
    ("CANCELLED", 503, "UNAVAILABLE"),
    ("UNKNOWN", 500, "INTERNAL"),
    ("INVALID_ARGUMENT", 400, "INVALID_PARAMS"),
    ("DEADLINE_EXCEEDED", 504, "DEADLINE_EXCEEDED"),
    ("NOT_FOUND", 404, "TASK_NOT_FOUND"),
    ("ALREADY_EXISTS", 409, "INTERNAL"),
    ("PERMISSION_DENIED", 403, "PERMISSION_DENIED"),
    ("UNAUTHENTICATED", 401, "UNAUTHENTICATED"),
    ("RESOURCE_EXHAUSTED", 429, "OVERLOADED"),
    ("FAILED_PRECONDITION", 400, "UNSUPPORTED_OPERATION"),
    ("ABORTED", 409, "INTERNAL"),
    ("OUT_OF_RANGE", 400, "INVALID_PARAMS"),
    ("UNIMPLEMENTED", 501, "UNSUPPORTED_OPERATION"),
    ("INTERNAL", 500, "INTERNAL"),
    ("UNAVAILABLE", 503, "UNAVAILABLE"),
    ("DATA_LOSS", 500, "INTERNAL"),
]


@pytest.mark.req("DOOR-01", "ERRS-02", "ERRS-03", "ERRS-04")
@pytest.mark.parametrize(("name", "http", "nearest"), GOOGLE)
async def test_a_bare_status_of_another_server_has_its_usual_numbers(name: str, http: int, nearest: str) -> None:
    """And the reason whose number it is told by (CONF-05)."""
    rest, rpc_answer = await answers(foreign(code_pb2.Code.Value(name)))
    row = next(row for row in ROWS if row.reason == nearest)
    info = {"@type": INFO, "reason": nearest, "domain": row.domain}
    assert rest.status == http
    assert rest.json == {"error": {"code": http, "status": name, "message": "Said so.", "details": [info]}}
    error = rpc_answer.json["error"]
    assert (error["code"], error["data"]) == (row.jsonrpc, [info])


@pytest.mark.req("ERRS-04")
async def test_what_is_internal_without_an_incident_has_a_reason_too() -> None:
    for answer in await answers(A2AError(Reason.INTERNAL, "Said so.")):
        error = answer.json["error"]
        assert (error.get("details") or error["data"]) == [
            {"@type": INFO, "reason": "INTERNAL", "domain": "a2a-server"}
        ]


@pytest.mark.req("ERRS-04")
async def test_other_details_stay_before_the_reason() -> None:
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.seconds = 2
    for answer in await answers(foreign(code_pb2.UNAVAILABLE, retry)):
        error = answer.json["error"]
        told = error.get("details") or error["data"]
        assert [detail["@type"].rpartition(".")[2] for detail in told] == ["RetryInfo", "ErrorInfo"]
        assert told[1]["reason"] == "UNAVAILABLE"


@pytest.mark.req("DOOR-10")
@pytest.mark.parametrize("late", [False, True], ids=["call", "stream"])
async def test_metadata_of_an_error_comes_back_as_that_of_a_success(*, late: bool) -> None:
    error = foreign(code_pb2.UNAUTHENTICATED)
    error.metadata = [("x-h", "1"), ("x-bin", b"\xff")]
    error.trailers = [("x-t", "2"), ("www-authenticate", "Bearer"), ("grpc-status", "16")]
    async with refusing(RefusingLate(error) if late else Refusing(error)) as port:
        for request in (*REST, *JSONRPC):
            headers = (await once(port, request)).headers
            told = {name.lower(): value for name, value in headers.items() if name.lower().startswith("grpc-")}
            assert told == {"grpc-metadata-x-h": "1", "grpc-metadata-x-bin": "/w==", "grpc-trailer-x-t": "2"}
            assert headers["WWW-Authenticate"] == f"Bearer {METADATA}"


async def test_a_code_that_nobody_has_defined_is_unknown() -> None:
    rest, _ = await answers(foreign(77))
    assert (rest.status, rest.json["error"]["status"]) == (500, "UNKNOWN")


@pytest.mark.req("DOOR-01", "ERRS-03")
async def test_the_reason_of_another_server_decides_over_its_code() -> None:
    info = error_details_pb2.ErrorInfo(reason="TASK_NOT_FOUND", domain="a2a-protocol.org")
    rest, rpc_answer = await answers(foreign(code_pb2.UNKNOWN, info))
    assert (rest.status, rpc_answer.json["error"]["code"]) == (404, -32001)
    stranger = error_details_pb2.ErrorInfo(reason="TASK_NOT_FOUND", domain="elsewhere.example")
    rest, rpc_answer = await answers(foreign(code_pb2.UNKNOWN, stranger))
    assert (rest.status, rpc_answer.json["error"]["code"]) == (500, -32603)


async def test_details_that_nobody_here_knows_keep_their_bytes() -> None:
    broken = foreign(code_pb2.ABORTED)
    broken.status.details.add(type_url="type.example/x.Unknown", value=b"\x00\xff")
    broken.status.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff\xff")
    rest, _ = await answers(broken)
    assert rest.json["error"]["details"] == [
        {"@type": "type.example/x.Unknown", "value": "AP8="},
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "value": "//8="},
        {"@type": INFO, "reason": "INTERNAL", "domain": "a2a-server"},
    ]


async def test_an_upstream_cannot_add_headers() -> None:
    info = error_details_pb2.ErrorInfo(domain="x", metadata={"challenge": "Bearer\r\nSet-Cookie: a=b"})
    for answer in await answers(foreign(code_pb2.UNAUTHENTICATED, info)):
        assert "Set-Cookie" not in answer.headers
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("seconds", [-5, 0, 1, 10**15])
async def test_a_strange_delay_is_no_strange_header(seconds: int) -> None:
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.seconds = seconds
    rest, _ = await answers(foreign(code_pb2.UNAVAILABLE, retry))
    assert rest.headers["Retry-After"] == str(max(seconds, 0))


@pytest.mark.req("DOOR-10")
async def test_a_deadline_that_has_passed_is_504() -> None:
    rest, rpc_answer = await answers(A2AError(Reason.DEADLINE_EXCEEDED, "There was no answer within 0.25 seconds."))
    assert rest.status == 504
    assert "within 0.25 seconds" in rest.json["error"]["message"]
    assert rpc_answer.json["error"]["code"] == -32054


@pytest.mark.req("ERRS-02")
@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "application/json"),
        ("text/event-stream", "application/a2a+json"),
        ("text/event-stream, application/json", "application/json"),
        ("text/html", "application/a2a+json"),
    ],
)
async def test_an_error_has_the_type_that_a_success_would_have(accept: str, kind: str) -> None:
    async with refusing(Refusing(A2AError(Reason.TASK_NOT_FOUND, "No."))) as port:
        for path in ("/tasks/t", "/tasks/t:subscribe"):
            assert (await once(port, get(path, f"Accept: {accept}"))).headers["Content-Type"] == kind


async def test_head_tells_an_error_without_its_body() -> None:
    async with refusing(Refusing(A2AError(Reason.TASK_NOT_FOUND, "No."))) as port:
        for path in ("/tasks/t", "/tasks/t:subscribe", "/.well-known/agent-card.json"):
            plain = await once(port, get(path))
            answer = await once(port, get(path, verb="HEAD"), head=True)
            assert answer.status == plain.status == 404
            assert answer.headers["Content-Length"] == plain.headers["Content-Length"]


@pytest.mark.source
async def test_a_codec_that_fails_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Told(Refusing):
        async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
            return Answer(pb.Task(id="never answered before"))  # or its JSON might have been kept

    def fail(*_: object) -> bytes:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("a2a_server.protocol.codec.Codec.encode", fail)
    async with refusing(Told(RuntimeError())) as port:
        for request in (REST[0], JSONRPC[0]):
            answer = await once(port, request)
            error = answer.json["error"]
            (info,) = error.get("details") or error["data"]
            assert info["reason"] == "INTERNAL"
            assert "hunter2" not in answer.body.decode()


async def test_a_refused_call_leaves_the_connection_open() -> None:
    async with refusing(Refusing(A2AError(Reason.TASK_NOT_FOUND, "No."))) as port:
        answer = await asyncio.wait_for(once(port, REST[0] + REST[0]), 10)
        assert "Connection" not in answer.headers
