"""The settings of issuers: presets, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from a2a_server.settings import Settings, SettingsError, load

PLAIN = {"issuer": "https://id.example", "audiences": ["https://agent.example"]}
ASKED = {"url": "https://id.example/introspect", "client_id": "a2ad", "client_secret": "hunter2"}


def refusal(monkeypatch: pytest.MonkeyPatch, **lists: Any) -> str:
    for name, value in lists.items():
        monkeypatch.setenv(f"A2A_AUTH__{name.upper()}", value if isinstance(value, str) else json.dumps(value))
    with pytest.raises(SettingsError) as caught:
        load()
    return str(caught.value)


@pytest.mark.req("GATE-01", "AUTN-03")
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"audiences": []}, "audiences is missing"),
        ({"audiences": "a", "algorithms": ["HS256"]}, "auth.issuers.0.algorithms.0 = 'HS256'"),
        ({"algorithms": ["none"]}, "auth.issuers.0.algorithms.0 = 'none'"),
        ({"algorithms": []}, "algorithms must name at least one"),
        ({"issuer": ""}, "auth.issuers.0.issuer"),
        ({"issuer": "http://id.example"}, "must be an https URL, not http"),
        ({"issuer": "https://127.0.0.1:5000"}, "127.0.0.1 is a loopback one; see allow_networks, allow_loopback"),
        ({"issuer": "http://localhost:5000"}, "this machine"),
        ({"issuer": "https://10.0.0.7"}, "10.0.0.7 is a private one"),
        ({"issuer": "id.example"}, "must be an absolute https URL"),
        ({"issuer": "id.example", "jwks_url": "http://id.example/jwks"}, "jwks_url = 'http://id.example/jwks'"),
        ({"leeway": 301}, "auth.issuers.0.leeway"),
        ({"preset": "kerberos"}, "auth.issuers.0.preset = 'kerberos'"),
        ({"colour": "red"}, "auth.issuers.0.colour"),
        ({"name": "a b"}, "auth.issuers.0.name"),
        ({"flow": "clientCredentials"}, "the flow clientCredentials needs token_url"),
        ({"flow": "deviceCode", "token_url": "x"}, "needs device_authorization_url"),
        ({"flow": "authorizationCode", "token_url": "x"}, "needs authorization_url"),
        ({"trust": "/nowhere.pem"}, "cannot be read"),
    ],
)
def test_what_cannot_work_stops_the_start(changed: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told in refusal(monkeypatch, issuers=[PLAIN | changed])


@pytest.mark.parametrize(
    ("preset", "told"),
    [
        ({"preset": "entra"}, "the preset entra needs tenant_id"),
        ({"preset": "auth0"}, "the preset auth0 needs domain"),
        ({"preset": "okta"}, "the preset okta needs domain"),
        ({"preset": "cognito"}, "the preset cognito needs user_pool_id"),
        ({"preset": "keycloak"}, "the preset keycloak needs issuer"),
        ({"preset": "oidc"}, "the preset oidc needs issuer"),
        ({}, "auth.issuers.0.issuer = {'audiences': ['x']} (environment A2A_AUTH__ISSUERS): is missing"),
    ],
)
def test_presets_say_what_they_need(preset: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told in refusal(monkeypatch, issuers=[{"audiences": ["x"], **preset}])


@pytest.mark.req("GATE-11")
@pytest.mark.parametrize(
    ("given", "issuer", "token_url"),
    [
        ({"preset": "oidc", "issuer": "https://id.example/a/"}, "https://id.example/a/", ""),
        (
            {"preset": "keycloak", "issuer": "https://kc.example/realms/main"},
            "https://kc.example/realms/main",
            "https://kc.example/realms/main/protocol/openid-connect/token",
        ),
        (
            {"preset": "entra", "tenant_id": "0a1b"},
            "https://login.microsoftonline.com/0a1b/v2.0",
            "https://login.microsoftonline.com/0a1b/oauth2/v2.0/token",
        ),
        (
            {"preset": "auth0", "domain": "x.eu.auth0.com"},
            "https://x.eu.auth0.com/",
            "https://x.eu.auth0.com/oauth/token",
        ),
        (
            {"preset": "okta", "domain": "x.okta.com"},
            "https://x.okta.com/oauth2/default",
            "https://x.okta.com/oauth2/default/v1/token",
        ),
        (
            {"preset": "okta", "domain": "x.okta.com", "authorization_server": "aus9"},
            "https://x.okta.com/oauth2/aus9",
            "https://x.okta.com/oauth2/aus9/v1/token",
        ),
        (
            {"preset": "cognito", "user_pool_id": "eu-west-1_Ab3"},
            "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Ab3",
            "",
        ),
        ({"preset": "google"}, "https://accounts.google.com", "https://oauth2.googleapis.com/token"),
    ],
)
def test_presets_fill_in_what_is_known(given: dict[str, Any], issuer: str, token_url: str) -> None:
    (made,) = Settings(auth={"issuers": [{"audiences": ["x"], **given}]}).auth.issuers
    assert (made.issuer, made.token_url) == (issuer, token_url)


def test_what_is_given_counts_more_than_a_preset() -> None:
    given = {
        "preset": "entra",
        "tenant_id": "t",
        "audiences": ["x"],
        "scope_claims": ["roles"],
        "issuer": "https://x.y",
    }
    (made,) = Settings(auth={"issuers": [given]}).auth.issuers
    assert (made.scope_claims, made.issuer) == (("roles",), "https://x.y")
    assert made.issuer_aliases == ("https://sts.windows.net/t/",)


def test_presets_of_providers_whose_tokens_differ() -> None:
    listed = [
        {"preset": "cognito", "user_pool_id": "eu-west-1_Ab3", "audiences": ["client"], "name": "a"},
        {"preset": "keycloak", "issuer": "https://kc.example/realms/main", "audiences": ["x"], "name": "b"},
        {"preset": "google", "audiences": ["x"], "name": "c"},
    ]
    cognito, keycloak, google = Settings(auth={"issuers": listed}).auth.issuers
    assert (cognito.audience_claim, cognito.required_claims) == ("client_id", {"token_use": ("access",)})
    assert keycloak.scope_claims == ("scope", "realm_access.roles")
    assert google.issuer_aliases == ("accounts.google.com",)


def test_several_issuers_need_names(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "several issuers need a `name` each, all of them different"
    assert told in refusal(monkeypatch, issuers=[PLAIN, PLAIN])
    assert told in refusal(monkeypatch, issuers=[PLAIN | {"name": "a"}, PLAIN | {"name": "a"}])
    assert told in refusal(monkeypatch, issuers=[PLAIN | {"name": "a"}], introspection=[ASKED])


def test_the_environment_spells_them_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "must be a JSON array such as" in refusal(monkeypatch, issuers="https://id.example")


@pytest.mark.req("SECR-03")
def test_a_client_secret_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ({"url": "http://id.example"}, {"cache": -1}, {"more": 1}, {"client_id": None}):
        assert "hunter2" not in refusal(monkeypatch, introspection=[ASKED | wrong])
    told = refusal(monkeypatch, introspection=[{name: ASKED[name] for name in ("url", "client_secret")}])
    assert "auth.introspection.0.client_id (environment A2A_AUTH__INTROSPECTION): is missing" in told
    assert "hunter2" not in told
    assert "hunter2" not in refusal(monkeypatch, introspection=json.dumps(ASKED) + "x")


def test_a_client_secret_can_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    settings = Settings(auth={"introspection": [ASKED | {"client_secret": f"file:{tmp_path}/secret"}]})
    assert settings.auth.introspection[0].client_secret.get_secret_value() == "hunter2"


def test_callers_of_issuers_may_come_from_other_machines() -> None:
    assert Settings(grpc="0.0.0.0:50051", http="none", auth={"issuers": [PLAIN]}).auth.knows_callers


def test_callers_are_not_bound_to_tenants_that_are_not_served() -> None:
    with pytest.raises(ValueError, match="not among `tenants`"):
        Settings(tenants=["a"], auth={"issuers": [PLAIN | {"tenant": "b"}]})
