"""What a connection sends, and what it makes of answers: against an agent that does as the test says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.client import (
    AgentError,
    AuthenticationError,
    CallerCredentials,
    CallError,
    CallTimeoutError,
    CardInvalidError,
    CardNotFoundError,
    ClientLimits,
    CredentialsMissingError,
    Discovery,
    NoTransportError,
    Reason,
    UnreachableError,
    WireMessage,
    connect,
)
from tests.support.scripted_agent import CARD_PATH, TASK, interface, moved, says, scripted, silence, streams

NOBODY = "http://127.0.0.1:1"


# -- finding the card


@pytest.mark.req("CLI-15")
async def test_references_to_a_card(tmp_path: Path) -> None:
    async with scripted() as agent:
        file = tmp_path / "card.json"
        file.write_text(json.dumps(agent.card))
        bare = agent.base.removeprefix("http://")
        for reference in (agent.base, f"{agent.base}/", f"{agent.base}{CARD_PATH}", bare, str(file), file.as_uri()):
            async with connect(reference) as remote:
                assert remote.card.name == "Scripted"
                assert remote.document == agent.card
        agent.answers["/cards/mine"] = says(200, agent.card | {"name": "Mine"})
        async with connect(f"{agent.base}/cards/mine") as remote:
            assert remote.card.name == "Mine"
        async with connect(remote.card) as again:
            assert again.document["name"] == "Mine"


async def test_cards_that_cannot_be_had() -> None:
    async with scripted() as agent:
        agent.answers |= {
            "/none": says(404, {}),
            "/text": says(200, "hello"),
            "/list": says(200, []),
            "/wrong": says(200, {"name": 7}),
            "/large": says(200, {"name": "x" * 3000}),
            "/broken": says(503, {}),
        }
        kinds = {
            "/none": CardNotFoundError,
            "/text": CardInvalidError,
            "/list": CardInvalidError,
            "/wrong": CardInvalidError,
            "/large": CardInvalidError,
            "/broken": UnreachableError,
        }
        for path, kind in kinds.items():
            with pytest.raises(kind):
                async with connect(agent.base + path, limits=ClientLimits(card_bytes=2000)):
                    pass
    for reference, kind in (
        (NOBODY, UnreachableError),
        ("./nowhere.json", CardNotFoundError),
        ("ftp://x", CardNotFoundError),
    ):
        with pytest.raises(kind):
            async with connect(reference):
                pass


async def test_a_card_is_kept_as_long_as_its_server_says() -> None:
    async with scripted() as agent:
        card = agent.card
        agent.answers["/kept"] = says(200, card, **{"Cache-Control": "public, max-age=600"})
        agent.answers["/tagged"] = says(200, card, ETag='"one"')
        agent.answers["/never"] = says(200, card, **{"Cache-Control": "no-store, max-age=600"})
        discovery = Discovery()
        try:
            for path in ("/kept", "/tagged", "/never"):
                assert (await discovery.find(agent.base + path)).card.name == "Scripted"
            agent.answers["/tagged"] = says(304)
            for path in ("/kept", "/tagged", "/never"):
                assert (await discovery.find(agent.base + path)).card.name == "Scripted"
        finally:
            await discovery.close()
        assert [asked.path for asked in agent.asked] == ["/kept", "/tagged", "/never", "/tagged", "/never"]
        assert agent.asked[3].headers["If-None-Match"] == '"one"'


async def test_a_card_of_0_2_is_read_at_its_old_place() -> None:
    old = {
        "name": "Old",
        "description": "",
        "version": "1",
        "capabilities": {"stateTransitionHistory": True},
        "defaultInputModes": [],
        "defaultOutputModes": [],
        "skills": [{"id": "s", "name": "S", "description": "", "tags": [], "security": [{"key": []}]}],
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "login": {
                "type": "oauth2",
                "flows": {
                    "clientCredentials": {"tokenUrl": "https://x.example/t", "scopes": {}},
                    "authorizationCode": {
                        "authorizationUrl": "https://x.example/a",
                        "tokenUrl": "https://x.example/t",
                        "scopes": {},
                    },
                },
            },
            "other": {"type": "carrier pigeon"},
        },
        "security": [{"login": ["read"]}],
    }
    async with scripted() as agent:
        agent.answers[CARD_PATH] = says(404)
        agent.answers["/.well-known/agent.json"] = says(200, old | {"url": f"{agent.base}/rpc"})
        async with connect(agent.base, version="0.3") as remote:
            assert remote.interface == pb.AgentInterface(
                url=f"{agent.base}/rpc", protocol_binding="JSONRPC", protocol_version="0.3"
            )
            assert set(remote.card.security_schemes) == {"key", "login", "login-authorizationCode"}
            assert remote.card.security_schemes["key"].api_key_security_scheme.location == "header"
            assert list(remote.card.security_requirements[0].schemes["login"].list) == ["read"]
            assert "key" in remote.card.skills[0].security_requirements[0].schemes


@pytest.mark.parametrize(
    ("schemes", "kind"),
    [
        ({"s": {"scheme": {"$case": "mtlsSecurityScheme", "value": {}}}}, "mtls_security_scheme"),
        ({"s": {"scheme": {"$case": "mtlsSecurityScheme"}}}, None),
        ({"s": {"scheme": {"$case": "pigeon", "value": {}}}}, None),
        ({"s": {"scheme": {"$case": 7}}}, None),
        ({"s": {"oauth2SecurityScheme": {"oauth2MetadataUrl": "https://x.example/"}}}, "oauth2_security_scheme"),
        ({"s": {"oauth2SecurityScheme": {"flows": {"flow": {"$case": "password", "value": 7}}}}}, ""),
        ({"s": 7}, ""),
        (7, ""),
    ],
)
async def test_schemes_in_the_form_of_the_javascript_sdk(schemes: Any, kind: str | None) -> None:
    async with scripted() as agent:
        agent.answers[CARD_PATH] = says(200, agent.card | {"securitySchemes": schemes})
        if kind == "":
            with pytest.raises(CardInvalidError):
                async with connect(agent.base):
                    pass
            return
        async with connect(agent.base) as remote:
            assert remote.card.security_schemes["s"].WhichOneof("scheme") == kind


# -- choosing how to call


@pytest.mark.req("CLI-48", "CLI-50")
async def test_the_interface_that_is_called() -> None:
    async with scripted() as agent:
        rest, rpc = interface(f"{agent.base}/rest", "HTTP+JSON"), interface(f"{agent.base}/rpc", "JSONRPC")
        old = interface(f"{agent.base}/old", "JSONRPC", "0.3")
        strange = interface("x", "https://example.com/telegraph")
        rows: list[tuple[list[Any], dict[str, Any], str]] = [
            ([rest, rpc], {}, "/rest"),
            ([rpc, rest], {}, "/rpc"),
            ([rpc, rest], {"transports": ["rest"]}, "/rest"),
            ([rpc, rest], {"transports": ["GRPC", "HTTP+JSON"]}, "/rest"),
            ([rpc, rest], {"transports": ["grpc"]}, "/rpc"),
            ([strange, rest], {}, "/rest"),
            ([old, rest], {}, "/rest"),
            ([rest, old], {"version": "0.3"}, "/old"),
            ([old, rest], {"version": ("1.0", "0.3")}, "/rest"),
            ([old], {"version": ("1.0", "0.3")}, "/old"),
        ]
        for interfaces, asked, path in rows:
            agent.card["supportedInterfaces"] = interfaces
            async with connect(agent.base, **asked) as remote:
                assert remote.interface.url.removeprefix(agent.base) == path


async def test_nothing_to_call() -> None:
    async with scripted() as agent:
        agent.card["supportedInterfaces"] = [interface("x", "https://example.com/telegraph")]
        with pytest.raises(NoTransportError, match="telegraph"):
            async with connect(agent.base):
                pass
        agent.card["supportedInterfaces"] = [interface(f"{agent.base}/old", "JSONRPC", "0.3")]
        for version in (None, "1.0", "7.0"):
            with pytest.raises(AgentError) as refused:
                async with connect(agent.base, version=version):
                    pass
            assert (refused.value.name, refused.value.code) == ("VersionNotSupportedError", None)
        with pytest.raises(CallError, match="pigeon"):
            async with connect(agent.base, transports=["pigeon"], version="0.3"):
                pass


@pytest.mark.req("CLI-49", "CLI-50", "CLI-75")
async def test_version_extensions_tenant_and_headers_go_with_every_request() -> None:
    wanted = [{"uri": "urn:a", "required": True}, {"uri": "urn:b"}]
    async with scripted(capabilities={"extensions": wanted}) as agent:
        for binding, url in (("HTTP+JSON", "/rest"), ("JSONRPC", "/rpc")):
            agent.card["supportedInterfaces"] = [interface(agent.base + url, binding, tenant="a/b")]
            more = {"extensions": ["urn:c"], "headers": {"X-Mine": "1"}, "trace": {"traceparent": "00-1"}}
            async with connect(agent.base, **more) as remote:  # type: ignore[arg-type]
                await remote.send("hello")
                await remote.list_tasks(pb.ListTasksRequest(tenant="other", page_size=3))
    for asked in agent.calls:
        assert asked.headers["A2A-Version"] == "1.0"
        assert asked.headers["A2A-Extensions"] == "urn:c, urn:a"
        assert (asked.headers["X-Mine"], asked.headers["traceparent"]) == ("1", "00-1")
    assert [asked.path for asked in agent.calls] == [
        "/rest/a%2Fb/message:send",
        "/rest/a%2Fb/tasks?pageSize=3",
        "/rpc",
        "/rpc",
    ]
    assert [asked.params["tenant"] for asked in agent.calls[2:]] == ["a/b", "a/b"]
    card = agent.asked[0]
    assert "X-Mine" not in card.headers


# -- credentials

BEARER = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
KEYS = {
    place: {"apiKeySecurityScheme": {"location": place, "name": f"{place}-key"}}
    for place in ("header", "query", "cookie")
}


@pytest.mark.req("CLI-44", "CLI-67")
async def test_credentials_go_where_the_card_demands_them() -> None:
    given = CallerCredentials(bearer="t0ken", api_key="k&y", basic=("ann", "pass"))
    async with scripted() as agent:

        async def asked_with(schemes: dict[str, Any], *required: list[str]) -> Any:
            requirements: list[Any] = [{"schemes": {name: {"list": []} for name in names}} for names in required]
            agent.card |= {"securitySchemes": schemes, "securityRequirements": requirements}
            async with connect(agent.base, credentials=given) as remote:
                await remote.send("hello")
            assert not {"Authorization", "Cookie", "header-key"} & set(agent.asked[-2].headers)
            return agent.asked[-1], remote.unused_credentials

        asked, unused = await asked_with({})
        assert "Authorization" not in asked.headers
        assert unused == ("bearer", "api_key", "basic")
        asked, unused = await asked_with({"b": BEARER}, ["b"])
        assert asked.headers["Authorization"] == "Bearer t0ken"
        assert unused == ("api_key", "basic")
        asked, _ = await asked_with({"b": BEARER, "k": KEYS["header"]}, ["k"])
        assert "Authorization" not in asked.headers
        assert asked.headers["header-key"] == "k&y"
        asked, _ = await asked_with({"b": BEARER, "k": KEYS["query"]}, ["unknown"], ["b", "k"])
        assert asked.headers["Authorization"] == "Bearer t0ken"
        assert asked.path.endswith("?query-key=k%26y")
        asked, _ = await asked_with({"k": KEYS["cookie"]})
        assert asked.headers["Cookie"] == "cookie-key=k%26y"
        asked, _ = await asked_with({"b": {"httpAuthSecurityScheme": {"scheme": "basic"}}}, [], ["b"])
        assert asked.headers["Authorization"] == "Basic YW5uOnBhc3M="
        asked, _ = await asked_with({"b": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://x.example"}}})
        assert asked.headers["Authorization"] == "Bearer t0ken"


@pytest.mark.req("CLI-44")
async def test_a_call_follows_no_redirect() -> None:
    async with scripted(securitySchemes={"b": BEARER}) as agent, scripted() as other:
        agent.answers["/rest/message:send"] = moved(f"{other.base}/rest/message:send")
        async with connect(agent.base, credentials=CallerCredentials(bearer="t0ken")) as remote:
            with pytest.raises(AgentError, match="307") as refused:
                await remote.send("hello")
        assert refused.value.code == 307
        assert not other.asked


@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_refused_credentials(transport: str) -> None:
    async with scripted(securitySchemes={"b": BEARER}) as agent:
        agent.answers |= {"/rpc": says(401), "/rest/message:send": says(401)}
        for credentials, kind in (
            (None, CredentialsMissingError),
            (CallerCredentials(bearer="x"), AuthenticationError),
        ):
            async with connect(agent.base, transports=[transport], credentials=credentials) as remote:
                with pytest.raises(kind) as refused:
                    await remote.send("hello")
                assert refused.value.code == 401


# -- answers

INFO = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "TASK_NOT_CANCELABLE",
    "domain": "a2a-protocol.org",
}


@pytest.mark.parametrize(
    ("status", "body", "name", "kind"),
    [
        (400, {"error": {"code": 400, "message": "late", "details": [INFO]}}, "TaskNotCancelableError", AgentError),
        (404, {"message": "no such task"}, "TaskNotFoundError", AgentError),
        (404, "nothing here", "", AgentError),
        (400, {"type": "TaskNotFoundError", "message": "x"}, "TaskNotFoundError", AgentError),
        (
            400,
            {"type": "https://a2a-protocol.org/errors/version-not-supported"},
            "VersionNotSupportedError",
            AgentError,
        ),
        (400, {"code": -32005, "message": "x"}, "ContentTypeNotSupportedError", AgentError),
        (422, {"error": "odd"}, "InvalidParamsError", AgentError),
        (500, [], "InternalError", AgentError),
        (503, "", "", UnreachableError),
        (200, "{", "InvalidAgentResponseError", AgentError),
        (200, {"task": 7}, "InvalidAgentResponseError", AgentError),
        (200, "x" * 3000, "InvalidAgentResponseError", AgentError),
    ],
)
@pytest.mark.req("CLI-38")
async def test_errors_of_rest(status: int, body: Any, name: str, kind: type[CallError]) -> None:
    async with scripted() as agent:
        agent.answers["/rest/message:send"] = says(status, body)
        async with connect(agent.base, limits=ClientLimits(answer_bytes=2000)) as remote:
            with pytest.raises(kind) as refused:
                await remote.send("hello")
    assert type(refused.value) is kind
    assert (refused.value.name, refused.value.code) == (name, None if status == 200 else status)


@pytest.mark.parametrize(
    ("body", "reason", "code"),
    [
        ({"error": {"code": -32001, "message": "x"}}, Reason.TASK_NOT_FOUND, -32001),
        ({"error": {"code": -32603, "message": "x"}}, Reason.INTERNAL, -32603),
        ({"error": {"code": -1, "message": "x", "data": [INFO]}}, Reason.TASK_NOT_CANCELABLE, -1),
        ({"error": {"code": -1, "data": {"reason": "SLOW_READER"}}}, Reason.SLOW_READER, -1),
        ({"error": {"code": True}}, None, None),
        ({"error": "odd"}, None, None),
        ({"result": {"task": TASK}, "error": {"code": -32602}}, Reason.INVALID_PARAMS, -32602),
        ({}, Reason.INVALID_AGENT_RESPONSE, None),
        ([], Reason.INVALID_AGENT_RESPONSE, None),
    ],
)
async def test_errors_of_jsonrpc(body: Any, reason: Reason | None, code: int | None) -> None:
    async with scripted() as agent:
        agent.answers["/rpc"] = says(200, {"jsonrpc": "2.0", "id": 1, **body} if isinstance(body, dict) else body)
        async with connect(agent.base, transports=["JSONRPC"]) as remote:
            with pytest.raises(AgentError) as refused:
                await remote.send("hello")
    assert (refused.value.reason, refused.value.code) == (reason, code)


async def test_an_agent_that_is_silent_or_gone() -> None:
    async with scripted() as agent:
        agent.answers |= {"/rest/message:send": silence, "/rest/message:stream": silence}
        async with connect(agent.base) as remote:
            card = remote.card
        async with connect(card, timeout=0.2) as remote:
            with pytest.raises(CallTimeoutError):
                await remote.send("hello")
            with pytest.raises(CallTimeoutError):
                await anext(remote.stream("hello"))
    async with connect(card) as remote:
        with pytest.raises(UnreachableError):
            await remote.send("hello")


# -- streams

EVENT = 'data: {"task": {"id": "t1", "status": {"state": "TASK_STATE_WORKING"}}}\n\n'
LAST = 'id: 7\r\ndata: {"statusUpdate": {"taskId": "t1", "contextId": "c",\rdata: "status": {"state": 3}}}\r\n\r\n'


async def test_an_event_is_seen_when_it_comes_and_closing_ends_the_call() -> None:
    async with scripted() as agent:
        agent.answers["/rest/message:stream"] = streams(": hello\n\n", EVENT, ends=False)
        async with connect(agent.base) as remote:
            stream = remote.stream("hello")
            assert (await anext(stream)).task.id == "t1"
            await stream.aclose()
            await asyncio.wait_for(agent.gone.wait(), 30)
            agent.gone.clear()
            waiting = remote.stream("hello")
            await anext(waiting)
            reader = asyncio.ensure_future(anext(waiting))
            await asyncio.sleep(0)
        await asyncio.wait_for(agent.gone.wait(), 30)
        with pytest.raises(UnreachableError):
            await reader


async def test_all_forms_of_events_are_read() -> None:
    async with scripted() as agent:
        halves = [EVENT[:20], EVENT[20:], *LAST]
        agent.answers["/rest/message:stream"] = streams(*halves)
        async with connect(agent.base) as remote:
            stream = remote.stream("hello")
            seen = [event.WhichOneof("payload") async for event in stream]
    assert (seen, stream.number) == (["task", "status_update"], 7)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f'event: error\ndata: {{"error": {{"code": 503, "details": [{json.dumps(INFO)}]}}}}\n\n',
            Reason.TASK_NOT_CANCELABLE,
        ),
        ("data: {}}\n\n", Reason.INVALID_AGENT_RESPONSE),
        ("data: " + "x" * 3000, Reason.INVALID_AGENT_RESPONSE),
        ("data: x\n" * 3000, Reason.INVALID_AGENT_RESPONSE),
    ],
)
async def test_a_stream_that_goes_wrong(text: str, reason: Reason) -> None:
    async with scripted() as agent:
        agent.answers["/rest/message:stream"] = streams(EVENT, text)
        async with connect(agent.base, limits=ClientLimits(event_bytes=2000)) as remote:
            stream = remote.stream("hello")
            await anext(stream)
            with pytest.raises(CallError) as wrong:
                await anext(stream)
    assert wrong.value.reason is reason


# -- what developers see


@pytest.mark.req("CLI-47", "CLI-63")
async def test_the_wire_is_shown_without_secrets() -> None:
    seen: list[WireMessage] = []
    schemes = {"b": BEARER, "k": KEYS["query"]}
    async with scripted(securitySchemes=schemes) as agent:
        agent.answers["/rest/message:stream"] = streams(EVENT)
        credentials = CallerCredentials(bearer="t0ken-secret", api_key='k&/ y="-secret')
        headers = {"X-Auth-Token": "mine-secret", "X-Plain": "plain"}
        async with connect(agent.base, credentials=credentials, headers=headers, on_wire=seen.append) as remote:
            await remote.send("say t0ken-secret")
            config = pb.TaskPushNotificationConfig(task_id="t1", url="https://x.example", token="hook-secret")
            config.authentication.scheme, config.authentication.credentials = "Bearer", "push-secret"
            await remote.call("CreateTaskPushNotificationConfig", config)
            async for _ in remote.stream("hello"):
                pass
    told = repr(seen)
    assert "secret" not in told
    assert "X-Plain" in told
    assert [message.direction for message in seen] == ["sent", "received"] * 4
    assert '"say ***"' in seen[2].body
    assert seen[-1].what == "event"
