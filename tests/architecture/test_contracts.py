"""Packages import each other only in the direction the design allows."""

import re
import subprocess
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


def test_the_protos_folder_is_no_package() -> None:
    """With an __init__.py it would hide the PyPI package `proto`, which Google's libraries import."""
    assert not (ROOT / "proto" / "__init__.py").exists()


def test_the_makefile_names_tests_that_there_are() -> None:
    named = re.findall(r"\btests/[\w/]+(?:\.\w+)?", (ROOT / "Makefile").read_text("utf-8"))
    assert len(named) > 4
    assert [path for path in named if not (ROOT / path).exists()] == []
