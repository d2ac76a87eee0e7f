"""The operator chooses which doors cards list, and in which order (spec: DOOR-15, CONF-84; the draft's: CONF-49).

Everything is asked of a server, and of a gateway that stands alone in front of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, get_args

import grpc
import httpx
import orjson
import pytest
from a2a.client.card_resolver import A2ACardResolver, parse_agent_card
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2, a2a_v0_3_pb2_grpc, discovery_pb2_grpc
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.serve import Server, relaying
from a2a_server.settings import Settings
from tests.support.http import SEND, Answer, get, house, once, port_of, post
from tests.support.stage import Stage
from tests.support.world import say

CARD = "/.well-known/agent-card.json"
OLD_SEND = b'{"message":{"role":"ROLE_USER","content":[{"text":"hello"}],"messageId":"m"}}'
DRAFT: Mapping[str, Any] = {"gateway": {"profiles": ["draft"]}}
TOKENS = [{"owner": "ann", "hash": "sha256:" + hashlib.sha256(b"t").hexdigest(), "extended_card": True}]

Where = Literal["near", "far"]

NEW = ["1.0/GRPC", "1.0/HTTP+JSON", "1.0/JSONRPC"]
OLD = ["0.3/JSONRPC", "0.3/HTTP+JSON", "0.3/GRPC"]
DRAFTS = ["draft/HTTP+JSON", "draft/JSONRPC"]


@pytest.fixture(params=get_args(Where))
def where(request: pytest.FixtureRequest) -> Where:
    place: Where = request.param
    return place


@asynccontextmanager
async def doors(
    where: Where, listed: Any = None, stage: Any = None, **settings: Any
) -> AsyncIterator[tuple[int, Server]]:
    """The port of an HTTP door, and the server; far, only the gateway is told which doors to list."""
    told = {} if listed is None else {"card": {"doors": listed}}
    auth = settings.pop("auth", {})
    async with house((stage or Stage()).agent, auth=auth, **settings, **(told if where == "near" else {})) as server:
        if where == "near":
            yield port_of(server), server
            return
        alone = Settings(http="127.0.0.1:0", upstream={"addresses": [str(server.grpc)]}, **settings, **told)
        async with relaying(alone) as address:
            yield address.port, server


async def told(port: int, version: str = "", path: str = CARD) -> dict[str, Any]:
    answer = await once(port, get(path, *([f"A2A-Version: {version}"] if version else [])))
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


def names(card: dict[str, Any]) -> list[str]:
    return [f"{door['protocolVersion']}/{door['protocolBinding']}" for door in card["supportedInterfaces"]]


def named(card: pb.AgentCard) -> list[str]:
    return [f"{door.protocol_version}/{door.protocol_binding}" for door in card.supported_interfaces]


async def discovered(server: Server, tenant: str = "") -> pb.AgentCard:
    async with grpc.aio.insecure_channel(str(server.grpc)) as channel:
        card: pb.AgentCard = await discovery_pb2_grpc.DiscoveryStub(channel).GetAgentCard(
            GetAgentCardRequest(tenant=tenant)
        )
        return card


CHOICES = [
    (None, [*NEW, *OLD, *DRAFTS]),
    ("all", [*NEW, *OLD, *DRAFTS]),
    ("jsonrpc,rest", ["1.0/JSONRPC", "0.3/JSONRPC", "1.0/HTTP+JSON", "0.3/HTTP+JSON"]),
    (["JSONRPC", "HTTP+JSON"], ["1.0/JSONRPC", "0.3/JSONRPC", "1.0/HTTP+JSON", "0.3/HTTP+JSON"]),
    (["0.3/rest"], ["0.3/HTTP+JSON"]),
    (["0.3/grpc", "1.0/rest"], ["0.3/GRPC", "1.0/HTTP+JSON"]),
    (["grpc"], ["1.0/GRPC", "0.3/GRPC"]),
    (["draft/jsonrpc", "rest", "draft/rest"], ["draft/JSONRPC", "1.0/HTTP+JSON", "0.3/HTTP+JSON", "draft/HTTP+JSON"]),
    (["1.0/jsonrpc", "1.0/grpc"], ["1.0/JSONRPC", "1.0/GRPC"]),
]


@pytest.mark.req("DOOR-15", "CONF-84", "CONF-49")
@pytest.mark.parametrize(("listed", "wanted"), CHOICES)
async def test_the_card_has_these_doors_in_this_order(where: Where, listed: Any, wanted: list[str]) -> None:
    async with doors(where, listed, **DRAFT) as (port, server):
        plain, new = await told(port), await told(port, "1.0")
        assert names(plain) == names(new) == wanted
        assert plain["supportedInterfaces"] == new["supportedInterfaces"]
        if where == "near":
            assert named(await discovered(server)) == named(server.card) == wanted
        base = f"http://127.0.0.1:{port}"
        urls = {
            "1.0/GRPC": str(server.grpc),
            "1.0/HTTP+JSON": base,
            "1.0/JSONRPC": f"{base}/",
            "0.3/JSONRPC": f"{base}/",
            "0.3/HTTP+JSON": base,
            "0.3/GRPC": str(server.grpc),
            "draft/HTTP+JSON": f"{base}/draft",
            "draft/JSONRPC": f"{base}/draft/",
        }
        assert [door["url"] for door in new["supportedInterfaces"]] == [urls[name] for name in wanted]
        old = [name for name in wanted if name.startswith("0.3/")]
        if not old:  # there is no card of 0.3 without a door of 0.3
            assert "url" not in plain
            refused = await once(port, get(CARD, "A2A-Version: 0.3"))
            assert (refused.status, refused.reason) == (400, "VERSION_NOT_SUPPORTED")
            return
        for card in (plain, await told(port, "0.3")):
            assert card["additionalInterfaces"] == [
                {"url": urls[name], "transport": name.removeprefix("0.3/")} for name in old
            ]
            assert (card["url"], card["preferredTransport"]) == (urls[old[0]], old[0].removeprefix("0.3/"))


@pytest.mark.req("DOOR-15")
async def test_without_the_setting_the_card_is_as_before(where: Where) -> None:
    async with doors(where) as (port, _):
        assert names(await told(port)) == [*NEW, *OLD]


@pytest.mark.req("DOOR-15")
async def test_what_is_not_listed_serves_all_the_same(where: Where) -> None:
    async with doors(where, "0.3/rest", **DRAFT) as (port, server):
        rpc = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%b}' % SEND
        old = b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}'
        sent = [await once(port, post(path, SEND)) for path in ("/message:send", "/north/message:send")]
        sent += [await once(port, post("/v1/message:send", OLD_SEND)), await once(port, post("/", rpc))]
        assert [answer.status for answer in sent] == [200] * 4
        assert all("task" in answer.json.get("result", answer.json) for answer in sent)
        assert (await once(port, post("/", old))).json["error"]["code"] == -32001
        assert (await once(port, get("/draft/v1/tasks"))).status == 200
        async with grpc.aio.insecure_channel(str(server.grpc)) as channel:
            assert (await a2a_pb2_grpc.A2AServiceStub(channel).SendMessage(say())).task.id
            message = a2a_v0_3_pb2.Message(message_id="m", role="ROLE_USER", content=[{"text": "hi"}])
            old_stub = a2a_v0_3_pb2_grpc.A2AServiceStub(channel)
            assert (await old_stub.SendMessage(a2a_v0_3_pb2.SendMessageRequest(request=message))).task.id


@pytest.mark.req("DOOR-15", "TENA-05")
async def test_tenants_cards_follow(where: Where) -> None:
    async with doors(where, "jsonrpc,1.0/grpc", tenants=["north"]) as (port, _):
        card = await told(port, path=f"/north{CARD}")
        assert names(card) == ["1.0/JSONRPC", "0.3/JSONRPC", "1.0/GRPC"]
        base = f"http://127.0.0.1:{port}"
        assert [door["url"] for door in card["supportedInterfaces"]][:2] == [f"{base}/", f"{base}/north/"]
        assert [door.get("tenant") for door in card["supportedInterfaces"]] == ["north", None, "north"]
        assert card["url"] == f"{base}/north/"


@pytest.mark.req("DOOR-15", "TENA-04")
async def test_a_tenants_card_with_doors_of_0_3_alone_tells_no_more_than_others(where: Where) -> None:
    """Nothing in its interfaces says that it is a tenant's."""
    async with doors(where, "0.3/jsonrpc", tenants=["north"]) as (port, _):
        for version in ("", "1.0", "0.3"):
            answer = await once(port, get(f"/north{CARD}", *([f"A2A-Version: {version}"] if version else [])))
            assert f"http://127.0.0.1:{port}/north/" in answer.body.decode()
            assert "Last-Modified" not in answer.headers
            assert "ETag" in answer.headers


@pytest.mark.req("DOOR-15", "CARD-02")
async def test_a_card_that_would_have_no_door_lists_all(where: Where) -> None:
    """Over gRPC 0.3 cannot name a tenant."""
    async with doors(where, "0.3/grpc", tenants=["north"], **DRAFT) as (port, server):
        card = await told(port, path=f"/north{CARD}")
        assert names(card) == [*NEW, *OLD[:2], *DRAFTS]
        if where == "near":
            assert named(await discovered(server, "north")) == names(card)


@pytest.mark.req("DOOR-15", "XCARD-03")
async def test_the_extended_card_has_the_same_doors(where: Where) -> None:
    stage = Stage(extended=lambda card, _: card)
    choice = ["jsonrpc", "draft/rest"]
    async with doors(where, choice, stage, auth={"tokens": TOKENS}, tenants=["north"], **DRAFT) as (port, _):
        known = "Authorization: Bearer t"
        for tenant in ("", "/north"):
            answer = await once(port, get(f"{tenant or '/north'}/extendedAgentCard", known))
            assert names(answer.json) == ["1.0/JSONRPC", "0.3/JSONRPC", "draft/HTTP+JSON"], answer.body
        old = await once(port, get("/north/v1/card", known))
        assert [door["transport"] for door in old.json["additionalInterfaces"]] == ["JSONRPC"]


@pytest.mark.req("DOOR-15", "TENA-05")
async def test_a_tenant_keeps_their_doors_where_no_interface_names_them() -> None:
    """The server's card for the gateway beside it has doors of 0.3 only."""
    stage = Stage(extended=lambda card, _: card)
    async with doors("near", "0.3/rest", stage, auth={"tokens": TOKENS}, tenants=["north"], **DRAFT) as (port, _):
        known, base = "Authorization: Bearer t", f"http://127.0.0.1:{port}"
        for path in ("/north/v1/card", "/north/agent/authenticatedExtendedCard"):
            assert (await once(port, get(path, known))).json["url"] == f"{base}/north", path
        card = await told(port, path=f"/draft/north{CARD}")
        assert [door["tenant"] for door in card["supportedInterfaces"]] == ["north", "north"]


@pytest.mark.req("DOOR-15", "DOOR-05")
async def test_behind_a_proxy_its_urls_are_listed(where: Where) -> None:
    options = {"trusted_proxies": ["127.0.0.1"], "profiles": ["draft"]}
    async with doors(where, ["draft/rest", "0.3/jsonrpc", "1.0/rest"], gateway=options) as (port, _):
        answer = await once(port, get(CARD, "X-Forwarded-Proto: https", "X-Forwarded-Host: agents.example"))
        assert [door["url"] for door in answer.json["supportedInterfaces"]] == [
            "https://agents.example/draft",
            "https://agents.example/",
            "https://agents.example",
        ]


@pytest.mark.req("DOOR-15", "DRFT-05")
@pytest.mark.parametrize(
    ("listed", "bindings"),
    [
        ("all", ["HTTP+JSON", "JSONRPC"]),
        ("draft/jsonrpc,rest", ["JSONRPC"]),
        ("draft/jsonrpc,draft/rest", ["JSONRPC", "HTTP+JSON"]),
        ("rest", ["HTTP+JSON", "JSONRPC"]),  # it must have some
    ],
)
async def test_the_drafts_own_card_follows(where: Where, listed: str, bindings: list[str]) -> None:
    async with doors(where, listed, **DRAFT) as (port, _):
        card = await told(port, path=f"/draft{CARD}")
        assert [door["protocolBinding"] for door in card["supportedInterfaces"]] == bindings
        assert (card["url"], card["preferredTransport"]) == (card["supportedInterfaces"][0]["url"], bindings[0])
        assert all("protocolVersion" not in door for door in card["supportedInterfaces"])


@pytest.mark.req("CONF-49", "DRFT-05", "TENA-05")
async def test_while_the_draft_is_on_the_card_lists_it_last_and_for_each_tenant(where: Where) -> None:
    async with doors(where, **DRAFT) as (port, _):
        base = f"http://127.0.0.1:{port}"
        for tenant in ("", "north"):
            card = await told(port, path=f"/{tenant}{CARD}" if tenant else CARD)
            named_by = {"tenant": tenant} if tenant else {}
            assert card["supportedInterfaces"][-2:] == [
                {"url": f"{base}/draft", "protocolBinding": "HTTP+JSON", **named_by, "protocolVersion": "draft"},
                {"url": f"{base}/draft/", "protocolBinding": "JSONRPC", **named_by, "protocolVersion": "draft"},
            ]
        # Its readers know no versions of interfaces: each binding has one address.
        assert "/draft" not in orjson.dumps(await told(port, "0.3")).decode()


@pytest.mark.req("CONF-49", "DOOR-08")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_the_official_client_passes_the_draft_by(where: Where, binding: str) -> None:
    """Even where it comes first, or has the same address."""
    first = {**DRAFT, "listed": ["draft/rest", "draft/jsonrpc", "grpc", "rest", "jsonrpc"]}
    for settings in (DRAFT, first, ROOT):
        async with doors(where, **settings) as (port, _), httpx.AsyncClient() as http:
            card = await A2ACardResolver(http, f"http://127.0.0.1:{port}").get_agent_card()
            assert parse_agent_card(await told(port)) == card
            config = ClientConfig(
                httpx_client=http,
                supported_protocol_bindings=[binding],
                grpc_channel_factory=grpc.aio.insecure_channel,
            )
            async with ClientFactory(config).create(card) as client:
                seen = [item async for item in client.send_message(say())]  # type: ignore[arg-type]
                assert seen[-1].WhichOneof("payload")


def refused_for(settings: Mapping[str, Any]) -> str:
    with pytest.raises(ValueError, match=r"card|1 validation error") as caught:
        Settings(**settings)
    return str(caught.value)


KNOWN = (
    "grpc, rest, jsonrpc, 1.0/grpc, 1.0/rest, 1.0/jsonrpc, 0.3/grpc, 0.3/rest, 0.3/jsonrpc, draft/rest, draft/jsonrpc"
)


@pytest.mark.req("DOOR-15", "OPER-05")
@pytest.mark.parametrize(
    ("settings", "listed", "message"),
    [
        ({}, [], "must name at least one door; all = all that are open"),
        ({}, "", "must name at least one door"),
        ({}, "rest,http", f"must be all, by itself, or doors from {KNOWN}"),
        ({}, "all,rest", f"must be all, by itself, or doors from {KNOWN}"),
        ({}, "draft/grpc", "must be all, by itself, or doors from"),
        ({}, "2.0/rest", "must be all, by itself, or doors from"),
        ({}, "rest,jsonrpc,rest", "names a door that is named before"),
        ({}, "rest,0.3/rest", "names a door that is named before"),
        ({}, "1.0/rest,HTTP+JSON", "names a door that is named before"),
        ({}, "draft/rest", "is not open; open are grpc, rest, jsonrpc, 1.0/grpc, "),
        ({**DRAFT, "http": "none"}, "draft/rest", "is not open; open are grpc, 1.0/grpc, 0.3/grpc"),
        ({"http": "none"}, "jsonrpc", "is not open; open are grpc, 1.0/grpc, 0.3/grpc"),
        ({"legacy": {"enabled": False}}, "rest,0.3/jsonrpc", "is not open; open are grpc, rest, jsonrpc, 1.0/grpc"),
        ({"gateway": {"upstream_doors": False}}, "grpc", "is not open; open are rest, jsonrpc, 1.0/rest"),
    ],
)
def test_a_wrong_choice_is_refused(settings: dict[str, Any], listed: Any, message: str) -> None:
    assert message in refused_for({**settings, "card": {"doors": listed}})


@pytest.mark.req("DOOR-15")
@pytest.mark.parametrize(
    ("settings", "listed"),
    [
        ({"legacy": {"enabled": False}}, "grpc,rest,jsonrpc"),
        ({"http": "none"}, "grpc"),
        ({"http": "none", "gateway": {"upstream_doors": False}}, "0.3/grpc,1.0/grpc"),
    ],
)
def test_a_binding_is_open_where_one_of_its_versions_is(settings: dict[str, Any], listed: str) -> None:
    assert Settings(**settings, card={"doors": listed}).card.doors == tuple(listed.split(","))


# -- the draft at the root


ROOT: Mapping[str, Any] = {"gateway": {"profiles": ["draft"], "draft_path": "/"}, "legacy": {"enabled": False}}
DRAFT_SEND = orjson.dumps(
    {
        "message": {"messageId": "m", "role": "user", "parts": [{"text": "hello"}]},
        "configuration": {"blocking": True},
    }
)


def rpc(method: str, params: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def problem(answer: Answer, kind: str) -> None:
    assert answer.headers["Content-Type"] == "application/problem+json", answer.body
    assert answer.json["type"].rpartition("/")[2] == kind


@pytest.mark.req("CONF-49", "DRFT-01", "DRFT-03")
@pytest.mark.parametrize("tenant", ["", "/north"])
async def test_at_the_root_v1_is_the_drafts(where: Where, tenant: str) -> None:
    async with doors(where, **ROOT) as (port, _):
        sent = await once(port, post(f"{tenant}/v1/message:send", DRAFT_SEND))
        assert (sent.status, sent.headers["Content-Type"]) == (200, "application/a2a+json")
        task = sent.json["task"]
        assert task["status"]["state"] == "completed"
        assert task["history"][0]["role"] == "user"
        assert (await once(port, get(f"{tenant}/v1/tasks/{task['id']}"))).json["status"]["state"] == "completed"
        assert [it["id"] for it in (await once(port, get(f"{tenant}/v1/tasks"))).json["tasks"]] == [task["id"]]
        streamed = await once(port, post(f"{tenant}/v1/message:stream", DRAFT_SEND))
        assert b'"final":true' in streamed.body
        problem(await once(port, get(f"{tenant}/v1/tasks/nope")), "task-not-found")
        problem(await once(port, get(f"{tenant}/v1/nothing")), "about:blank")
        assert (await once(port, get(f"{tenant}/v1/message:send"))).headers["Allow"] == "OPTIONS, POST"
        options = await once(port, get(f"{tenant}/v1/message:send", verb="OPTIONS"))
        assert options.headers["Allow"] == "OPTIONS, POST"
        # What is 1.0's stays 1.0's.
        same = (await once(port, get(f"{tenant}/tasks/{task['id']}"))).json
        assert same["status"]["state"] == "TASK_STATE_COMPLETED"
        refused = await once(port, get(f"{tenant}/tasks/nope"))
        assert (refused.status, refused.reason) == (404, "TASK_NOT_FOUND")


@pytest.mark.req("CONF-49", "DRFT-06")
async def test_at_the_root_the_drafts_version_chooses_it(where: Where) -> None:
    stage = Stage(extended=lambda card, _: card)
    async with doors(where, None, stage, auth={"tokens": TOKENS}, **ROOT) as (port, _):
        known, version = "Authorization: Bearer t", "A2A-Version: 0.3"
        sent = await once(port, post("/v1/", rpc("SendMessage", orjson.loads(DRAFT_SEND)), known))
        task = sent.json["result"]["task"]
        named_so = rpc("GetTask", {"name": f"tasks/{task['id']}"})
        for path, *fields in (("/v1",), ("/v1/",), ("/", version), ("/?A2A-Version=0.3.0",), ("/v1", version)):
            answer = await once(port, post(path, named_so, known, *fields))
            assert answer.json["result"]["status"]["state"] == "completed", path
        for said in ((), ("A2A-Version: 1.0",)):
            asked = rpc("GetTask", {"id": task["id"]})
            new = await once(port, post("/", asked, known, *said))
            assert new.json["result"]["status"]["state"] == "TASK_STATE_COMPLETED"
        fault = await once(port, post("/", rpc("tasks/get", {}), known, version))
        assert fault.json["error"]["data"]["reason"] == "METHOD_NOT_FOUND"
        rest = await once(port, get(f"/tasks/{task['id']}", known, version))
        assert rest.json["status"]["state"] == "completed"
        problem(await once(port, get("/tasks/nope", known, version)), "task-not-found")
        card = (await once(port, get("/extendedAgentCard", known, version))).json
        assert card["protocolVersion"] == "0.3.0"
        both = await once(port, get("/tasks", known, version, "A2A-Version: 1.0"))
        assert (both.status, both.reason) == (400, "VERSION_NOT_SUPPORTED")
        garbled = await once(port, get("/tasks?a=%ff", known, version))
        assert (garbled.status, garbled.reason) == (400, "INVALID_PARAMS")


@pytest.mark.req("CONF-49", "DRFT-05")
async def test_at_the_root_its_card_is_that_of_its_version(where: Where) -> None:
    async with doors(where, **ROOT) as (port, _):
        base = f"http://127.0.0.1:{port}"
        for path, tenant in ((CARD, {}), (f"/north{CARD}", {"tenant": "north"})):
            new = await told(port, path=path)
            assert names(new) == [*NEW, *DRAFTS]
            assert [door["url"] for door in new["supportedInterfaces"][-2:]] == [base, f"{base}/v1/"]
            card = await told(port, "0.3", path)
            assert card["protocolVersion"] == "0.3.0"
            assert card["supportedInterfaces"] == [
                {"url": base, "protocolBinding": "HTTP+JSON", **tenant},
                {"url": f"{base}/v1/", "protocolBinding": "JSONRPC", **tenant},
            ]
            assert (card["url"], card["preferredTransport"]) == (base, "HTTP+JSON")
        answer = await once(port, get(CARD, "A2A-Version: 0.3", "Origin: https://any.example"))
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["Vary"] == "A2A-Version"


@pytest.mark.req("CONF-49")
async def test_at_the_root_fixed_routes_come_before_the_drafts(where: Where) -> None:
    """A task may be called v1, and names that no tenant can have stay what they are."""
    async with doors(where, **ROOT) as (port, _):
        for path in ("/tasks/v1/pushNotificationConfigs", "/tasks/v1"):
            refused = await once(port, get(path))
            assert (refused.status, refused.reason) == (404, "TASK_NOT_FOUND")
        for path in ("/.well-known/v1/tasks", "/v1x", "/north/south/v1/tasks"):
            assert (await once(port, get(path))).reason == "PATH_NOT_FOUND"
        assert (await once(port, get("/healthz", "A2A-Version: 0.3"))).json == {"status": "alive"}


@pytest.mark.req("CONF-49", "OPER-05")
def test_at_the_root_0_3_must_be_off() -> None:
    message = "/v1 is where 0.3 is served; set legacy.enabled = false, or choose another path, such as /draft"
    assert message in refused_for({**ROOT, "legacy": {"enabled": True}})
    for tenants in ({}, {"tenants": ["draft", "north"], "default_tenant": "north"}):
        assert Settings(**ROOT, **tenants).gateway.draft_path == "/"
    assert "cannot be a tenant" in refused_for({**ROOT, "tenants": ["v1"]})
