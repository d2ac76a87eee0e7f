"""What an installation adds, and that it works beside a user's own `gateway` and `generated` (spec: OPER-11)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.e2e.processes import Running, started

ROOT = Path(__file__).parents[2]
PACKAGES = {"a2a_server", "a2a_gateway", "a2a_proto"}
SEND = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}

USERS = {
    "gateway/__init__.py": "PREFIX = 'through my gateway: '\n",
    "generated/__init__.py": "def loud(text: str) -> str:\n    return text.upper()\n",
    "mine.py": """
import gateway
import generated
from a2a_server.agents import Agent, Turn

agent = Agent(name="Mine", description="Uses packages of its own.", version="1.0.0")


@agent.skill(id="loud", tags=["text"])
async def loud(turn: Turn) -> str:
    return gateway.PREFIX + generated.loud(turn.text)
""",
}
"""What a user has in a folder, before our packages come."""


@dataclass(frozen=True)
class Installation:
    """An environment that holds the wheel; what the wheel depends on is found where the tests have it."""

    folder: Path
    before: frozenset[str]

    @property
    def packages(self) -> Path:
        (found,) = self.folder.glob("lib/python*/site-packages")
        return found

    @property
    def added(self) -> set[str]:
        return {path.name for path in self.packages.iterdir()} - self.before

    @property
    def metadata(self) -> Message:
        (found,) = self.packages.glob("a2ad-*.dist-info/METADATA")
        return Parser().parsestr(found.read_text("utf-8"))

    def python(self, code: str) -> str:
        """What Python prints there, away from the checkout."""
        line = [str(self.folder / "bin" / "python"), "-c", code]
        done = subprocess.run(line, cwd=self.folder, env=clean(), capture_output=True, text=True, check=True)
        return done.stdout


def clean() -> dict[str, str]:
    """This environment, without what leads to the checkout."""
    return {name: text for name, text in os.environ.items() if not name.startswith(("A2A_", "COV", "PYTHON"))}


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel is built from the checkout, and installed without its dependencies, which takes seconds."""
    folder = tmp_path_factory.mktemp("installation")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    venv.create(folder / "env", symlinks=True)
    made = Installation(folder / "env", frozenset())
    # A path in a .pth file is searched last, and the .pth files there, such as that of this checkout, are not read.
    (made.packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    made = Installation(folder / "env", frozenset(path.name for path in made.packages.iterdir()))
    install = [sys.executable, "-m", "pip", "--python", str(folder / "env" / "bin" / "python"), "install"]
    subprocess.run([*install, "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True, capture_output=True)
    return made


@pytest.mark.req("OPER-11")
def test_an_installation_adds_three_packages_and_a_command(installation: Installation) -> None:
    version = installation.metadata["Version"]
    assert installation.added == {*PACKAGES, f"a2ad-{version}.dist-info"}
    (points,) = installation.packages.glob("a2ad-*.dist-info/entry_points.txt")
    assert [line for line in points.read_text("utf-8").splitlines() if "=" in line] == [
        "a2ad = a2a_server.__main__:main"
    ]


@pytest.mark.req("OPER-11", "AGNT-11")
def test_what_is_installed_is_typed_and_knows_its_version(installation: Installation) -> None:
    assert {
        path.parent.name for path in installation.packages.glob("*/py.typed") if path.parent.name in PACKAGES
    } == PACKAGES
    told = installation.python("import a2a_server; print(a2a_server.__version__, a2a_server.__file__)").split()
    assert told == [installation.metadata["Version"], str(installation.packages / "a2a_server" / "__init__.py")]


def test_people_who_search_find_it(installation: Installation) -> None:
    metadata = installation.metadata
    assert metadata["Name"] == "a2ad"
    assert {"a2a", "agents", "grpc"} <= set(metadata["Keywords"].split(","))
    classifiers = metadata.get_all("Classifier") or []
    assert {"Typing :: Typed", "Framework :: AsyncIO", "Programming Language :: Python :: 3"} <= set(classifiers)


@pytest.mark.req("OPER-11")
def test_an_agent_is_served_beside_packages_of_its_user(installation: Installation, tmp_path: Path) -> None:
    for name, text in USERS.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    with served(installation, tmp_path) as server:
        told = {"Content-Type": "application/json"}
        with urlopen(Request(f"{server.http}/message:send", json.dumps(SEND).encode(), told)) as answer:  # noqa: S310 - ours
            task = json.load(answer)["task"]
    assert task["artifacts"][0]["parts"] == [{"text": "through my gateway: HELLO"}]


@pytest.mark.req("OPER-11", "AGNT-09")
def test_an_installation_makes_projects(installation: Installation, tmp_path: Path) -> None:
    programs = installation.folder / "bin"
    for line in (
        [str(programs / "a2ad"), "init", "mine"],
        [str(programs / "python"), "-m", "unittest", "discover", "mine"],
    ):
        subprocess.run(line, cwd=tmp_path, env=clean(), check=True, capture_output=True)
    made = {path.name for path in (tmp_path / "mine").iterdir()}
    assert made >= {".gitignore", "Dockerfile", "README.md", "compose.yaml", "requirements.txt"}
    with served(installation, tmp_path / "mine", "agent.py") as server:
        assert server.welcome.startswith("Mine 0.1.0 (agent.py)")


@contextmanager
def served(installation: Installation, folder: Path, agent: str = "mine.py") -> Iterator[Running]:
    program = [str(installation.folder / "bin" / "a2ad")]
    with started(program, agent, "--store", "memory:", cwd=folder, env=clean()) as server:
        yield server
