"""Failures: error objects, codes, exit codes (spec: CLI-13, CLI-37 to CLI-42; OP-04 to OP-06)."""

from __future__ import annotations

import socket

import pytest
import trustme

from tests.e2e.client_command.command_line import CommandRunner
from tests.e2e.client_command.scripted_doors import A2A_ERRORS, ScriptedServer

registry = pytest.mark.registry


def error_name(reason: str) -> str:
    return reason.title().replace("_", "") + "Error"


@pytest.mark.req("CLI-03", "CLI-38", "CLI-41")
@registry("OUT_004", "EXIT_001", "EXIT_002")
@pytest.mark.parametrize("reason", [*A2A_ERRORS, "INVALID_PARAMS", "INTERNAL"])
def test_a2a_s_errors_keep_their_names_on_every_binding(
    a2ad: CommandRunner, server: ScriptedServer, reason: str
) -> None:
    answers = a2ad.over("send", f"refuse {reason}", "-a", server.origin, "-o", "json", "--async")
    told = [{name: value for name, value in done.error.items() if name != "a2aCode"} for done in answers]
    assert [done.code for done in answers] == [1, 1, 1]
    assert told == [told[0]] * 3
    assert told[0]["code"] == error_name(reason)
    assert f"refuse {reason}" in told[0]["message"]
    numbers = [type(done.error["a2aCode"]) for done in answers]
    assert numbers == [int, int, str], "JSON-RPC's number, HTTP's status, gRPC's name"


@pytest.mark.req("CLI-39", "CLI-42", "CLI-41")
@registry("OUT_004", "EXIT_001")
def test_servers_that_are_not_available_count_as_unreachable(a2ad: CommandRunner, server: ScriptedServer) -> None:
    for done in a2ad.over("send", "refuse UNAVAILABLE", "-a", server.origin, "-o", "json", "--async"):
        assert (done.code, done.error["code"]) == (3, "A2ACLI_ERR_UNREACHABLE")


@pytest.mark.req("CLI-39", "CLI-42", "CLI-15", "CLI-40")
@registry("OUT_004", "EXIT_001", "CARD_GET_001")
def test_cards_that_cannot_be_had_have_codes_of_their_own(a2ad: CommandRunner, server: ScriptedServer) -> None:
    server.cards["/broken.json"] = b'{"name": '
    server.cards["/wrong.json"] = b'{"name": 7}'
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
        cases = {
            f"{server.origin}/absent.json": (3, "A2ACLI_ERR_CARD_NOT_FOUND"),
            "file:///nowhere/card.json": (3, "A2ACLI_ERR_CARD_NOT_FOUND"),
            "./absent.json": (3, "A2ACLI_ERR_CARD_NOT_FOUND"),
            nobody: (3, "A2ACLI_ERR_UNREACHABLE"),
            "https://agent.invalid": (3, "A2ACLI_ERR_UNREACHABLE"),
            f"{server.origin}/broken.json": (1, "A2ACLI_ERR_CARD_INVALID"),
            f"{server.origin}/wrong.json": (1, "A2ACLI_ERR_CARD_INVALID"),
        }
        answers = a2ad.each([["send", "quick", "-a", ref, "-o", "json"] for ref in cases])
    for done, (ref, expected) in zip(answers, cases.items(), strict=True):
        assert (done.code, done.error["code"]) == expected, ref
        assert done.error["hint"] != ""


@pytest.mark.req("CLI-37", "CLI-41")
@registry("EXIT_001", "OUT_004")
@pytest.mark.parametrize(
    "line",
    [
        "send x --bogus -o json",
        "-o json send x --bogus",
        "task nonsense -ojson",
        "nonsense --output=json",
        "send x --timeout never -o json",
        "send x -o json",
        "send x --async --wait -o json",
        "send x --async --stream -o json",
        "send x --transport pigeon -o json",
        "send x --endpoint http://x -o json",
        "task get -o json",
        "completion ksh -o json",
    ],
)
def test_usage_errors_are_objects_too(a2ad: CommandRunner, line: str) -> None:
    done = a2ad.run(*line.split())
    assert (done.code, done.error["code"]) == (2, "A2ACLI_ERR_USAGE")
    assert (done.error["a2aCode"], len(done.lines)) == (None, 1)


@pytest.mark.req("CLI-31", "CLI-40", "CLI-13")
@registry("OUT_001", "OUT_004", "INTERACT_002")
def test_as_text_an_error_is_on_stderr(a2ad: CommandRunner, server: ScriptedServer) -> None:
    done = a2ad.run("task", "get", "nobody\x1b[31m", "-a", server.origin)
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == [
        "Error: TaskNotFoundError",
        "Message: there is no task nobody\\x1b[31m",
        "Hint: Run it again with --debug to see the messages.",
    ]
    assert a2ad.run("send").err.startswith("Error: A2ACLI_ERR_USAGE\nMessage: there is nothing to send\n")


@pytest.mark.req("CLI-46", "CLI-01", "CLI-39")
@registry("AUTH_003", "DEFAULT_001", "EXIT_001")
def test_certificates_are_checked_unless_told_otherwise(a2ad: CommandRunner) -> None:
    import ssl  # noqa: PLC0415 - only here

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with ScriptedServer(context) as server:
        schemes = {"b": {"httpAuthSecurityScheme": {"scheme": "bearer"}}}
        card = server.card("/tls.json", "JSONRPC", securitySchemes=schemes)
        line = ["send", "quick", "-a", card, "-o", "json"]
        done = a2ad.run(*line)
        assert (done.code, done.error["code"]) == (3, "A2ACLI_ERR_UNREACHABLE")
        done = a2ad.run(*line, "--insecure")
        assert done.code == 0, done.err
        assert "not checked" in done.err
        assert "CREDENTIAL" not in done.err
        done = a2ad.run(*line, A2ACLI_INSECURE="true", A2ACLI_BEARER="s3cret")
        assert "A CREDENTIAL IS SENT" in done.err
        assert a2ad.run(*line, "--no-insecure", A2ACLI_INSECURE="true").code == 3


@pytest.mark.req("CLI-05", "CLI-08")
@registry("CLI_001")
def test_help_and_version_print_and_end(a2ad: CommandRunner) -> None:
    lines = [
        ["--help"],
        ["-h"],
        ["send", "--help"],
        ["help", "send"],
        ["help", "task", "get"],
        ["--version"],
        ["send", "-v"],
    ]
    answers = a2ad.each(lines, A2ACLI_POLL_INTERVAL="7s", A2ACLI_BEARER="s3cret")
    assert [done.code for done in answers] == [0] * len(lines)
    assert answers[0].out == answers[1].out
    assert all(name in answers[0].out for name in ("send", "task", "card", "auth", "serve"))
    assert "Options:" in answers[2].out
    usage = " ".join(answers[3].out.split())
    assert "[default: 7s, by variable A2ACLI_POLL_INTERVAL]" in usage
    assert "[default: text]" in usage
    assert "s3cret" not in usage
    assert "TASK" in answers[4].out
    assert answers[5].out == answers[6].out
    assert answers[5].out.startswith("a2ad, version ")


@pytest.mark.req("CLI-04")
@registry("CLI_001")
def test_every_long_flag_has_its_name(a2ad: CommandRunner) -> None:
    flags = {
        "send": "agent-card task-id context-id wait watch async return-immediately no-wait poll-interval timeout output"
        " stream verbose debug text file data media-type metadata svc-param bearer api-key insecure transport"
        " a2a-version config help version",
        "task get": "wait async history agent-card",
        "card get": "validate extended agent-card",
    }
    for command, names in flags.items():
        usage = a2ad.run("help", *command.split()).out
        assert [name for name in names.split() if f"--{name}" not in usage] == []
