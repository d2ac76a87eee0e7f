"""What stops a start is said in one line, by a process that has said nothing else (spec: OPER-05, DOOR-09)."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from tests.e2e.processes import command

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
