"""The draft's card: its own doors, and the members of 0.3 that it deprecates (spec: DRFT-05, CONF-40, -41, -47)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.door_draft import WITH_DRAFT, checked, draft_serving
from tests.support.door_old import WHERE, Where
from tests.support.stage import Stage
from tests.support.world import ByHeader

CARD = "/.well-known/agent-card.json"


@pytest.mark.req("DRFT-05")
@pytest.mark.parametrize("where", WHERE)
async def test_all_of_it(where: Where) -> None:
    stage = Stage(documentation_url="https://docs.example", extended=lambda card, _: card)
    parts = {"authenticator": ByHeader(), "push_notifications": True}
    async with draft_serving(stage.agent, where, **parts) as (_, client):
        answer = await client.rest("GET", CARD)
        base = client.base
        card = answer.json
        extensions = card["capabilities"].pop("extensions")
        skills = card.pop("skills")
        assert card == {
            "protocolVersion": "0.3.0",
            "name": "Stage",
            "description": "Plays any part.",
            "version": "1.2.3",
            "documentationUrl": "https://docs.example",
            "supportedInterfaces": [
                {"url": base, "protocolBinding": "HTTP+JSON"},
                {"url": f"{base}/", "protocolBinding": "JSONRPC"},
            ],
            "url": base,
            "preferredTransport": "HTTP+JSON",
            "additionalInterfaces": [
                {"url": base, "transport": "HTTP+JSON", "protocolBinding": "HTTP+JSON"},
                {"url": f"{base}/", "transport": "JSONRPC", "protocolBinding": "JSONRPC"},
            ],
            "capabilities": {"streaming": True, "pushNotifications": True, "stateTransitionHistory": False},
            "supportsExtendedAgentCard": True,
            "securitySchemes": {"user": {"apiKeySecurityScheme": {"location": "header", "name": "x-user"}}},
            "security": [{"schemes": {"user": {}}}],
            "defaultInputModes": ["text/plain", "application/json"],
            "defaultOutputModes": ["text/plain"],
        }
    assert next(iter(card)) == "protocolVersion"
    assert [extension["uri"] for extension in extensions] == ["urn:a2a-server:replay:v1"]
    assert [skill["id"] for skill in skills] == ["echo", "ask", "hold", "bare", "fail", "chat", "maybe"]
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.req("DRFT-05", "CACH-01", "CACH-02")
async def test_it_may_be_kept_and_read_by_any_page() -> None:
    async with draft_serving(Stage().agent) as (_, client):
        for path in (CARD, f"/north{CARD}"):
            answer = await client.rest("GET", path, origin="https://any.example")
            assert answer.status == 200
            assert answer.headers["Cache-Control"] == "public, max-age=60"
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
            assert answer.json["supportsExtendedAgentCard"] is False
            headers = {"If-None-Match": answer.headers["ETag"]}
            async with client.session.get(client.base + path, headers=headers) as again:
                assert (again.status, await again.read()) == (304, b"")
        problem = await client.rest("GET", CARD, a2a_version="1.0", origin="https://any.example")
        assert checked(problem.json, 400)["supportedVersions"] == ["0.3"]
        assert problem.headers["Access-Control-Allow-Origin"] == "*"
        other = await client.rest("GET", "/v1/tasks", origin="https://any.example")
        assert "Access-Control-Allow-Origin" not in other.headers


@pytest.mark.req("DRFT-05", "DOOR-05")
async def test_its_doors_are_where_proxies_and_paths_put_them() -> None:
    options = replace(WITH_DRAFT, draft_path="/a2a/2025-12", trusted_proxies=("127.0.0.1",))
    async with draft_serving(Stage().agent, http_options=options) as (_, client):
        card = await client.told("GET", CARD, x_forwarded_proto="https", x_forwarded_host="agents.example")
        assert [door["url"] for door in card["supportedInterfaces"]] == [
            "https://agents.example/a2a/2025-12",
            "https://agents.example/a2a/2025-12/",
        ]
        assert (await client.told("GET", "/v1/tasks"))["tasks"] == []
        assert (await client.call("ListTasks"))["tasks"] == []
        origin = {"Origin": "https://any.example"}
        async with client.session.get(f"{client.base}{CARD}", headers=origin) as response:
            assert response.headers["Access-Control-Allow-Origin"] == "*"
