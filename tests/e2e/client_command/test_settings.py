"""Where settings come from, and who sees them (spec: CLI-01, CLI-05 to CLI-09, CLI-59 to CLI-61)."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.e2e.client_command.command_line import CommandRunner
from tests.e2e.client_command.scripted_doors import ScriptedServer
from tests.support.house import a2ad as main

registry = pytest.mark.registry


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


def shown(a2ad: CommandRunner, *line: str, **variables: str) -> dict[str, tuple[str, str]]:
    done = a2ad.run("config", "show", *line, "-o", "json", **variables)
    assert done.code == 0, done.err
    return {name: (it["value"], it["source"]) for name, it in done.json.items()}


@pytest.mark.req("CLI-59", "CLI-60", "CLI-61", "CLI-01")
@registry("CONFIG_002", "CONFIG_001", "DEFAULT_001")
def test_each_source_beats_the_next_one(a2ad: CommandRunner) -> None:
    name = "poll-interval"
    assert shown(a2ad)[name] == ("2s", "built-in")
    everywhere = write(
        a2ad.home / ".config/a2a-cli/.env", "A2ACLI_POLL_INTERVAL=5s\nA2ACLI_AGENT_CARD=https://a.example:8\n"
    )
    assert shown(a2ad)[name] == ("5s", f"file {everywhere}")
    agent = write(a2ad.home / ".config/a2a-cli/agents/a.example_8.env", "A2ACLI_POLL_INTERVAL=4s\n")
    assert shown(a2ad)[name] == ("4s", f"file {agent}")
    local = write(a2ad.home / ".env", "# mine\nexport A2ACLI_POLL_INTERVAL='3s'\nOTHER=1\n")
    assert shown(a2ad)[name] == ("3s", f"file {local}")
    below = a2ad.home / "a/b"
    below.mkdir(parents=True)
    inside = CommandRunner(below)
    assert inside.run("config", "show", HOME=str(a2ad.home)).out.count(f"(file {local})") == 1, "found upwards"
    other = write(a2ad.home / "other.env", 'A2ACLI_POLL_INTERVAL="6s"\n')
    assert shown(a2ad, "--config", str(other))[name] == ("6s", f"file {other}")
    assert shown(a2ad, A2ACLI_POLL_INTERVAL="7s")[name] == ("7s", "variable A2ACLI_POLL_INTERVAL")
    told = shown(a2ad, "--poll-interval", "8s", A2ACLI_POLL_INTERVAL="7s")
    assert told[name] == ("8s", "flag --poll-interval")
    assert told["output"] == ("json", "flag --output")


@pytest.mark.req("CLI-61", "CLI-09", "CLI-47")
@registry("CONFIG_001", "CONFIG_002", "AUTH_004")
def test_config_show_masks_secrets_and_changes_nothing(a2ad: CommandRunner) -> None:
    local = write(a2ad.home / ".env", "A2ACLI_API_KEY=s3cret\n")
    done = a2ad.run("config", "show", "--bearer", "s3cret", A2ACLI_CLIENT_SECRET="s3cret")
    assert f"\napi-key: *** (file {local})\n" in done.out
    assert "\nbearer: *** (flag --bearer)\n" in done.out
    assert "\nclient-secret: *** (variable A2ACLI_CLIENT_SECRET)\n" in done.out
    assert "s3cret" not in done.out + done.err
    assert [path.name for path in a2ad.home.iterdir()] == [".env"]


@pytest.mark.req("CLI-60")
@registry("CONFIG_002")
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_files_that_others_can_write_are_left_out(a2ad: CommandRunner, mode: int) -> None:
    local = write(a2ad.home / ".env", "A2ACLI_AGENT_CARD=https://evil.example\n")
    local.chmod(mode)
    done = a2ad.run("config", "show")
    assert "evil" not in done.out
    assert "chmod go-w" in done.err


@pytest.mark.req("CLI-07", "CLI-08")
@registry("CONFIG_002", "OUT_002")
def test_variables_have_the_names_of_flags_and_some_have_none(a2ad: CommandRunner, server: ScriptedServer) -> None:
    variables = {
        "A2ACLI_AGENT_CARD": server.origin,
        "A2ACLI_OUTPUT": "json",
        "A2ACLI_ASYNC": "1",
        "A2ACLI_TRANSPORT": "grpc,rest",
        "A2ACLI_SVC_PARAM": "x-one:1",
        "A2ACLI_CONTEXT_ID": "mine",
        "A2ACLI_STREAM": "true",
        "A2ACLI_VERSION": "true",
        "A2ACLI_WATCH": "true",
        "A2ACLI_NO_WAIT": "false",
    }
    done = a2ad.run("send", "endless", **variables)
    assert (done.code, done.json["task"]["contextId"]) == (0, "mine"), done.err
    (call,) = server.agent.calls
    assert (call.rpc, call.binding, call.headers["x-one"]) == ("SendMessage", "GRPC", "1")
    done = a2ad.run("send", "quick", "--wait", "-o", "text", **variables)
    assert "State: TASK_STATE_COMPLETED" in done.out, "flags win"
    assert (
        a2ad.run("send", "quick", "--no-async", **variables).json["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    )
    done = a2ad.run("send", "quick", **(variables | {"A2ACLI_TIMEOUT": "soon"}))
    assert (done.code, done.error["code"]) == (2, "A2ACLI_ERR_USAGE")
    assert "A2ACLI_TIMEOUT" in done.error["message"]


@pytest.mark.req("CLI-15", "CLI-16")
@registry("CARD_GET_001")
def test_an_agent_is_named_by_host_origin_card_or_file(a2ad: CommandRunner, server: ScriptedServer) -> None:
    file = write(a2ad.home / "card.json", server.cards["/.well-known/agent-card.json"].decode())
    host = server.origin.removeprefix("http://")
    card = server.card("/deep/card.json?v=1", name="Deep")
    server.cards["/deep/card.json"] = server.cards["/deep/card.json?v=1"]
    for reference in (host, server.origin, card, f"file://{file}", "card.json", str(file)):
        done = a2ad.run("send", "quick", "-a", reference)
        assert done.code == 0, (reference, done.err)
    assert a2ad.run("-a", server.origin, "-o", "json", "send", "quick").json["task"], "options before the command"
    done = a2ad.run("send", "quick", "-e", server.urls()["JSONRPC"], "--transport", "jsonrpc")
    assert done.code == 0, done.err
    text = a2ad.run("card", "get", card).out
    for line in ("Name: Deep", "Version: 7.1", "Streaming: yes", "Push notifications: yes", "Extended card: yes"):
        assert f"{line}\n" in text
    assert f"Interface: GRPC 1.0 {server.grpc}\n" in text
    assert "Skill: obey: Obey\n" in text


@pytest.mark.req("CLI-16")
@registry("CARD_GET_001")
def test_card_get_shows_the_schemes(a2ad: CommandRunner, server: ScriptedServer) -> None:
    schemes = {
        "b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
        "k": {"apiKeySecurityScheme": {"location": "query", "name": "key"}},
    }
    card = server.card("/schemes.json", securitySchemes=schemes)
    out = a2ad.run("card", "get", card).out
    assert "Security scheme: b: HTTP Bearer\nSecurity scheme: k: API key in the query key\n" in out


@pytest.mark.req("CLI-52")
@registry("CARD_GET_002")
def test_card_get_validates(a2ad: CommandRunner, server: ScriptedServer) -> None:
    wrong = server.card(
        "/wrong.json", description="", skills=[{"id": "obey", "name": "Obey", "description": "", "tags": ["a"]}]
    )
    done = a2ad.run("card", "get", wrong, "--validate", "-o", "json")
    assert (done.code, done.error["code"]) == (1, "A2ACLI_ERR_CARD_INVALID")
    assert done.error["message"] == "description is missing; skills[0].description is missing"
    assert a2ad.run("card", "get", wrong).code == 0
    assert a2ad.run("card", "get", server.origin, "--validate").code == 0


@pytest.mark.req("CLI-41")
@pytest.mark.parametrize(
    ("flag", "text"),
    [
        *(("--poll-interval", text) for text in ("", "0", "-1", "1d", "nan", "31000h")),
        *(("--history", text) for text in ("-1", "1.0", "\u00b2", "99999999999")),
        ("--transport", "soap"),
        *(("--svc-param", text) for text in ("a", "\u00e4:1", "a b:1", "a:\x01")),
        *(("--metadata", text) for text in ("[]", "{", '{"a": NaN}')),
        ("--a2a-version", "one"),
        ("--output", "yaml"),
    ],
)
def test_settings_that_make_no_sense_are_refused(flag: str, text: str) -> None:
    done = CliRunner().invoke(main, ["config", "show", flag, text])
    assert done.exit_code == 2
    assert f"Message: flag {flag}: {flag} must be" in done.stderr


@pytest.mark.parametrize("text", ["500ms", "2s", "5m", "1.5", "1h"])
def test_durations_have_units(text: str) -> None:
    assert (
        f"poll-interval: {text} (flag" in CliRunner().invoke(main, ["config", "show", "--poll-interval", text]).stdout
    )
