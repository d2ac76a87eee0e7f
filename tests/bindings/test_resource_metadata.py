"""What clients find out about tokens: the card in both versions, OpenAPI, and Protected Resource Metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.callers import House, bearer, house, trusting
from tests.support.issuers import issuing

CARD = "/.well-known/agent-card.json"
PATH = "/.well-known/oauth-protected-resource"
URLS = {
    "authorization_url": "https://id.example/login",
    "token_url": "https://id.example/token",
    "device_authorization_url": "https://id.example/device",
}


async def shown(
    here: House, path: str, *, far: bool = False, status: int = 200, headers: Mapping[str, str] | None = None
) -> Any:
    async with here.session.get((here.gateway if far else here.base) + path, headers=headers) as answer:
        assert answer.status == status
        return await answer.json(content_type=None)


@pytest.mark.req("GATE-06")
async def test_the_metadata_is_where_a_challenge_says() -> None:
    async with issuing() as idp, house(gateway=True, auth={"issuers": [trusting(idp, card_scopes=["a2a:*"])]}) as here:
        for base in (here.base, here.gateway):
            async with here.session.get(f"{base}/tasks") as answer:
                url = answer.headers["WWW-Authenticate"].partition('resource_metadata="')[2].partition('"')[0]
            assert url == base + PATH
            async with here.session.get(url) as answer:
                assert answer.headers["Content-Type"] == "application/json"
                assert answer.headers["Access-Control-Allow-Origin"] == "*"
                assert answer.headers["Cache-Control"].startswith("public, max-age=")
                assert await answer.json() == {
                    "resource": base,
                    "authorization_servers": [idp.url],
                    "scopes_supported": ["a2a:*"],
                    "bearer_methods_supported": ["header"],
                    "resource_name": "Demo",
                }


@pytest.mark.req("GATE-06")
async def test_the_metadata_of_a_url_with_a_path() -> None:
    url = "https://agents.example/a2a/"
    async with issuing() as idp, house(public_url=url, auth={"issuers": [trusting(idp)]}) as here:
        for path in (PATH, f"{PATH}/a2a"):
            assert (await shown(here, path))["resource"] == "https://agents.example/a2a"
        await shown(here, f"{PATH}/other", status=404)
        for door in ("grpc", "rest"):
            assert f'"https://agents.example{PATH}/a2a"' in (await here.told(door, {})).challenge


@pytest.mark.req("DOOR-05", "GATE-06")
async def test_a_proxy_says_by_which_url_clients_come() -> None:
    told = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Host": "a.example", "X-Forwarded-Proto": "https"}
    relay = {"gateway": {"trusted_proxies": ["127.0.0.1"]}}
    async with issuing() as idp, house(gateway=True, relay=relay, auth={"issuers": [trusting(idp)]}) as here:
        assert (await shown(here, PATH, far=True, headers=told))["resource"] == "https://a.example"
        assert f'"https://a.example{PATH}"' in (await here.told("far-rest", told)).challenge


async def test_without_tokens_there_is_no_metadata() -> None:
    async with house(gateway=True) as here:
        for far in (False, True):
            assert "does not use bearer tokens" in (await shown(here, PATH, far=far, status=404))["error"]["message"]
    keys = {"api_keys": [{"owner": "ann", "hash": "sha256:" + "0" * 64}]}
    async with house(auth=keys) as here:
        await shown(here, PATH, status=404)
        assert (await here.told("rest", {})).challenge == 'ApiKey header="x-api-key"'


async def test_a_server_without_http_lets_its_gateway_name_the_metadata() -> None:
    async with issuing() as idp, house(gateway=True, http="none", auth={"issuers": [trusting(idp)]}) as here:
        assert (await here.told("grpc", {})).challenge == 'Bearer realm="a2a"'
        told = await here.told("far-jsonrpc", bearer("x"))
        url = f"{here.gateway}{PATH}"
        assert told.challenge == f'Bearer realm="a2a", error="invalid_token", resource_metadata="{url}"'
        assert (await shown(here, PATH, far=True))["authorization_servers"] == [idp.url]


SCOPES = {"a2a:*": ""}


@pytest.mark.req("GATE-02", "AUTN-01")
@pytest.mark.parametrize(
    ("chosen", "name", "new", "old"),
    [
        (
            {},
            "oidc",
            {"openIdConnectSecurityScheme": {"openIdConnectUrl": "{issuer}/.well-known/openid-configuration"}},
            {"type": "openIdConnect", "openIdConnectUrl": "{issuer}/.well-known/openid-configuration"},
        ),
        (
            {"name": "corp"},
            "corp",
            {"openIdConnectSecurityScheme": {"openIdConnectUrl": "{issuer}/.well-known/openid-configuration"}},
            {"type": "openIdConnect", "openIdConnectUrl": "{issuer}/.well-known/openid-configuration"},
        ),
        (
            {"jwks_url": "{issuer}/jwks"},
            "bearer",
            {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
            {"type": "http", "scheme": "Bearer", "bearerFormat": "JWT"},
        ),
        (
            {"flow": "clientCredentials", **URLS},
            "oauth2",
            {"flows": {"clientCredentials": {"tokenUrl": "https://id.example/token", "scopes": SCOPES}}},
            {"flows": {"clientCredentials": {"tokenUrl": "https://id.example/token", "scopes": SCOPES}}},
        ),
        (
            {"flow": "authorizationCode", **URLS},
            "oauth2",
            {
                "flows": {
                    "authorizationCode": {
                        "authorizationUrl": "https://id.example/login",
                        "tokenUrl": "https://id.example/token",
                        "scopes": SCOPES,
                        "pkceRequired": True,
                    }
                }
            },
            {
                "flows": {
                    "authorizationCode": {
                        "authorizationUrl": "https://id.example/login",
                        "tokenUrl": "https://id.example/token",
                        "scopes": SCOPES,
                    }
                }
            },
        ),
        (
            {"flow": "deviceCode", **URLS},
            "oauth2",
            {
                "flows": {
                    "deviceCode": {
                        "deviceAuthorizationUrl": "https://id.example/device",
                        "tokenUrl": "https://id.example/token",
                        "scopes": SCOPES,
                    }
                }
            },
            {"flows": {}},
        ),
    ],
)
async def test_the_card_says_how_to_get_a_token(
    chosen: dict[str, Any], name: str, new: dict[str, Any], old: dict[str, Any]
) -> None:
    async with issuing() as idp:
        filled = {key: value.replace("{issuer}", idp.url) for key, value in chosen.items()}
        if name == "oauth2":
            metadata = f"{idp.url}/.well-known/oauth-authorization-server"
            new = {"oauth2SecurityScheme": {**new, "oauth2MetadataUrl": metadata}}
            old = {"type": "oauth2", "oauth2MetadataUrl": metadata, **old}
        else:
            new, old = (_filled(each, idp.url) for each in (new, old))
        async with house(gateway=True, auth={"issuers": [trusting(idp, card_scopes=["a2a:*"], **filled)]}) as here:
            for far in (False, True):
                card = await shown(here, CARD, far=far, headers={"A2A-Version": "1.0"})
                assert card["securitySchemes"] == {name: new}
                assert card["securityRequirements"] == [{"schemes": {name: {"list": ["a2a:*"]}}}]
                card = await shown(here, CARD, far=far, headers={"A2A-Version": "0.3"})
                assert card["securitySchemes"] == {name: old}
                assert card["security"] == [{name: ["a2a:*"]}]
            described = await shown(here, "/openapi.json")
            assert described["security"] == [{name: ["a2a:*"]}]
            assert described["components"]["securitySchemes"][name]["type"] == old["type"]


def _filled(value: Any, issuer: str) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, issuer) for key, item in value.items()}
    return value.replace("{issuer}", issuer) if isinstance(value, str) else value


@pytest.mark.req("AUTN-04", "GATE-02")
async def test_several_kinds_of_callers_are_alternatives() -> None:
    async with issuing() as one, issuing() as two:
        auth = {
            "tokens": [{"owner": "ann", "hash": "sha256:" + "0" * 64}],
            "issuers": [trusting(one, name="one"), trusting(two, name="two")],
        }
        async with house(auth=auth) as here:
            card = await shown(here, CARD, headers={"A2A-Version": "1.0"})
            assert list(card["securitySchemes"]) == ["bearer", "one", "two"]
            assert card["securityRequirements"] == [{"schemes": {name: {}}} for name in ("bearer", "one", "two")]
            assert (await shown(here, PATH))["authorization_servers"] == [one.url, two.url]
            assert (await here.told("rest", {})).challenge.count("Bearer") == 1
