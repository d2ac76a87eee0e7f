"""The card over HTTP for clients of each version (spec: LCRD, CARD, CACH, VERS; CONF-42, CONF-68, CONF-77).

Everything is asked of a server, and of a gateway that stands alone in front of one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import quote

import httpx
import pytest
from a2a.client.card_resolver import A2ACardResolver, parse_agent_card
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.compat.v0_3.types import AgentCard as OldCard

from a2a_server.serve import relaying
from a2a_server.settings import Settings
from tests.support.http import get, house, once, port_of, wire
from tests.support.stage import Stage

CARD = "/.well-known/agent-card.json"
TOKEN = "sha256:" + hashlib.sha256(b"t").hexdigest()
AUTH = {"tokens": [{"owner": "ann", "hash": TOKEN}], "api_keys": [{"owner": "ben", "hash": TOKEN}]}
OLD_MEMBERS = {
    "protocolVersion",
    "url",
    "preferredTransport",
    "additionalInterfaces",
    "supportsAuthenticatedExtendedCard",
    "security",
}
NEW_MEMBERS = {"supportedInterfaces", "securityRequirements"}

Where = Literal["near", "far"]


@asynccontextmanager
async def cards(where: Where, **settings: Any) -> AsyncIterator[int]:
    """The port of a door with cards; the gateway's settings are those of the server."""
    auth = settings.pop("auth", AUTH)
    async with house(Stage().agent, auth=auth, **settings) as server:
        if where == "near":
            yield port_of(server)
            return
        alone = Settings(http="127.0.0.1:0", upstream={"addresses": [str(server.grpc)]}, **settings)
        async with relaying(alone) as address:
            yield address.port


@pytest.fixture(params=get_args(Where))
def where(request: pytest.FixtureRequest) -> Where:
    place: Where = request.param
    return place


async def told(port: int, *fields: str, path: str = CARD) -> dict[str, Any]:
    answer = await once(port, get(path, *fields))
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "application/json"
    found: dict[str, Any] = answer.json
    return found


def holds(whole: Any, part: Any) -> bool:
    """Whether every member of the part, however deep, is in the whole."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and holds(whole[name], part[name]) for name in part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(holds, whole, part))
    return bool(whole == part)


@pytest.mark.req("LCRD-01", "LCRD-02", "LCRD-03", "LCRD-04", "VERS-01", "VERS-06")
@pytest.mark.parametrize("how", [("A2A-Version: 0.3",), ("A2A-Version: 0.3.0",), ("a2a-version:  0.3.2 ",), ()])
async def test_clients_of_0_3_get_their_card(where: Where, how: tuple[str, ...]) -> None:
    async with cards(where) as port:
        card = await told(port, *how, path=CARD if how else f"{CARD}?A2A-Version=0.3")
    base = f"http://127.0.0.1:{port}"
    assert not NEW_MEMBERS & set(card)
    assert (card["protocolVersion"], card["url"], card["preferredTransport"]) == ("0.3.0", base + "/", "JSONRPC")
    doors = {door["url"]: door["transport"] for door in card["additionalInterfaces"]}
    assert len(doors) == len(card["additionalInterfaces"])
    assert doors.items() >= {base + "/": "JSONRPC", base: "HTTP+JSON"}.items()
    assert card["capabilities"] == {"streaming": True, "pushNotifications": True, "stateTransitionHistory": False}
    assert card["supportsAuthenticatedExtendedCard"] is False
    assert card["securitySchemes"] == {
        "bearer": {"type": "http", "scheme": "Bearer"},
        "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    }
    assert card["security"] == [{"bearer": []}, {"apiKey": []}]
    assert {"name", "description", "version", "defaultInputModes", "defaultOutputModes", "skills"} <= set(card)
    read = OldCard.model_validate(card)
    assert (read.name, read.url, len(read.skills)) == ("Stage", base + "/", 7)


@pytest.mark.req("CARD-01", "CARD-02", "CARD-06", "VERS-05")
@pytest.mark.parametrize("version", ["1.0", "1.0.1"])
async def test_clients_of_1_0_get_theirs_and_nothing_else(where: Where, version: str) -> None:
    async with cards(where) as port:
        card = await told(port, f"A2A-Version: {version}")
    assert not OLD_MEMBERS & set(card)
    assert "stateTransitionHistory" not in card["capabilities"]
    assert card["securitySchemes"]["bearer"] == {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
    versions = [door["protocolVersion"] for door in card["supportedInterfaces"]]
    assert versions == sorted(versions, reverse=True)
    assert set(versions) == {"1.0", "0.3"}


@pytest.mark.req("LCRD-01", "CARD-01")
async def test_who_asks_for_no_version_can_read_it_as_either(where: Where) -> None:
    async with cards(where) as port:
        card, new, old = [await told(port, *fields) for fields in ((), ("A2A-Version: 1.0",), ("A2A-Version: 0.3",))]
        assert await told(port, "A2A-Version: ") == card
    assert holds(card, new)
    assert holds(card, old)
    assert set(card) == set(new) | set(old)
    assert OldCard.model_validate(card) == OldCard.model_validate(old)
    assert parse_agent_card(dict(card)) == parse_agent_card(new)


@pytest.mark.req("CACH-01", "CACH-02", "CACH-03")
async def test_each_form_is_kept_by_itself(where: Where) -> None:
    fields = ("", "A2A-Version: 1.0", "A2A-Version: 0.3")
    async with cards(where) as port, wire(port) as connection:
        firsts = [await connection.ask(get(CARD, *filter(None, [field]))) for field in fields]
        assert len({first.headers["ETag"] for first in firsts}) == 3
        for field, first in zip(fields, firsts, strict=True):
            own = tuple(filter(None, [field]))
            head = await connection.ask(get(CARD, *own, verb="HEAD"), head=True)
            assert (head.status, head.headers["Content-Length"]) == (200, str(len(first.body)))
            for other in firsts:
                known = f"If-None-Match: {other.headers['ETag']}"
                again = await connection.ask(get(CARD, *own, known))
                assert (again.status, again.body) == ((304, b"") if other is first else (200, first.body))
                for name in ("ETag", "Cache-Control", "Vary", "Last-Modified", "Access-Control-Allow-Origin"):
                    assert again.headers[name] == head.headers[name] == first.headers[name]
            assert first.headers["Vary"] == "A2A-Version"
            assert first.headers["Access-Control-Allow-Origin"] == "*"
            assert first.headers["Cache-Control"] == "public, max-age=60"
            since = f"If-Modified-Since: {first.headers['Last-Modified']}"
            assert (await connection.ask(get(CARD, *own, since))).status == 304


@pytest.mark.req("VERS-02", "VERS-08", "VERS-09")
@pytest.mark.parametrize(
    ("fields", "query", "requested"),
    [
        (("A2A-Version: 7.0",), "", "7.0"),
        (("A2A-Version: 1",), "", "1"),
        (("A2A-Version: 0.2.5",), "", "0.2.5"),
        (("A2A-Version: 1.0", "A2A-Version: 0.3"), "", "1.0,0.3"),
        (("A2A-Version: 1.0",), "?A2A-Version=0.3", "1.0,0.3"),
        ((), "?A2A-Version=2.0", "2.0"),
    ],
)
async def test_other_versions_are_refused(where: Where, fields: tuple[str, ...], query: str, requested: str) -> None:
    async with cards(where) as port:
        answer = await once(port, get(CARD + query, *fields, "Origin: https://any.example"))
    assert answer.status == 400
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.json["error"] == {
        "code": 400,
        "status": "FAILED_PRECONDITION",
        "message": f'This card is available for A2A 1.0 or 0.3; the request asks for "{requested}".',
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "VERSION_NOT_SUPPORTED",
                "domain": "a2a-protocol.org",
                "metadata": {"requestedVersion": requested, "supportedVersions": "1.0,0.3"},
            }
        ],
    }


@pytest.mark.req("CARD-03", "VERS-02")
async def test_without_0_3_the_card_knows_nothing_of_it(where: Where) -> None:
    async with cards(where, legacy={"enabled": False}) as port:
        for fields in ((), ("A2A-Version: 1.0",)):
            card = await told(port, *fields)
            assert not OLD_MEMBERS & set(card)
            assert {door["protocolVersion"] for door in card["supportedInterfaces"]} == {"1.0"}
        refused = await once(port, get(CARD, "A2A-Version: 0.3"))
        assert (refused.status, refused.reason) == (400, "VERSION_NOT_SUPPORTED")
        assert refused.json["error"]["details"][0]["metadata"]["supportedVersions"] == "1.0"


@pytest.mark.parametrize(("form", "absent"), [("1.0", OLD_MEMBERS), ("0.3", NEW_MEMBERS)])
async def test_the_operator_may_choose_one_form_for_all_who_ask_for_none(
    where: Where, form: str, absent: set[str]
) -> None:
    async with cards(where, gateway={"card_form": form}) as port:
        assert not absent & set(await told(port))
        assert not OLD_MEMBERS & set(await told(port, "A2A-Version: 1.0"))
        assert not NEW_MEMBERS & set(await told(port, "A2A-Version: 0.3"))


@pytest.mark.req("DOOR-05", "LCRD-04")
async def test_behind_a_proxy_its_url_is_theirs_too(where: Where) -> None:
    async with cards(where, public_url="https://public.example/a2a/") as port:
        card = await told(port, "A2A-Version: 0.3")
    assert (card["url"], card["preferredTransport"]) == ("https://public.example/a2a/", "JSONRPC")
    assert {"url": "https://public.example/a2a", "transport": "HTTP+JSON"} in card["additionalInterfaces"]


async def test_a_tenants_card_has_all_forms(where: Where) -> None:
    async with cards(where, auth={}, tenants=["north"]) as port:
        for fields in ((), ("A2A-Version: 1.0",), ("A2A-Version: 0.3",)):
            plain, theirs = await told(port, *fields), await told(port, *fields, path=f"/north{CARD}")
            assert {name for name in plain if plain[name] != theirs[name]} == {
                name for name in ("url", "additionalInterfaces", "supportedInterfaces") if name in plain
            }
            assert plain.keys() == theirs.keys()


@pytest.mark.req("TENA-05", "LCRD-02")
@pytest.mark.parametrize("name", ["north", "n&d"])
async def test_a_tenant_is_in_the_urls_of_0_3_and_nowhere_without_one(where: Where, name: str) -> None:
    """Over gRPC 0.3 cannot name one; that door would lead into somebody else's space."""
    there = quote(name, safe="")
    async with cards(where, auth={}, tenants=[name]) as port:
        card = await told(port, "A2A-Version: 0.3", path=f"/{there}{CARD}")
        both = await told(port, path=f"/{there}{CARD}")
        base = f"http://127.0.0.1:{port}/{there}"
        assert (card["url"], card["preferredTransport"]) == (f"{base}/", "JSONRPC")
        assert card["additionalInterfaces"] == [
            {"url": f"{base}/", "transport": "JSONRPC"},
            {"url": base, "transport": "HTTP+JSON"},
        ]
        assert both["additionalInterfaces"] == card["additionalInterfaces"]
        new = [door for door in both["supportedInterfaces"] if door["protocolVersion"] == "1.0"]
        assert {door["protocolBinding"] for door in new} == {"GRPC", "HTTP+JSON", "JSONRPC"}
        assert {door["tenant"] for door in new} == {name}


async def test_who_is_no_tenant_of_this_server_finds_no_door_of_0_3(where: Where) -> None:
    async with cards(where, auth={}) as port:
        refused = await once(port, get(f"/anybody{CARD}", "A2A-Version: 0.3"))
        assert (refused.status, refused.reason) == (400, "VERSION_NOT_SUPPORTED")
        assert not OLD_MEMBERS & set(await told(port, path=f"/anybody{CARD}"))


@pytest.mark.parametrize(("tenants", "doors"), [(["north"], ["/north/", "/north"]), ([], [])])
async def test_a_tenant_of_a_server_elsewhere_is_in_the_url(
    tmp_path: Path, tenants: list[str], doors: list[str]
) -> None:
    """If the gateway knows it; with no other way to say it, 0.3 could call nobody."""
    theirs = {"url": "a.example:1", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "north"}
    lists: dict[str, Any] = {"defaultInputModes": [], "defaultOutputModes": [], "skills": []}
    filed = {"name": "Filed", "description": "From a file.", "version": "7", "capabilities": {}, **lists}
    (tmp_path / "card.json").write_text(json.dumps({**filed, "supportedInterfaces": [theirs]}))
    options = {"card": str(tmp_path / "card.json")}
    alone = Settings(http="127.0.0.1:0", upstream={"addresses": ["127.0.0.1:1"]}, gateway=options, tenants=tenants)
    async with relaying(alone) as address:
        found = (await told(address.port))["supportedInterfaces"]
        answer = await once(address.port, get(CARD, "A2A-Version: 0.3"))
    old = [door["url"] for door in found if door["protocolVersion"] == "0.3"]
    assert old == [f"http://{address}{path}" for path in doors]
    assert answer.status == (200 if doors else 400)


# -- the official SDK


@pytest.mark.req("LCRD-01", "CARD-04")
@pytest.mark.parametrize("bindings", [["JSONRPC"], ["HTTP+JSON"], []])
async def test_the_official_client_finds_its_way_from_any_form(where: Where, bindings: list[str]) -> None:
    """It chooses the newest version that it finds."""
    async with cards(where) as port:
        base = f"http://127.0.0.1:{port}"
        for fields, old in (({}, False), ({"A2A-Version": "1.0"}, False), ({"A2A-Version": "0.3"}, True)):
            async with httpx.AsyncClient(headers=fields) as http:
                card = await A2ACardResolver(http, base).get_agent_card()
                config = ClientConfig(httpx_client=http, supported_protocol_bindings=list(bindings))
                client: Any = ClientFactory(config).create(card)
            transport = client._transport  # noqa: SLF001 - nobody else knows
            assert transport.url.rstrip("/") == base
            assert type(transport).__name__.startswith("Compat") is old
