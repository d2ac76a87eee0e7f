"""`a2ad health`: 0 when a door serves, 1 and one line that says why when it does not."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import grpc
import pytest
import trustme
from click.testing import CliRunner, Result
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from a2a_server.cli.command_line import main
from a2a_server.demo import agent
from a2a_server.serve import running
from a2a_server.settings import Settings

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
NAME = "agents.example"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but the test's own, and a proxy that nobody may ask."""
    monkeypatch.chdir(tmp_path)
    for name in ("http_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.delenv("no_proxy", raising=False)


def ask(*arguments: str, **variables: str) -> Result:
    return CliRunner(env=variables).invoke(main, ["health", *arguments])


def refused(result: Result) -> str:
    """The one line of a no."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line.removeprefix("Error: ")


@contextmanager
def grpc_door(status: int | None = SERVING, secret: grpc.ServerCredentials | None = None) -> Iterator[str]:
    """A gRPC server with a health service, or without when it has no status."""
    server = grpc.server(ThreadPoolExecutor(1))
    if status is not None:
        servicer = health.HealthServicer()
        servicer.set("", status)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_secure_port("127.0.0.1:0", secret) if secret else server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def http_door(status: int = 200, context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """A web server that answers everything alike; its address, and the paths it was asked for."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(status)
            self.send_header("location", "/elsewhere")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}", seen
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def silent_door() -> Iterator[str]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def free() -> str:
    with silent_door() as address:
        return address


@pytest.mark.req("DOOR-07")
async def test_a_real_door_serves_until_it_drains() -> None:
    async with running(Settings(grpc="127.0.0.1:0", http="none", store="memory:"), agent) as server:
        address = str(server.grpc)
        result = await asyncio.to_thread(ask, "--grpc", address)
        assert (result.exit_code, result.stdout) == (0, f"grpc {address}: serving\n")
        await server.drain()
        assert refused(await asyncio.to_thread(ask, "--grpc", address)) == f"grpc {address}: NOT_SERVING"


@pytest.mark.parametrize(("path", "asked"), [("", "/readyz"), ("/", "/readyz"), ("/healthz", "/healthz")])
def test_an_http_door_is_asked_whether_it_is_ready_or_what_the_url_says(path: str, asked: str) -> None:
    with http_door() as (address, seen):
        result = ask("--http", f"http://{address}{path}")
        assert (result.exit_code, result.stdout) == (0, f"http {address}: serving\n")
        assert seen == [asked]


@pytest.mark.parametrize(
    ("status", "line"), [(503, "503 Service Unavailable"), (404, "404 Not Found"), (302, "302 Found")]
)
def test_an_http_door_that_is_not_ready_is_a_no(status: int, line: str) -> None:
    with http_door(status) as (address, seen):
        assert refused(ask("--http", f"http://{address}")) == f"http {address}: {line}"
        assert len(seen) == 1


def test_a_door_that_nobody_opened_is_a_no() -> None:
    address = free()
    assert refused(ask("--grpc", address)) == f"grpc {address}: nothing listens there"
    assert refused(ask("--http", f"http://{address}")) == f"http {address}: nothing listens there"


def test_a_door_that_does_not_answer_is_a_no() -> None:
    with silent_door() as address:
        assert refused(ask("--grpc", address, "--timeout", "0.2")) == f"grpc {address}: no answer in time"
        assert refused(ask("--http", f"http://{address}", "--timeout", "0.2")) == f"http {address}: timed out"


def test_what_is_no_such_door_is_a_no() -> None:
    with grpc_door(None) as address:
        assert refused(ask("--grpc", address)) == f"grpc {address}: has no health service (grpc.health.v1)"
        assert refused(ask("--http", f"http://{address}")).startswith(f"http {address}: ")
    with http_door() as (address, _):
        assert refused(ask("--grpc", address)).startswith(f"grpc {address}: UNAVAILABLE: ")
    assert refused(ask("--grpc", "nowhere.invalid:1")).startswith("grpc nowhere.invalid:1: ")


def test_of_two_doors_both_must_serve() -> None:
    with grpc_door() as served, http_door() as (ready, _), http_door(503) as (unready, _):
        both = ask("--grpc", served, "--http", f"http://{ready}")
        assert (both.exit_code, both.stdout) == (0, f"grpc {served}, http {ready}: serving\n")
        assert refused(ask("--grpc", served, "--http", f"http://{unready}")).startswith(f"http {unready}: 503")
        assert refused(ask("--grpc", free(), "--http", f"http://{ready}")).endswith("nothing listens there")


def test_without_options_the_door_of_the_settings_is_asked(tmp_path: Path) -> None:
    with grpc_door() as address:
        port = address.rpartition(":")[2]
        assert ask(A2A_GRPC=f"0.0.0.0:{port}").stdout == f"grpc {address}: serving\n"
        (tmp_path / "own.toml").write_text(f'grpc = "{address}"')
        assert ask("--config", "own.toml").stdout == f"grpc {address}: serving\n"
    with grpc_door(NOT_SERVING) as address:
        assert refused(ask(A2A_GRPC=address)) == f"grpc {address}: NOT_SERVING"


def test_without_options_a_gateway_is_asked_where_there_is_no_server() -> None:
    closed = free()
    with http_door() as (address, seen):
        assert ask(A2A_GRPC=closed, A2A_HTTP=address).stdout == f"http {address}: serving\n"
        assert seen == ["/readyz"]
    line = refused(ask(A2A_GRPC=closed, A2A_HTTP=address))
    assert line == f"grpc {closed}: nothing listens there; http {address}: nothing listens there"


def test_without_options_a_closed_http_door_is_not_asked() -> None:
    closed = free()
    assert refused(ask(A2A_GRPC=closed, A2A_HTTP="none")) == f"grpc {closed}: nothing listens there"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority and a certificate it made."""
    folder = tmp_path_factory.mktemp("tls")
    ca = trustme.CA()
    issued = ca.issue_cert(NAME)
    ca.cert_pem.write_to_path(folder / "ca.pem")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    return folder


@contextmanager
def tls_doors(files: Path) -> Iterator[tuple[str, str]]:
    """A gRPC and an HTTP door that want to see a certificate themselves."""
    ca, cert, key = ((files / name).read_bytes() for name in ("ca.pem", "cert.pem", "key.pem"))
    secret = grpc.ssl_server_credentials([(key, cert)], ca, require_client_auth=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files / "ca.pem")
    context.load_cert_chain(files / "cert.pem", files / "key.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with ExitStack() as stack:
        address, _ = stack.enter_context(http_door(context=context))
        yield stack.enter_context(grpc_door(secret=secret)), f"https://{address}"


def test_doors_with_tls_are_believed_by_authority_and_name(files: Path) -> None:
    own = ["--cert", str(files / "cert.pem"), "--key", str(files / "key.pem")]
    ca = ["--ca", str(files / "ca.pem")]
    with tls_doors(files) as (served, ready):
        doors = ["--grpc", served, "--http", ready]
        assert ask(*doors, *ca, *own, "--server-name", NAME).exit_code == 0
        for door in (doors[:2], doors[2:]):
            for less in ([*ca, *own], [*own, "--server-name", NAME, "--tls"], [*ca, "--server-name", NAME]):
                refused(ask(*door, *less))


def test_files_that_do_not_do_are_named(files: Path, tmp_path: Path) -> None:
    """gRPC would say nothing of use, and more than one line."""
    (tmp_path / "text.pem").write_text("hello")
    own = ["--cert", str(files / "cert.pem"), "--key", str(files / "key.pem")]
    other = trustme.CA().issue_cert(NAME).private_key_pem
    other.write_to_path(tmp_path / "other.pem")
    for arguments, message in (
        (["--ca", "text.pem"], "--ca: 'text.pem' is not a PEM file of certificates"),
        ([*own[:3], "other.pem"], f"--key: 'other.pem' is not the key of the certificate in --cert = {own[1]!r}"),
    ):
        for door in (["--grpc", "127.0.0.1:1"], ["--http", "https://127.0.0.1:1"]):
            result = ask(*door, *arguments)
            assert (result.exit_code, result.stderr) == (2, f"Error: {message}\n")


def test_a_server_with_tls_asks_for_the_means_to_believe_it(files: Path) -> None:
    variables = {"A2A_TLS__CERT": str(files / "cert.pem"), "A2A_TLS__KEY": str(files / "key.pem")}
    assert "ask it with --ca" in refused(ask(**variables))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--grpc", "somewhere"], "--grpc = 'somewhere': must be HOST:PORT"),
        (["--http", "somewhere:8080"], "--http = 'somewhere:8080': must be a URL"),
        (["--http", "http://somewhere:99999"], "must be a URL"),
        (["--http", "http://:8080"], "must be a URL"),
        (["--cert", "a2ad.toml"], "--cert and --key are needed together"),
        (["--ca", "none.pem"], "none.pem"),
        (["--timeout", "0"], "--timeout"),
    ],
)
def test_a_question_that_makes_no_sense_is_the_command_line_s_fault(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "a2ad.toml").write_text("")
    result = ask(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
