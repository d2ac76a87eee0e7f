"""A gateway in a process of its own, as its users start it (spec: DOOR-01, DOOR-05, DOOR-07, DOOR-09)."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from tests.e2e.processes import command, environment, serving

BODY = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "echo hello"}]}}


@dataclass(frozen=True)
class Gateway:
    process: subprocess.Popen[str]
    url: str
    welcome: str

    def ask(self, verb: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], Any]:
        """Status, headers, and the body as JSON, if it is."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
        try:
            told = {
                "Content-Type": "application/json",
                **{name.replace("_", "-"): text for name, text in headers.items()},
            }
            connection.request(verb, path, json.dumps(body) if body is not None else None, told)
            answer = connection.getresponse()
            raw = answer.read()
            kind = answer.headers.get_content_type()
            return answer.status, dict(answer.headers), json.loads(raw) if kind.endswith("json") else raw.decode()
        finally:
            connection.close()

    @contextmanager
    def opened(self, verb: str, path: str) -> Iterator[http.client.HTTPResponse]:
        """An answer that is read bit by bit."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        try:
            connection.request(verb, path)
            yield connection.getresponse()
        finally:
            connection.close()

    def becomes(self, path: str, status: int) -> None:
        """Wait for an answer; as operators' scripts do."""
        end = time.monotonic() + 30
        while (got := self.ask("GET", path)[0]) != status:
            assert time.monotonic() < end, got
            time.sleep(0.05)


@contextmanager
def gateway(*arguments: str, cwd: Path, **variables: str) -> Iterator[Gateway]:
    line = [sys.executable, "-m", "a2a_server", "gateway", "--http", "127.0.0.1:0", *arguments]
    with subprocess.Popen(
        line, cwd=cwd, env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            welcome = _welcome(process)
            url = next(text.split()[1] for text in welcome.splitlines() if text.startswith("  http"))
            yield Gateway(process, url, welcome)
        finally:
            process.kill()


def _welcome(process: subprocess.Popen[str]) -> str:
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if lines[-2:-1] == ["Try:\n"]:
            return "".join(lines)
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


@pytest.mark.req("DOOR-01", "DOOR-05")
def test_calls_go_through_to_a_server_in_another_process(tmp_path: Path) -> None:
    with serving("--http", "none", cwd=tmp_path) as server, gateway("--upstream", server.address, cwd=tmp_path) as door:
        assert f"upstream  {server.address}" in door.welcome
        assert f"{door.url}/message:send" in door.welcome
        status, _, card = door.ask("GET", "/.well-known/agent-card.json")
        assert status == 200
        assert [(one["protocolBinding"], one["url"]) for one in card["supportedInterfaces"]][:5] == [
            ("GRPC", server.address),
            ("HTTP+JSON", door.url),
            ("JSONRPC", door.url + "/"),
            ("JSONRPC", door.url + "/"),  # of 0.3, these two
            ("HTTP+JSON", door.url),
        ]
        status, _, sent = door.ask("POST", "/message:send", BODY)
        assert (status, sent["task"]["status"]["state"]) == (200, "TASK_STATE_COMPLETED")
        task_id = sent["task"]["id"]
        assert door.ask("GET", f"/tasks/{task_id}")[2]["id"] == task_id
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
        assert door.ask("POST", "/", rpc)[2]["result"]["id"] == task_id
        status, headers, events = door.ask("POST", "/message:stream", BODY)
        assert (status, headers["Content-Type"]) == (200, "text/event-stream")
        assert "TASK_STATE_COMPLETED" in events
        assert door.ask("GET", "/tasks/nope")[2]["error"]["details"][0]["reason"] == "TASK_NOT_FOUND"

        assert command("health", "--http", door.url, cwd=tmp_path).returncode == 0
        door.process.send_signal(signal.SIGTERM)
        assert door.process.wait(10) == 0
        assert command("health", "--http", door.url, cwd=tmp_path).returncode == 1


@pytest.mark.req("DOOR-01", "DOOR-07", "ERRS-06")
def test_an_upstream_may_die_and_come_back(tmp_path: Path) -> None:
    with serving("--http", "none", cwd=tmp_path) as server:
        address = server.address
        with gateway("--upstream", address, cwd=tmp_path) as door:
            sent = door.ask("POST", "/message:send", BODY)[2]["task"]
            assert door.ask("GET", "/readyz")[0] == 200
            server.process.kill()
            server.process.wait()
            door.becomes("/readyz", 503)
            assert door.ask("GET", "/healthz")[0] == 200
            for verb, path, body in (
                ("POST", "/message:send", BODY),
                ("POST", "/message:stream", BODY),
                ("GET", f"/tasks/{sent['id']}", None),
                ("GET", "/.well-known/agent-card.json", None),
            ):
                status, headers, told = door.ask(verb, path, body)
                assert (status, told["error"]["status"], headers["Retry-After"]) == (503, "UNAVAILABLE", "1")
                assert address not in json.dumps(told)
            with serving("--http", "none", "--grpc", address, cwd=tmp_path):
                door.becomes("/readyz", 200)
                assert door.ask("GET", f"/tasks/{sent['id']}")[2]["id"] == sent["id"]
                assert door.ask("POST", "/message:send", BODY)[0] == 200
            door.process.terminate()
            logs = [json.loads(line) for line in door.process.communicate(timeout=20)[1].splitlines()]
            changes = [entry for entry in logs if entry["event"].startswith("upstream.")]
            assert [entry["event"] for entry in changes] == ["upstream.unavailable", "upstream.back"]
            assert {entry["address"] for entry in changes} == {address}


@pytest.mark.long  # gRPC pings every ten seconds, and not more often
@pytest.mark.req("DOOR-01", "DOOR-07")
def test_an_upstream_that_falls_silent_is_given_up_and_found_again(tmp_path: Path) -> None:
    """As a machine that is gone without a word: nobody closes the connection, and a stream has no deadline."""
    often = {"A2A_UPSTREAM__KEEPALIVE_TIME": "10", "A2A_UPSTREAM__KEEPALIVE_TIMEOUT": "0.5"}
    with (
        serving("--http", "none", cwd=tmp_path) as server,
        gateway("--upstream", server.address, cwd=tmp_path, **often) as door,
    ):
        asked = {**BODY, "metadata": {"skill": "booking"}}
        task = door.ask("POST", "/message:send", asked)[2]["task"]
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        with door.opened("GET", f"/tasks/{task['id']}:subscribe") as stream:
            assert stream.status == 200
            assert b'"TASK_STATE_INPUT_REQUIRED"' in stream.readline() + stream.readline()
            server.process.send_signal(signal.SIGSTOP)
            rest = stream.read()
            assert b'"UNAVAILABLE"' in rest
            assert b"cannot be reached now" in rest
        server.process.send_signal(signal.SIGCONT)
        door.becomes("/readyz", 200)
        assert door.ask("GET", f"/tasks/{task['id']}")[2]["id"] == task["id"]


def test_a_gateway_may_start_before_its_upstream(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with gateway("--upstream", address, cwd=tmp_path) as door:
        assert door.ask("GET", "/readyz")[0] == 503
        with serving("--http", "none", "--grpc", address, cwd=tmp_path):
            door.becomes("/readyz", 200)
            assert door.ask("POST", "/message:send", BODY)[0] == 200


def test_both_ways_may_be_secured(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = ca.issue_cert("127.0.0.1", "localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    files = {"A2A_TLS__CERT": "both.pem", "A2A_TLS__KEY": "both.pem"}
    with serving("--http", "none", cwd=tmp_path, **files) as server:
        with gateway("--upstream", server.address, "--ca", "ca.pem", cwd=tmp_path) as door:
            assert f"{server.address} with TLS" in door.welcome
            assert door.ask("POST", "/message:send", BODY)[0] == 200
        with gateway("--upstream", server.address, "--ca", "ca.pem", cwd=tmp_path, **files) as door:
            assert door.url.startswith("https://")
            done = command("health", "--http", door.url, "--ca", "ca.pem", cwd=tmp_path)
            assert done.returncode == 0, done.stderr


@pytest.mark.req("DOOR-05")
def test_what_it_does_is_set_by_flags_file_and_environment(tmp_path: Path) -> None:
    (tmp_path / "a2ad.toml").write_text('[gateway]\nupstream_doors = false\n[upstream]\naddresses = ["127.0.0.1:1"]\n')
    with (
        serving("--http", "none", cwd=tmp_path) as server,
        gateway(
            *("--upstream", server.address, "--public-url", "https://agents.example/a2a"),
            cwd=tmp_path,
            A2A_GATEWAY__MAX_BODY_BYTES="200",
        ) as door,
    ):
        card = door.ask("GET", "/.well-known/agent-card.json")[2]
        urls = [one["url"] for one in card["supportedInterfaces"]]
        base = "https://agents.example/a2a"
        assert urls == [base, base + "/", base + "/", base]
        assert door.ask("POST", "/message:send", {**BODY, "metadata": {"padding": "x" * 200}})[0] == 413


def test_a_card_may_come_from_a_file(tmp_path: Path) -> None:
    modes: dict[str, Any] = {"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]}
    card = {"name": "Filed", "description": "From a file.", "version": "7", "capabilities": {}, "skills": [], **modes}
    (tmp_path / "card.json").write_text(json.dumps(card))
    with gateway("--upstream", "127.0.0.1:1", "--card", "card.json", cwd=tmp_path) as door:
        shown = door.ask("GET", "/.well-known/agent-card.json")[2]
        assert (shown["name"], shown["version"]) == ("Filed", "7")
        doors = [(one["protocolBinding"], one["protocolVersion"]) for one in shown["supportedInterfaces"]]
        assert doors == [("HTTP+JSON", "1.0"), ("JSONRPC", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")]


UPSTREAM = ("--upstream", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "upstream.addresses: name the gRPC server to call, such as --upstream 127.0.0.1:50051"),
        (["--upstream", "agents.example"], 2, "upstream.addresses = 'agents.example' (flag): must be HOST:PORT"),
        ([*UPSTREAM, "--http", "none"], 2, "http: the gateway has no other door"),
        ([*UPSTREAM, "--http", "8080"], 2, "http = '8080' (flag): must be HOST:PORT"),
        ([*UPSTREAM, "--public-url", "agents.example"], 2, "public_url = 'agents.example' (flag): must be a URL"),
        ([*UPSTREAM, "--config", "none.toml"], 2, "--config = 'none.toml': cannot be read"),
        ([*UPSTREAM, "--ca", "none.pem"], 1, "upstream.ca: cannot read 'none.pem': No such file"),
        ([*UPSTREAM, "--ca", "junk.pem"], 1, "upstream.ca: 'junk.pem' is not a PEM file"),
        ([*UPSTREAM, "--card", "none.json"], 1, "gateway.card: cannot read 'none.json': No such file"),
        ([*UPSTREAM, "--card", "junk.pem"], 1, "gateway.card: 'junk.pem' is no agent card"),
        (["--log-level", "loud", *UPSTREAM], 2, "log.level = 'loud' (flag): must be debug, info, warning or error"),
    ],
)
def test_what_cannot_be_relayed_is_said(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    (tmp_path / "junk.pem").write_text("junk")
    done = command("gateway", "--http", "127.0.0.1:0", *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.req("DOOR-09")
def test_a_taken_port_stops_the_start_and_names_the_door(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        for line in (["gateway", *UPSTREAM], ["serve", "--grpc", "127.0.0.1:0"]):
            done = command(*line, "--http", address, cwd=tmp_path)
            assert done.returncode == 1
            assert f"http: {address} is already in use by another process" in done.stderr
            assert "Traceback" not in done.stderr


def test_help_and_settings_name_what_there_is(tmp_path: Path) -> None:
    helped = command("gateway", "--help", cwd=tmp_path)
    assert helped.returncode == 0
    for option in ("--upstream", "--tls", "--ca", "--http", "--public-url", "--card", "--config", "--log-level"):
        assert option in helped.stdout
    shown = tomllib.loads(command("config", cwd=tmp_path, A2A_UPSTREAM__ADDRESSES="a:1,b:2").stdout)
    assert shown["http"] == "127.0.0.1:8080"
    assert shown["gateway"]["max_body_bytes"] == 16 * 1024 * 1024
    assert shown["upstream"]["addresses"] == ["a:1", "b:2"]
    example = command("config", "--example", cwd=tmp_path).stdout
    assert "# forward_headers = " in example
    assert "# http = " in example
