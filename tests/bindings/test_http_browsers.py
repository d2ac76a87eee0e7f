"""Which web pages may call, whatever they look like (CrossOriginProtection of Go 1.25; spec: DOOR-04, MEDI-05)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from a2a_server.serve import relaying
from a2a_server.settings import Settings
from tests.support.http import SEND, Answer, get, house, once, port_of, post
from tests.support.stage import Stage

ALLOWED = "https://console.example"
RPC = b'{"jsonrpc":"2.0","id":1,"method":"ListTasks"}'
OLD_RPC = b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"t"}}'
AUTH = {"tokens": [{"owner": "ann", "hash": "sha256:" + hashlib.sha256(b"ann-token").hexdigest()}]}
BOTH = {"tenants": ["north"], "default_tenant": "north"}


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with house(Stage().agent, **BOTH, gateway={"cors_origins": [ALLOWED], "profiles": ["draft"]}) as server:
        yield port_of(server)


def called(host: str, request: bytes) -> bytes:
    return request.replace(b"Host: localhost", f"Host: {host}".encode(), 1)


def reason_of(answer: Answer) -> str:
    """The reason in any binding's error."""
    value = answer.json
    if "error" not in value:
        return str(value["reason"])
    error = value["error"]
    told = error.get("details") or error.get("data")
    return str(told["reason"] if isinstance(told, dict) else next(each["reason"] for each in told if "reason" in each))


# -- Host

OWN = "localhost", "LOCALHOST:9", "a2a.localhost", "localhost.", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:8080"
FOREIGN = [
    *("evil.example", "evil.example:8080", "localhost.evil.example", "notlocalhost", "127.0.0.1.nip.io", "192.0.2.1"),
    *("0.0.0.0", "[::]", "[2001:db8::1]", "user@localhost", "localhost:x", "local host", "", "[::1", "128.0.0.1"),  # noqa: S104
]


async def test_a_server_on_loopback_answers_to_its_own_names_alone(port: int) -> None:
    for host in OWN:
        assert (await once(port, called(host, get("/tasks")))).status == 200, host
    for host in FOREIGN:
        answer = await once(port, called(host, get("/tasks")))
        assert (answer.status, answer.reason) == (421, "MISDIRECTED_REQUEST"), host
        text = f'Host "{host}" is none of this server\'s names; the setting gateway.hosts adds names.'
        assert answer.json["error"]["message"] == text


async def test_a_request_without_a_host_comes_from_no_browser(port: int) -> None:
    assert (await once(port, b"GET /tasks HTTP/1.0\r\n\r\n")).status == 200


@pytest.mark.parametrize(
    "request_",
    [
        *(get(path) for path in ("/tasks", "/healthz", "/readyz", "/openapi.json", "/.well-known/agent-card.json")),
        *(get(path) for path in ("/v1/tasks/t", "/draft/tasks", "/north/v1/tasks/t", "/nope")),
        *(post(path) for path in ("/message:send", "/message:stream", "/", "/north", "/draft", "/v1/message:send")),
        get("/tasks", verb="OPTIONS"),
        get("/tasks/t/pushNotificationConfigs/c", verb="DELETE"),
    ],
)
async def test_no_path_answers_to_a_foreign_name(port: int, request_: bytes) -> None:
    assert (await once(port, called("evil.example", request_))).status == 421


@pytest.mark.parametrize(
    ("settings", "served", "refused"),
    [
        ({"public_url": "https://agents.example:8443/a2a"}, ["agents.example", "Agents.Example:1"], ["b.example"]),
        ({"gateway": {"hosts": ["a.example", "[2001:db8::1]", "192.0.2.1"]}}, ["a.example:9", "[2001:db8::1]"], ["b"]),
        ({"gateway": {"hosts": ["*"]}}, FOREIGN[:4], []),
        ({"auth": AUTH}, ["localhost"], ["evil.example"]),  # on loopback
        ({"auth": AUTH, "http": "0.0.0.0:0"}, FOREIGN[:4], []),
        (
            {"anonymous_beyond_loopback": True, "http": "0.0.0.0:0"},
            ["localhost", "192.0.2.1:80", "[2001:db8::1]", "0.0.0.0"],  # noqa: S104
            ["evil.example"],
        ),
        ({"http": "127.0.0.2:0"}, ["127.0.0.2", "127.0.0.1"], ["evil.example"]),
    ],
)
async def test_which_names_count_is_for_the_settings(
    settings: dict[str, Any], served: Sequence[str], refused: Sequence[str]
) -> None:
    async with house(Stage().agent, **settings) as server:
        at = settings.get("http", "").removesuffix(":0").replace("0.0.0.0", "") or "127.0.0.1"  # noqa: S104
        request = get("/tasks", "Authorization: Bearer ann-token")
        for host in served:
            assert (await once(port_of(server), called(host, request), host=at)).status == 200, host
        for host in refused:
            assert (await once(port_of(server), called(host, request), host=at)).status == 421, host


@pytest.mark.parametrize(("at", "status"), [("127.0.0.1:0", 421), ("0.0.0.0:0", 200)])
async def test_a_gateway_of_its_own_looks_at_names_on_loopback(at: str, status: int) -> None:
    async with house(Stage().agent) as server:
        upstream = {"addresses": [str(server.grpc)]}
        async with relaying(Settings(http=at, anonymous_beyond_loopback=True, upstream=upstream)) as address:
            assert (await once(address.port, called("evil.example", get("/tasks")))).status == status
            assert (await once(address.port, get("/tasks"))).status == 200


# -- pages of other sites

CALLS = {
    "send": post("/message:send"),
    "stream": post("/message:stream"),
    "a tenant's send": post("/north/message:send"),
    "JSON-RPC": post("/", RPC),
    "cancel": get("/tasks/t:cancel", "Content-Length: 0", verb="POST"),
    "push config": post("/tasks/t/pushNotificationConfigs", b'{"url":"https://hook.example/"}'),
    "delete": get("/tasks/t/pushNotificationConfigs/c", verb="DELETE"),
    "nowhere": post("/no/where"),
    "send of 0.3": post("/v1/message:send", b"{}"),
    "cancel of 0.3": get("/v1/tasks/t:cancel", "Content-Length: 0", verb="POST"),
    "JSON-RPC of 0.3": post("/", OLD_RPC, "A2A-Version: 0.3"),
    "JSON-RPC of a tenant of 0.3": post("/north", OLD_RPC),
    "send of the draft": post("/draft/message:send"),
    "cancel of the draft": get("/draft/tasks/t:cancel", "Content-Length: 0", verb="POST"),
    "JSON-RPC of the draft": post("/draft", RPC),
}

PAGES = {
    "curl": ([], True),
    "the user, by hand": (["Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"], True),
    "a page of ours": (["Sec-Fetch-Site: same-origin", "Origin: http://localhost"], True),
    "a page of ours, by another name than Host": (["Sec-Fetch-Site: same-origin", "Origin: https://a.example"], True),
    "a page of ours, in an old browser": (["Origin: http://localhost"], True),
    "another site": (["Sec-Fetch-Site: cross-site", "Origin: https://evil.example"], False),
    "another site, without its name": (["Sec-Fetch-Site: cross-site"], False),
    "another port": (["Sec-Fetch-Site: same-site", "Origin: http://localhost:9"], False),
    "a sandboxed page": (["Sec-Fetch-Site: cross-site", "Origin: null"], False),
    "what no browser sends": (["Sec-Fetch-Site: elsewhere"], False),
    "another site, in an old browser": (["Origin: https://evil.example"], False),
    "another port, in an old browser": (["Origin: http://localhost:9"], False),
    "a sandboxed page, in an old browser": (["Origin: null"], False),
    "an allowed page": (["Sec-Fetch-Site: cross-site", f"Origin: {ALLOWED}"], True),
    "an allowed page, in an old browser": ([f"Origin: {ALLOWED}"], True),
}


def sent_by(page: Sequence[str], request: bytes) -> bytes:
    return request.replace(b"\r\n", "".join(f"\r\n{field}" for field in page).encode() + b"\r\n", 1)


@pytest.mark.req("DOOR-04")
@pytest.mark.parametrize(("page", "may"), PAGES.values(), ids=PAGES)
async def test_only_pages_that_may_call_change_anything(port: int, page: Sequence[str], *, may: bool) -> None:
    for name, request in CALLS.items():
        answer = await once(port, sent_by(page, request))
        if may:
            assert answer.body == b"" or answer.status not in (403, 421), name
            assert (answer.status, answer.headers["Content-Type"]) == await plainly(port, request), name
        else:
            assert (answer.status, reason_of(answer)) == (403, "PERMISSION_DENIED"), name
    for path in ("/tasks", "/healthz", "/.well-known/agent-card.json"):  # which no other page can read
        assert (await once(port, sent_by(page, get(path)))).status == 200
        assert (await once(port, sent_by(page, get(path, verb="OPTIONS")))).status == 204


async def plainly(port: int, request: bytes) -> tuple[int, str]:
    answer = await once(port, request)
    return answer.status, answer.headers["Content-Type"]


REFUSED = "Pages of other sites may not call; the setting gateway.cors_origins lists origins whose pages may."


@pytest.mark.req("DOOR-04", "ERRS-02", "ERRS-04")
async def test_a_refusal_has_the_form_of_its_binding(port: int) -> None:
    evil = PAGES["another site"][0]
    answers = {name: await once(port, sent_by(evil, request)) for name, request in CALLS.items()}
    kinds = {name: answer.headers["Content-Type"] for name, answer in answers.items()}
    assert kinds["send"] == kinds["stream"] == kinds["delete"] == kinds["nowhere"] == "application/a2a+json"
    assert kinds["send of the draft"] == "application/problem+json"
    assert answers["send"].json["error"]["message"] == REFUSED
    assert answers["send of the draft"].json["detail"] == REFUSED
    assert answers["send of 0.3"].json["error"]["message"] == REFUSED
    for name in ("JSON-RPC", "JSON-RPC of 0.3", "JSON-RPC of a tenant of 0.3", "JSON-RPC of the draft"):
        value = answers[name].json
        assert (value["jsonrpc"], value["id"]) == ("2.0", None)
        assert (value["error"]["code"], value["error"]["message"]) == (-32051, REFUSED)
        assert isinstance(value["error"]["data"], list) == (name == "JSON-RPC")


async def test_every_page_may_call_if_the_operator_says_so() -> None:
    async with house(Stage().agent, gateway={"cors_origins": ["*"]}) as server:
        for page, _ in PAGES.values():
            assert (await once(port_of(server), sent_by(page, CALLS["send"]))).status == 200


# -- JSON and what passes for it


@pytest.mark.req("MEDI-05")
@pytest.mark.parametrize("page", [name for name, (fields, may) in PAGES.items() if may and fields])
@pytest.mark.parametrize(
    "kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"]
)
async def test_a_page_must_say_that_it_sends_json(port: int, page: str, kind: str | None) -> None:
    fields = [*PAGES[page][0], *(() if kind is None else (f"Content-Type: {kind}",))]
    for path in ("/message:send", "/", "/tasks/t:cancel", "/v1/message:send", "/draft/message:send", "/draft"):
        answer = await once(port, get(path, *fields, f"Content-Length: {len(SEND)}", verb="POST") + SEND)
        assert reason_of(answer) == "CONTENT_TYPE_NOT_SUPPORTED", path
    empty = await once(port, get("/tasks/t:cancel", *fields, "Content-Length: 0", verb="POST"))  # as forms do
    assert empty.reason == ("TASK_NOT_FOUND" if kind is None else "CONTENT_TYPE_NOT_SUPPORTED")


@pytest.mark.req("MEDI-05")
async def test_others_may_leave_it_out(port: int) -> None:
    fields = f"Content-Length: {len(SEND)}"
    assert (await once(port, get("/message:send", fields, verb="POST") + SEND)).status == 200
