"""The card over HTTP, as clients, caches, pages and proxies see it (spec: CARD, CACH, DOOR-05, CONF-77)."""

from __future__ import annotations

import hashlib
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.ports.authenticator import Caller
from tests.support.house import Address, reachable
from tests.support.http import SEND, get, house, once, port_of, post, wire
from tests.support.stage import Stage

CARD = "/.well-known/agent-card.json"
REQUIRED = {
    "name",
    "description",
    "supportedInterfaces",
    "version",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
}


def secret(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


AUTH = {
    "tokens": [
        {"owner": "ann", "hash": secret("ann-token")},
        {"owner": "root", "hash": secret("root-token"), "extended_card": True},
    ]
}


def extend(card: pb.AgentCard, caller: Caller) -> pb.AgentCard:
    card.skills.add(id="secret", name="Secret", description=f"For {caller.owner}.", tags=["test"])
    return card


def urls(card: dict[str, Any]) -> list[str]:
    return [door["url"] for door in card["supportedInterfaces"] if door["protocolVersion"] == "1.0"]


@pytest.mark.req("CARD-01", "CARD-02", "CARD-05", "CARD-06", "CARD-07", "CARD-10", "CACH-01", "CACH-02", "CACH-03")
async def test_the_card_is_at_its_well_known_path_for_everybody() -> None:
    async with house(Stage().agent, auth=AUTH) as server:
        answer = await once(port_of(server), get(CARD, "Origin: https://any.example"))
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Cache-Control"] == "public, max-age=60"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["Vary"] == "A2A-Version"
        assert {"ETag", "Last-Modified"} <= set(answer.headers)
        assert set(answer.json) >= REQUIRED
        assert [(door["protocolBinding"], door["protocolVersion"]) for door in answer.json["supportedInterfaces"]][
            :5
        ] == [
            ("GRPC", "1.0"),
            ("HTTP+JSON", "1.0"),
            ("JSONRPC", "1.0"),
            ("JSONRPC", "0.3"),
            ("HTTP+JSON", "0.3"),
        ]
        assert "ann" not in answer.body.decode()
        assert server.core.card.name == answer.json["name"]


@pytest.mark.req("CARD-03", "CARD-07")
async def test_every_door_of_the_card_leads_into_the_house() -> None:
    async with house(Stage().agent) as server:
        card = (await once(port_of(server), get(CARD))).json
        current = [door for door in card["supportedInterfaces"] if door["protocolVersion"] == "1.0"]
        by_binding = {door["protocolBinding"]: door["url"] for door in current}
        async with grpc.aio.insecure_channel(by_binding["GRPC"]) as channel:
            stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)
            assert not (await stub.ListTasks(pb.ListTasksRequest())).tasks
        rest, rpc = by_binding["HTTP+JSON"], by_binding["JSONRPC"]
        assert rest == f"http://127.0.0.1:{port_of(server)}"
        assert (await once(port_of(server), get(f"{rest}/tasks"))).json["tasks"] == []
        answer = await once(port_of(server), post(rpc, b'{"jsonrpc":"2.0","id":1,"method":"ListTasks"}'))
        assert answer.json["result"]["tasks"] == []


@pytest.mark.req("CARD-03")
async def test_a_closed_door_is_not_declared() -> None:
    async with house(Stage().agent, http="none") as server:
        assert {door.protocol_binding for door in server.card.supported_interfaces} == {"GRPC"}


@pytest.mark.req("CACH-02")
async def test_who_has_it_gets_nothing_but_the_news_that_it_is_the_same() -> None:
    async with house(Stage().agent) as server, wire(port_of(server)) as connection:
        first = await connection.ask(get(CARD))
        for field in (
            f"If-None-Match: {first.headers['ETag']}",
            f"If-Modified-Since: {first.headers['Last-Modified']}",
        ):
            for verb in ("GET", "HEAD"):
                answer = await connection.ask(get(CARD, field, verb=verb), head=verb == "HEAD")
                assert answer.status == 304
                for name in ("ETag", "Cache-Control", "Vary", "Last-Modified", "Access-Control-Allow-Origin"):
                    assert answer.headers[name] == first.headers[name]
                assert not {"Content-Type", "Content-Length", "Transfer-Encoding"} & set(answer.headers)
        assert (await connection.ask(get(CARD, 'If-None-Match: "x"'))).body == first.body


@pytest.mark.parametrize("accept", ["application/a2a+json", "text/html", "application/json;q=0"])
async def test_the_public_card_is_json_whoever_asks(accept: str) -> None:
    async with house(Stage().agent) as server:
        answer = await once(port_of(server), get(CARD, f"Accept: {accept}"))
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")


async def test_the_public_card_needs_no_version_and_no_right_credentials() -> None:
    async with house(Stage().agent, auth=AUTH, strict_version=True) as server:
        for field in ("Authorization: Bearer wrong", "A2A-Version: 1.0", "X-A: b"):
            assert (await once(port_of(server), get(CARD, field))).status == 200


async def test_a_tenant_has_its_card_at_its_own_path() -> None:
    """And is told to name itself at all doors, or it would be somebody else there."""
    async with house(Stage().agent, tenants=["north"]) as server:
        plain, theirs = [
            await once(port_of(server), get(f"{prefix}{CARD}", "A2A-Version: 1.0")) for prefix in ("", "/north")
        ]
        doors, found = [answer.json["supportedInterfaces"] for answer in (plain, theirs)]
        assert [door for door in found if door["protocolVersion"] == "1.0"] == [
            door | {"tenant": "north"} for door in doors if door["protocolVersion"] == "1.0"
        ]
        assert theirs.json | {"supportedInterfaces": doors} == plain.json
        assert theirs.headers["Access-Control-Allow-Origin"] == "*"


UNUSABLE = "must have at most 255 characters, all printable, the first of them no dot"


@pytest.mark.req("TENA-01")
async def test_what_can_be_no_tenant_has_no_card() -> None:
    async with house(Stage().agent) as server:
        for name in ("x" * 256, "a%07b"):
            refused = await once(port_of(server), get(f"/{name}{CARD}"))
            assert (refused.status, refused.reason) == (400, "INVALID_PARAMS")
            [violation] = next(filter(None, (of.get("fieldViolations") for of in refused.json["error"]["details"])))
            assert violation == {"field": "tenant", "description": UNUSABLE}


@pytest.mark.req("TENA-05", "CARD-03")
async def test_the_extended_card_of_a_tenant_names_its_doors() -> None:
    async with house(Stage(extended=extend).agent, auth=AUTH, tenants=["north"]) as server:
        answer = await once(port_of(server), get("/north/extendedAgentCard", "Authorization: Bearer root-token"))
    new = [door for door in answer.json["supportedInterfaces"] if door["protocolVersion"] == "1.0"]
    assert len(new) == 3
    assert {door["tenant"] for door in new} == {"north"}


@pytest.mark.req("CARD-11", "XCARD-01", "XCARD-02", "XCARD-05", "CARD-03")
async def test_the_extended_card_is_for_its_reader_alone() -> None:
    async with house(Stage(extended=extend).agent, auth=AUTH, public_url="https://public.example/a2a") as server:
        port = port_of(server)
        answer = await once(port, get("/extendedAgentCard", "Authorization: Bearer root-token"))
        assert answer.status == 200
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Content-Type"] == "application/a2a+json"
        assert not {"ETag", "Access-Control-Allow-Origin"} & set(answer.headers)
        assert answer.json["skills"][-1]["description"] == "For root."
        assert urls(answer.json)[1:] == ["https://public.example/a2a", "https://public.example/a2a/"]
        nobody = await once(port, get("/extendedAgentCard"))
        metadata = "https://public.example/.well-known/oauth-protected-resource/a2a"
        challenge = f'Bearer realm="a2a", resource_metadata="{metadata}"'
        assert (nobody.status, nobody.headers["WWW-Authenticate"]) == (401, challenge)
        assert (await once(port, get("/extendedAgentCard", "Authorization: Bearer ann-token"))).status == 403
        assert b"secret" not in (await once(port, get(CARD))).body.lower()


# -- where clients find us


@pytest.mark.req("DOOR-05", "CARD-07")
@pytest.mark.parametrize("url", ["https://public.example", "https://public.example/a2a", "https://public.example/a2a/"])
async def test_the_operator_knows_best(url: str) -> None:
    """Better than proxies, too."""
    fields = ("X-Forwarded-Proto: https", "X-Forwarded-Host: proxy.example")
    async with house(Stage().agent, public_url=url, gateway={"trusted_proxies": ["127.0.0.1"]}) as server:
        for more in ((), fields):
            card = (await once(port_of(server), get(CARD, *more))).json
            assert urls(card)[1:] == [url.rstrip("/"), url.rstrip("/") + "/"]
        assert server.card.supported_interfaces[1].url == url.rstrip("/")


@pytest.mark.req("DOOR-05")
async def test_then_a_trusted_proxy_and_nobody_else() -> None:
    fields = ("X-Forwarded-Proto: https", "X-Forwarded-Host: public.example", "X-Forwarded-Prefix: /a2a")
    forwarded = "Forwarded: for=192.0.2.1;proto=https;host=public.example"
    async with house(Stage().agent, gateway={"trusted_proxies": ["127.0.0.0/8"]}) as server:
        port = port_of(server)
        assert urls((await once(port, get(CARD, *fields))).json)[1] == "https://public.example"
        assert urls((await once(port, get(CARD, forwarded))).json)[1] == "https://public.example"
        plain = await once(port, get(CARD))
        assert urls(plain.json)[1] == f"http://127.0.0.1:{port}"
        tag = plain.headers["ETag"]
        assert (await once(port, get(CARD, forwarded, f"If-None-Match: {tag}"))).status == 200  # another card
        evil = ("X-Forwarded-Proto: https", "X-Forwarded-Host: evil.example/x?y")
        assert (await once(port, get(CARD, *evil))).json == plain.json
    async with house(Stage().agent) as server:
        for pairs in (fields, (forwarded,)):
            card = (await once(port_of(server), get(CARD, *pairs))).json
            assert urls(card)[1] == f"http://127.0.0.1:{port_of(server)}"


FAMILY = "Forwarded, X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Port, X-Forwarded-Proto"
DESCRIBED = "/openapi.json"


@pytest.mark.req("DOOR-05", "CACH-01")
@pytest.mark.parametrize("path", [CARD, f"/draft{CARD}", "/.well-known/agent.json", DESCRIBED])
@pytest.mark.parametrize("believed", [False, True])
async def test_no_cache_gives_others_what_a_client_has_said_of_itself(path: str, *, believed: bool) -> None:
    """A proxy passes on what it does not know; whatever an answer depends on is in its Vary."""
    settings = {"trusted_proxies": ["127.0.0.1"], "forwarded_prefix": believed, "profiles": ["draft"]}
    proxied = ("X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: public.example")
    async with house(Stage().agent, gateway=settings) as server:
        plain = await once(port_of(server), get(path, *proxied))
        odd = await once(port_of(server), get(path, *proxied, "X-Forwarded-Prefix: /mallory"))
    assert b"https://public.example" in plain.body
    assert (b"https://public.example/mallory" in odd.body) is believed
    for answer in (plain, odd):
        vary = answer.headers["Vary"].removeprefix("A2A-Version, ")
        assert vary == (f"{FAMILY}, X-Forwarded-Prefix" if believed else FAMILY)
        assert answer.headers["Cache-Control"] == "public, max-age=60"


@pytest.mark.req("CACH-01")
@pytest.mark.parametrize("settings", [{}, {"public_url": "https://a.example", "gateway": {"trusted_proxies": ["::1"]}}])
async def test_what_depends_on_no_proxy_is_cached_for_all(settings: dict[str, Any]) -> None:
    async with house(Stage().agent, **settings) as server:
        assert (await once(port_of(server), get(CARD))).headers["Vary"] == "A2A-Version"
        assert "Vary" not in (await once(port_of(server), get(DESCRIBED))).headers


@pytest.mark.req("CARD-03")
async def test_a_wildcard_is_nowhere_to_go_to() -> None:
    async with house(Stage().agent, http="0.0.0.0:0", grpc="0.0.0.0:0", anonymous_beyond_loopback=True) as server:
        card = (await once(port_of(server), get(CARD))).json
        assert not any("0.0.0.0" in url or "[::]" in url for url in urls(card))  # noqa: S104 - not listened on here
        assert (await once(port_of(server), post("/message:send", SEND))).status == 200
    assert "[" not in str(reachable(Address("::", 1)))


@pytest.mark.req("CARD-07")
async def test_an_address_of_ipv6_is_written_as_one() -> None:
    async with house(Stage().agent, http="[::1]:0") as server:
        answer = await once(port_of(server), get(CARD), host="::1")
        assert urls(answer.json)[1] == f"http://[::1]:{port_of(server)}"
