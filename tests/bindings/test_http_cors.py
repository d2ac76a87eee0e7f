"""Pages of other origins, as browsers check them (spec: DOOR-04, CONF-77)."""

from __future__ import annotations

import hashlib

import pytest

from tests.support.http import SEND, Answer, get, house, once, port_of, post
from tests.support.stage import Stage

OURS = "https://console.example"
ORIGIN = f"Origin: {OURS}"
CARD = "/.well-known/agent-card.json"
AUTH = {"tokens": [{"owner": "ann", "hash": "sha256:" + hashlib.sha256(b"ann-token").hexdigest()}]}
RPC = b'{"jsonrpc":"2.0","id":1,"method":"ListTasks"}'

CALLS = {
    "a call": get("/tasks", ORIGIN),
    "a stream": post("/message:stream", SEND, ORIGIN),
    "JSON-RPC": post("/", RPC, ORIGIN),
    "a JSON-RPC stream": post(
        "/", b'{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":%b}' % SEND, ORIGIN
    ),
    "no such path": get("/nope", ORIGIN),
    "no such task": get("/tasks/t", ORIGIN),
    "the wrong verb": get("/", ORIGIN),
    "health": get("/healthz", ORIGIN),
    "a wrong preflight": get("/nope", ORIGIN, verb="OPTIONS"),
}


def readable(answer: Answer) -> str | None:
    assert "Access-Control-Allow-Credentials" not in answer.headers
    return answer.headers.get("Access-Control-Allow-Origin")


@pytest.mark.req("DOOR-04")
@pytest.mark.parametrize("request_", CALLS.values(), ids=CALLS)
async def test_listed_pages_read_every_answer_and_others_none(request_: bytes) -> None:
    async with house(Stage().agent, gateway={"cors_origins": [OURS]}) as server:
        answer = await once(port_of(server), request_)
        assert readable(answer) == OURS
        assert answer.headers["Access-Control-Expose-Headers"] == "*"
        assert answer.headers.getall("Vary") == ["Origin"]
        for stranger in (b"null", b"https://evil.example"):
            answer = await once(port_of(server), request_.replace(OURS.encode(), stranger))
            assert readable(answer) is None
            assert answer.headers.getall("Vary") == ["Origin"]


@pytest.mark.req("DOOR-04")
async def test_a_page_can_read_why_it_was_refused() -> None:
    async with house(Stage().agent, auth=AUTH, gateway={"cors_origins": [OURS]}) as server:
        for request in (CALLS["a call"], CALLS["a stream"], CALLS["JSON-RPC"], CALLS["a JSON-RPC stream"]):
            answer = await once(port_of(server), request)
            assert (answer.status, readable(answer)) == (401, OURS)


@pytest.mark.req("DOOR-04")
async def test_it_is_off_by_default() -> None:
    async with house(Stage().agent) as server:
        for request in CALLS.values():
            answer = await once(port_of(server), request)
            assert not [name for name in answer.headers if name.startswith("Access-Control")]
            assert "Vary" not in answer.headers
        preflight = await once(
            port_of(server), get("/tasks", ORIGIN, "Access-Control-Request-Method: GET", verb="OPTIONS")
        )
        assert readable(preflight) is None


@pytest.mark.req("DOOR-04")
@pytest.mark.parametrize("path", ["/message:send", "/message:stream", "/", "/north/message:send", "/tasks/t:subscribe"])
async def test_a_preflight_lets_listed_pages_send_what_calls_need(path: str) -> None:
    asked = "authorization,content-type,a2a-version,last-event-id"
    fields = ("Access-Control-Request-Method: POST", f"Access-Control-Request-Headers: {asked}")
    async with house(Stage().agent, gateway={"cors_origins": [OURS]}) as server:
        answer = await once(port_of(server), get(path, ORIGIN, *fields, verb="OPTIONS"))
        assert (answer.status, readable(answer)) == (204, OURS)
        assert "POST" in answer.headers["Access-Control-Allow-Methods"].split(", ")
        assert answer.headers["Access-Control-Allow-Headers"] == asked
        assert int(answer.headers["Access-Control-Max-Age"]) > 0


async def test_the_public_card_alone_is_for_every_page() -> None:
    for settings in ({}, {"gateway": {"cors_origins": [OURS]}}):
        async with house(Stage().agent, **settings) as server:
            for path in (CARD, f"/north{CARD}"):
                for origin in ("null", "https://any.example"):
                    answer = await once(port_of(server), get(path, f"Origin: {origin}"))
                    assert (readable(answer), answer.headers.getall("Vary")) == ("*", ["A2A-Version"])
                    preflight = await once(
                        port_of(server),
                        get(path, f"Origin: {origin}", "Access-Control-Request-Headers: a2a-version", verb="OPTIONS"),
                    )
                    assert (preflight.status, readable(preflight)) == (204, "*")
                    assert preflight.headers["Access-Control-Allow-Headers"] == "a2a-version"
            server.pipeline.draining = True
            refused = await once(port_of(server), get(CARD, "Origin: https://any.example"))
            assert (refused.status, readable(refused)) == (503, "*")
