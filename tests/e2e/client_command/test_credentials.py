"""Credentials: where they go, where they do not, and where they never show (spec: CLI-44 to CLI-47, CLI-56, CLI-67)."""

from __future__ import annotations

import base64
import json
import stat
from typing import Any

import pytest
from aiohttp import web

from tests.e2e.client_command.command_line import BINDINGS, CommandRunner
from tests.e2e.client_command.scripted_agent import ScriptedCall
from tests.e2e.client_command.scripted_doors import ScriptedServer

registry = pytest.mark.registry
BEARER = {"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
REQUIRED: list[Any] = [{"schemes": {"b": {"list": []}}}]


def key(place: str) -> dict[str, Any]:
    return {"k": {"apiKeySecurityScheme": {"location": place, "name": "x-the-key"}}}


@pytest.mark.req("CLI-44", "CLI-45")
@registry("AUTH_001", "AUTH_002")
@pytest.mark.parametrize("place", ["header", "query", "cookie"])
def test_an_api_key_goes_where_the_card_says(a2ad: CommandRunner, server: ScriptedServer, place: str) -> None:
    def has_it(call: ScriptedCall) -> bool:
        found = {
            "header": call.headers.get("x-the-key"),
            "query": call.headers.get("x-the-key") if call.binding == "GRPC" else call.query.get("x-the-key"),
            "cookie": call.headers.get("cookie", "").removeprefix("x-the-key="),
        }
        return found[place] == "s3cret"

    server.agent.demands = has_it
    card = server.card(f"/{place}.json", securitySchemes=key(place))
    for done in a2ad.over("send", "quick", "-a", card, A2ACLI_API_KEY="s3cret"):
        assert done.code == 0, done.err
    assert len(server.agent.calls) == 2 * len(BINDINGS), "every request has it"


@pytest.mark.req("CLI-44", "CLI-45")
@registry("AUTH_001", "AUTH_002")
def test_a_bearer_token_is_sent_as_one_and_the_flag_wins(a2ad: CommandRunner, server: ScriptedServer) -> None:
    server.agent.demands = lambda call: call.headers.get("authorization") == "Bearer flag"
    card = server.card("/bearer.json", securitySchemes=BEARER, securityRequirements=REQUIRED)
    for done in a2ad.over("send", "quick", "-a", card, "--bearer", "flag", A2ACLI_BEARER="variable"):
        assert done.code == 0, done.err


@pytest.mark.req("CLI-39", "CLI-42", "CLI-40")
@registry("OUT_004", "EXIT_001", "AUTH_001")
def test_missing_and_refused_credentials_are_told_apart(a2ad: CommandRunner, server: ScriptedServer) -> None:
    server.agent.demands = lambda _: False
    card = server.card("/bearer.json", securitySchemes=BEARER, securityRequirements=REQUIRED)
    for done in a2ad.over("send", "quick", "-a", card, "-o", "json"):
        assert (done.code, done.error["code"]) == (4, "A2ACLI_ERR_CREDENTIALS_MISSING")
        assert "A2ACLI_BEARER" in done.error["hint"]
    for done in a2ad.over("send", "quick", "-a", card, "-o", "json", A2ACLI_BEARER="wrong"):
        assert (done.code, done.error["code"]) == (4, "A2ACLI_ERR_AUTH_FAILED")


@pytest.mark.req("CLI-67", "CLI-44")
@registry("AUTH_008")
def test_what_no_scheme_asks_for_is_not_sent(a2ad: CommandRunner, server: ScriptedServer) -> None:
    card = server.card("/keys.json", securitySchemes=key("header"))
    for done in a2ad.over("send", "quick", "-a", card, A2ACLI_BEARER="s3cret"):
        assert done.code == 0
        assert "--svc-param" in done.err
    assert not [call for call in server.agent.calls if "s3cret" in str(call.headers)]
    a2ad.run("send", "quick", "-a", card, A2ACLI_API_KEY="s3cret")
    fetches = [headers for path, headers in server.http.asked if path == "/keys.json"]
    assert fetches
    assert "s3cret" not in str(fetches), "the public card is fetched without credentials"


@pytest.mark.req("CLI-47", "CLI-63")
@registry("AUTH_004", "OUT_007")
def test_raw_messages_are_shown_without_secrets(a2ad: CommandRunner, server: ScriptedServer) -> None:
    card = server.card("/query.json", securitySchemes=BEARER | key("query"))
    secrets = {"A2ACLI_BEARER": "s3cret-b", "A2ACLI_API_KEY": "s3cret k"}
    line = ["send", "echo s3cret-b", "-a", card, "--debug", "--svc-param", "x-secret-token:s3cret-p", "-o", "json"]
    for done, binding in zip(a2ad.over(*line, **secrets), BINDINGS, strict=True):
        assert done.code == 0, done.err
        assert len(done.lines) == 1
        assert f"calls {binding}" in done.err
        assert "mediaType" in done.err, "the message that was sent"
        assert "TASK_STATE_COMPLETED" in done.err, "the messages that came"
        assert "***" in done.err
        for secret in ("s3cret-b", "s3cret k", "s3cret%20k", "s3cret+k", "s3cret-p"):
            assert secret not in done.err, binding
    server.agent.demands = lambda _: False
    done = a2ad.run("send", "x", "-a", card, "-o", "json", "--bearer", "you")
    assert "you" not in done.error["message"], "the agent said: who are you?"


@pytest.mark.req("CLI-67", "CLI-58")
@registry("CARD_GET_003", "VER_003")
def test_the_extended_card_is_fetched_with_credentials(a2ad: CommandRunner, server: ScriptedServer) -> None:
    server.agent.extended.name = "For friends"
    server.agent.demands = lambda call: call.headers.get("authorization") == "Bearer s3cret"
    card = server.card("/bearer.json", securitySchemes=BEARER)
    for done in a2ad.over("card", "get", card, "--extended", "-o", "json", A2ACLI_BEARER="s3cret"):
        assert (done.code, done.json["name"]) == (0, "For friends"), done.err
    plain = server.card("/plain.json", capabilities={})
    done = a2ad.run("card", "get", plain, "--extended", "-o", "json")
    assert (done.code, done.error["code"]) == (1, "ExtendedAgentCardNotConfiguredError")


class AuthorizationServer:
    """Gives tokens: by client credentials, and by device code to who asks a second time."""

    def __init__(self) -> None:
        self.forms: list[dict[str, str]] = []

    async def device(self, request: web.Request) -> web.Response:
        self.forms.append({key: str(value) for key, value in (await request.post()).items()})
        told = {"device_code": "d-1", "user_code": "ABCD", "verification_uri": "https://go.invalid/", "interval": 0.01}
        return web.json_response(told)

    async def token(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.forms.append(form)
        if form["grant_type"] == "client_credentials" and form["client_secret"] != "s3cret":
            return web.json_response({"error": "invalid_client"}, status=401)
        if form.get("device_code") and sum("device_code" in each for each in self.forms) < 2:
            return web.json_response({"error": "authorization_pending"}, status=400)
        renewed = "-renewed" if form["grant_type"] == "refresh_token" else ""
        expires = 1 if form.get("device_code") else 3600
        return web.json_response(
            {"access_token": f"t0ken{renewed}", "token_type": "Bearer", "expires_in": expires, "refresh_token": "r-1"}
        )


@pytest.fixture
def authority(server: ScriptedServer) -> AuthorizationServer:
    authority = AuthorizationServer()
    server.http.pages |= {"/device": authority.device, "/token": authority.token}
    return authority


def oauth(server: ScriptedServer, flow: str) -> str:
    flows = {
        "deviceCode": {"deviceAuthorizationUrl": f"{server.origin}/device", "tokenUrl": f"{server.origin}/token"},
        "clientCredentials": {"tokenUrl": f"{server.origin}/token"},
    }
    schemes = {"o": {"oauth2SecurityScheme": {"flows": {flow: {**flows[flow], "scopes": {}}}}}}
    return server.card(f"/{flow}.json", securitySchemes=schemes)


@pytest.mark.req("CLI-56", "CLI-09")
@registry("AUTH_005", "AUTH_007", "CONFIG_001")
def test_a_device_code_logs_in_and_the_token_is_kept(
    a2ad: CommandRunner, server: ScriptedServer, authority: AuthorizationServer
) -> None:
    card = oauth(server, "deviceCode")
    done = a2ad.run("auth", "login", "-a", card, "--client-id", "tool", "-o", "json")
    assert (done.code, done.json["scheme"], done.json["flow"]) == (0, "o", "device-code"), done.err
    assert "Open https://go.invalid/ and enter the code ABCD" in done.err
    assert "t0ken" not in done.out + done.err
    kept = a2ad.home / ".config/a2a-cli/logins.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_text())[card]["access_token"] == "t0ken"
    server.agent.demands = lambda call: call.headers.get("authorization") == "Bearer t0ken-renewed"
    for done in a2ad.over("send", "quick", "-a", card):
        assert done.code == 0, "the token had expired, and was renewed"
    assert f"login {card}: *** (file {kept})" in a2ad.run("config", "show").out
    kept.unlink()
    assert a2ad.run("send", "quick", "-a", card, "-o", "json").error["code"] == "A2ACLI_ERR_CREDENTIALS_MISSING"


@pytest.mark.req("CLI-56")
@registry("AUTH_006", "AUTH_007")
def test_client_credentials_log_in(a2ad: CommandRunner, server: ScriptedServer, authority: AuthorizationServer) -> None:
    card = oauth(server, "clientCredentials")
    line = ["auth", "login", "-a", card, "--client-id", "tool", "-o", "json"]
    done = a2ad.run(*line)
    assert (done.code, done.error["code"]) == (4, "A2ACLI_ERR_CREDENTIALS_MISSING")
    done = a2ad.run(*line, A2ACLI_CLIENT_SECRET="wrong")
    assert (done.code, done.error["code"]) == (4, "A2ACLI_ERR_AUTH_FAILED")
    assert a2ad.run(*line, A2ACLI_CLIENT_SECRET="s3cret").code == 0
    server.agent.demands = lambda call: call.headers.get("authorization") == "Bearer t0ken"
    assert a2ad.run("send", "quick", "-a", card).code == 0
    assert a2ad.run("send", "quick", "-a", card, "--bearer", "other").code == 4, "a flag wins"
    elsewhere = server.card("/elsewhere.json", securitySchemes=BEARER)
    assert a2ad.run("send", "quick", "-a", elsewhere).code == 4, "another agent does not get the token"


@pytest.mark.req("CLI-71")
@registry("AUTH_010")
def test_openid_connect_is_discovered(
    a2ad: CommandRunner, server: ScriptedServer, authority: AuthorizationServer
) -> None:
    async def configuration(_: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"{server.origin}/token"})

    server.http.pages["/oidc"] = configuration
    schemes = {"i": {"openIdConnectSecurityScheme": {"openIdConnectUrl": f"{server.origin}/oidc"}}}
    card = server.card("/oidc.json", securitySchemes=schemes)
    line = ["auth", "login", "-a", card, "--client-id", "tool", "--flow", "client-credentials"]
    assert a2ad.run(*line, A2ACLI_CLIENT_SECRET="s3cret").code == 0
    server.agent.demands = lambda call: call.headers.get("authorization") == "Bearer t0ken"
    assert a2ad.run("send", "quick", "-a", card).code == 0


@pytest.mark.req("CLI-68")
@registry("CARD_GET_004")
def test_signatures_are_reported(a2ad: CommandRunner, server: ScriptedServer) -> None:
    protected = (
        base64.urlsafe_b64encode(b'{"alg":"ES256","kid":"k","jku":"https://nobody.invalid/k"}').decode().rstrip("=")
    )
    forged = server.card("/forged.json", signatures=[{"protected": protected, "signature": "AAAA"}])
    lines = [["card", "get", forged], ["card", "get", server.origin], ["card", "get", forged, "-o", "json"]]
    answers = a2ad.each(lines)
    assert [done.code for done in answers] == [0, 0, 0]
    assert "\nSignatures: unverifiable (" in answers[0].out
    assert answers[1].out.endswith("\nSignatures: absent\n")
    assert "Signatures: unverifiable (" in answers[2].err
    assert "verified" not in answers[0].out
