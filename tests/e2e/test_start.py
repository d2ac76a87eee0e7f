"""What stops a start is said in one line, by a process that has said nothing else (spec: OPER-05, DOOR-09)."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from socket import create_server

import pytest
import trustme

from tests.e2e.processes import command, environment

GATEWAY = ("gateway", "--http", "127.0.0.1:0", "--upstream", "127.0.0.1:1")
SERVE = ("serve", "--grpc", "127.0.0.1:0", "--store", "memory:", "--http")

pytestmark = pytest.mark.req("OPER-05")


def refusal(code: int, *arguments: str, cwd: Path, **variables: str) -> str:
    """The one line that a start ends with."""
    done = command(*arguments, cwd=cwd, **variables)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    return line.removeprefix("Error: ")


NO_SKILL = """
from a2a_server.agents import Agent

agent = Agent(name="A", description="Does nothing.", version="1")
"""


def test_an_agent_without_skills(tmp_path: Path) -> None:
    (tmp_path / "noskill.py").write_text(NO_SKILL)
    said = "agent = 'noskill.py': Agent 'A' has no skill: decorate a function with @agent.skill(…)."
    assert refusal(2, *SERVE, "none", "noskill.py", cwd=tmp_path) == said


LIFESPAN = """
from contextlib import asynccontextmanager

from a2a_server.agents import Agent


@asynccontextmanager
async def lifespan():
    connect()
    yield


def connect():
    raise {error}


agent = Agent(name="A", description="Needs a database.", version="1", lifespan=lifespan)


@agent.skill(id="a", tags=["a"])
async def answer(turn):
    return "never"
"""


@pytest.mark.req("AGNT-07")
@pytest.mark.parametrize(
    ("error", "last"),
    [('ConnectionError("no database")', "ConnectionError: no database"), ("SystemExit(0)", "SystemExit: 0")],
)
def test_a_lifespan_that_fails_is_shown_in_the_author_s_own_lines(tmp_path: Path, error: str, last: str) -> None:
    (tmp_path / "needs.py").write_text(LIFESPAN.format(error=error))
    done = command(*SERVE, "none", "needs.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "Error: the agent's lifespan failed",
        f'  File "{tmp_path / "needs.py"}", line 9, in lifespan',
        "    connect()",
        f'  File "{tmp_path / "needs.py"}", line 14, in connect',
        f"    raise {error}",
        last,
    ]


HANGS = """
import asyncio

from a2a_server.agents import Agent


async def lifespan():
    try:
        print("opening", flush=True)
        await asyncio.Event().wait()
        yield
    finally:
        print("given up", flush=True)


agent = Agent(name="A", description="Waits for a database.", version="1", lifespan=lifespan)


@agent.skill(id="a", tags=["a"])
async def answer(turn):
    return "never"
"""


@pytest.mark.req("AGNT-07", "DURA-08")
def test_a_start_that_waits_for_its_lifespan_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text(HANGS)
    line = [sys.executable, "-m", "a2a_server", *SERVE, "none", "hangs.py"]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, cwd=tmp_path, env=environment(), stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "opening\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "given up\n"
        assert process.wait(10) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_card_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text('{"nope": 1}')
    said = refusal(1, *GATEWAY, "--card", "card.json", cwd=tmp_path)
    assert said.startswith("gateway.card: 'card.json' is no agent card: it lacks name, description, version")
    assert said.endswith("; cards have no member nope")


# -- TLS


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    ca = trustme.CA()
    for name in ("a", "b"):
        issued = ca.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        issued.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    lines = (folder / "ca.pem").read_text().splitlines(keepends=True)
    (folder / "torn.pem").write_text("".join(lines[:3] + lines[5:]))
    return folder


OTHER = "'b.key' is not the key of the certificate in {} = 'a.pem'"
TORN = "'torn.pem' holds a certificate that is damaged"


@pytest.mark.parametrize("line", [(*SERVE, "none"), (*SERVE, "127.0.0.1:0"), GATEWAY], ids=["grpc", "both", "gateway"])
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"CERT": "a.pem", "KEY": "b.key"}, f"tls.key: {OTHER.format('tls.cert')}"),
        ({"CERT": "a.pem", "KEY": "a.key", "CLIENT_CA": "torn.pem"}, f"tls.client_ca: {TORN}"),
    ],
    ids=["another key", "torn authorities"],
)
def test_doors_with_files_that_do_not_do_are_not_opened(
    pems: Path, line: tuple[str, ...], files: dict[str, str], message: str
) -> None:
    assert refusal(1, *line, cwd=pems, **{f"A2A_TLS__{name}": path for name, path in files.items()}) == message


@pytest.mark.req("DOOR-01")
def test_a_gateway_that_could_reach_nobody_does_not_start(pems: Path) -> None:
    assert refusal(1, *GATEWAY, "--ca", "torn.pem", cwd=pems) == f"upstream.ca: {TORN}"
    files = {"A2A_UPSTREAM__CERT": "a.pem", "A2A_UPSTREAM__KEY": "b.key"}
    assert refusal(1, *GATEWAY, cwd=pems, **files) == f"upstream.key: {OTHER.format('upstream.cert')}"


# -- the port for other servers


@pytest.mark.req("SCAL-01")
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"CERT": "a.pem", "KEY": "b.key", "CA": "ca.pem"}, f"peers.key: {OTHER.format('peers.cert')}"),
        ({"CERT": "a.pem", "KEY": "a.key", "CA": "torn.pem"}, f"peers.ca: {TORN}"),
        (
            {"LISTEN": "{taken}"},
            "peers.listen: {taken} is already in use by another process; stop it or choose another port",
        ),
    ],
    ids=["another key", "torn authority", "taken port"],
)
def test_a_server_that_others_could_not_reach_does_not_start(
    pems: Path, own_postgres: str, files: dict[str, str], message: str
) -> None:
    line = ("serve", "--grpc", "127.0.0.1:0", "--http", "none", "--store", own_postgres)
    with closing(create_server(("127.0.0.1", 0))) as taken:
        port = f"127.0.0.1:{taken.getsockname()[1]}"
        told = {f"A2A_PEERS__{name}": value.format(taken=port) for name, value in files.items()}
        assert refusal(1, *line, cwd=pems, A2A_WAKEUPS="peers", **told) == message.format(taken=port)
