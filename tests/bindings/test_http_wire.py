"""HTTP itself: methods, targets, framing, and what is no HTTP (RFC 9110, RFC 9112; spec: DOOR-04, ERRS-02, MEDI)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.http import SEND, Answer, get, house, once, port_of, post, wire
from tests.support.stage import Stage

CARD = "/.well-known/agent-card.json"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with house(Stage().agent) as server:
        yield port_of(server)


def refused(answer: Answer, status: int, reason: str) -> None:
    assert (answer.status, answer.json["error"]["code"], answer.reason) == (status, status, reason)
    assert answer.headers["Content-Type"] == "application/a2a+json"
    assert answer.headers["Server"] == "a2ad"


# -- what there is


@pytest.mark.req("REST-06", "MEDI-01", "MEDI-06")
async def test_success_is_200_with_the_type_that_was_asked_for(port: int) -> None:
    sent = await once(port, post("/message:send"))
    assert (sent.status, sent.headers["Content-Type"], list(sent.json)) == (200, "application/a2a+json", ["task"])
    task_id = sent.json["task"]["id"]
    got = await once(port, get(f"/tasks/{task_id}", "Accept: application/json"))
    assert (got.status, got.headers["Content-Type"], got.json["id"]) == (200, "application/json", task_id)
    listed = await once(port, get("/tasks", "Accept: text/html", "Accept: application/json;q=0.1"))
    assert (listed.status, listed.headers["Content-Type"]) == (200, "application/json")
    assert [task["id"] for task in listed.json["tasks"]] == [task_id]


@pytest.mark.req("MEDI-02", "MEDI-05")
async def test_a_body_is_json_or_not_read(port: int) -> None:
    for kind in ("application/json", "application/a2a+json", "application/json; charset=UTF-8"):
        assert (await once(port, post("/message:send", SEND, f"Content-Type: {kind}"))).status == 200
    for path in ("/message:send", "/message:stream", "/tasks/t:cancel"):
        answer = await once(port, post(path, b"not even JSON", "Content-Type: text/plain"))
        refused(answer, 400, "CONTENT_TYPE_NOT_SUPPORTED")
    rpc = await once(port, post("/", b"not even JSON", "Content-Type: text/plain"))
    assert (rpc.status, rpc.json["error"]["code"]) == (200, -32005)


async def test_a_body_where_none_belongs_is_ignored(port: int) -> None:
    for verb, path, status in (("GET", "/tasks", 200), ("GET", "/tasks/t", 404)):
        body = b"nobody reads this"
        assert (await once(port, post(path, body, "Content-Type: text/plain", verb=verb))).status == status


@pytest.mark.req("MEDI-04", "STRM-07")
async def test_a_stream_is_an_event_stream_and_a_stream_that_cannot_start_is_no_stream(port: int) -> None:
    stream = await once(port, post("/message:stream"))
    assert (stream.status, stream.headers["Content-Type"]) == (200, "text/event-stream")
    refused(await once(port, post("/message:stream", b"{}")), 400, "INVALID_PARAMS")
    refused(await once(port, get("/tasks/t:subscribe")), 404, "TASK_NOT_FOUND")


# -- paths and methods


@pytest.mark.parametrize(
    "path", ["/nope", "/tasks/a/b/c", "//tasks", "/tasks/", "/message:shout", "/healthz/", "/tasks#x", "/a/b/c/d/e"]
)
async def test_a_path_that_leads_nowhere_is_404(port: int, path: str) -> None:
    for request in (get(path), post(path)):
        answer = await once(port, request)
        refused(answer, 404, "PATH_NOT_FOUND")
        assert answer.json["error"]["message"].startswith("There is nothing at this path.")


@pytest.mark.parametrize(
    ("verb", "path", "allow"),
    [
        ("GET", "/message:send", "OPTIONS, POST"),
        ("HEAD", "/message:stream", "OPTIONS, POST"),
        ("PUT", "/tasks/t", "GET, HEAD, OPTIONS"),
        ("DELETE", "/tasks", "GET, HEAD, OPTIONS"),
        ("PATCH", "/tasks/t:subscribe", "GET, HEAD, OPTIONS, POST"),
        ("PUT", "/tasks/t/pushNotificationConfigs", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/tasks/t/pushNotificationConfigs/c", "DELETE, GET, HEAD, OPTIONS"),
        ("POST", CARD, "GET, HEAD, OPTIONS"),
        ("GET", "/", "OPTIONS, POST"),
        ("POST", "/healthz", "GET, HEAD, OPTIONS"),
        ("DELETE", "/readyz", "GET, HEAD, OPTIONS"),
        ("PROPFIND", "/tasks", "GET, HEAD, OPTIONS"),
        ("TRACE", "/tasks", "GET, HEAD, OPTIONS"),
    ],
)
async def test_a_path_under_another_verb_is_405_and_says_which(port: int, verb: str, path: str, allow: str) -> None:
    answer = await once(port, get(path, verb=verb), head=verb == "HEAD")
    assert (answer.status, answer.headers["Allow"]) == (405, allow)
    if verb != "HEAD":
        refused(answer, 405, "METHOD_NOT_ALLOWED")


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/tasks", "GET, HEAD, OPTIONS"),
        ("/", "OPTIONS, POST"),
        ("/readyz", "GET, HEAD, OPTIONS"),
        ("*", "DELETE, GET, HEAD, OPTIONS, POST"),
        ("http://a.example/message:send", "OPTIONS, POST"),
    ],
)
async def test_options_says_what_a_path_serves(port: int, path: str, allow: str) -> None:
    answer = await once(port, get(path, verb="OPTIONS"))
    assert (answer.status, answer.headers["Allow"], answer.headers["Server"]) == (204, allow, "a2ad")
    assert not {"Content-Length", "Content-Type", "Access-Control-Allow-Methods"} & set(answer.headers)


async def test_options_for_what_is_not_there_is_404(port: int) -> None:
    refused(await once(port, get("/a/b/c/d", verb="OPTIONS")), 404, "PATH_NOT_FOUND")
    refused(await once(port, get("/tasks/%zz", verb="OPTIONS")), 400, "INVALID_PARAMS")


@pytest.mark.parametrize("path", ["/tasks", CARD, "/healthz", "/readyz", "/extendedAgentCard", "/tasks/t"])
async def test_head_is_get_without_the_body(port: int, path: str) -> None:
    async with wire(port) as connection:
        whole = await connection.ask(get(path))
        head = await connection.ask(get(path, verb="HEAD"), head=True)
        again = await connection.ask(get(path))  # nothing of a body was in between
    volatile = {"Date"}
    assert head.status == whole.status == again.status
    assert {(name, text) for name, text in head.headers.items() if name not in volatile} == {
        (name, text) for name, text in whole.headers.items() if name not in volatile
    }


async def test_head_of_a_stream_tells_that_it_would_be_one_and_holds_nothing() -> None:
    stage = Stage()
    async with house(stage.agent) as server:
        body = SEND.replace(
            b'"message":', b'"configuration":{"returnImmediately":true},"metadata":{"skill":"hold"},"message":'
        )
        task = (await once(port_of(server), post("/message:send", body))).json["task"]
        async with wire(port_of(server)) as connection:
            answer = await connection.ask(get(f"/tasks/{task['id']}:subscribe", verb="HEAD"), head=True)
            assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
            assert (await connection.ask(get("/healthz"))).json == {"status": "alive"}
            assert server.pipeline.streams.count == 0
        stage.release.set()


# -- targets


async def test_a_target_may_be_an_absolute_url(port: int) -> None:
    """As proxies send it (RFC 9112, 3.2.2)."""
    assert (await once(port, get("http://a.example/healthz"))).json == {"status": "alive"}
    assert (await once(port, get("http://a.example/tasks?pageSize=x"))).status == 400
    assert (await once(port, post("http://a.example/", b"{}"))).json["error"]["code"] == -32600
    assert (await once(port, post("http://a.example/message:send"))).status == 200


async def test_a_query_of_the_json_rpc_door_is_read(port: int) -> None:
    answer = await once(port, post("/?A2A-Version=0.9", b'{"jsonrpc":"2.0","id":1,"method":"ListTasks"}'))
    assert answer.json["error"]["code"] == -32009


# -- connections


async def test_requests_may_be_pipelined(port: int) -> None:
    async with wire(port) as connection:
        await connection.send(get("/healthz") + post("/message:send") + get("/nope") + get("/healthz"))
        assert [(await connection.answer()).status for _ in range(4)] == [200, 200, 404, 200]


async def test_a_stream_ends_before_the_next_answer_begins(port: int) -> None:
    async with wire(port) as connection:
        await connection.send(post("/message:stream") + get("/healthz"))
        stream = await connection.answer()
        assert b"TASK_STATE_COMPLETED" in stream.body
        assert (await connection.answer()).json == {"status": "alive"}


async def test_clients_of_http_1_0_are_served_in_their_way(port: int) -> None:
    async with wire(port) as connection:
        plain = await connection.ask(post("/message:send", version="1.0"))
        assert (plain.status, plain.headers.get("Connection")) == (200, None)  # to close is its way
        assert await connection.ended() == b""
    async with wire(port) as connection:
        kept = await connection.ask(post("/message:send", SEND, "Connection: keep-alive", version="1.0"))
        assert kept.headers["Connection"] == "keep-alive"
        assert (await connection.ask(get("/healthz"))).status == 200
    stream = await once(port, post("/message:stream", version="1.0"))  # ends with the connection, has no chunks
    assert "Transfer-Encoding" not in stream.headers
    assert stream.body.startswith(b"id: 1\ndata: {")
    assert stream.body.endswith(b"}\n\n")


async def test_a_client_may_ask_to_close(port: int) -> None:
    async with wire(port) as connection:
        assert (await connection.ask(get("/healthz", "Connection: close"))).headers["Connection"] == "close"
        assert await connection.ended() == b""


async def test_a_client_that_waits_for_a_word_gets_it(port: int) -> None:
    """RFC 9110, 10.1.1."""
    request = post("/message:send", SEND, "Expect: 100-continue")
    async with wire(port) as connection:
        await connection.send(request[: -len(SEND)])
        assert (await connection.answer()).status == 100
        assert (await connection.ask(SEND)).status == 200
        assert (await connection.ask(request)).status == 200  # one that does not wait needs no word
    async with wire(port) as connection:  # whose body is not wanted hears that instead, and the connection ends
        answer = await connection.ask(post("/nope", b"x" * 100, "Expect: 100-continue")[:-100])
        assert (answer.status, answer.headers["Connection"]) == (404, "close")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (post("/nope"), 404),
        (post("/message:send", SEND, "Content-Type: text/plain"), 400),
        (post("/", SEND, "Content-Type: text/plain"), 200),  # with an error of JSON-RPC
        (post("/message:send", SEND, "Accept: text/html"), 406),
        (post("/message:send", SEND, "Content-Encoding: gzip"), 415),
        (post("/message:send", SEND, "Origin: https://evil.example"), 403),
        (get("/message:send", "Content-Length: 999999999", "Content-Type: application/json", verb="POST"), 413),
        (post("/message:send", verb="PUT"), 405),
    ],
)
async def test_who_is_refused_before_the_body_is_not_asked_for_it(port: int, head: bytes, status: int) -> None:
    """RFC 9110, 10.1.1: the final status at once."""
    async with wire(port) as connection:
        expecting = head.removesuffix(SEND)[:-2] + b"Expect: 100-Continue\r\n\r\n"
        answer = await connection.ask(expecting)
        assert (answer.status, answer.headers["Connection"]) == (status, "close")
        assert await connection.ended() == b""


@pytest.mark.parametrize("expected", ["200-ok", "100-continue, more", '100-continue;x="y"', "x"])
async def test_other_expectations_are_not_met(port: int, expected: str) -> None:
    expect = f"Expect: {expected}"
    for request in (post("/message:send", SEND, expect), get("/tasks", expect), post("/v1/message:send", SEND, expect)):
        answer = await once(port, request)
        assert (answer.status, answer.reason) == (417, "EXPECTATION_FAILED")
        assert answer.json["error"]["message"] == f'Expect may be 100-continue; it is "{expected}".'
    for path in ("/", "/draft"):
        async with house(Stage().agent, gateway={"profiles": ["draft"]}) as server:
            answer = await once(port_of(server), post(path, SEND, expect))
            assert (answer.status, answer.json["error"]["code"]) == (417, -32600)


async def test_clients_of_http_1_0_know_no_100(port: int) -> None:
    request = post("/message:send", SEND, "Expect: 100-continue", version="1.0")
    async with wire(port) as connection:
        await connection.send(request[: -len(SEND)])
        await asyncio.sleep(0.05)
        assert (await connection.ask(SEND)).status == 200


@pytest.mark.parametrize("body", [b"3\r\n{} \r\n0\r\n\r\n", b"0\r\n\r\n"])
@pytest.mark.parametrize("more", [(), ("Content-Length: 5",)])
async def test_chunks_and_http_1_0_end_the_connection(port: int, body: bytes, more: tuple[str, ...]) -> None:
    """RFC 9112, 6.1: nobody knows which of the two ends the request."""
    fields = ("Connection: keep-alive", "Transfer-Encoding: chunked", "Content-Type: application/json", *more)
    for verb, path in (("POST", "/message:send"), ("POST", "/"), ("GET", "/healthz")):
        async with wire(port) as connection:
            answer = await connection.ask(get(path, *fields, verb=verb, version="1.0") + body + get("/healthz"))
            assert answer.status == (200 if path == "/" and not more else 400)
            assert await connection.ended() == b""


async def test_no_error_text_becomes_a_request() -> None:
    """An unknown method is told with the body before it: `POST ` there and a path here must not add up."""
    async with house(Stage().agent) as server:
        port = port_of(server)
        sent = await once(port, post("/message:send", SEND[:-1] + b',"metadata":{"skill":"ask"}}'))
        task_id = str(sent.json["task"]["id"])
        before = sent.json["task"]["status"]["state"]
        assert before == "TASK_STATE_INPUT_REQUIRED"
        smuggled = f" /tasks/{task_id}:cancel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()
        first = get("/healthz", "Content-Length: 5") + b"POST "
        for _ in range(50):
            async with wire(port) as connection:
                assert (await connection.ask(first + smuggled)).status == 400  # aiohttp drops what came before a fault
                assert await connection.ended() == b""
            async with wire(port) as connection:  # and bit by bit
                await connection.send(first)
                assert (await connection.answer()).json == {"status": "alive"}
                assert (await connection.ask(smuggled)).status == 400
                assert await connection.ended() == b""
        assert (await once(port, get(f"/tasks/{task_id}"))).json["status"]["state"] == before


async def test_who_is_still_sending_gets_the_time_to_see_the_answer(port: int) -> None:
    """Closed at once, the connection would be reset, and the answer with it (RFC 9112, 9.6)."""
    request = post("/nope", b"0123456789")
    async with wire(port) as connection:
        answer = await connection.ask(request[:-5])
        assert (answer.status, answer.headers["Connection"]) == (404, "close")
        await connection.send(request[-5:])
        assert await connection.ended() == b""


async def test_an_upgrade_is_not_taken_up(port: int) -> None:
    async with wire(port) as connection:  # as Java's client asks of every server
        answer = await connection.ask(
            post("/message:send", SEND, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c")
        )
        assert answer.status == 200
        assert (await connection.ask(get("/healthz"))).status == 200
    async with wire(port) as connection:
        answer = await connection.ask(get("/healthz", "Connection: Upgrade", "Upgrade: websocket"))
        assert (answer.status, answer.json) == (200, {"status": "alive"})
        assert (await connection.ask(get("/healthz"))).status == 200


async def test_connections_that_ask_at_once_get_their_own_answers(port: int) -> None:
    """More than leave together."""

    async def ask(number: int) -> None:
        async with wire(port) as connection:
            for step in range(5):
                answer = await connection.ask(get(f"/tasks/task-{number}-{step}"))
                assert f"task-{number}-{step}" in answer.body.decode()

    await asyncio.gather(*(ask(number) for number in range(30)))


# -- what is no HTTP

MALFORMED = {
    "nonsense": b"hello\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "HTTP/1.2": get("/healthz", version="1.2"),
    "an unknown method": get("/tasks", verb="BREW"),
    "a method in small letters": get("/tasks", verb="get"),
    "an unknown method, and more that is wrong": get("/tasks", verb="BREW", version="1.2"),
    "an unknown method of nothing": get("tasks", verb="BREW"),
    "no method at all": b" /tasks HTTP/1.1\r\nHost: a\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": get("/healthz", "Host: b.example"),
    "a star to get": get("*"),
    "bare line feeds": b"GET /healthz HTTP/1.1\nHost: a\n\n",
    "a folded header": get("/healthz", "X-A: b\r\n c"),
    "a space before the colon": get("/healthz", "X-A : b"),
    "a NUL in the path": get("/\x00"),
    "a NUL in a header": get("/healthz", "X-A: b\x00c"),
    **{  # `HeaderMap` relies on it
        f"control character {code} in a header": get("/healthz", f"X-A: b{chr(code)}c")
        for code in (*range(1, 32), 127)
        if chr(code) not in "\t\n\r"
    },
    "a bare carriage return": get("/healthz", "X-A: b\rc"),
    "bytes in the path": get("/tasks/\xff"),
    "two lengths": post("/message:send", SEND, "Content-Length: 3"),
    "a negative length": get("/message:send", "Content-Length: -3", verb="POST"),
    "a signed length": get("/message:send", "Content-Length: +3", verb="POST") + b"{} ",
    "a length list": get("/message:send", "Content-Length: 3, 3", verb="POST") + b"{} ",
    "a length beyond all numbers": get("/message:send", f"Content-Length: {10**30}", verb="POST"),
    "chunks and a length": post("/message:send", b"0\r\n\r\n", "Transfer-Encoding: chunked"),
    "an unknown coding": get("/message:send", "Transfer-Encoding: xchunked", verb="POST") + b"0\r\n\r\n",
    "a coding after chunked": get("/message:send", "Transfer-Encoding: chunked, gzip", verb="POST") + b"0\r\n\r\n",
    "two codings": get("/", "Transfer-Encoding: chunked", "Transfer-Encoding: identity", verb="POST") + b"0\r\n\r\n",
    "a chunk of no size": get("/message:send", "Transfer-Encoding: chunked", verb="POST") + b"zz\r\n\r\n",
}


@pytest.mark.req("DOOR-04", "ERRS-02")
@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
async def test_what_is_no_http_is_refused_and_ends_the_connection(port: int, data: bytes) -> None:
    """In the words of aiohttp."""
    async with wire(port) as connection:
        answer = await connection.ask(data + get("/healthz"))
        assert answer.status == 400
        assert "Traceback" not in answer.body.decode()
        assert await connection.ended() == b""  # what came behind it is not a request
    assert (await once(port, get("/healthz"))).status == 200


async def test_a_body_that_turns_out_malformed_is_refused() -> None:
    """As one that does not arrive: aiohttp tells nobody else."""
    async with house(Stage().agent, gateway={"body_timeout": 0.2}) as server, wire(port_of(server)) as connection:
        await connection.send(get("/message:send", "Transfer-Encoding: chunked", verb="POST") + b'5\r\n{"mes\r\n')
        await asyncio.sleep(0.05)
        answer = await connection.ask(b"zz\r\n")
        refused(answer, 408, "REQUEST_TIMEOUT")
        assert answer.headers["Connection"] == "close"
        assert await connection.ended() == b""


@pytest.mark.parametrize(
    "field", ["Content-Encoding: gzip", "Content-Encoding: GZIP, identity", "Transfer-Encoding: gzip, chunked"]
)
async def test_an_encoded_body_is_refused(port: int, field: str) -> None:
    body = b"3\r\n{} \r\n0\r\n\r\n" if field.startswith("Transfer") else b""
    request = (get("/message:send", field, verb="POST") + body) if body else post("/message:send", SEND, field)
    refused(await once(port, request), 415, "ENCODING_NOT_SUPPORTED")
    assert (await once(port, post("/message:send", SEND, "Content-Encoding: Identity"))).status == 200


async def test_a_path_that_is_not_percent_encoded_utf_8_is_refused(port: int) -> None:
    for path in ("/tasks/%zz", "/tasks/%ff", "/tasks/%"):
        refused(await once(port, get(path)), 400, "INVALID_PARAMS")
    refused(await once(port, get("/tasks?contextId=%ff")), 400, "INVALID_PARAMS")


async def test_406_says_what_there_is(port: int) -> None:
    for request in (get("/tasks", "Accept: text/html"), post("/message:stream", SEND, "Accept: image/png")):
        answer = await once(port, request)
        refused(answer, 406, "NOT_ACCEPTABLE")
        assert "There is " in answer.json["error"]["message"]


@pytest.mark.req("ERRS-07")
@pytest.mark.parametrize(
    ("field", "status"),
    [
        ("Content-Type: \x88json", 400),
        ("Content-Encoding: \x88", 415),
        ("Accept: \x88/json", 406),
        ("A2A-Version: \x88", 400),
    ],
)
async def test_bytes_that_are_no_text_are_told_without_a_failure(port: int, field: str, status: int) -> None:
    answer = await once(port, post("/message:send", SEND, field))
    assert (answer.status, answer.json["error"]["code"]) == (status, status)
