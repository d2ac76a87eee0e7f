"""`a2ad init` makes projects whose commands work (spec: AGNT-09)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.e2e.processes import ROOT, command, environment, serving, started

BIN = Path(sys.executable).parent
TASK = "TASK_STATE_COMPLETED"
ANSWERS = {
    "function": "HELLO",
    "executor": "Hello, hello!",
    "langgraph": "You said: hello",
    "pydantic-ai": "Hello!",
}

pytestmark = pytest.mark.req("AGNT-09")
every_kind = pytest.mark.parametrize("kind", list(ANSWERS))


@pytest.fixture
def project(kind: str, tmp_path: Path) -> Path:
    made = command("init", "my-agent", *(() if kind == "function" else ("--from", kind)), cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    return tmp_path / "my-agent"


def variables(**more: str) -> dict[str, str]:
    """The environment of a developer who has installed a2ad, here without a network."""
    path = os.pathsep.join((str(BIN), os.environ["PATH"]))
    return environment(PATH=path, PIP_NO_INDEX="1", PIP_DISABLE_PIP_VERSION_CHECK="1", **more)


def commands(page: Path) -> list[str]:
    """Those of all blocks, each on one line."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def run(line: str, project: Path, **more: str) -> str:
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=project, env=variables(**more), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@every_kind
def test_the_commands_of_its_readme_work(project: Path, kind: str) -> None:
    """All but those of Docker; the tests below look at its files."""
    lines = commands(project / "README.md")
    (serve,) = (line for line in lines if line.startswith("a2ad serve"))
    local = [line for line in lines if line.split()[0] == "python"]
    calls = [line for line in lines if line.split()[0] == "curl"]
    assert [*local, serve, *calls] == [*local, *[line for line in lines if line.split()[0] in {"a2ad", "curl"}]]
    assert all(line.startswith("docker compose ") for line in lines if line not in {serve, *local, *calls})
    for line in local:
        run(line, project)
    program, _, *arguments = serve.split()
    with started([str(BIN / program)], *arguments, cwd=project, env=variables()) as server:
        sent, card = (run(line.replace("http://127.0.0.1:8080", server.http), project) for line in calls)
    assert json.loads(card)["name"] == "My agent"
    task = json.loads(sent)["task"]
    assert task["status"]["state"] == TASK
    assert "".join(part["text"] for part in task["artifacts"][0]["parts"]) == ANSWERS[kind]


def test_the_commands_of_the_guide_work(tmp_path: Path) -> None:
    begin, enter, serve, call, other, patient = commands(ROOT / "docs/beginning.md")
    run(begin, tmp_path)
    run(other, tmp_path)
    project = tmp_path / enter.removeprefix("cd ")
    assert serve == patient.removeprefix("A2A_LIMITS__DRAIN_GRACE=1 ")
    program, _, *arguments = serve.split()
    environ = variables(A2A_LIMITS__DRAIN_GRACE="1")
    with started([str(BIN / program)], *arguments, cwd=project, env=environ) as server:
        assert "HELLO" in run(call.replace("http://127.0.0.1:8080", server.http), project)


@every_kind
def test_its_container_is_described_well(project: Path, kind: str) -> None:
    run("hadolint Dockerfile", project)
    run("check-jsonschema --builtin-schema vendor.compose-spec compose.yaml", project)
    compose = YAML(typ="safe").load((project / "compose.yaml").read_text("utf-8"))
    assert compose["name"] == "my-agent"
    given: Mapping[str, str] = compose["services"]["agent"]["environment"]
    (told,) = re.findall(r"^CMD (.*)$", (project / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    serve, *arguments = [re.sub(r"^0\.0\.0\.0:\d+$", "0.0.0.0:0", word) for word in json.loads(told)]
    assert serve == "serve"
    with started([str(BIN / "a2ad")], *arguments, "--store", "memory:", cwd=project, env=variables(**given)) as server:
        port = server.http.rpartition(":")[2]
        card = json.loads(run(f"curl http://127.0.0.1:{port}/.well-known/agent-card.json", project))
    assert {given["A2A_PUBLIC_GRPC"], given["A2A_PUBLIC_URL"]} <= {each["url"] for each in card["supportedInterfaces"]}


@every_kind
def test_its_python_is_typed_and_in_order(project: Path, kind: str) -> None:
    cache = f"--cache-dir {ROOT / '.mypy_cache'}"
    run(f"mypy --strict --config-file {ROOT / 'pyproject.toml'} {cache} agent.py test_agent.py", project)
    run("ruff check --isolated --select E,F,I,B,UP,ASYNC --line-length 120 .", project)
    run("ruff format --isolated --line-length 120 --check .", project)


@every_kind
def test_what_it_needs_is_what_is_tested(project: Path, kind: str) -> None:
    needed = re.findall(r"^\w.*$", (project / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    pinned = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert bool(needed) == (kind != "function")
    assert set(needed) <= set(pinned)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("full", "full: the folder is not empty; choose another name"),
        ("file", "file: there is a file of this name; choose another one"),
        ("Mine", "must be up to 63 of a-z, 0-9, - and _, and begin with a letter or digit"),
        ("../up", "must be up to 63 of a-z"),
        ("", "must be up to 63 of a-z"),
        ("a" * 64, "must be up to 63 of a-z"),
    ],
)
def test_what_is_there_stays_and_a_name_must_be_one(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "agent.py").write_text("mine", "utf-8")
    (tmp_path / "file").write_text("mine", "utf-8")
    refused = command("init", name, cwd=tmp_path)
    assert refused.returncode != 0
    assert why in refused.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"full", "file"}
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["agent.py"]


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert command("init", "mine", cwd=tmp_path).returncode == 0
    assert (tmp_path / "mine" / "agent.py").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that nobody may write to")
def test_a_folder_that_cannot_be_written_is_named() -> None:
    refused = command("init", "mine", cwd=Path("/proc"))
    assert (refused.returncode, refused.stderr) == (1, "Error: mine: cannot be written: No such file or directory\n")


@pytest.mark.req("AGNT-02")
def test_an_executor_has_the_card_of_a_file(tmp_path: Path) -> None:
    assert command("init", "mine", "--from", "executor", cwd=tmp_path).returncode == 0
    project = tmp_path / "mine"

    def shown(*arguments: str) -> dict[str, object]:
        with serving("agent.py", "--store", "memory:", *arguments, cwd=project) as server:
            card: dict[str, object] = json.loads(run(f"curl {server.http}/.well-known/agent-card.json", project))
            return card

    own = shown()
    assert own["name"] == "Mine"
    (project / "card.json").write_text(json.dumps({**own, "name": "Greeter", "version": "2.0.0"}), "utf-8")
    given = shown("--card", "card.json")
    assert (given["name"], given["version"], given["skills"]) == ("Greeter", "2.0.0", own["skills"])
    refused = command("serve", "agent.py", "--card", "none.json", cwd=project)
    assert refused.stderr == "Error: card.file: cannot read 'none.json': No such file or directory\n"
