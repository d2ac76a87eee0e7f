"""Packages import each other only in the direction the design allows."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_import_contracts_hold() -> None:
    lint_imports = Path(sysconfig.get_path("scripts")) / "lint-imports"
    done = subprocess.run([str(lint_imports), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_contracts_cover_every_package_we_write() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    ours = {Path(path).name for path in config["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    assert ours - {"a2a_proto"} == set(config["tool"]["importlinter"]["root_packages"])  # nobody writes that one


def test_what_an_agent_author_imports_loads_few_libraries() -> None:
    """Messages, and what encodes them: no server, no TLS, no settings."""
    program = "import sys, a2a_server.agents.testing; print(*sys.modules)"
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, env=_paths(), capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"__main__", "a2a_proto", "a2a_server", "google", "orjson"}


def _paths() -> dict[str, str]:
    """Without `site`, which loads whatever other packages have put there, the paths must be named."""
    folders = [str(ROOT), str(ROOT / "generated"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return {"PYTHONPATH": os.pathsep.join(folders)}


def test_the_protos_folder_is_no_package() -> None:
    """With an __init__.py it would hide the PyPI package `proto`, which Google's libraries import."""
    assert not (ROOT / "proto" / "__init__.py").exists()


def test_the_makefile_names_tests_that_there_are() -> None:
    named = re.findall(r"\btests/[\w/]+(?:\.\w+)?", (ROOT / "Makefile").read_text("utf-8"))
    assert len(named) > 4
    assert [path for path in named if not (ROOT / path).exists()] == []
